"""Events as Arrow record batches. Needs the extra: `pip install tidemark[arrow]`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import TYPE_CHECKING, Any

from .log import Point, events
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

if TYPE_CHECKING:
    import pyarrow

# The columns after partition, offset and time, with the names and types that they have in the files of `tidemark export`.
_COLUMNS: dict[type[Event], str] = {
    Message: "srcid:int64 destid:int64 gid:int64 mid:int64 n:int64 client_msg_id:string msg:string",
    ReadPosition: "uid:int64 peer:int64 gid:int64 device:string mid:int64 n:int64",
    MessageChange: "by:int64 peer:int64 gid:int64 mid:int64 kind:string msg:string emoji:string chg:int64 n:int64",
    ContactChange: "uid:int64 peer:int64 favourite:bool_ pinned:bool_ muted:bool_ blocked:bool_ deleted_mid:int64 deleted_n:int64",
    GroupChange: "gid:int64 by:int64 kind:string name:string owner:int64 open:bool_ whole_history:bool_ muted:bool_ dissolved:bool_ "
    "member_count:int64 last_mid:int64 members:list[int64] roles:list[string] joined:list[int64] muted_members:list[int64]",
    Profile: "uid:int64 nick:string avatar:string extra:string",
    Control: "rule_version:int64 dedup_window_ms:int64 dedup_max_entries:int64 max_msg_bytes:int64 dedup_max_per_sender:int64 "
    "new_conversations_per_day:int64 recall_window_ms:int64 delete_for_all:bool_ max_group_members:int64 "
    "new_memberships_per_day:int64 max_memberships_by_others:int64",
    Progress: "",
}
# The lists of a change of a group: members and roles have one order.
_OF_MEMBERS: dict[str, Callable[[tuple[GroupMember, ...]], list[Any]]] = {
    "members": lambda members: [member.uid for member in members],
    "roles": lambda members: [member.role or "none" for member in members],
    "joined": lambda members: [member.uid for member in members if member.joined],
    "muted_members": lambda members: [member.uid for member in members if member.muted],
}


def schema(kind: type[Event]) -> pyarrow.Schema:
    """The columns of `batches` of this kind: partition, offset, time (UTC, milliseconds), then those of the kind.

    They have the names, types and meanings of docs/ANALYSTS.md; columns that need more than the event itself are only in exports.
    """
    import pyarrow as pa

    if kind not in _COLUMNS:
        raise TypeError(f"kind is {kind!r}; must be one of {', '.join(k.__name__ for k in _COLUMNS)}")

    def type_of(text: str) -> pyarrow.DataType:
        if text.startswith("list["):
            return pa.list_(type_of(text[5:-1]))
        return getattr(pa, text)()

    of_all = [("partition", pa.int32()), ("offset", pa.int64()), ("time", pa.timestamp("ms", "UTC"))]
    common = [pa.field(name, type_, nullable=False) for name, type_ in of_all]
    named = [column.split(":") for column in _COLUMNS[kind].split()]
    return pa.schema(common + [pa.field(name, type_of(text)) for name, text in named])


def batches(
    brokers: str,
    kind: type[Event],
    from_: Point = "earliest",
    to: Point | None = None,
    partitions: Iterable[int] | None = None,
    prefix: str = "",
    rows: int = 65_536,
    **kafka_settings: Any,
) -> Iterator[pyarrow.RecordBatch]:
    """Iterates over the events of one kind as Arrow record batches of `rows` rows, the last one of fewer; `schema(kind)` has the columns.

    The other arguments and the errors are those of `events`. There is no `follow`: a batch ends with its range.
    """
    columns = schema(kind)
    found = events(brokers, from_, to, kinds=[kind], partitions=partitions, prefix=prefix, **kafka_settings)
    return _batches(found, columns, rows)


def _batches(found: Iterator[Event], columns: pyarrow.Schema, rows: int) -> Iterator[pyarrow.RecordBatch]:
    import pyarrow as pa

    while batch := list(islice(found, rows)):
        values = {name: [_value(event, name) for event in batch] for name in columns.names}
        yield pa.RecordBatch.from_pydict(values, schema=columns)


def _value(event: Event, column: str) -> Any:
    if isinstance(event, GroupChange) and column in _OF_MEMBERS:
        return _OF_MEMBERS[column](event.members)
    return getattr(event, column)
