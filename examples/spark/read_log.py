"""Reads `chat.events` with Spark: the events of a time range, or all of them as they are appended. README.md says how it is run."""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
from collections.abc import Iterable, Iterator
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pyarrow
from confluent_kafka import Consumer, TopicPartition
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as f
from pyspark.sql.types import StructType

from tidemark import Event, decode

KAFKA = "org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0"
COLUMNS = {
    "partition": pyarrow.int32(),
    "offset": pyarrow.int64(),
    "time": pyarrow.timestamp("us", "UTC"),
    "source_epoch": pyarrow.int64(),
    "source_offset": pyarrow.int64(),
    "kind": pyarrow.string(),
    # Null if an event of the kind has none: add here what else is needed of tidemark.model.
    "srcid": pyarrow.int64(),
    "destid": pyarrow.int64(),
    "gid": pyarrow.int64(),
    "mid": pyarrow.int64(),
    "msg": pyarrow.string(),
}
SPARK_TYPES = {"int32": "INT", "int64": "BIGINT", "string": "STRING", "timestamp[us, tz=UTC]": "TIMESTAMP"}
SCHEMA = ", ".join(f"`{name}` {SPARK_TYPES[str(type_)]}" for name, type_ in COLUMNS.items())
PARTITIONS = 64
#: How many records of a partition are read before a range, to know what a former owner may append again in it.
LOOK_BACK = 65_536
# Kafka's own times for the bounds of a log.
EARLIEST_MS, LATEST_MS = -2, -1


def session(master: str = "local[2]") -> SparkSession:
    # Without it workers run another Python, which has no `tidemark`.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    if master.startswith("local"):
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    settings = {
        "spark.jars.packages": KAFKA,
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "64",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }
    spark = SparkSession.builder.master(master).config(map=settings).getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    spark.sparkContext.addPyFile(__file__)
    return spark


def batch(spark: SparkSession, brokers: str, start: datetime, end: datetime, topic: str = "chat.events") -> DataFrame:
    """The events from start up to end, each once."""
    options = {
        **source(brokers, topic),
        "startingOffsets": json.dumps({topic: offsets_before(brokers, topic, start)}),
        "endingTimestamp": str(milliseconds(end)),
    }
    events = once(decoded(spark.read.format("kafka").options(**options).load()))
    return events.where((f.col("time") >= start) & (f.col("time") < end))


def stream(spark: SparkSession, brokers: str, folder: str, topic: str = "chat.events", **trigger: Any) -> Any:
    """Starts to write each event once into Parquet files in `<folder>/events`, and goes on where the query before it ended.

    `trigger` is that of `DataStreamWriter`: `availableNow=True` ends with the present end of the log.
    """

    def write(records: DataFrame, batch_id: int) -> None:
        events = decoded(records)
        if batch_id > 0:
            events = events.unionByName(spark.read.schema(SCHEMA).parquet(f"{folder}/highest/{batch_id - 1}"))
        events = events.persist()
        # A batch that is repeated after a crash has the same number and records, and writes the same.
        once(events).write.mode("overwrite").parquet(f"{folder}/events/batch={batch_id}")
        highest(events).write.mode("overwrite").parquet(f"{folder}/highest/{batch_id}")
        events.unpersist()

    options = {**source(brokers, topic), "startingOffsets": "earliest"}
    records = spark.readStream.format("kafka").options(**options).load()
    writer = records.writeStream.foreachBatch(write).option("checkpointLocation", f"{folder}/checkpoint")
    return writer.trigger(**(trigger or {"processingTime": "10 seconds"})).start()


def source(brokers: str, topic: str) -> dict[str, str]:
    return {
        "kafka.bootstrap.servers": brokers,
        "subscribe": topic,
        # Before group ids that Spark makes up, so that one ACL covers them.
        "groupIdPrefix": "spark-kafka-source",
        # Otherwise half a second is waited in each partition, for records after those that are asked for.
        "kafka.fetch.max.wait.ms": "20",
    }


