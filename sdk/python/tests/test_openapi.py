"""Schemathesis calls the services as their descriptions say, and otherwise: no answer is a 500, or one that the description lacks."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from stack import Stack

HERE = Path(__file__).parent
CHECKS = [
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_headers_conformance",
    "response_schema_conformance",
]
#: How long each service is called.
SECONDS = int(os.environ.get("OPENAPI_SECONDS", "60"))


@pytest.mark.parametrize("service", ["ingest", "query"])
def test_every_answer_is_described(stack: Stack, service: str, tmp_path: Path) -> None:
    url = getattr(stack, service)
    program = [
        Path(sys.executable).with_name("st"),
        f"--config-file={HERE / 'schemathesis.toml'}",
        "run",
        f"{url}/openapi.json",
    ]
    options = [
        f"--checks={','.join(CHECKS)}",
        f"--max-time={SECONDS}",
        "--continue-on-failure",
        "--warnings=off",
        "--no-color",
    ]
    # It keeps what it finds in the working directory.
    env = {**os.environ, "PYTHONPATH": str(HERE), "SCHEMATHESIS_HOOKS": "hooks"}
    done = subprocess.run([*program, *options], check=False, cwd=tmp_path, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
