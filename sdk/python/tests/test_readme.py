from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from stack import Stack

README = Path(__file__).parents[1] / "README.md"


def test_the_examples_of_the_readme_run(stack: Stack, tmp_path: Path) -> None:
    text = README.read_text()
    for local, address in [
        ("127.0.0.1:7392", stack.brokers),
        ("http://127.0.0.1:7301", stack.ingest),
        ("http://127.0.0.1:7302", stack.query),
    ]:
        assert local in text
        text = text.replace(local, address)
    examples = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    subprocess.run([sys.executable, "-c", "".join(examples)], cwd=tmp_path, check=True)
    assert (tmp_path / "messages.parquet").exists()
