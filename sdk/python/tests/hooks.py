"""How Schemathesis writes bodies that are neither JSON nor protobuf."""

from __future__ import annotations

import json
from typing import Any

import schemathesis


@schemathesis.serializer("application/x-ndjson")
def ndjson(_context: Any, value: Any) -> bytes:
    """A batch of one line."""
    return value if isinstance(value, bytes) else json.dumps(value).encode() + b"\n"
