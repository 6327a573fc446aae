"""Reading `chat.events` from Kafka."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import date, datetime, timedelta, timezone
from datetime import time as time_of_day
from time import monotonic, sleep
from typing import Any, TypeVar, overload

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from .decode import PARTITIONS, SkippedRecord, decode
from .model import Event

_logger = logging.getLogger("tidemark")
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
#: How many records before its start a read looks at to know the watermark there.
LOOK_BACK = 65_536
_KAFKA_TIMEOUT_S = 30.0
# Kafka's own times for the bounds of a log.
_EARLIEST, _LATEST = -2, -1
_LEADER_CHANGES = (KafkaError.LEADER_NOT_AVAILABLE, KafkaError.NOT_LEADER_FOR_PARTITION)

#: A point in the log: see `events`.
Point = datetime | date | str | Mapping[int, int]
# A point that is parsed: "earliest", "now", milliseconds since 1970, or offsets by partition.
_Offsets = dict[int, int]
_Parsed = str | int | _Offsets
_E = TypeVar("_E", bound=Event)


@overload
def events(
    brokers: str,
    from_: Point = ...,
    to: Point | None = ...,
    kinds: None = ...,
    partitions: Iterable[int] | None = ...,
    follow: bool = ...,
    prefix: str = ...,
    **kafka_settings: Any,
) -> Iterator[Event]: ...
@overload
def events(
    brokers: str,
    from_: Point = ...,
    to: Point | None = ...,
    *,
    kinds: Iterable[type[_E]],
    partitions: Iterable[int] | None = ...,
    follow: bool = ...,
    prefix: str = ...,
    **kafka_settings: Any,
) -> Iterator[_E]: ...
def events(
    brokers: str,
    from_: Point = "earliest",
    to: Point | None = None,
    kinds: Iterable[type[Any]] | None = None,
    partitions: Iterable[int] | None = None,
    follow: bool = False,
    prefix: str = "",
    **kafka_settings: Any,
) -> Iterator[Any]:
    """Iterates over the events of `chat.events`: in the order of the log within a partition, in any order between partitions.

    Events that a former owner of a partition appended again are left out (PROTOCOL S10), and so are records that are not events, which are logged.

    `from_` is included, `to` is not. Each is a datetime with a time zone, a date (midnight UTC), the same as an RFC 3339 string, "earliest",
    "now" (the end of the log when the read begins), "<partition>:<offset>", or offsets by partition. An offset restricts the read to the
    partitions that have one, and counts as the nearest that the log has. Without `to` the read ends at "now"; with `follow` it goes on with
    what is appended.

    `kinds` are subclasses of `Event`; all if absent. `prefix` is the deployment's `kafka.prefix`. `kafka_settings` go to librdkafka, with `_`
    for `.`: `security_protocol="SASL_SSL"`. A client per iterator is open until its end, or until its `close()`.

    Raises `ValueError` or `TypeError` for wrong arguments, `UnknownRules` where a newer program has written, and `KafkaException`.
    """
    if follow and to is not None:
        raise ValueError("to is given beside follow; leave one of them out")
    kinds = (Event,) if kinds is None else tuple(kinds)
    for kind in kinds:
        if not (isinstance(kind, type) and issubclass(kind, Event)):
            raise TypeError(f"kinds has {kind!r}; must be subclasses of tidemark.Event")
    start, end = _parse("from_", from_), _parse("to", "now" if to is None else to)
    named = [set(range(PARTITIONS) if partitions is None else partitions)]
    named += [set(point) for point in (start, end) if isinstance(point, dict)]
    chosen = set.intersection(*named)
    if wrong := set.union(*named) - set(range(PARTITIONS)):
        raise ValueError(f"{sorted(wrong)} are not partitions; must be from 0 to {PARTITIONS - 1}")
    settings = {name.replace("_", "."): value for name, value in kafka_settings.items()}
    return _read(brokers, prefix, start, end, kinds, chosen, follow, settings)


def _read(
    brokers: str,
    prefix: str,
    start: _Parsed,
    end: _Parsed,
    kinds: tuple[type[Event], ...],
    partitions: set[int],
    follow: bool,
    settings: dict[str, Any],
) -> Iterator[Event]:
    topic = f"{prefix}chat.events"
    consumer = Consumer(
        {
            "bootstrap.servers": brokers,
            # librdkafka demands a group, and asks who coordinates it; nothing joins it, and nothing is committed.
            "group.id": f"{prefix}tidemark-reader",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            # A log that lost records is an error, never a jump.
            "auto.offset.reset": "error",
            **settings,
        }
    )
    try:
        _check_topic(consumer, topic)
        low = _offsets_at(consumer, topic, partitions, _EARLIEST)
        high = _offsets_at(consumer, topic, partitions, _LATEST)
        starts = _offsets(consumer, topic, start, low, high)
        ends = _offsets(consumer, topic, end, low, high)
        remaining = {p for p in partitions if follow or starts[p] < ends[p]}
        first = {p: max(low[p], starts[p] - LOOK_BACK) for p in remaining}
        consumer.assign([TopicPartition(topic, p, offset) for p, offset in first.items()])
        watermarks: dict[int, tuple[int, int]] = {}
        last_answer = monotonic()
        while remaining:
            # It waits for so many records, or for so long.
            records: list[Any] = consumer.consume(1_000, timeout=0.1)
            if records or follow:
                last_answer = monotonic()
            elif monotonic() - last_answer > _KAFKA_TIMEOUT_S:
                raise KafkaException(
                    KafkaError(KafkaError._TIMED_OUT, f"nothing comes of partitions {sorted(remaining)}")
                )
            for record in records:
                partition, error = record.partition(), record.error()
                if error is not None and error.code() != KafkaError._PARTITION_EOF:
                    raise KafkaException(error)
                if error is None and (follow or record.offset() < ends[partition]):
                    event = _admit(record, watermarks)
                    if event is not None and event.offset >= starts[partition] and isinstance(event, kinds):
                        yield event
                is_last = error is not None or record.offset() + 1 >= ends[partition]
                if is_last and not follow and partition in remaining:
                    remaining.remove(partition)
                    consumer.pause([TopicPartition(topic, partition)])
    finally:
        consumer.close()


def _admit(record: Any, watermarks: dict[int, tuple[int, int]]) -> Event | None:
    """The readers' rule: takes a record only if its source offset is above the watermark of its partition, which it then raises."""
    partition, offset = record.partition(), record.offset()
    try:
        event = decode(partition, offset, record.timestamp()[1], record.value() or b"")
    except SkippedRecord as why:
        _logger.warning("%s %d:%d is skipped: %s", record.topic(), partition, offset, why)
        return None
    source = (event.source_epoch, event.source_offset)
    if partition in watermarks and source <= watermarks[partition]:
        return None
    watermarks[partition] = source
    return event


