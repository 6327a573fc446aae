"""Spark counts what `tidemark.events` and the audit count, on logs with repeats by a former owner."""

from __future__ import annotations

import os
import random
import sys
from collections import Counter
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

# The stack of the tests of the Python package, and its traffic.
sys.path.insert(0, str(Path(__file__).parents[2] / "sdk" / "python" / "tests"))
import read_log
from records import MORNING_MS, EventsTopic, event, message
from stack import Stack
from traffic import append_again, traffic

import tidemark

MORNING = datetime.fromtimestamp(MORNING_MS / 1000, timezone.utc)
DAY = timedelta(days=1)


@pytest.fixture(scope="module")
def stack() -> Iterator[Stack]:
    stack = Stack(os.environ["TIDEMARK"])
    yield stack
    stack.stop()


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    spark = read_log.session()
    yield spark
    spark.stop()


def of_spark(events: DataFrame) -> Counter[Any]:
    return Counter((row["partition"], row["offset"], row["kind"]) for row in events.collect())


def of_python(stack: Stack, **arguments: Any) -> Counter[Any]:
    found = tidemark.events(stack.brokers, **arguments)
    return Counter((event.partition, event.offset, read_log.kind_of(event)) for event in found)


def test_both_count_what_the_audit_counts(spark: SparkSession, stack: Stack, tmp_path: Path) -> None:
    first = random.randrange(1, 2**52)
    ann, ben, cem, lunch = range(first, first + 4)
    with tidemark.Client(stack.ingest, stack.query) as client:
        traffic(client, ann, ben, cem, lunch)
    partition = (ann + ben) % 64
    append_again(
        stack, partition, [event.offset for event in tidemark.events(stack.brokers, partitions=[partition])][-20:]
    )

    report = stack.audit()
    assert report["differences"] == 0 and report["repeated_events"] >= 20
    compared = {check["area"]: check["compared"] for check in report["checks"]}
    # Past the last record of most partitions, and of all.
    events = read_log.batch(spark, stack.brokers, datetime.now(timezone.utc) - DAY, datetime.now(timezone.utc) + DAY)
    read_log.stream(spark, stack.brokers, str(tmp_path), availableNow=True).awaitTermination()
    for found in (events, spark.read.parquet(f"{tmp_path}/events")):
        kinds = Counter(kind for _, _, kind in of_spark(found))
        assert kinds["message"] == compared["messages"] + compared["group-messages"]
        assert kinds["message_change"] == compared["changes"]
        assert kinds.total() - kinds["progress"] == report["inbound"]["sequenced"]


@pytest.fixture
def topic(stack: Stack) -> Iterator[EventsTopic]:
    topic = EventsTopic(stack.brokers)
    yield topic
    topic.delete()


def append_day(topic: EventsTopic, day: int) -> None:
    """Ten events in each of three partitions, after the last three of the day before once more, and a record that is no event."""
    ms, sources = MORNING_MS + day * 86_400_000, range(max(0, 10 * day - 3), 10 * day + 10)
    topic.append(3, *map(message, sources), ms=ms)
    for partition in (8, 9):
        topic.append(partition, *(event("progress", source) for source in sources), b"junk", ms=ms)


def test_a_batch_has_the_events_of_its_range(spark: SparkSession, stack: Stack, topic: EventsTopic) -> None:
    for day in range(3):
        append_day(topic, day)
    name = f"{topic.prefix}chat.events"
    for start, end in [(0, 1), (0, 3), (1, 2), (2, 9), (7, 9)]:
        bounds = (MORNING + start * DAY, MORNING + end * DAY)
        # It waits until the new topic has its leaders.
        expected = of_python(stack, prefix=topic.prefix, from_=bounds[0], to=bounds[1])
        found = of_spark(read_log.batch(spark, stack.brokers, *bounds, topic=name))
        assert found == expected, (start, end)
        assert found.total() == 30 * max(0, min(end, 3) - start)


def test_a_stream_goes_on_from_its_checkpoint(
    spark: SparkSession, stack: Stack, topic: EventsTopic, tmp_path: Path
) -> None:
    for day in range(3):
        append_day(topic, day)
        query = read_log.stream(spark, stack.brokers, str(tmp_path), f"{topic.prefix}chat.events", availableNow=True)
        query.awaitTermination()
        found = of_spark(spark.read.parquet(f"{tmp_path}/events"))
        assert found == of_python(stack, prefix=topic.prefix)
        assert found.total() == 30 * (day + 1)
        # As after a crash at the end of a batch: the next query repeats it.
        (commit, _checksum) = (tmp_path / "checkpoint" / "commits").glob(f"*{day}*")
        for file in (commit, _checksum):
            file.unlink()
