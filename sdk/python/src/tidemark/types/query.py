# Written by scripts/generate.py from what the services say of themselves.

from __future__ import annotations

from typing import Any, Literal, TypeAlias, TypedDict

from typing_extensions import NotRequired


class ByClassOptionI64(TypedDict):
    """
    A number for each class of device.
    """

    mobile: int | None
    pc: int | None


class ByClassI64(TypedDict):
    """
    A number for each class of device.
    """

    mobile: int
    pc: int


class ChangeItem(TypedDict):
    """
    A change to a message, or to what the user sees of the conversation.
    """

    chg: int
    """
    Its number among the changes of the conversation: 1, 2, 3 … From rule version 4 on a hide and a clear have none: 0.
    """
    kind: str
    """
    `recall`, `edit`, `delete` (a recall after which the message is not shown at all), `hide` or `clear` (both for the user only), or `react`.
    """
    mid: int
    """
    The message; of a clear the newest that is cleared.
    """
    msg: NotRequired[str | None]
    """
    Of an edit the newest text of the message, which may be that of a later edit. Absent where the message was recalled since, or the
    user does not see it any more.
    """
    own_pos: NotRequired[int | None]
    """
    Of one without a number: where it is in `chat.events`.
    """
    reactions: NotRequired[dict[str, str]]
    """
    Of the page's last reaction to a message: the emoji of each user who has reacted to the message by now, by uid. Absent as `msg` is.
    """
    ts: str
    """
    When, UTC.
    """


class ChangesPage(TypedDict):
    """
    Changes of one conversation.
    """

    as_of: NotRequired[list[str] | None]
    """
    With `after=`: how far the stores had come, by partition.
    """
    begins_after_mid: NotRequired[int | None]
    """
    Of a group: up to this message it shows the user nothing, who joined behind it; 0 where it shows its whole history.
    """
    items: list[ChangeItem]
    """
    The changes, by number, then what the user has hidden and cleared without one, in the order of the log. What other users hide and clear is left out, and of a group what concerns messages from before
    joining, so a page may hold fewer than `limit`; only `next` tells whether it is the last.
    """
    next: NotRequired[str | None]
    """
    The parameter that goes on where this page ends; null where nothing is left.
    """


DeviceItem = TypedDict(
    'DeviceItem',
    {
        'class': str,
        'device': str,
        'name': str,
        'seen_at': str,
        'token': str,
    },
)


class Devices(TypedDict):
    """
    A user's devices.
    """

    items: list[DeviceItem]
    """
    Those seen last, up to 100, the newest first.
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


class Flags(TypedDict):
    """
    What a user has set for a contact, as every answer shows it.
    """

    blocked: bool
    """
    The peer cannot send to the user.
    """
    favourite: bool
    """
    Marked as a favourite.
    """
    muted: bool
    """
    No notifications; unread messages count all the same.
    """
    pinned: bool
    """
    Shown at the top of the user's list.
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


class InboundOutcome1(TypedDict):
    """
    The sequencer has not come to it yet.
    """

    state: Literal['pending']


class InboundOutcome2(TypedDict):
    """
    It is a message and has its number.
    """

    conversation: str
    """
    `lo,hi`, or `g:` and the gid of a group.
    """
    events_offset: int
    """
    The offset of the message in the same partition of `chat.events`.
    """
    mid: int
    """
    The number.
    """
    state: Literal['sequenced']
    ts: str
    """
    When it was sequenced, UTC.
    """


class InboundOutcome3(TypedDict):
    """
    It repeats a message that had its number before, or another command that was applied before: it did nothing.
    """

    client_msg_id: NotRequired[str | None]
    """
    The id that both messages have; absent for other commands.
    """
    command_id: NotRequired[str | None]
    """
    The id that both commands have; absent for messages, and for hiding and clearing, which need none.
    """
    conversation: NotRequired[str | None]
    """
    `lo,hi`, or `g:` and the gid of a group; absent for a profile and for rules.
    """
    events_offset: NotRequired[int | None]
    """
    The offset of its event in the same partition of `chat.events`; absent where `of_offset` is.
    """
    of_mid: NotRequired[int | None]
    """
    Of a message, that number; null where it is neither among the newest 4,096 events before the repeat nor stored (in a group: not among these), or not among the sender's newest 1,000 in the conversation.
    """
    of_offset: NotRequired[int | None]
    """
    The offset, in the same partition of `chat.inbound`, of the one that holds; absent where that is not among the newest 4,096 events before the repeat.
    """
    state: Literal['repeat']


