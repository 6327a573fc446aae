"""What `tidemark export` writes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow.parquet
from stack import Stack

import tidemark

# What each dataset has a row for, and the column that its rows are counted by.
DATASETS: dict[str, tuple[type[tidemark.Event], str]] = {
    "messages": (tidemark.Message, "gid"),
    "changes": (tidemark.MessageChange, "kind"),
    "read-positions": (tidemark.ReadPosition, "device"),
    "groups": (tidemark.GroupChange, "kind"),
    "contacts": (tidemark.ContactChange, "muted"),
    "profiles": (tidemark.Profile, "uid"),
    "events": (tidemark.Event, "kind"),
}


class Lake:
    """A folder that exports write into. `arguments` are those of every export."""

    def __init__(self, stack: Stack, folder: Path, *arguments: str) -> None:
        self.folder = folder
        self._stack = stack
        self._arguments = arguments

    def export(self) -> None:
        for dataset in DATASETS:
            self._stack.tidemark("export", dataset, "--to-dir", str(self.folder), *self._arguments)

    def files(self, dataset: str) -> list[str]:
        return sorted(str(path) for path in (self.folder / dataset).glob("day=*/*.parquet"))

    def rows(self, dataset: str) -> list[dict[str, Any]]:
        return [
            row
            for file in self.files(dataset)
            for row in pyarrow.parquet.read_table(file, partitioning=None).to_pylist()
        ]

    def ends(self, dataset: str) -> dict[int, int]:
        """The offset up to which each partition was exported."""
        ends: dict[int, int] = {}
        for path in sorted((self.folder / dataset).glob("_manifest/p*/*.json")):
            entry = json.loads(path.read_text())
            ends[entry["partition"]] = entry["to"]
        return ends
