# Written by scripts/generate.py from what the services say of themselves.

from __future__ import annotations

from typing import Any, TypeAlias, TypedDict

from typing_extensions import NotRequired


class AcceptedBody(TypedDict):
    """
    Where an accepted event is on `chat.inbound`; `after=<partition>:<offset>` of a query waits for it.
    """

    client_msg_id: NotRequired[str | None]
    """
    The id of the send, given or generated; absent for all other events.
    """
    command_id: NotRequired[str | None]
    """
    The id of any other command, given or generated. A repeat with it changes nothing (from rule version 4 on).
    """
    gid: NotRequired[str | None]
    """
    The group that begins; absent for all other events.
    """
    offset: int
    """
    From 0.
    """
    partition: int
    """
    0 to 63.
    """


class ContactChangeBody(TypedDict):
    """
    "uid says this about the contact with peer." What is absent stays as it is; one member at least is not.
    """

    blocked: NotRequired[bool | None]
    """
    Whether what `peer` sends to `uid` is refused.
    """
    command_id: NotRequired[str | None]
    """
    The caller's own id of this command, 1 to 64 bytes without control characters, best a UUIDv7; a repeat with it changes nothing. If neither this field
    nor the header `Idempotency-Key` has one, it is generated and returned.
    """
    deleted: NotRequired[bool | None]
    """
    `true`: the contact leaves the list until its next message, and what is in the conversation is read.
    """
    favourite: NotRequired[bool | None]
    """
    Whether it is marked as a favourite.
    """
    muted: NotRequired[bool | None]
    """
    Whether `uid` wants no notifications. Messages are unread all the same.
    """
    peer: str
    """
    The other user.
    """
    pinned: NotRequired[bool | None]
    """
    Whether it is at the top of the list.
    """
    uid: str
    """
    Whose contact it is.
    """


class FieldError(TypedDict):
    """
    One field at fault.
    """

    field: str
    """
    The field's path as the caller wrote it: `srcid`, `message.msg`, `items[3].mid`.
    """
    message: str
    """
    What was wrong and what is right: "is 0; must be …".
    """


class GateStatus(TypedDict):
    """
    One gate in the answer of `/readyz`.
    """

    name: str
    """
    `<service>.<what>`, such as `ingest.kafka`.
    """
    ready: bool
    """
    Whether it is open.
    """
    reason: NotRequired[str | None]
    """
    What it waits for, while it is not.
    """
    warning: NotRequired[str | None]
    """
    What an operator should change although it is open.
    """


class GroupBody(TypedDict):
    """
    A group that begins, with `owner` as its first member.
    """

    client_id: NotRequired[str | None]
    """
    In place of gid: the owner's own id of this group, 1 to 64 bytes, best a UUIDv7. The gid is made of the two, so a repeat is the same
    group: 2^62 and the last 62 bits of the UUIDv5 of `<owner>/<client_id>` in the namespace 6f2b9c7e-54a1-4d0c-8a53-1e7dc0b9a2f4.
    """
    command_id: NotRequired[str | None]
    """
    The caller's own id of this command, 1 to 64 bytes without control characters, best a UUIDv7; a repeat with it changes nothing. If neither this field
    nor the header `Idempotency-Key` has one, it is generated and returned.
    """
    gid: NotRequired[str | None]
    """
    Its id, which only services choose: from 1, and below 2^62 under rule version 4. A number is taken up to 2^53. Where it exists
    already, and is another group, this is refused.
    """
    members: NotRequired[list[str]]
    """
    The first members besides the owner, at most 1,000; more are added afterwards.
    """
    name: str
    """
    1 to 100 characters without control characters.
    """
    open: NotRequired[bool]
    """
    Whether anybody may join.
    """
    owner: str
    """
    Who begins it.
    """
    whole_history: NotRequired[bool]
    """
    Whether members see what was sent before they joined.
    """


class MessageBody(TypedDict):
    """
    A text from one user to another, or to a group.
    """

    client_msg_id: NotRequired[str | None]
    """
    The sender's own id of this send, 1 to 64 bytes without control characters, best a UUIDv7; a repeat with it is the same message. If neither this field
    nor the header `Idempotency-Key` has one, it is generated and returned.
    """
    destid: NotRequired[str | None]
    """
    The receiver; the sender too, in a note to oneself.
    """
    gid: NotRequired[str | None]
    """
    In place of destid: a group of which the sender is a member.
    """
    msg: str
    """
    1 byte to 16 KiB (as configured) of UTF-8 without NUL.
    """
    srcid: str
    """
    The sender: 1 to 9223372036854775807. A number is taken up to 2^53.
    """


