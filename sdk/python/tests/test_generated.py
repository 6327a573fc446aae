from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from stack import Stack

SCRIPT = Path(__file__).parents[1] / "scripts" / "generate.py"


def test_what_is_generated_is_up_to_date(stack: Stack) -> None:
    env = {**os.environ, "TIDEMARK_INGEST": stack.ingest, "TIDEMARK_QUERY": stack.query}
    done = subprocess.run([sys.executable, SCRIPT, "--check"], env=env, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
