"""The blocks of code of docs/ANALYSTS.md."""

from __future__ import annotations

import re
from pathlib import Path

REPOSITORY = Path(__file__).parents[3]
DOCUMENT = REPOSITORY / "docs" / "ANALYSTS.md"


def block(language: str, words: str) -> str:
    """The only block in the language that has the words."""
    blocks = re.findall(rf"```{language}\n(.*?)```", DOCUMENT.read_text(), re.DOTALL)
    (found,) = [text for text in blocks if words in text]
    return found
