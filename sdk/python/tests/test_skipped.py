"""The package skips the records that the services skip: those that projections put into the dead letters."""

from __future__ import annotations

import time
from typing import Any

from confluent_kafka import Producer
from records import dead_letters, event
from stack import Stack

from tidemark.decode import SequencedEvent, SkippedRecord, decode

PARTITION = 3
MEMBER = {"uid": 1, "role": 3, "joined": True}
VALID: dict[str, dict[str, Any]] = {
    "message": {"srcid": 1, "destid": 2, "client_msg_id": "c", "msg": "text", "mid": 1, "n": 1},
    "read_position": {"uid": 2, "peer": 1, "device": 1, "mid": 1, "n": 1},
    "message_change": {"by": 1, "peer": 2, "mid": 1, "kind": 3, "msg": "text", "chg": 1, "n": 1},
    "contact_change": {"uid": 2, "peer": 1, "deleted": {"mid": 1, "n": 1}},
    "profile": {"uid": 67, "nick": "Ann", "avatar": "https://example.com/a.png", "extra": "{}"},
    "group_change": {"gid": 67, "by": 1, "kind": 1, "settings": {"name": "Lunch", "owner": 1}, "members": [MEMBER]},
    "control": {"rule_version": 1, "hash_key": bytes(16)},
    "progress": {},
}
DEEP = '{"a":' + "[" * 31 + "]" * 31 + "}"
# What takes the place of a field, or several, in the valid event of a kind. Some are valid as well.
CHANGED: dict[str, list[dict[str, Any]]] = {
    "message": [
        *({"srcid": srcid} for srcid in (0, -1, 2**63 - 1)),
        *({"destid": destid} for destid in (0, -5, 3, 66)),
        *({"destid": 0, "gid": gid} for gid in (67, 68, -61)),
        {"gid": 67},
        *({"client_msg_id": text} for text in ("", "ü" * 32, "ü" * 33, "a\nb", "\x85", "\xa0", "\u2028")),
        *({"msg": text} for text in ("", "\0", "a\0b", "\x01", "🌊")),
        *({"mid": mid} for mid in (0, -1)),
        *({"n": n} for n in (0, -1)),
        {"destid": 0, "gid": 67, "n": -1},
    ],
    "read_position": [{"uid": 0}, {"peer": 0}, {"device": 0}, {"device": 3}, {"mid": 0}, {"n": -1}, {"peer": 0, "gid": 67}],
    "message_change": [
        *({"kind": kind} for kind in range(8)),
        *({"kind": kind, "msg": ""} for kind in range(8)),
        *({"kind": kind, "msg": "", "chg": 0} for kind in range(8)),
        *({"kind": 6, "msg": text} for text in ("👍", "no emoji", "x" * 32, "x" * 33, "ü" * 17, "\t")),
        *({"msg": text} for text in ("\0", "x" * 100)),
        *({"chg": chg} for chg in (0, -1)),
        {"n": -1},
    ],
    "contact_change": [{"uid": 0}, {"peer": 2}, {"deleted": None}, {"deleted": {"mid": -1}}, {"deleted": {"n": -1}}],
    "profile": [
        *({"uid": uid} for uid in (0, 3, 66)),
        *({"nick": nick} for nick in ("", "x" * 64, "x" * 65, "ü" * 64, "a\nb", "\x7f")),
        *(
            {"avatar": avatar}
            for avatar in (
                "", "ftp://a.b", "https://", "https://-a", "http://[::1]/x?y#z", "https://a b", "https://a<b", "https://ü", "HTTPS://a",
                "https://a/%7B~!$&'()*+,;=:@", "https://a{b}", "https://a|b", "https://a\\b", "https://a^b", "https://a`b", 'https://a"b',
                "https://" + "a" * 1_016, "https://" + "a" * 1_017,
            )
        ),
        *(
            {"extra": extra}
            for extra in (
                "", "[]", "1", "null", '"a"', " { } ", '{"a":1}x', '{"a":1,"a":2}', "\ufeff{}", '{"a":NaN}', '{"a":Infinity}', '{"a":1e999}',
                '{"a":1e308}', '{"a":-1e-999}', '{"a":' + "9" * 400 + "}", '{"a":' + "9" * 300 + "}", '{"a":01}', '{"a":-0}', '{"a":1.}',
                '{"a":"\\ud800"}', '{"\\udc00":1}', '{"a":"\\ud83c\\udf0a"}', '{"a":"\t"}', '{"a":"\\u0000"}', "{'a':1}", '{"a":1,}', DEEP,
                DEEP.replace("[]", "[[]]"), "[" * 4_000, '{"a":"' + "x" * 4_088 + '"}', '{"a":"' + "x" * 4_089 + '"}', '{"a":\u00a01}',
            )
        ),
    ],
    "group_change": [
        *({"gid": gid} for gid in (0, 66)),
        {"by": 0},
        *({"kind": kind} for kind in (0, 11, 12)),
        {"settings": None},
        *({"settings": {"name": name, "owner": 1}} for name in ("", "x" * 100, "x" * 101, "a\tb")),
        {"settings": {"name": "Lunch"}},
        *({"member_count": count} for count in (-1, 5)),
        *({"last_mid": mid} for mid in (-1, 5)),
        *({"members": [{**MEMBER, **member}]} for member in ({"uid": 0}, {"role": 0}, {"role": 4})),
    ],
    "control": [{"hash_key": key} for key in (b"", bytes(15), bytes(17))] + [{"rule_version": 0}, {"recall_window_ms": -2}],
    "progress": [],
}  # fmt: skip


def test_what_is_skipped_is_what_the_services_put_into_the_dead_letters(stack: Stack) -> None:
    # The source offset -1 is below every watermark: those that are events change nothing.
    values = [event(kind, -1, **fields) for kind, fields in VALID.items()]
    values += [event(kind, -1, **{**VALID[kind], **changed}) for kind, all_ in CHANGED.items() for changed in all_]
    beside = [{"command": {"id": text, "content": 1}} for text in ("once", "", "x" * 65)]
    beside += [{"words": {"action": action}} for action in range(4)]
    values += [event("progress", -1) + SequencedEvent(**fields).SerializeToString() for fields in beside]
    values += [event("progress", -2), b"", b"junk", b"\x0a\x00", b"\x12\x00"]
    offsets = append(stack, values)
    skipped = {offset for offset, value in offsets.items() if is_skipped(offset, value)}
    assert len(skipped) > 100 and len(offsets) - len(skipped) > 50

    end = time.monotonic() + 60
    while (
        found := {offset for at, offset in dead_letters(stack.brokers) if at == PARTITION and offset in offsets}
    ) != skipped and time.monotonic() < end:
        pass
    assert {offset: offsets[offset] for offset in found ^ skipped} == {}


def is_skipped(offset: int, value: bytes) -> bool:
    try:
        decode(PARTITION, offset, 0, value)
    except SkippedRecord:
        return True
    return False


def append(stack: Stack, values: list[bytes]) -> dict[int, bytes]:
    """Appends the values to `chat.events`; returns them by offset."""
    offsets: dict[int, bytes] = {}
    producer = Producer({"bootstrap.servers": stack.brokers, "acks": "all", "enable.idempotence": True})
    for value in values:
        keep = lambda error, record, value=value: offsets.update({record.offset(): value})
        producer.produce("chat.events", value=value, partition=PARTITION, timestamp=1, on_delivery=keep)
    assert producer.flush(30) == 0 and len(offsets) == len(values)
    return offsets