class InboundOutcome6(TypedDict):
    """
    It changed a message, or what a user sees of a conversation.
    """

    chg: int
    """
    Its number among the changes of the conversation; 0 of a hide or a clear from rule version 4 on, which have none.
    """
    conversation: str
    """
    `lo,hi`, or `g:` and the gid of a group.
    """
    events_offset: int
    """
    The offset of the change in the same partition of `chat.events`.
    """
    kind: str
    """
    `recall`, `edit`, `delete`, `hide`, `clear` or `react`.
    """
    mid: int
    """
    The message.
    """
    state: Literal['message_changed']
    ts: str
    """
    When, UTC.
    """


class InboundOutcome7(Flags):
    """
    It changed what a user says about a contact.
    """

    deleted: bool
    """
    Whether the contact left the list, until its next message.
    """
    events_offset: int
    """
    The offset of the change in the same partition of `chat.events`.
    """
    peer: str
    """
    The other user.
    """
    ts: str
    """
    When, UTC.
    """
    uid: str
    """
    Whose contact it is.
    """
    state: Literal['contact_changed']


class InboundOutcome8(TypedDict):
    """
    It set a profile.
    """

    events_offset: int
    """
    The offset of the profile in the same partition of `chat.events`.
    """
    state: Literal['profile_set']
    ts: str
    """
    When, UTC.
    """
    uid: str
    """
    Whose it is.
    """


class InboundOutcome9(TypedDict):
    """
    It is a read-ack of a group and moved the position.
    """

    device: str
    """
    On what.
    """
    events_offset: int
    """
    The offset of the move in the same partition of `chat.events`.
    """
    gid: str
    """
    The group.
    """
    mid: int
    """
    Up to where, which may be below what was asked for.
    """
    state: Literal['group_read_position_moved']
    ts: str
    """
    When, UTC.
    """
    uid: str
    """
    Who read.
    """


class InboundOutcome10(TypedDict):
    """
    It changed a group, or who its members are.
    """

    events_offset: int
    """
    The offset of the change in the same partition of `chat.events`.
    """
    gid: str
    """
    The group.
    """
    kind: str
    """
    `create`, `add`, `remove`, `join`, `leave`, `role`, `rename`, `mute`, `unmute`, `options` or `dissolve`.
    """
    member_count: int
    """
    How many members there are from there on; 0 once it is dissolved.
    """
    state: Literal['group_changed']
    ts: str
    """
    When, UTC.
    """


class InboundOutcome11(TypedDict):
    """
    It is a change to a message, to a contact or in a group, and what it asks for was so before. In a group also a read-ack that is not above the position.
    """

    conversation: str
    """
    `lo,hi`, or `g:` and the gid of a group.
    """
    state: Literal['without_effect']


class InboundOutcome12(TypedDict):
    """
    It led to no event: it was refused, or what it asks for was so before. Which of the two is not known, since too many records were refused after it.
    """

    conversation: str
    """
    `lo,hi`, or `g:` and the gid of a group.
    """
    state: Literal['no_event']


class InboundOutcome13(TypedDict):
    """
    It changed the rules of its partition.
    """

    events_offset: int
    """
    The offset of the change in the same partition of `chat.events`.
    """
    state: Literal['rules_changed']
    ts: str
    """
    When, UTC.
    """