def offsets_before(brokers: str, topic: str, start: datetime) -> dict[int, int]:
    """In each partition the offset that is LOOK_BACK before the first record of that time or later."""
    consumer = Consumer(
        {"bootstrap.servers": brokers, "group.id": "spark-kafka-source-bounds", "enable.auto.commit": False}
    )
    earliest, latest, first = (
        {
            found.partition: found.offset
            for found in consumer.offsets_for_times(
                [TopicPartition(topic, p, ms) for p in range(PARTITIONS)], timeout=30
            )
        }
        for ms in (EARLIEST_MS, LATEST_MS, milliseconds(start))
    )
    consumer.close()
    # No record of that time or later: the offset is below 0.
    return {p: max(earliest[p], (first[p] if first[p] >= 0 else latest[p]) - LOOK_BACK) for p in range(PARTITIONS)}


def milliseconds(time: datetime) -> int:
    return int(time.timestamp() * 1000)


def decoded(records: DataFrame) -> DataFrame:
    """The events among Kafka's records, repeats included."""
    # Spark has a task for each partition of the topic, and most of a small task is its beginning.
    tasks = 2 * records.sparkSession.sparkContext.defaultParallelism
    return (
        records.select("partition", "offset", "timestamp", "value").coalesce(tasks).mapInArrow(decode_batches, SCHEMA)
    )


def decode_batches(batches: Iterable[pyarrow.RecordBatch]) -> Iterator[pyarrow.RecordBatch]:
    schema = pyarrow.schema(list(COLUMNS.items()))
    for records in batches:
        times = records.column("timestamp").cast(pyarrow.int64()).to_pylist()
        others = (records.column(name).to_pylist() for name in ("partition", "offset", "value"))
        rows = [
            row
            for partition, offset, value, us in zip(*others, times)
            if (row := decode_row(partition, offset, us // 1000, value))
        ]
        yield pyarrow.RecordBatch.from_pylist(rows, schema)


def decode_row(partition: int, offset: int, time_ms: int, value: bytes | None) -> dict[str, Any] | None:
    """`None` for a record that is not an event. What a newer program wrote ends the job: `tidemark.UnknownRules`."""
    try:
        event = decode.decode(partition, offset, time_ms, value or b"")
    except decode.SkippedRecord:
        return None
    return {**{name: getattr(event, name, None) for name in COLUMNS}, "kind": kind_of(event)}


def kind_of(event: Event) -> str:
    """As `tidemark export events` names it."""
    return re.sub("(?<!^)(?=[A-Z])", "_", type(event).__name__).lower()


def once(events: DataFrame) -> DataFrame:
    """The readers' rule: drops what a former owner has appended again."""
    before = Window.partitionBy("partition").orderBy("offset").rowsBetween(Window.unboundedPreceding, -1)
    pair = f.struct("source_epoch", "source_offset")
    marked = events.withColumn("highest", f.max(pair).over(before))
    # The highest pair of the batch before is at the offset -1.
    return marked.where((f.isnull("highest") | (pair > f.col("highest"))) & (f.col("offset") >= 0)).drop("highest")


def highest(events: DataFrame) -> DataFrame:
    """For each partition a row at the offset -1 with the highest pair of all events."""
    pair = f.max(f.struct("source_epoch", "source_offset")).alias("pair")
    found = events.groupBy("partition").agg(pair)
    others = [
        f.lit(None).alias(name)
        for name in COLUMNS
        if name not in ("partition", "offset", "source_epoch", "source_offset")
    ]
    return found.select("partition", f.lit(-1).alias("offset"), "pair.*", *others).to(StructType.fromDDL(SCHEMA))


def time_of(text: str) -> datetime:
    """A date, or a time with or without a zone: UTC."""
    time = datetime.fromisoformat(text)
    return time if time.tzinfo else time.replace(tzinfo=timezone.utc)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--master", default="local[2]", help="the address of a cluster, or local[cores]")
    parser.add_argument("brokers")
    commands = parser.add_subparsers(dest="command", required=True)
    of_batch = commands.add_parser("batch", help="count the events of a time range, by day and kind")
    for name in ("start", "end"):
        of_batch.add_argument(name, type=time_of)
    of_stream = commands.add_parser("stream", help="write the events into a folder, as they are appended")
    of_stream.add_argument("folder", type=Path)
    arguments = parser.parse_args()
    spark = session(arguments.master)
    if arguments.command == "batch":
        events = batch(spark, arguments.brokers, arguments.start, arguments.end)
        events.groupBy(f.to_date("time").alias("day"), "kind").count().orderBy("day", "kind").show(100)
    else:
        stream(spark, arguments.brokers, str(arguments.folder.absolute())).awaitTermination()


if __name__ == "__main__":
    main()
