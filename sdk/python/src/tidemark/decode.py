"""Records of `chat.events`: protobuf into dataclasses.

Every reader skips the same records and stops before the same ones, so the checks are those of `Event::read` in schemas/src/event.rs.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from importlib.resources import files
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.message import DecodeError

from .errors import UnknownRules
from .model import (
    ContactChange,
    Control,
    Event,
    GroupChange,
    GroupMember,
    Message,
    MessageChange,
    Profile,
    Progress,
    ReadPosition,
)

PARTITIONS = 64
#: The newest rule version that this package knows.
KNOWN_RULE_VERSION = 5

_DEVICES = {1: "pc", 2: "mobile"}
_CHANGES = {1: "recall", 2: "delete", 3: "edit", 4: "hide", 5: "clear", 6: "react"}
_ROLES = {0: None, 1: "member", 2: "admin", 3: "owner"}
_GROUP_CHANGES = {
    1: "create",
    2: "add",
    3: "remove",
    4: "join",
    5: "leave",
    6: "role",
    7: "rename",
    8: "mute",
    9: "unmute",
    10: "options",
    11: "dissolve",
}
_CONTROL_CHARACTER = re.compile("[\x00-\x1f\x7f-\x9f]")
_URL = re.compile(r"https?://[\[0-9A-Za-z][!#-;=?-\[\]_a-z~]*")
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_LAST_MS = 253_402_300_799_999


def _event_class() -> Any:
    """The class of `chat.v1.SequencedEvent`, from the descriptors that `scripts/generate.py` compiles from schemas/proto."""
    pool = descriptor_pool.DescriptorPool()
    compiled = files(__package__).joinpath("chat.v1.binpb").read_bytes()
    for file in descriptor_pb2.FileDescriptorSet.FromString(compiled).file:
        pool.AddSerializedFile(file.SerializeToString())
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("chat.v1.SequencedEvent"))


SequencedEvent = _event_class()


class SkippedRecord(Exception):
    """The record is not an event, or not in the partition of its conversation. Every reader skips it and ignores its source offset."""


def decode(partition: int, offset: int, time_ms: int, value: bytes) -> Event:
    """Decodes a record of `chat.events`; `time_ms` is its CreateTime, in milliseconds since 1970.

    Raises `SkippedRecord`, or `UnknownRules` for what a newer program wrote.
    """
    try:
        record = SequencedEvent.FromString(value)
    except DecodeError as error:
        raise SkippedRecord(f"it is not a SequencedEvent ({error})") from None
    _check(record.HasField("src"), "src is absent")
    kind = record.WhichOneof("event")
    if kind is None:
        record.DiscardUnknownFields()
        if record.ByteSize() < len(value):
            raise UnknownRules(
                f"chat.events {partition}:{offset} is of a kind that this version of tidemark does not know: install a newer one"
            )
        raise SkippedRecord("event is absent")
    if kind == "control" and record.control.rule_version > KNOWN_RULE_VERSION:
        raise UnknownRules(
            f"from chat.events {partition}:{offset} on rule version {record.control.rule_version} is in force, "
            f"and this version of tidemark knows versions up to {KNOWN_RULE_VERSION}: install a newer one"
        )
    _check(record.src.offset >= -1, "src.offset is below -1")
    if record.HasField("command"):
        _id("command.id", record.command.id)
    if record.HasField("words"):
        _check(record.words.action in (1, 2), "words.action is not 1 or 2")
    at = (partition, offset, time_of(time_ms), record.src.epoch, record.src.offset)
    event = _KINDS[kind](at, getattr(record, kind))
    right = partition_of(event)
    _check(right in (None, partition), f"it belongs to partition {right}")
    return event


def time_of(ms: int) -> datetime:
    """A time in milliseconds since 1970, UTC; times that a datetime cannot have become the nearest one that it can."""
    return _EPOCH + timedelta(milliseconds=min(max(ms, 0), _LAST_MS))


def partition_of(event: Event) -> int | None:
    """The partition of the event's conversation or user; `None` for what belongs to every partition."""
    match event:
        case Message(gid=None, srcid=one, destid=int(other)):
            number = one + other
        case ReadPosition(gid=None, uid=one, peer=int(other)) | ContactChange(uid=one, peer=other):
            number = one + other
        case MessageChange(gid=None, by=one, peer=int(other)):
            number = one + other
        case Message(gid=int(gid)) | ReadPosition(gid=int(gid)) | MessageChange(gid=int(gid)):
            number = gid
        case GroupChange(gid=gid):
            number = gid
        case Profile(uid=uid):
            number = uid
        case _:
            return None
    return number % PARTITIONS


# The kinds. `at` is what every event has, `of` the protobuf message.

_At = tuple[int, int, datetime, int, int]


def _message(at: _At, of: Any) -> Message:
    destid, gid = _recipient("destid", of.destid, of.gid)
    n = _ordinal(of.n, of.gid) or None
    client_msg_id = _id("client_msg_id", of.client_msg_id)
    return Message(*at, _uid("srcid", of.srcid), destid, gid, _mid(of.mid), n, client_msg_id, _text(of.msg))


def _read_position(at: _At, of: Any) -> ReadPosition:
    peer, gid = _recipient("peer", of.peer, of.gid)
    device = _named("device", _DEVICES, of.device)
    return ReadPosition(*at, _uid("uid", of.uid), peer, gid, device, _mid(of.mid), _optional_ordinal(of))


