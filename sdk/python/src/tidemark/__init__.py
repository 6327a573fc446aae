"""Tidemark for Python: `events` and `batches` read the log, `Client` calls ingest and query-api."""

from .arrow import batches, schema
from .client import Client
from .errors import NoAnswer, Problem, TidemarkError, UnknownRules
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

__all__ = [
    "Client",
    "ContactChange",
    "Control",
    "Event",
    "GroupChange",
    "GroupMember",
    "Message",
    "MessageChange",
    "NoAnswer",
    "Point",
    "Problem",
    "Profile",
    "Progress",
    "ReadPosition",
    "TidemarkError",
    "UnknownRules",
    "batches",
    "events",
    "schema",
]
