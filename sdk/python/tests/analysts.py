"""docs/ANALYSTS.md: its blocks of code, the tables of columns that follow from the program, and the answers of examples/notebook.ipynb."""

from __future__ import annotations

import base64
import json
import re
import textwrap
from pathlib import Path

import nbformat
import pyarrow.parquet
from nbclient import NotebookClient

REPOSITORY = Path(__file__).parents[3]
DOCUMENT = REPOSITORY / "docs" / "ANALYSTS.md"
QUESTIONS = REPOSITORY / "examples" / "questions.sql"
NOTEBOOK = REPOSITORY / "examples" / "notebook.ipynb"


def block(language: str, words: str) -> str:
    """The only block in the language that has the words."""
    blocks = re.findall(rf"```{language}\n(.*?)```", DOCUMENT.read_text(), re.DOTALL)
    (found,) = [text for text in blocks if words in text]
    return found


def columns(files: dict[str, str]) -> str:
    """The tables of the columns, as the metadata of a file of each dataset has them."""
    schemas = {dataset: pyarrow.parquet.read_schema(file) for dataset, file in files.items()}
    meanings = {dataset: _meanings(file) for dataset, file in files.items()}
    of_all = schemas["events"].names[:3]
    tables = [_table("all datasets", schemas["events"], of_all, meanings["events"])]
    for dataset, schema in schemas.items():
        assert schema.names[:3] == of_all and set(schema.names) == set(meanings[dataset]), dataset
        tables.append(_table(f"`{dataset}`", schema, schema.names[3:], meanings[dataset]))
    return "\n".join(tables)


def _meanings(file: str) -> dict[str, str]:
    return json.loads(pyarrow.parquet.read_metadata(file).metadata[b"tidemark.columns"])


def _table(name: str, schema: pyarrow.Schema, columns: list[str], meanings: dict[str, str]) -> str:
    rows = [f"| `{column}` | {_type(schema.field(column).type)} | {meanings[column]} |" for column in columns]
    return "\n".join([f"| {name} | type | meaning |", "|---|---|---|", *rows, ""])


def _type(type_: pyarrow.DataType) -> str:
    if pyarrow.types.is_list(type_):
        return f"list of {_type(type_.value_type)}"
    return "timestamp, ms, UTC" if pyarrow.types.is_timestamp(type_) else str(type_)


def documented_columns() -> str:
    """What the document has in their place."""
    _, _, after = DOCUMENT.read_text().partition("The list, by dataset:\n\n")
    return after.partition("\nUids and gids")[0]


def questions() -> dict[int, tuple[str, str]]:
    """The title and the statement of each of the five questions, from examples/questions.sql."""
    found = re.findall(r"^-- (\d)\. (.*)\n([^;]*;)\n", QUESTIONS.read_text(), re.MULTILINE)
    return {int(number): (title, sql) for number, title, sql in found}


def run_notebook(folder: Path) -> nbformat.NotebookNode:
    """The notebook with what it shows of the lake in the folder."""
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    examples = folder / "examples"
    examples.mkdir(exist_ok=True)
    NotebookClient(notebook, timeout=120, record_timing=False, resources={"metadata": {"path": examples}}).execute()
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.execution_count = None
    notebook.metadata["language_info"] = {"name": "python"}
    return notebook


def answers(notebook: nbformat.NotebookNode) -> dict[int, str]:
    """What the notebook prints for each question."""
    printing = [cell for cell in notebook.cells if cell.cell_type == "code" and "print(answer)" in cell.source]
    texts = ("".join(output.text for output in cell.outputs if output.output_type == "stream") for cell in printing)
    return dict(enumerate((text.strip() for text in texts), 1))


def pictures(notebook: nbformat.NotebookNode) -> dict[int, bytes]:
    """The plot of each question, PNG."""
    found = [
        base64.b64decode(output.data["image/png"])
        for cell in notebook.cells
        if cell.cell_type == "code"
        for output in cell.outputs
        if output.output_type == "display_data"
    ]
    return dict(enumerate(found, 1))


def picture_file(number: int) -> Path:
    return REPOSITORY / "examples" / f"question-{number}.png"


def questions_section(notebook: nbformat.NotebookNode) -> str:
    """The answers as the document has them."""
    told = [cell.source.partition("\n\n")[2] for cell in notebook.cells if cell.source.startswith("## ")]
    sections = []
    for (number, (title, sql)), note in zip(questions().items(), told, strict=True):
        picture = f"![{title}](../examples/{picture_file(number).name})"
        parts = [
            f"### {number}. {title}",
            f"```sql\n{sql}\n```",
            f"```text\n{answers(notebook)[number]}\n```",
            textwrap.fill(note, 164),
            picture,
        ]
        sections.append("\n\n".join(part for part in parts if part) + "\n\n")
    return "".join(sections)


def document_by_questions() -> tuple[str, str, str]:
    """The document before the first question, the questions, and what follows."""
    before, heading, rest = DOCUMENT.read_text().partition("### 1. ")
    text, next_heading, after = rest.partition("## What was at a time\n")
    return before, heading + text, next_heading + after
