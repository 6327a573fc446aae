"""A stack of its own: Kafka, Redis, MariaDB and all services, on free ports of 127.0.0.1."""

from __future__ import annotations

import json
import os
import random
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

NAMES = (
    "ingest",
    "query_api",
    "gateway",
    "sequencer",
    "projector_unread",
    "projector_mysql",
    "redis",
    "mariadb",
    "kafka",
    "kafka_controller",
)


class Stack:
    """Runs from its creation until `stop`. `program` is the path of the program `tidemark`."""

    def __init__(self, program: str) -> None:
        self._program = program
        self._directory = Path(tempfile.mkdtemp(prefix="tidemark-python-"))
        self._first_port = _free_ports()
        try:
            self._stack("up")
        except BaseException:
            self.stop()
            raise

    def _address(self, name: str) -> str:
        return f"127.0.0.1:{self._first_port + NAMES.index(name)}"

    @property
    def ingest(self) -> str:
        return f"http://{self._address('ingest')}"

    @property
    def query(self) -> str:
        return f"http://{self._address('query_api')}"

    @property
    def brokers(self) -> str:
        return self._address("kafka")

    def audit(self) -> dict[str, Any]:
        """The report of `tidemark audit --json`, which waits until the projections have everything."""
        return json.loads(self.tidemark("audit", "--json"))

    def tidemark(self, *arguments: str) -> str:
        """What a command of the program prints."""
        return self._run(*arguments, "--config", str(self._directory / "run" / "tidemark.toml"))

    @contextmanager
    def query_api(self, *arguments: str) -> Iterator[str]:
        """The address of another query-api, with these arguments."""
        with socket.socket() as listener:
            listener.bind(("127.0.0.1", 0))
            address = f"127.0.0.1:{listener.getsockname()[1]}"
        config = str(self._directory / "run" / "tidemark.toml")
        listen = ["--config", config, "--set", f"query_api.listen={address}"]
        with subprocess.Popen([self._program, "query-api", *arguments, *listen]) as service:
            try:
                with httpx.Client(transport=httpx.HTTPTransport(retries=20)) as client:
                    assert client.get(f"http://{address}/livez").is_success
                yield f"http://{address}"
            finally:
                service.terminate()

    def stop(self) -> None:
        """Stops everything, and deletes its data."""
        try:
            self._stack("clean")
        finally:
            shutil.rmtree(self._directory)

    def _stack(self, command: str) -> None:
        ports = [f"stack.ports.{name}={self._first_port + i}" for i, name in enumerate(NAMES)]
        settings = [f"stack.run_dir={self._directory / 'run'}", *ports]
        self._run("stack", command, *(argument for setting in settings for argument in ("--set", setting)))

    def _run(self, *arguments: str) -> str:
        # Brokers of tests live for minutes: Java is to compile fast, not well.
        env = {**os.environ, "JDK_JAVA_OPTIONS": "-XX:TieredStopAtLevel=1"}
        done = subprocess.run([self._program, *arguments], env=env, check=False, capture_output=True, text=True)
        if done.returncode != 0:
            raise RuntimeError(f"{arguments} ended with {done.returncode}: {done.stdout}{done.stderr}")
        return done.stdout


def _free_ports() -> int:
    """The first of so many free ports in a row, below those that systems hand out."""
    while True:
        first = random.randrange(12_000, 30_000)
        if all(_is_free(first + i) for i in range(len(NAMES))):
            return first


def _is_free(port: int) -> bool:
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True
