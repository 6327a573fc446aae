"""The log of a running system, with repeats by a former owner: what is read is what the audit counts."""

from __future__ import annotations

import time
from collections import Counter
from typing import Any

import pytest
from records import dead_letters
from stack import Stack
from traffic import append_again, traffic

import tidemark
from tidemark import Client


def test_events_are_those_that_the_audit_counts(stack: Stack, client: Client, users: list[int]) -> None:
    ann, ben, cem, lunch, _ = users
    traffic(client, ann, ben, cem, lunch)
    partition = (ann + ben) % 64
    before = list(tidemark.events(stack.brokers, partitions=[partition]))
    append_again(stack, partition, [event.offset for event in before[-20:]])

    # A sequencer that finds foreign records starts the partition again, and may append progress while the two counts are made.
    end = time.monotonic() + 120
    report = stack.audit()
    while (counts := found(stack)) != audited(stack, report) and time.monotonic() < end:
        report = stack.audit()
    assert counts == audited(stack, report)
    assert report["differences"] == 0 and report["repeated_events"] >= 20, report

    after = list(tidemark.events(stack.brokers, partitions=[partition]))
    assert [event for event in after if event.offset <= before[-1].offset] == before
    repeats = [event for event in after if event.offset > before[-1].offset]
    assert {type(event) for event in repeats} <= {tidemark.Progress}


def found(stack: Stack) -> dict[str, int]:
    events = list(tidemark.events(stack.brokers))
    messages = [event for event in events if isinstance(event, tidemark.Message)]
    kinds = Counter(type(event) for event in events)
    return {
        "events": len(events),
        "sequenced": len(events) - kinds[tidemark.Progress],
        "messages": sum(event.gid is None for event in messages),
        "group-messages": sum(event.gid is not None for event in messages),
        "changes": kinds[tidemark.MessageChange],
    }


def audited(stack: Stack, report: dict[str, Any]) -> dict[str, int]:
    compared = {check["area"]: check["compared"] for check in report["checks"]}
    return {
        # The audit compares records that are no events, too: they have to be in the dead letters.
        "events": compared["events"] - report["repeated_events"] - len(dead_letters(stack.brokers)),
        "sequenced": report["inbound"]["sequenced"],
        "messages": compared["messages"],
        "group-messages": compared["group-messages"],
        "changes": compared["changes"],
    }


@pytest.mark.parametrize("kind", [tidemark.Message, tidemark.MessageChange, tidemark.GroupChange, tidemark.Control])
def test_batches_have_what_events_have(
    stack: Stack, client: Client, users: list[int], kind: type[tidemark.Event]
) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    ann, ben, cem, lunch, _ = users
    traffic(client, ann, ben, cem, lunch)
    client.outcome(client.send(ann, ben, msg="the last"))
    events = {(event.partition, event.offset): event for event in tidemark.events(stack.brokers, kinds=[kind])}
    batches = list(tidemark.batches(stack.brokers, kind, rows=50))
    assert all(batch.num_rows == 50 for batch in batches[:-1])
    table = pyarrow.Table.from_batches(batches, schema=tidemark.schema(kind))
    assert table.num_rows == len(events) > 0
    for row in table.to_pylist():
        event = events[row["partition"], row["offset"]]
        if isinstance(event, tidemark.GroupChange):
            members, joined, muted = row.pop("members"), row.pop("joined"), row.pop("muted_members")
            roles = [None if role == "none" else role for role in row.pop("roles")]
            found = [tidemark.GroupMember(uid, role, uid in muted, uid in joined) for uid, role in zip(members, roles)]
            assert tuple(found) == event.members
        assert row == {name: getattr(event, name) for name in row}
