"""The blocks of code of docs/ANALYSTS.md, and the tables that follow from the program."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pyarrow.parquet

REPOSITORY = Path(__file__).parents[3]
DOCUMENT = REPOSITORY / "docs" / "ANALYSTS.md"


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
