"""Writes what is generated in src/tidemark; with --check it only says whether that is stale.

The descriptors of the records come from schemas/proto, the types of the calls from the `/openapi.json` of a stack on this machine
(`TIDEMARK_INGEST` and `TIDEMARK_QUERY` name another one).
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import urllib.request
from pathlib import Path

from grpc_tools import protoc

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "src" / "tidemark"
PROTO = ROOT.parents[1] / "schemas" / "proto"
URLS = {
    "ingest": os.environ.get("TIDEMARK_INGEST", "http://127.0.0.1:7301"),
    "query": os.environ.get("TIDEMARK_QUERY", "http://127.0.0.1:7302"),
}


def descriptors(directory: Path) -> bytes:
    out = directory / "descriptors"
    code = protoc.main(
        ["protoc", f"-I{PROTO}", "--include_imports", f"--descriptor_set_out={out}", "chat/v1/event.proto"]
    )
    if code != 0:
        sys.exit(f"protoc ended with {code}")
    return out.read_bytes()


def types(service: str, directory: Path) -> bytes:
    description, out = directory / f"{service}.json", directory / f"{service}.py"
    with urllib.request.urlopen(f"{URLS[service]}/openapi.json") as answer:
        description.write_bytes(answer.read())
    options = [
        "--input-file-type=openapi",
        "--output-model-type=typing.TypedDict",
        "--target-python-version=3.10",
        "--use-standard-collections",
        "--use-union-operator",
        "--use-schema-description",
        "--use-field-description",
        "--no-use-closed-typed-dict",
        "--formatters=builtin",
        "--custom-file-header=# Written by scripts/generate.py from what the services say of themselves.",
    ]
    program = [sys.executable, "-m", "datamodel_code_generator", *options]
    subprocess.run([*program, f"--input={description}", f"--output={out}"], check=True)
    return out.read_bytes()


def main() -> None:
    with tempfile.TemporaryDirectory() as temporary:
        directory = Path(temporary)
        generated = {PACKAGE / "chat.v1.binpb": descriptors(directory)}
        generated |= {PACKAGE / "types" / f"{service}.py": types(service, directory) for service in URLS}
    stale = [path for path, content in generated.items() if not path.exists() or path.read_bytes() != content]
    if "--check" not in sys.argv:
        for path in stale:
            path.write_bytes(generated[path])
    elif stale:
        sys.exit(f"stale: {', '.join(str(path.relative_to(ROOT)) for path in stale)}; run scripts/generate.py")


if __name__ == "__main__":
    main()
