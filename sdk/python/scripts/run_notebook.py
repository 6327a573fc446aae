"""Runs examples/notebook.ipynb over the lake in a folder, keeps its outputs in it, and puts them into docs/ANALYSTS.md.

Usage: run_notebook.py <the folder that has the lake>
"""

from __future__ import annotations

import sys
from pathlib import Path

import nbformat

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
import analysts


def main(folder: str) -> None:
    notebook = analysts.run_notebook(Path(folder))
    nbformat.write(notebook, analysts.NOTEBOOK)
    for number, picture in analysts.pictures(notebook).items():
        analysts.picture_file(number).write_bytes(picture)
    before, old, after = analysts.document_by_questions()
    analysts.DOCUMENT.write_text(before + analysts.questions_section(notebook) + after)
    print("nothing changed" if old == analysts.questions_section(notebook) else "docs/ANALYSTS.md has new answers")


if __name__ == "__main__":
    main(*sys.argv[1:])