class MessageChangeBody(TypedDict):
    """
    "by changes message mid of the conversation with peer, or of the group."
    """

    by: str
    """
    Who makes the change.
    """
    command_id: NotRequired[str | None]
    """
    The caller's own id of this command, 1 to 64 bytes without control characters, best a UUIDv7; a repeat with it changes nothing. If neither this field
    nor the header `Idempotency-Key` has one, it is generated and returned.
    """
    gid: NotRequired[str | None]
    """
    In place of peer: a group of which `by` is a member. Its admins recall and delete everybody's messages, at any time.
    """
    kind: str
    """
    `recall` takes its text away for both sides, `delete` the message as a whole (only where the rules allow it), `edit` gives it another
    text: these three are the author's. `hide` hides it from `by`, `clear` it and all before it.
    """
    mid: int
    """
    Which message, 1 or more, as a number or a string.
    """
    msg: NotRequired[str | None]
    """
    Of an edit only: the new text, as of a message.
    """
    peer: NotRequired[str | None]
    """
    The other user of the conversation.
    """


class MuteBody(TypedDict):
    """
    Exactly one of the two.
    """

    all: NotRequired[bool | None]
    """
    `true`: all but admins and the owner.
    """
    uid: NotRequired[str | None]
    """
    A member.
    """


class OptionsBody(TypedDict):
    """
    One of the two at least.
    """

    open: NotRequired[bool | None]
    """
    Whether anybody may join.
    """
    whole_history: NotRequired[bool | None]
    """
    Whether members see what was sent before they joined.
    """


class Problem(TypedDict):
    """
    One refusal, in the shape of RFC 9457 plus the extensions that the crate's page names.
    """

    client_msg_id: NotRequired[str | None]
    """
    The id to repeat a message with, where the outcome is unknown.
    """
    command_id: NotRequired[str | None]
    """
    The id to repeat any other command with, where the outcome is unknown.
    """
    detail: str
    """
    What went wrong this time and what would be right.
    """
    errors: NotRequired[list[FieldError]]
    """
    The fields at fault, where fields are at fault.
    """
    retry_after_s: NotRequired[int | None]
    """
    Seconds to wait before trying again, where trying again makes sense.
    """
    status: int
    """
    The HTTP status, repeated so that a problem is complete on a line of NDJSON.
    """
    title: str
    """
    The same words for every problem of this type.
    """
    type: str
    """
    Stable URI reference of what sort of problem this is.
    """


class ProfileBody(TypedDict):
    """
    What others see of a user. It replaces the earlier profile: a field that is absent here is absent afterwards.
    """

    avatar: NotRequired[str | None]
    """
    An http or https URL of at most 1,024 bytes.
    """
    command_id: NotRequired[str | None]
    """
    The caller's own id of this command, 1 to 64 bytes without control characters, best a UUIDv7; a repeat with it changes nothing. If neither
    this field nor the header `Idempotency-Key` has an id, one is generated and returned.
    """
    extra: NotRequired[dict[str, Any] | None]
    """
    An object of at most 4,096 bytes and 32 levels, kept as it is.
    """
    nick: str
    """
    1 to 64 characters without control characters.
    """


ProtobufBody: TypeAlias = bytes
"""
What descriptions call a body in protobuf.
"""


class ReactionBody(TypedDict):
    """
    "by reacts with emoji to message mid of the conversation with peer, or of the group."
    """

    by: str
    """
    The user who reacts.
    """
    command_id: NotRequired[str | None]
    """
    The caller's own id of this command, 1 to 64 bytes without control characters, best a UUIDv7; a repeat with it changes nothing. If neither this field
    nor the header `Idempotency-Key` has one, it is generated and returned.
    """
    emoji: str
    """
    One emoji, fully qualified, of at most 32 bytes. It replaces the user's former reaction to the message; an empty one takes that back.
    """
    gid: NotRequired[str | None]
    """
    In place of peer: a group of which `by` is a member.
    """
    mid: int
    """
    Which message, 1 or more, as a number or a string.
    """
    peer: NotRequired[str | None]
    """
    The other user of the conversation.
    """


