"""What `tidemark export` writes: every engine counts the same in it, and the audit and `tidemark.events` on the log."""

from __future__ import annotations

import json
import re
import runpy
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import analysts
import duckdb
import polars
import pyarrow
import pyarrow.dataset
import pyarrow.parquet
import pytest
from lake import DATASETS, Lake
from records import MORNING_MS, EventsTopic, event, message
from stack import Stack
from traffic import traffic

import tidemark
from tidemark import Client

DAY_MS = 86_400_000

#: Rows by what they are counted by, and by day.
Counts = Counter[tuple[Any, date]]


@pytest.fixture(scope="module")
def days(stack: Stack, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[EventsTopic, Lake]]:
    """A log of three days, made by hand, whose events are repeated on the next day, and what was exported of it."""
    topic = EventsTopic(stack.brokers)
    for day in range(3):
        at = MORNING_MS + day * DAY_MS
        # Each day begins with what the day before ended with.
        first = max(0, 10 * day - 3)
        topic.append(3, *map(message, range(first, 10 * day + 10)), ms=at)
        for partition in (8, 9):
            progress = [event("progress", source) for source in range(first, 10 * day + 10)]
            topic.append(partition, *progress, b"junk", ms=at)
    lake = Lake(stack, tmp_path_factory.mktemp("days") / "lake", "--set", f"kafka.prefix={topic.prefix}")
    lake.export()
    yield topic, lake
    topic.delete()


def of_events(stack: Stack, dataset: str, lake: Lake, prefix: str = "") -> Counts:
    """Counts what `tidemark.events` reads up to the end of the export."""
    kind, column = DATASETS[dataset]
    counts: Counts = Counter()
    for found in tidemark.events(stack.brokers, to=lake.ends(dataset), kinds=[kind], prefix=prefix):
        value = kind_of(found) if dataset == "events" else getattr(found, column)
        counts[value, found.time.date()] += 1
    return counts


def kind_of(event: tidemark.Event) -> str:
    """As the dataset `events` names it."""
    return re.sub("(?<!^)(?=[A-Z])", "_", type(event).__name__).lower()


def in_duckdb(dataset: str, lake: Lake) -> Counts:
    files = f"{lake.folder}/{dataset}/*/*.parquet"
    found = duckdb.sql(f"SELECT {DATASETS[dataset][1]}, day, count(*) FROM '{files}' GROUP BY ALL")
    return Counter({(value, day): count for value, day, count in found.fetchall()})


def in_polars(dataset: str, lake: Lake) -> Counts:
    rows = polars.scan_parquet(f"{lake.folder}/{dataset}/*/*.parquet", hive_partitioning=True)
    found = rows.group_by(DATASETS[dataset][1], "day").len().collect()
    return Counter({(value, day): count for value, day, count in found.rows()})


def in_pyarrow(dataset: str, lake: Lake) -> Counts:
    column = DATASETS[dataset][1]
    partitioning = pyarrow.dataset.partitioning(pyarrow.schema([("day", pyarrow.date32())]), flavor="hive")
    table = pyarrow.dataset.dataset(f"{lake.folder}/{dataset}", partitioning=partitioning).to_table([column, "day"])
    found = table.group_by([column, "day"]).aggregate([([], "count_all")])
    return Counter({(row[column], row["day"]): row["count_all"] for row in found.to_pylist()})


def in_iceberg(dataset: str, lake: Lake) -> Counts:
    table = run_block("pyiceberg", dataset, lake)["table"]
    assert len(table.inspect.partitions()) == len({Path(file).parent for file in lake.files(dataset)})
    return of_times(table.scan().to_arrow(), dataset)


def in_delta(dataset: str, lake: Lake) -> Counts:
    table = run_block("deltalake", dataset, lake)["table"]
    assert len(table.file_uris()) == len(lake.files(dataset))
    found = table.to_pyarrow_table()
    assert [time.date() for time in found["time"].to_pylist()] == found["day"].to_pylist()
    return of_times(found, dataset)


def run_block(words: str, dataset: str, lake: Lake) -> dict[str, Any]:
    """Runs what the document says about messages for a dataset; returns its variables."""
    program = lake.folder.parent / "block.py"
    program.write_text(analysts.block("python", words).replace("messages", dataset))
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(lake.folder.parent)
        return runpy.run_path(str(program))


def of_times(table: pyarrow.Table, dataset: str) -> Counts:
    column = DATASETS[dataset][1]
    return Counter((row[column], row["time"].date()) for row in table.select([column, "time"]).to_pylist())


ENGINES: list[Callable[[str, Lake], Counts]] = [in_duckdb, in_polars, in_pyarrow, in_delta]


@pytest.mark.parametrize("dataset", DATASETS)
def test_all_engines_count_what_is_on_the_log(stack: Stack, lake: Lake, dataset: str) -> None:
    expected = of_events(stack, dataset, lake)
    assert expected.total() > 0
    assert {engine.__name__: engine(dataset, lake) for engine in ENGINES} == {e.__name__: expected for e in ENGINES}


@pytest.mark.parametrize("dataset", DATASETS)
def test_iceberg_takes_the_files(stack: Stack, lake: Lake, dataset: str) -> None:
    assert in_iceberg(dataset, lake) == of_events(stack, dataset, lake)


