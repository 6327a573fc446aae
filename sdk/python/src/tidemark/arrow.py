"""Events as Arrow record batches. Needs the extra: `pip install tidemark[arrow]`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import TYPE_CHECKING, Any, get_args, get_type_hints

from .log import Point, events
from .model import Event, GroupChange, GroupMember

if TYPE_CHECKING:
    import pyarrow

# The lists that stand for the members of a group, of which members and roles have one order: the type of the elements, and the elements.
_OF_MEMBERS: dict[str, tuple[type[Any], Callable[[tuple[GroupMember, ...]], list[Any]]]] = {
    "members": (int, lambda members: [member.uid for member in members]),
    "roles": (str, lambda members: [member.role or "none" for member in members]),
    "joined": (int, lambda members: [member.uid for member in members if member.joined]),
    "muted_members": (int, lambda members: [member.uid for member in members if member.muted]),
}


def schema(kind: type[Event]) -> pyarrow.Schema:
    """The columns of `batches` of this kind: partition, offset, time (UTC, milliseconds), then those of the kind.

    They have the names, types and meanings of docs/ANALYSTS.md; columns that need more than the event itself are only in exports.
    """
    import pyarrow as pa

    if not (isinstance(kind, type) and issubclass(kind, Event) and kind is not Event):
        raise TypeError(f"kind is {kind!r}; must be a subclass of tidemark.Event")
    of_all = [("partition", pa.int32()), ("offset", pa.int64()), ("time", pa.timestamp("ms", "UTC"))]
    common = [pa.field(name, type_, nullable=False) for name, type_ in of_all]
    return pa.schema(common + [pa.field(name, type_) for name, type_ in _own_columns(kind)])


def _own_columns(kind: type[Event]) -> Iterator[tuple[str, pyarrow.DataType]]:
    """A column for each field of the kind, in their order, as the files of `tidemark export` have them."""
    import pyarrow as pa

    types = {int: pa.int64(), str: pa.string(), bool: pa.bool_()}
    of_all = get_type_hints(Event)
    for name, hint in get_type_hints(kind).items():
        # Of `int | None` it is int, and of `tuple[GroupMember, ...]` GroupMember.
        type_ = (get_args(hint) or (hint,))[0]
        if type_ is GroupMember:
            yield from ((name, pa.list_(types[element])) for name, (element, _) in _OF_MEMBERS.items())
        elif name not in of_all:
            yield name, types[type_]


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
        _, of_members = _OF_MEMBERS[column]
        return of_members(event.members)
    return getattr(event, column)