class ReadAckBody(TypedDict):
    """
    "uid, on this device class, has read the conversation with peer, or the group, up to mid."
    """

    command_id: NotRequired[str | None]
    """
    The caller's own id of this command, 1 to 64 bytes without control characters, best a UUIDv7; a repeat with it changes nothing. If neither this field
    nor the header `Idempotency-Key` has one, it is generated and returned.
    """
    device: str
    """
    `pc` or `mobile`.
    """
    gid: NotRequired[str | None]
    """
    In place of peer: a group of which the reader is a member.
    """
    mid: NotRequired[int | None]
    """
    Up to which message, 1 or more, as a number or a string; absent or `latest` for everything sequenced so far.
    """
    peer: NotRequired[str | None]
    """
    Whose messages.
    """
    uid: str
    """
    Who read.
    """


class Readiness(TypedDict):
    """
    What `/readyz` answers.
    """

    gates: list[GateStatus]
    """
    The gates in the order of their making.
    """
    ready: bool
    """
    Every gate is ready and the process is not failing.
    """


class ResultLine1(TypedDict):
    """
    On the log.
    """

    client_msg_id: NotRequired[str | None]
    """
    Of a message, only where it was generated here.
    """
    command_id: NotRequired[str | None]
    """
    Of any other command but the beginning of a group, only where it was generated here.
    """
    gid: NotRequired[str | None]
    """
    Of a group that begins.
    """
    line: int
    """
    The line's number, from 1; blank ones count.
    """
    offset: int
    """
    From 0.
    """
    partition: int
    """
    0 to 63.
    """
    status: int
    """
    202.
    """


class ResultLine2(Problem):
    """
    Not on the log, or not known to be.
    """

    line: int
    """
    The line's number, from 1; blank ones count.
    """


class ResultLine3(TypedDict):
    """
    The last line.
    """

    accepted: int
    """
    How many lines were answered with 202.
    """
    rejected: int
    """
    How many were answered with anything else.
    """


ResultLine: TypeAlias = ResultLine1 | ResultLine2 | ResultLine3
"""
One line of the answer: an accepted line, a refused one, or the summary at the end.
"""


class RoleBody(TypedDict):
    """
    Whose role, and which.
    """

    role: str
    """
    `member`, `admin`, or `owner`, which gives the group away: `by` becomes an admin.
    """
    uid: str
    """
    A member.
    """


class UserProfileBody(TypedDict):
    """
    A profile in a batch.
    """

    avatar: NotRequired[str | None]
    """
    An http or https URL of at most 1,024 bytes.
    """
    command_id: NotRequired[str | None]
    """
    The caller's own id of this command, 1 to 64 bytes without control characters, best a UUIDv7; a repeat with it changes nothing. If it is
    absent, an id is generated and returned.
    """
    extra: NotRequired[dict[str, Any] | None]
    """
    An object of at most 4,096 bytes and 32 levels, kept as it is.
    """
    nick: str
    """
    1 to 64 characters without control characters.
    """
    uid: str
    """
    Whose it is.
    """


class GroupChangeBody(TypedDict):
    """
    "by asks for this in the group": exactly one of the members after `by`.
    """

    add: NotRequired[list[str] | None]
    """
    An admin: who becomes a member, 1 to 1,000 users.
    """
    by: str
    """
    Who asks.
    """
    command_id: NotRequired[str | None]
    """
    The caller's own id of this command, 1 to 64 bytes without control characters, best a UUIDv7; a repeat with it changes nothing. If neither this field
    nor the header `Idempotency-Key` has one, it is generated and returned.
    """
    dissolve: NotRequired[bool | None]
    """
    `true`, the owner: the group ends.
    """
    gid: NotRequired[str | None]
    """
    In a batch; otherwise that of the path, or absent.
    """
    join: NotRequired[bool | None]
    """
    `true`: to become a member of an open group.
    """
    leave: NotRequired[bool | None]
    """
    `true`: to be no member any more.
    """
    mute: NotRequired[MuteBody | None]
    options: NotRequired[OptionsBody | None]
    remove: NotRequired[list[str] | None]
    """
    An admin: who is no member any more, 1 to 1,000 users.
    """
    rename: NotRequired[str | None]
    """
    An admin: the name from here on.
    """
    role: NotRequired[RoleBody | None]
    unmute: NotRequired[MuteBody | None]


class EventBody(TypedDict):
    """
    One line of a batch: exactly one of its members.
    """

    contact_change: NotRequired[ContactChangeBody | None]
    group: NotRequired[GroupBody | None]
    group_change: NotRequired[GroupChangeBody | None]
    message: NotRequired[MessageBody | None]
    message_change: NotRequired[MessageChangeBody | None]
    profile: NotRequired[UserProfileBody | None]
    reaction: NotRequired[ReactionBody | None]
    read_ack: NotRequired[ReadAckBody | None]
