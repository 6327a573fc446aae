"""The events of `chat.events` as frozen dataclasses.

Uids and gids are integers from 1 to 2^63-1. In a conversation between two users `gid` is `None`; in a group `destid` or `peer` is, and so is `n`.
The fields of a kind are the columns of its batches, in their order, with the names that COLUMNS of the kind has in schemas/src/kind.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True)
class Event:
    """A record of `chat.events`; each kind of event is a subclass."""

    #: 0 to 63.
    partition: int
    #: From 0, in the partition of `chat.events`.
    offset: int
    #: When the sequencer decided it, UTC, by the log's clock: it never goes back within a partition.
    time: datetime
    #: The inbound record that caused it: the epoch of `chat.inbound`, and the offset in its partition (-1: before the first).
    source_epoch: int
    source_offset: int


@dataclass(frozen=True, slots=True)
class Message(Event):
    """A message has its number."""

    srcid: int
    destid: int | None
    gid: int | None
    #: 1, 2, 3 … in its conversation.
    mid: int
    #: 1, 2, 3 … among the messages that srcid has sent in the conversation.
    n: int | None
    client_msg_id: str
    msg: str


@dataclass(frozen=True, slots=True)
class ReadPosition(Event):
    """uid, on a device of the class, has read up to mid."""

    uid: int
    peer: int | None
    gid: int | None
    #: "pc" or "mobile".
    device: str
    mid: int
    #: How many messages peer had sent up to mid; `None` also if the sequencer no longer knew.
    n: int | None


@dataclass(frozen=True, slots=True)
class MessageChange(Event):
    """A message was changed, or what `by` sees of a conversation."""

    by: int
    peer: int | None
    gid: int | None
    mid: int
    #: "recall", "delete", "edit", "hide", "clear" or "react".
    kind: str
    #: The new text of an edit; otherwise `None`.
    msg: str | None
    #: The emoji of a reaction, "" if it is taken back; otherwise `None`.
    emoji: str | None
    #: 1, 2, 3 … among the changes of the conversation; `None` of a hide or a clear from rule version 4 on.
    chg: int | None
    #: Of a clear: how many messages peer had sent up to mid.
    n: int | None


@dataclass(frozen=True, slots=True)
class ContactChange(Event):
    """What uid says about the contact with peer, as a whole."""

    uid: int
    peer: int
    favourite: bool
    pinned: bool
    muted: bool
    blocked: bool
    #: If uid deletes the contact: the newest message then, and how many messages peer had sent up to it; otherwise `None`.
    deleted_mid: int | None
    deleted_n: int | None


@dataclass(frozen=True, slots=True)
class GroupMember:
    """A user whom a change of a group concerns, as from that change on."""

    uid: int
    #: "member", "admin" or "owner"; `None` for a user who is no longer a member.
    role: str | None
    #: Whether the user may not send.
    muted: bool
    #: Whether the user was not a member before.
    joined: bool


@dataclass(frozen=True, slots=True)
class GroupChange(Event):
    """A group was changed, or who its members are. The settings are those from this event on, as a whole."""

    gid: int
    by: int
    #: "create", "add", "remove", "join", "leave", "role", "rename", "mute", "unmute", "options" or "dissolve".
    kind: str
    name: str
    owner: int
    open: bool
    whole_history: bool
    muted: bool
    dissolved: bool
    #: How many members there are from this event on.
    member_count: int
    #: The newest message: users who join with this event have read up to it.
    last_mid: int
    #: Those whom the change concerns; nobody for a dissolution.
    members: tuple[GroupMember, ...]


@dataclass(frozen=True, slots=True)
class Profile(Event):
    """What others see of uid, as a whole."""

    uid: int
    nick: str
    avatar: str | None
    #: A JSON object, as it was posted.
    extra: str | None


@dataclass(frozen=True, slots=True)
class Control(Event):
    """The rules of the partition from this event on, as a whole. The key of the sequencer's hashes is left out."""

    rule_version: int
    dedup_window_ms: int
    dedup_max_entries: int
    max_msg_bytes: int
    dedup_max_per_sender: int
    new_conversations_per_day: int
    recall_window_ms: int
    delete_for_all: bool
    max_group_members: int
    new_memberships_per_day: int
    max_memberships_by_others: int


@dataclass(frozen=True, slots=True)
class Progress(Event):
    """Everything up to the source offset is decided."""