class InboundOutcome14(TypedDict):
    """
    It changed nothing; it is among the dead letters.
    """

    detail: str
    """
    Why, for people.
    """
    reason: str
    """
    Why: `malformed`, `wrong-partition`, `too-large`, `conflict`, `invalid-control`, `too-many-conversations`, `blocked`,
    `unknown-message`, `not-the-author`, `too-late`, `too-old`, `recalled` or `not-allowed`; in a group also `unknown-group`, `group-exists`, `not-a-member`, `no-right`, `muted`, `group-full`, `dissolved`, `wrong-gid`, `too-many-memberships` or `has-left`.
    """
    state: Literal['refused']


class InboundOutcome15(TypedDict):
    """
    It is no longer retained, so nothing can be said about it.
    """

    state: Literal['expired']


class InboundOutcome16(TypedDict):
    """
    What became of a record of `chat.inbound`.
    """

    offset: int
    """
    As asked.
    """
    partition: int
    """
    As asked: 0 to 63.
    """


class InboundOutcome17(InboundOutcome1, InboundOutcome16):
    """
    What became of a record of `chat.inbound`.
    """


class InboundOutcome18(InboundOutcome2, InboundOutcome16):
    """
    What became of a record of `chat.inbound`.
    """


class InboundOutcome19(InboundOutcome3, InboundOutcome16):
    """
    What became of a record of `chat.inbound`.
    """


class InboundOutcome22(InboundOutcome6, InboundOutcome16):
    """
    What became of a record of `chat.inbound`.
    """


class InboundOutcome23(InboundOutcome7, InboundOutcome16):
    """
    What became of a record of `chat.inbound`.
    """


class InboundOutcome24(InboundOutcome8, InboundOutcome16):
    """
    What became of a record of `chat.inbound`.
    """


class InboundOutcome25(InboundOutcome9, InboundOutcome16):
    """
    What became of a record of `chat.inbound`.
    """


class InboundOutcome26(InboundOutcome10, InboundOutcome16):
    """
    What became of a record of `chat.inbound`.
    """


class InboundOutcome27(InboundOutcome11, InboundOutcome16):
    """
    What became of a record of `chat.inbound`.
    """


class InboundOutcome28(InboundOutcome12, InboundOutcome16):
    """
    What became of a record of `chat.inbound`.
    """


class InboundOutcome29(InboundOutcome13, InboundOutcome16):
    """
    What became of a record of `chat.inbound`.
    """


class InboundOutcome30(InboundOutcome14, InboundOutcome16):
    """
    What became of a record of `chat.inbound`.
    """


class InboundOutcome31(InboundOutcome15, InboundOutcome16):
    """
    What became of a record of `chat.inbound`.
    """


class MemberItem(TypedDict):
    """
    A member of a group.
    """

    join_mid: int
    """
    The number of the newest message when the user joined; 0 where there was none.
    """
    muted: bool
    """
    Does not send.
    """
    role: str
    """
    `member`, `admin` or `owner`.
    """
    uid: str
    """
    The user.
    """


class MessageItem(TypedDict):
    """
    A message.
    """

    client_msg_id: NotRequired[str | None]
    """
    The sender's own id of the send; null where `msg` is only the first 200 characters.
    """
    destid: NotRequired[str | None]
    """
    The receiver; absent in a group.
    """
    edited_ts: NotRequired[str | None]
    """
    When it was last edited, UTC; absent where it never was, and where `msg` is only the first 200 characters.
    """
    gid: NotRequired[str | None]
    """
    The group; absent between two users.
    """
    mid: int
    """
    Its number in the conversation: 1, 2, 3 …
    """
    msg: str
    """
    The newest text; empty where the message was recalled. As the newest message of a list only its first 200 characters where it is a group's, in `/sync`, and where the message itself is no longer (or not yet) stored.
    """
    reactions: NotRequired[dict[str, str]]
    """
    The emoji of each user who has reacted, by uid; absent if there is none, and if `msg` is only the first 200 characters.
    """
    recalled: NotRequired[bool | None]
    """
    Whether it was recalled; absent where not.
    """
    srcid: str
    """
    The sender.
    """
    ts: str
    """
    When it was sequenced, UTC.
    """


class Outcome1(TypedDict):
    """
    The sequencer has not come to it yet.
    """

    state: Literal['pending']