def _check_topic(consumer: Consumer, topic: str) -> None:
    found = consumer.list_topics(topic, timeout=_KAFKA_TIMEOUT_S).topics[topic]
    if found.error is not None:
        raise KafkaException(found.error)
    if len(found.partitions) != PARTITIONS:
        raise ValueError(f"{topic} has {len(found.partitions)} partitions, so it is not Tidemark's; check prefix")


def _offsets(consumer: Consumer, topic: str, point: _Parsed, low: _Offsets, high: _Offsets) -> _Offsets:
    """The offset of a point in each partition; `low` and `high` are those of the first record and after the last."""
    if isinstance(point, dict):
        return {p: min(max(point[p], low[p]), high[p]) for p in low}
    if isinstance(point, int):
        found = _offsets_at(consumer, topic, set(low), point)
        # Below 0 if no record is of that time or later.
        return {p: offset if offset >= 0 else high[p] for p, offset in found.items()}
    return low if point == "earliest" else high


def _offsets_at(consumer: Consumer, topic: str, partitions: set[int], time_ms: int) -> _Offsets:
    """In each partition the offset of the first record of that time or later. Repeats the query while leaders change."""
    end = monotonic() + _KAFKA_TIMEOUT_S
    asked = [TopicPartition(topic, partition, time_ms) for partition in partitions]
    while asked:
        try:
            found = consumer.offsets_for_times(asked, timeout=_KAFKA_TIMEOUT_S)
            errors = [one.error for one in found if one.error is not None]
        except KafkaException as failure:
            errors = [failure.args[0]]
        if not errors:
            return {one.partition: one.offset for one in found}
        if any(error.code() not in _LEADER_CHANGES for error in errors) or monotonic() > end:
            raise KafkaException(errors[0])
        sleep(0.1)
    return {}


def _parse(name: str, point: Point) -> _Parsed:
    if isinstance(point, str):
        if point in ("earliest", "now"):
            return point
        if position := re.fullmatch(r"([0-9]{1,2}):([0-9]{1,19})", point):
            return {int(position[1]): int(position[2])}
        return _parse(name, _rfc3339(name, point))
    if isinstance(point, Mapping):
        return dict(point)
    if isinstance(point, datetime):
        if point.tzinfo is None:
            raise ValueError(f"{name} is {point}, without a time zone; must have one, such as datetime.timezone.utc")
        # Rounded up: an event of an earlier millisecond is before it.
        return max(0, -((_EPOCH - point) // timedelta(milliseconds=1)))
    if isinstance(point, date):
        return _parse(name, datetime.combine(point, time_of_day(), timezone.utc))
    raise TypeError(f"{name} is {point!r}; must be a datetime, a date, a string or offsets by partition")


def _rfc3339(name: str, text: str) -> date:
    try:
        if len(text) == 10:
            return date.fromisoformat(text)
        # Python 3.10 takes three or six decimals, and no Z.
        decimals = re.sub(r"\.([0-9]+)", lambda found: "." + found[1][:6].ljust(6, "0"), text)
        return datetime.fromisoformat(re.sub("[Zz]$", "+00:00", decimals))
    except ValueError:
        right = 'must be "earliest", "now", <partition>:<offset>, a date, or a time as 2026-11-21T08:00:00Z'
        raise ValueError(f"{name} is {text!r}; {right}") from None