def _message_change(at: _At, of: Any) -> MessageChange:
    peer, gid = _recipient("peer", of.peer, of.gid)
    kind = _named("kind", _CHANGES, of.kind)
    msg = emoji = None
    if kind == "edit":
        msg = _text(of.msg)
    elif kind == "react":
        emoji = of.msg
        _check(len(emoji.encode()) <= 32 and not _CONTROL_CHARACTER.search(emoji), "msg is not an emoji")
    else:
        _check(of.msg == "", "msg is given; only an edit has one")
    _check(of.chg > 0 or (of.chg == 0 and kind in ("hide", "clear")), f"chg is {of.chg}")
    by, mid = _uid("by", of.by), _mid(of.mid)
    return MessageChange(*at, by, peer, gid, mid, kind, msg, emoji, of.chg or None, _optional_ordinal(of))


def _contact_change(at: _At, of: Any) -> ContactChange:
    mid = n = None
    if of.HasField("deleted"):
        mid, n = of.deleted.mid, of.deleted.n
        _check(mid >= 0 and n >= 0, "deleted has a number below 0")
    uid, peer = _uid("uid", of.uid), _uid("peer", of.peer)
    return ContactChange(*at, uid, peer, of.favourite, of.pinned, of.muted, of.blocked, mid, n)


def _group_change(at: _At, of: Any) -> GroupChange:
    _check(of.HasField("settings"), "settings is absent")
    settings = of.settings
    _check(_is_line(settings.name, 100), "name is not 1 to 100 characters without control characters")
    _check(of.member_count >= 0 and of.last_mid >= 0, "member_count or last_mid is below 0")
    members = tuple(
        GroupMember(_uid("members.uid", m.uid), _named("members.role", _ROLES, m.role), m.muted, m.joined)
        for m in of.members
    )
    return GroupChange(
        *at,
        gid=_uid("gid", of.gid),
        by=_uid("by", of.by),
        kind=_named("kind", _GROUP_CHANGES, of.kind),
        name=settings.name,
        owner=_uid("owner", settings.owner),
        open=settings.open,
        whole_history=settings.whole_history,
        muted=settings.muted,
        dissolved=settings.dissolved,
        member_count=of.member_count,
        last_mid=of.last_mid,
        members=members,
    )


def _profile(at: _At, of: Any) -> Profile:
    _check(_is_line(of.nick, 64), "nick is not 1 to 64 characters without control characters")
    _check(not of.avatar or (len(of.avatar) <= 1024 and _URL.fullmatch(of.avatar)), "avatar is not a URL")
    _check(not of.extra or _is_extra(of.extra), "extra is not a JSON object that every reader takes")
    return Profile(*at, _uid("uid", of.uid), of.nick, of.avatar or None, of.extra or None)


def _control(at: _At, of: Any) -> Control:
    _check(len(of.hash_key) in (0, 16), "hash_key is not of 16 bytes")
    fields = of.DESCRIPTOR.fields
    return Control(*at, *(getattr(of, field.name) for field in fields if field.name != "hash_key"))


def _progress(at: _At, _of: Any) -> Progress:
    return Progress(*at)


_KINDS: dict[str, Callable[[_At, Any], Event]] = {
    "message": _message,
    "read_position": _read_position,
    "control": _control,
    "progress": _progress,
    "message_change": _message_change,
    "contact_change": _contact_change,
    "profile": _profile,
    "group_change": _group_change,
}


# Checks. Each raises `SkippedRecord`.


def _check(holds: object, otherwise: str) -> None:
    if not holds:
        raise SkippedRecord(otherwise)


def _uid(field: str, value: int) -> int:
    _check(value >= 1, f"{field} is {value}; must be 1 or more")
    return value


def _recipient(field: str, uid: int, gid: int) -> tuple[int | None, int | None]:
    if gid == 0:
        return _uid(field, uid), None
    _check(uid == 0, f"{field} is given beside gid")
    return None, _uid("gid", gid)


def _mid(value: int) -> int:
    _check(value >= 1, f"mid is {value}; must be 1 or more")
    return value


def _ordinal(n: int, gid: int) -> int | None:
    """A number among the messages of a sender; `None` in a group, where messages are not counted by sender."""
    if gid != 0:
        return None
    _check(n >= 0, f"n is {n}; must be 0 or more")
    return n


def _optional_ordinal(of: Any) -> int | None:
    return _ordinal(of.n, of.gid) if of.HasField("n") else None


def _id(field: str, text: str) -> str:
    is_id = 1 <= len(text.encode()) <= 64 and not _CONTROL_CHARACTER.search(text)
    _check(is_id, f"{field} is not 1 to 64 bytes without control characters")
    return text


def _text(msg: str) -> str:
    _check(msg and "\0" not in msg, "msg is empty, or has a NUL character")
    return msg


def _named(field: str, names: dict[int, Any], number: int) -> Any:
    _check(number in names, f"{field} is {number}")
    return names[number]


def _is_line(text: str, most: int) -> bool:
    return 1 <= len(text) <= most and not _CONTROL_CHARACTER.search(text)


def _is_extra(text: str) -> bool:
    """Whether it is a JSON object of at most 4,096 bytes and 32 levels, without halves of surrogate pairs and numbers beyond a double."""

    def number(digits: str) -> float:
        value = float(digits)
        if value in (float("inf"), float("-inf")):
            raise ValueError("beyond a double")
        return value

    def refuse(constant: str) -> None:
        raise ValueError(f"{constant} is not JSON")

    def depth(value: object) -> int:
        if isinstance(value, str):
            value.encode()
        if isinstance(value, dict):
            return 1 + max((max(depth(key), depth(member)) for key, member in value.items()), default=0)
        return 1 + max(map(depth, value), default=0) if isinstance(value, list) else 0

    if len(text.encode()) > 4096:
        return False
    try:
        value = json.loads(text, parse_float=number, parse_int=number, parse_constant=refuse)
        return isinstance(value, dict) and depth(value) <= 32
    except (ValueError, RecursionError):
        return False