class Outcome2(TypedDict):
    """
    It is a message and has its number.
    """

    conversation: str
    """
    `lo,hi`, or `g:` and the gid of a group.
    """
    events_offset: int
    """
    The offset of the message in the same partition of `chat.events`.
    """
    mid: int
    """
    The number.
    """
    state: Literal['sequenced']
    ts: str
    """
    When it was sequenced, UTC.
    """


class Outcome3(TypedDict):
    """
    It repeats a message that had its number before, or another command that was applied before: it did nothing.
    """

    client_msg_id: NotRequired[str | None]
    """
    The id that both messages have; absent for other commands.
    """
    command_id: NotRequired[str | None]
    """
    The id that both commands have; absent for messages, and for hiding and clearing, which need none.
    """
    conversation: NotRequired[str | None]
    """
    `lo,hi`, or `g:` and the gid of a group; absent for a profile and for rules.
    """
    events_offset: NotRequired[int | None]
    """
    The offset of its event in the same partition of `chat.events`; absent where `of_offset` is.
    """
    of_mid: NotRequired[int | None]
    """
    Of a message, that number; null where it is neither among the newest 4,096 events before the repeat nor stored (in a group: not among these), or not among the sender's newest 1,000 in the conversation.
    """
    of_offset: NotRequired[int | None]
    """
    The offset, in the same partition of `chat.inbound`, of the one that holds; absent where that is not among the newest 4,096 events before the repeat.
    """
    state: Literal['repeat']


class Outcome6(TypedDict):
    """
    It changed a message, or what a user sees of a conversation.
    """

    chg: int
    """
    Its number among the changes of the conversation; 0 of a hide or a clear from rule version 4 on, which have none.
    """
    conversation: str
    """
    `lo,hi`, or `g:` and the gid of a group.
    """
    events_offset: int
    """
    The offset of the change in the same partition of `chat.events`.
    """
    kind: str
    """
    `recall`, `edit`, `delete`, `hide`, `clear` or `react`.
    """
    mid: int
    """
    The message.
    """
    state: Literal['message_changed']
    ts: str
    """
    When, UTC.
    """


class Outcome7(Flags):
    """
    It changed what a user says about a contact.
    """

    deleted: bool
    """
    Whether the contact left the list, until its next message.
    """
    events_offset: int
    """
    The offset of the change in the same partition of `chat.events`.
    """
    peer: str
    """
    The other user.
    """
    ts: str
    """
    When, UTC.
    """
    uid: str
    """
    Whose contact it is.
    """
    state: Literal['contact_changed']


class Outcome8(TypedDict):
    """
    It set a profile.
    """

    events_offset: int
    """
    The offset of the profile in the same partition of `chat.events`.
    """
    state: Literal['profile_set']
    ts: str
    """
    When, UTC.
    """
    uid: str
    """
    Whose it is.
    """


class Outcome9(TypedDict):
    """
    It is a read-ack of a group and moved the position.
    """

    device: str
    """
    On what.
    """
    events_offset: int
    """
    The offset of the move in the same partition of `chat.events`.
    """
    gid: str
    """
    The group.
    """
    mid: int
    """
    Up to where, which may be below what was asked for.
    """
    state: Literal['group_read_position_moved']
    ts: str
    """
    When, UTC.
    """
    uid: str
    """
    Who read.
    """


class Outcome10(TypedDict):
    """
    It changed a group, or who its members are.
    """

    events_offset: int
    """
    The offset of the change in the same partition of `chat.events`.
    """
    gid: str
    """
    The group.
    """
    kind: str
    """
    `create`, `add`, `remove`, `join`, `leave`, `role`, `rename`, `mute`, `unmute`, `options` or `dissolve`.
    """
    member_count: int
    """
    How many members there are from there on; 0 once it is dissolved.
    """
    state: Literal['group_changed']
    ts: str
    """
    When, UTC.
    """


class Outcome11(TypedDict):
    """
    It is a change to a message, to a contact or in a group, and what it asks for was so before. In a group also a read-ack that is not above the position.
    """

    conversation: str
    """
    `lo,hi`, or `g:` and the gid of a group.
    """
    state: Literal['without_effect']