def test_midnight_parts_files_and_repeats_do_not_count(stack: Stack, days: tuple[EventsTopic, Lake]) -> None:
    topic, lake = days
    for dataset, rows in [("messages", 10), ("events", 30)]:
        expected = of_events(stack, dataset, lake, topic.prefix)
        by_day: Counter[date] = Counter()
        for (_, day), count in expected.items():
            by_day[day] += count
        assert by_day == {date(2026, 11, 21 + day): rows for day in range(3)}
        assert {engine.__name__: engine(dataset, lake) for engine in ENGINES} == {e.__name__: expected for e in ENGINES}


def test_messages_and_changes_are_as_many_as_the_audit_compared(stack: Stack, lake: Lake) -> None:
    report = stack.audit()
    assert report["differences"] == 0 and report["repeated_events"] >= 20, report
    compared = {check["area"]: check["compared"] for check in report["checks"]}
    in_groups = Counter(row["gid"] is not None for row in lake.rows("messages"))
    assert in_groups == {False: compared["messages"], True: compared["group-messages"]}
    assert len(lake.rows("changes")) == compared["changes"]


def test_messages_are_in_their_newest_state_and_recalled_ones_have_no_text(lake: Lake) -> None:
    messages = lake.rows("messages")
    for row in messages:
        assert (row["msg"] is None) == (row["recalled"] is not None), row
    assert Counter(row["recalled"] for row in messages)["recall"] >= 2
    edited = [row for row in messages if row["edited"]]
    assert edited and all(row["msg"] == "edited" and row["reactions"] == ["👍"] for row in edited)


def test_pseudonyms_join_as_ids_do(stack: Stack, lake: Lake, tmp_path: Path) -> None:
    key = tmp_path / "key"
    key.write_text("00112233445566778899aabbccddeeff")
    hidden = Lake(stack, tmp_path / "lake", "--pseudonyms", str(key))
    hidden.export()
    found = {}
    for each in (lake, hidden):
        messages, profiles, groups = (
            f"'{each.folder}/{name}/*/*.parquet'" for name in ("messages", "profiles", "groups")
        )
        by_author = (
            f"SELECT count(*) FROM {messages} AS m JOIN {profiles} AS p ON p.uid = m.srcid GROUP BY uid ORDER BY ALL"
        )
        by_group = f"SELECT count(*) FROM {messages} JOIN {groups} USING (gid) GROUP BY gid ORDER BY ALL"
        by_member = (
            f"SELECT count(*) FROM {groups} JOIN {profiles} ON list_contains(members, uid) GROUP BY uid ORDER BY ALL"
        )
        found[each] = [duckdb.sql(query).fetchall() for query in (by_author, by_group, by_member)]
    assert found[lake] == found[hidden] and all(found[lake])

    ids = [
        {row[name] for row in each.rows("messages") for name in ("srcid", "destid", "gid")} for each in (lake, hidden)
    ]
    assert len(ids[0]) == len(ids[1]) and ids[0] & ids[1] == {None}
    assert {row["nick"] for row in hidden.rows("profiles")} == {row["name"] for row in hidden.rows("groups")} == {None}


@pytest.mark.parametrize("dataset", [name for name in DATASETS if name != "events"])
def test_batches_have_the_columns_of_the_files(stack: Stack, lake: Lake, dataset: str) -> None:
    kind = DATASETS[dataset][0]
    files = pyarrow.dataset.dataset(lake.files(dataset))
    batches = tidemark.schema(kind)
    # In a file a message has the state that later changes gave it.
    state = ["edited", "recalled", "chg", "reaction_uids", "reactions", "words"] if dataset == "messages" else []
    assert files.schema.names == batches.names + state
    for field in batches:
        assert files.schema.field(field.name).type == field.type, field.name
        assert files.schema.field(field.name).nullable == field.nullable, field.name

    shared = [name for name in batches.names if name != "msg" or dataset not in ("messages", "changes")]
    order = [("partition", "ascending"), ("offset", "ascending")]
    exported = files.to_table(shared).sort_by(order)
    read = pyarrow.Table.from_batches(tidemark.batches(stack.brokers, kind, to=lake.ends(dataset)), batches)
    assert read.select(shared).sort_by(order).to_pylist() == exported.to_pylist()


# The last one: its traffic is not in the lake of the others.
def test_a_replay_as_of_a_time_has_the_messages_of_an_export_up_to_it(
    stack: Stack, client: Client, users: list[int], tmp_path: Path
) -> None:
    ann, ben, cem, lunch, _ = users
    traffic(client, ann, ben, cem, lunch)
    stack.audit()
    midnight = datetime.now(UTC).isoformat()
    client.outcome(client.send(ann, ben, msg="later"))
    exported = Lake(stack, tmp_path / "lake", "--to", midnight)
    exported.export()
    replayed = json.loads(stack.tidemark("replay", "--as-of", midnight, "--into", "midnight", "--json"))
    arguments = [argument for setting in replayed["settings"] for argument in setting.split(" ")]
    with stack.query_api(*arguments) as query, Client(stack.ingest, query) as past:
        for told, conversation in [
            (past.history(ann, ben), {ann, ben}),
            (past.history(ann, gid=lunch), {lunch}),
        ]:
            of_lake = [
                (row["mid"], row["srcid"], row["msg"])
                for row in exported.rows("messages")
                if ({row["srcid"], row["destid"]} if row["gid"] is None else {row["gid"]}) == conversation
            ]
            of_replay = [(int(item["mid"]), int(item["srcid"]), item["msg"] or None) for item in told]
            assert of_replay == sorted(of_lake) and of_lake
        assert past.unread(ben, "pc")["total"] == client.unread(ben, "pc")["total"] - 1
    stack.tidemark("scratch", "drop", "midnight")
