"""What the package has from elsewhere in the repository is up to date."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from stack import Stack

from tidemark.decode import KNOWN_RULE_VERSION

PYTHON = Path(__file__).parents[1]
EVENT_RS = PYTHON.parents[1] / "schemas" / "src" / "event.rs"


def test_what_is_generated_is_up_to_date(stack: Stack) -> None:
    env = {**os.environ, "TIDEMARK_INGEST": stack.ingest, "TIDEMARK_QUERY": stack.query}
    program = [sys.executable, PYTHON / "scripts" / "generate.py", "--check"]
    done = subprocess.run(program, env=env, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_newest_rule_version_is_that_of_the_services() -> None:
    (version,) = re.findall(r"KNOWN_RULE_VERSION: u32 = ([0-9]+);", EVENT_RS.read_text())
    assert KNOWN_RULE_VERSION == int(version)