class Outcome12(TypedDict):
    """
    It led to no event: it was refused, or what it asks for was so before. Which of the two is not known, since too many records were refused after it.
    """

    conversation: str
    """
    `lo,hi`, or `g:` and the gid of a group.
    """
    state: Literal['no_event']


class Outcome13(TypedDict):
    """
    It changed the rules of its partition.
    """

    events_offset: int
    """
    The offset of the change in the same partition of `chat.events`.
    """
    state: Literal['rules_changed']
    ts: str
    """
    When, UTC.
    """


class Outcome14(TypedDict):
    """
    It changed nothing; it is among the dead letters.
    """

    detail: str
    """
    Why, for people.
    """
    reason: str
    """
    Why: `malformed`, `wrong-partition`, `too-large`, `conflict`, `invalid-control`, `too-many-conversations`, `blocked`,
    `unknown-message`, `not-the-author`, `too-late`, `too-old`, `recalled` or `not-allowed`; in a group also `unknown-group`, `group-exists`, `not-a-member`, `no-right`, `muted`, `group-full`, `dissolved`, `wrong-gid`, `too-many-memberships` or `has-left`.
    """
    state: Literal['refused']


class Outcome15(TypedDict):
    """
    It is no longer retained, so nothing can be said about it.
    """

    state: Literal['expired']


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


class ProfileItem(TypedDict):
    """
    What others see of a user.
    """

    avatar: NotRequired[str | None]
    """
    An http or https URL; absent where there is none.
    """
    extra: NotRequired[dict[str, Any] | None]
    """
    A JSON object, as it was posted; absent where there is none.
    """
    nick: str
    """
    The name.
    """
    ts: str
    """
    When it was set, UTC.
    """


class Profiles(TypedDict):
    """
    Profiles of several users.
    """

    as_of: NotRequired[list[str] | None]
    """
    With `after=`: how far the stores had come, by partition.
    """
    profiles: dict[str, ProfileItem]
    """
    By user; users who have set none are left out.
    """


class Reader(TypedDict):
    """
    Whose read position.
    """

    device: str
    """
    On what.
    """
    peer: str
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


class UnreadAnswer(TypedDict):
    """
    A user's unread messages on one class of device.
    """

    as_of: NotRequired[list[str] | None]
    """
    With `after=`: how far the store had come, by partition.
    """
    device: str
    """
    The class.
    """
    total: int
    """
    The sum of `unread`.
    """
    uid: str
    """
    The receiver.
    """
    unknown: NotRequired[list[str] | None]
    """
    Senders whose unread messages cannot be counted any more, because what was read last is no longer stored. Absent where there are none.
    """
    unread: dict[str, int]
    """
    How many, by sender; nobody is at zero.
    """


class UserProfile(ProfileItem):
    """
    A user's profile.
    """

    as_of: NotRequired[list[str] | None]
    """
    With `after=`: how far the stores had come, by partition.
    """
    uid: str
    """
    As asked.
    """


class ConversationItem(Flags):
    """
    One conversation.
    """

    chg: int
    """
    The number of its last change, which its list of changes has; 0 where there is none.
    """
    gid: NotRequired[str | None]
    """
    The group; absent between two users.
    """
    last: NotRequired[MessageItem | None]
    last_mid: int
    """
    The number of its newest message; 0 where there is none.
    """
    name: NotRequired[str | None]
    """
    The group's name.
    """
    own_pos: NotRequired[int | None]
    """
    Where in `chat.events` the user has hidden or cleared something last that has no number; absent where that never was.
    """
    peer: NotRequired[str | None]
    """
    The other side; the user in a note to oneself. Absent in a group.
    """
    read_mid: ByClassI64
    """
    Up to where the user has read, by class of device.
    """
    unread: ByClassOptionI64
    """
    Unread messages of the other side, or in the group, by class of device; null where they cannot be counted any more.
    """


