"""`tidemark.events` over records made by hand."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from datetime import date, datetime, timedelta, timezone
from typing import Any

import pytest
from records import MORNING_MS, EventsTopic, event, message
from stack import Stack

import tidemark
from tidemark.decode import SequencedEvent

MORNING = datetime(2026, 11, 21, 8, tzinfo=timezone.utc)


@pytest.fixture
def topic(stack: Stack) -> Iterator[EventsTopic]:
    topic = EventsTopic(stack.brokers)
    yield topic
    topic.delete()


def sources(stack: Stack, topic: EventsTopic, **arguments: Any) -> list[tuple[int, int]]:
    found = tidemark.events(stack.brokers, prefix=topic.prefix, **arguments)
    return [(event.source_epoch, event.source_offset) for event in found]


def test_what_a_former_owner_appends_again_is_left_out(stack: Stack, topic: EventsTopic) -> None:
    topic.append(3, *map(message, (0, 1, 2)), *map(message, (0, 1, 2, 3)), message(1), message(4))
    assert sources(stack, topic) == [(0, source) for source in range(5)]


def test_a_later_epoch_is_above_every_offset_of_an_earlier_one(stack: Stack, topic: EventsTopic) -> None:
    topic.append(3, message(7), event("progress", -1, epoch=1), message(8), message(0, epoch=1))
    assert sources(stack, topic) == [(0, 7), (1, -1), (1, 0)]


def test_records_that_are_not_events_are_skipped_and_raise_no_watermark(stack: Stack, topic: EventsTopic) -> None:
    junk = [
        b"junk",
        b"",
        message(100, destid=3),
        message(101, mid=-1),
        message(102, msg=""),
        event("read_position", 103),
    ]
    topic.append(3, message(0), *junk, message(1))
    assert sources(stack, topic) == [(0, 0), (0, 1)]


def test_a_read_from_the_middle_knows_the_watermark_there(stack: Stack, topic: EventsTopic) -> None:
    topic.append(3, *map(message, range(5)), message(2), message(3), message(5))
    assert sources(stack, topic, from_="3:5") == [(0, 5)]
    assert sources(stack, topic, from_="3:4", to="3:7") == [(0, 4)]
    assert sources(stack, topic, from_={3: 4}) == [(0, 4), (0, 5)]
    assert sources(stack, topic, from_="3:100") == []


def test_bounds_are_times_or_offsets(stack: Stack, topic: EventsTopic) -> None:
    hour_ms = 3_600_000
    for hour in range(3):
        topic.append(3, message(hour), ms=MORNING_MS + hour * hour_ms)
    nine = MORNING + timedelta(hours=1)
    for bounds, expected in [
        ({"from_": nine}, [1, 2]),
        ({"from_": nine + timedelta(microseconds=1)}, [2]),
        ({"from_": "2026-11-21T09:00:00Z", "to": "2026-11-21T10:00:00.0+00:00"}, [1]),
        ({"from_": "2026-11-21T11:00:00+02:00", "to": nine + timedelta(milliseconds=1)}, [1]),
        ({"from_": date(2026, 11, 21), "to": date(2026, 11, 22)}, [0, 1, 2]),
        ({"from_": "2026-11-22"}, []),
        ({"to": nine}, [0]),
        ({"to": date(1969, 1, 1)}, []),
        ({"from_": "now"}, []),
        ({"from_": "earliest", "to": "now"}, [0, 1, 2]),
        ({"from_": nine, "to": "3:2"}, [1]),
        ({"from_": nine, "partitions": [4]}, []),
    ]:
        assert sources(stack, topic, **bounds) == [(0, hour) for hour in expected], bounds


def test_kinds_are_chosen_by_class(stack: Stack, topic: EventsTopic) -> None:
    topic.append(3, message(0), event("progress", 1), message(2))
    assert sources(stack, topic, kinds=[tidemark.Message]) == [(0, 0), (0, 2)]
    assert sources(stack, topic, kinds=[tidemark.Progress, tidemark.Profile]) == [(0, 1)]


def test_a_read_stops_before_what_a_newer_program_wrote(stack: Stack, topic: EventsTopic) -> None:
    unknown_kind = SequencedEvent(src={"offset": 1}).SerializeToString() + b"\x7a\x02\x08\x01"
    newer_rules = event("control", 1, rule_version=6)
    for partition, (value, words) in enumerate(
        [(unknown_kind, "of a kind"), (newer_rules, "rule version 6 is in force")]
    ):
        topic.append(partition, event("progress", 0), value, event("progress", 2))
        found = tidemark.events(stack.brokers, prefix=topic.prefix, partitions=[partition])
        assert next(found).source_offset == 0
        with pytest.raises(tidemark.UnknownRules, match=words):
            next(found)


def test_a_read_that_follows_gets_what_is_appended(stack: Stack, topic: EventsTopic) -> None:
    topic.append(3, message(0), message(1))
    found = tidemark.events(stack.brokers, "3:1", follow=True, prefix=topic.prefix)
    assert next(found).source_offset == 1
    later = threading.Timer(0.5, topic.append, (3, message(1), message(2)))
    later.start()
    assert next(found).source_offset == 2
    later.join()
    found.close()


def test_every_kind_has_its_fields(stack: Stack, topic: EventsTopic) -> None:
    values = [
        message(0),
        event("message", 1, srcid=1, gid=67, client_msg_id="c", msg="to a group", mid=1),
        event("read_position", 2, uid=2, peer=1, device=1, mid=1, n=1),
        event("read_position", 3, uid=2, gid=67, device=2, mid=1),
        event("message_change", 4, by=1, peer=2, mid=1, kind=3, msg="edited", chg=1),
        event("message_change", 5, by=2, peer=1, mid=1, kind=6, msg="👍", chg=2),
        event("message_change", 6, by=2, peer=1, mid=1, kind=5, n=1),
        event("contact_change", 7, uid=2, peer=1, pinned=True, deleted={"mid": 1, "n": 1}),
        event("profile", 8, uid=67, nick="Ann", avatar="https://example.com/a.png", extra='{"mood": 1.50}'),
        event(
            "group_change", 9, gid=67, by=1, kind=1, settings={"name": "Lunch", "owner": 1, "open": True}, member_count=2, last_mid=0,
            members=[{"uid": 1, "role": 3, "joined": True}, {"uid": 5, "muted": True}],
        ),
        event("control", 10, rule_version=5, hash_key=bytes(16), dedup_window_ms=7, delete_for_all=True),
        event("progress", 11),
    ]  # fmt: skip
    topic.append(3, *values)
    found = list(tidemark.events(stack.brokers, prefix=topic.prefix))
    at = [(3, i, MORNING, 0, i) for i in range(len(values))]
    members = (tidemark.GroupMember(1, "owner", False, True), tidemark.GroupMember(5, None, True, False))
    assert found == [
        tidemark.Message(*at[0], 1, 2, None, 1, 1, "c0", "text 0"),
        tidemark.Message(*at[1], 1, None, 67, 1, None, "c", "to a group"),
        tidemark.ReadPosition(*at[2], 2, 1, None, "pc", 1, 1),
        tidemark.ReadPosition(*at[3], 2, None, 67, "mobile", 1, None),
        tidemark.MessageChange(*at[4], 1, 2, None, 1, "edit", "edited", None, 1, None),
        tidemark.MessageChange(*at[5], 2, 1, None, 1, "react", None, "👍", 2, None),
        tidemark.MessageChange(*at[6], 2, 1, None, 1, "clear", None, None, None, 1),
        tidemark.ContactChange(*at[7], 2, 1, False, True, False, False, 1, 1),
        tidemark.Profile(*at[8], 67, "Ann", "https://example.com/a.png", '{"mood": 1.50}'),
        tidemark.GroupChange(*at[9], 67, 1, "create", "Lunch", 1, True, False, False, False, 2, 0, members),
        tidemark.Control(*at[10], 5, 7, 0, 0, 0, 0, 0, True, 0, 0, 0),
        tidemark.Progress(*at[11]),
    ]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"from_": datetime(2026, 11, 21)}, "without a time zone"),
        ({"from_": "yesterday"}, "from_ is 'yesterday'; must be"),
        ({"to": "2026-13-01"}, "to is"),
        ({"from_": "64:0"}, "from 0 to 63"),
        ({"partitions": [-1]}, "from 0 to 63"),
        ({"follow": True, "to": "now"}, "beside follow"),
    ],
)
def test_wrong_arguments_are_named_at_once(arguments: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        tidemark.events("127.0.0.1:1", **arguments)


def test_wrong_kinds_and_prefixes_are_named(stack: Stack) -> None:
    with pytest.raises(TypeError, match="subclasses of tidemark.Event"):
        tidemark.events(stack.brokers, kinds=["message"])  # type: ignore[list-item]
    with pytest.raises(Exception, match="(?i)unknown topic"):
        next(tidemark.events(stack.brokers, prefix="nobody."))
