"""What docs/ANALYSTS.md says, on the log of a running system with repeats by a former owner."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import analysts
import duckdb
import nbformat
import pyarrow
import pytest
from confluent_kafka import Consumer, TopicPartition
from lake import DATASETS, Lake
from stack import Stack

from tidemark import Client
from tidemark.decode import SkippedRecord, decode


def test_the_first_table(lake: Lake) -> None:
    (command,) = [
        line for line in analysts.block("sh", "pip install duckdb").splitlines() if line.startswith("python ")
    ]
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        command,
        shell=True,
        cwd=lake.folder.parent,
        env={**os.environ, "PATH": path},
        check=True,
        capture_output=True,
        text=True,
    )
    assert f" {len(lake.rows('messages'))} " in done.stdout


def test_the_document_has_the_columns_of_the_files(lake: Lake) -> None:
    assert analysts.documented_columns() == analysts.columns({dataset: lake.files(dataset)[0] for dataset in DATASETS})


def test_the_readers_rule_in_sql_drops_what_was_appended_again(stack: Stack, lake: Lake) -> None:
    decoded = pyarrow.Table.from_pylist(list(decoded_records(stack, lake.ends("events"))))
    with duckdb.connect() as database:
        database.register("events", decoded)
        kept = database.sql(analysts.block("sql", "OVER (PARTITION BY partition")).fetchall()
    expected = {(row["partition"], row["offset"]) for row in lake.rows("events")}
    assert Counter((partition, offset) for partition, offset, *_ in kept) == Counter(expected)
    assert len(kept) <= decoded.num_rows - 20


def decoded_records(stack: Stack, ends: dict[int, int]) -> Iterator[dict[str, int]]:
    """What a plain consumer reads of `chat.events`, but for records that are not events."""
    config = {"bootstrap.servers": stack.brokers, "group.id": "test", "enable.auto.commit": False}
    consumer = Consumer(config)
    consumer.assign([TopicPartition("chat.events", partition, 0) for partition in ends])
    remaining = {partition for partition, end in ends.items() if end > 0}
    while remaining:
        for record in consumer.consume(1_000, 0.1):
            partition, offset = record.partition(), record.offset()
            if offset >= ends[partition] - 1:
                remaining.discard(partition)
            if offset >= ends[partition]:
                continue
            with contextlib.suppress(SkippedRecord):
                found = decode(partition, offset, record.timestamp()[1], record.value())
                pair = {"src_epoch": found.source_epoch, "src_offset": found.source_offset}
                yield {"partition": partition, "offset": offset, **pair}
    consumer.close()


def test_the_document_the_notebook_and_the_file_have_the_same_questions_and_answers() -> None:
    notebook = nbformat.read(analysts.NOTEBOOK, as_version=4)
    _, documented, _ = analysts.document_by_questions()
    assert documented == analysts.questions_section(notebook)
    sources = [cell.source for cell in notebook.cells]
    for number, (title, sql) in analysts.questions().items():
        (heading,) = [at for at, source in enumerate(sources) if source.startswith(f"## {number}. {title}")]
        assert sources[heading + 1] == f'answer = duckdb.sql("""\n{sql.removesuffix(";")}\n""")\nprint(answer)'
        assert analysts.picture_file(number).read_bytes() == analysts.pictures(notebook)[number]


def test_the_notebook_answers_as_the_services_do(
    stack: Stack, lake: Lake, client: Client, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path))
    notebook = analysts.run_notebook(lake.folder.parent)
    assert len(analysts.pictures(notebook)) == 5
    answers = {number: table(text) for number, text in analysts.answers(notebook).items()}

    messages = lake.rows("messages")
    assert sum(int(row["messages"]) for row in answers[1]) == len(messages)
    assert sum(int(row["in_groups"]) for row in answers[1]) == sum(row["gid"] is not None for row in messages)
    assert all(float(row["p90_s"]) >= float(row["median_s"]) >= 0 for row in answers[2])
    uid, unread = (int(answers[3][0][name]) for name in ("uid", "unread"))
    assert unread == client.unread(uid, "pc")["total"] > 0
    assert int(answers[4][0]["messages"]) >= 300
    inbound = stack.audit()["inbound"]
    assert {row["what"]: int(row["records"]) for row in answers[5]} == {
        "recalled": sum(row["recalled"] is not None for row in messages),
        "edited": sum(row["edited"] for row in messages),
        "without an event": inbound["repeats"] + inbound["without_effect"] + inbound["dead_letters"],
    }


def table(text: str) -> list[dict[str, str]]:
    """The rows of a table as DuckDB prints it."""
    lines = [
        [cell.strip() for cell in line.strip("│").split("│")] for line in text.splitlines() if line.startswith("│")
    ]
    names, _types, *rows = lines
    return [dict(zip(names, row, strict=True)) for row in rows]