class ConversationsPage(TypedDict):
    """
    A part of a user's conversation list.
    """

    as_of: NotRequired[list[str] | None]
    """
    With `after=`: how far the stores had come, by partition.
    """
    items: list[ConversationItem]
    """
    Pinned conversations first, then that with the newest message. Contacts that the user has deleted, and contacts and groups without
    messages, are left out. A page may hold fewer than `limit`; only `next` tells whether it is the last.
    """
    next: NotRequired[str | None]
    """
    `cursor` of the next page; null where nothing is left.
    """
    profiles: NotRequired[dict[str, ProfileItem]]
    """
    With `profiles=true`: by user; users who have set none are left out.
    """


class GroupAnswer(TypedDict):
    """
    A group.
    """

    as_of: NotRequired[list[str] | None]
    """
    With `after=`: how far the store had come, by partition.
    """
    chg: int
    """
    The number of its last change of a message; 0 where there is none.
    """
    dissolved: bool
    """
    It has ended. Who was a member then reads it on.
    """
    gid: str
    """
    The group.
    """
    last_mid: int
    """
    The number of its newest message; 0 where there is none.
    """
    member: MemberItem
    """
    What the group has of the user who asks.
    """
    member_count: int
    """
    How many members there are; 0 once it is dissolved.
    """
    muted: bool
    """
    Only admins and the owner send.
    """
    name: str
    """
    Its name.
    """
    open: bool
    """
    Anybody may join.
    """
    owner: str
    """
    Its owner.
    """
    whole_history: bool
    """
    Members see what was sent before they joined.
    """


class GroupItem(TypedDict):
    """
    A group, as one of its members has it.
    """

    at: str
    """
    Its last event, in `chat.events`.
    """
    chg: int
    """
    The number of its last change of a message; 0 where there is none.
    """
    dissolved: bool
    """
    It has ended. Who was a member then reads it on.
    """
    gid: str
    """
    The group.
    """
    join_mid: int
    """
    The number of the newest message when the user joined; 0 where there was none.
    """
    last: NotRequired[MessageItem | None]
    last_mid: int
    """
    The number of its newest message; 0 where there is none.
    """
    member_count: int
    """
    How many members there are; 0 once it is dissolved.
    """
    muted: bool
    """
    Whether the user is muted, and does not send.
    """
    name: str
    """
    Its name.
    """
    own_pos: NotRequired[int | None]
    """
    Where in `chat.events` the user has hidden or cleared something last that has no number; absent where that never was.
    """
    read_mid: ByClassI64
    """
    Up to where nothing counts as unread, by class of device: read, sent, cleared, or there before the user joined.
    """
    role: str
    """
    The user's role: `member`, `admin` or `owner`.
    """
    unread: ByClassI64
    """
    Unread messages, by class of device.
    """
    whole_history: bool
    """
    Whether the user sees what was sent before joining.
    """


class GroupMembersPage(TypedDict):
    """
    Members of a group.
    """

    as_of: NotRequired[list[str] | None]
    """
    With `after=`: how far the store had come, by partition.
    """
    items: list[MemberItem]
    """
    The members, by uid.
    """
    next: NotRequired[str | None]
    """
    `cursor` of the next page; null where nothing is left.
    """


class GroupsPage(TypedDict):
    """
    A part of a user's groups.
    """

    as_of: NotRequired[list[str] | None]
    """
    With `after=`: how far the stores had come, by partition.
    """
    items: list[GroupItem]
    """
    The groups, by gid. Those that the user has left are left out, so a page may hold fewer than `limit`; only `next` tells whether it is
    the last.
    """
    next: NotRequired[str | None]
    """
    `cursor` of the next page; null where nothing is left.
    """


class InboundOutcome4(Reader):
    """
    It is a read-ack and moved the position.
    """

    events_offset: int
    """
    The offset of the move in the same partition of `chat.events`.
    """
    mid: int
    """
    Up to where, which may be below what was asked for.
    """
    ts: str
    """
    When, UTC.
    """
    state: Literal['read_position_moved']


class InboundOutcome5(Reader):
    """
    It is a read-ack that was not above the position, or to a conversation without messages.
    """

    state: Literal['read_position_kept']


class InboundOutcome20(InboundOutcome4, InboundOutcome16):
    """
    What became of a record of `chat.inbound`.
    """


class InboundOutcome21(InboundOutcome5, InboundOutcome16):
    """
    What became of a record of `chat.inbound`.
    """


InboundOutcome: TypeAlias = InboundOutcome17 | InboundOutcome18 | InboundOutcome19 | InboundOutcome20 | InboundOutcome21 | InboundOutcome22 | InboundOutcome23 | InboundOutcome24 | InboundOutcome25 | InboundOutcome26 | InboundOutcome27 | InboundOutcome28 | InboundOutcome29 | InboundOutcome30 | InboundOutcome31
"""
What became of a record of `chat.inbound`.
"""


class MessagesPage(TypedDict):
    """
    Messages of one conversation.
    """

    as_of: NotRequired[list[str] | None]
    """
    With `after=`: how far the stores had come, by partition.
    """
    begins_after_mid: NotRequired[int | None]
    """
    Of a group: up to this message it shows the user nothing, who joined behind it; 0 where it shows its whole history.
    """
    items: list[MessageItem]
    """
    The messages, ordered as the parameters say. Those that the user has hidden or cleared, or that were deleted, are left out, so a page
    may hold fewer than `limit`; only `next` tells whether it is the last.
    """
    next: NotRequired[str | None]
    """
    The parameter that goes on where this page ends, `before_mid=…` or `after_mid=…`; null where nothing is left.
    """
    profiles: NotRequired[dict[str, ProfileItem]]
    """
    With `profiles=true`: by user; users who have set none are left out.
    """


class Outcome4(Reader):
    """
    It is a read-ack and moved the position.
    """

    events_offset: int
    """
    The offset of the move in the same partition of `chat.events`.
    """
    mid: int
    """
    Up to where, which may be below what was asked for.
    """
    ts: str
    """
    When, UTC.
    """
    state: Literal['read_position_moved']


class Outcome5(Reader):
    """
    It is a read-ack that was not above the position, or to a conversation without messages.
    """

    state: Literal['read_position_kept']


Outcome: TypeAlias = Outcome1 | Outcome2 | Outcome3 | Outcome4 | Outcome5 | Outcome6 | Outcome7 | Outcome8 | Outcome9 | Outcome10 | Outcome11 | Outcome12 | Outcome13 | Outcome14 | Outcome15
"""
What became of it: `state` says which of these.
"""


class OwnProfile(ProfileItem):
    """
    What others see of the user.
    """

    at: str
    """
    Its event, in `chat.events`: an earlier one of a gateway is older than this.
    """


class SyncedConversation(ConversationItem):
    """
    A conversation between two users.
    """

    at: NotRequired[str | None]
    """
    Its last event, in `chat.events`. Absent for a row that an older version wrote.
    """
    deleted: NotRequired[bool | None]
    """
    The user has deleted the contact, and there is no newer message: lists leave it out. Absent where not.
    """
    peer_n: int
    """
    How many messages the other side has sent: a device counts on from here by the `n` of events.
    """


class SyncAnswer(TypedDict):
    """
    What has changed for a user since a token.
    """

    conversations: list[SyncedConversation]
    """
    Conversations with users in which something has changed, as they are now. Of the newest message they have the first 200 characters, and no `client_msg_id`.
    """
    full: bool
    """
    Whether this is everything that the user has, not only what has changed. All pages of one answer say the same: what none of them has, the
    device drops.
    """
    groups: list[GroupItem]
    """
    Groups of the user in which something has changed, as they are now.
    """
    left: list[str]
    """
    Groups that the user has left, or was removed from. None in a full answer.
    """
    more: bool
    """
    Whether this is a page of an answer: the next call, with `next`, goes on with it.
    """
    next: str
    """
    `since` of the next call. At most 512 characters while a partition has less than 2^40 events.
    """
    profile: NotRequired[OwnProfile | None]
    profiles: NotRequired[dict[str, ProfileItem]]
    """
    With `profiles=true`: by user; users who have set none are left out.
    """
