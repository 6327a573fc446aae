"""Why a call or a read failed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


class TidemarkError(Exception):
    """Every error of this package, except `ValueError` and `TypeError` for wrong arguments and `KafkaException` for Kafka."""

    #: Whether the same call may succeed later.
    is_retryable = False
    #: For how many seconds the service asks to wait before that; 0 if it says nothing.
    retry_after_s = 0.0


class UnknownRules(TidemarkError):
    """A newer program wrote this record of `chat.events`: everything from it on may mean something else (PROTOCOL S5)."""


class NoAnswer(TidemarkError):
    """No connection, no whole answer in time, or one that is not JSON. Whether the call was carried out is not known."""

    is_retryable = True


class Problem(TidemarkError):
    """A service refused the call, as problem+json says (RFC 9457).

    `type` is what programs branch on: `/problems/unknown-outcome`, say. `errors` names each field at fault, `field` the first of them
    (`None` if there is none). `body` has all members.
    """

    def __init__(self, status: int, body: Mapping[str, Any], retry_after_s: float = 0.0) -> None:
        self.status = status
        self.type: str = body.get("type", "about:blank")
        self.title: str = body.get("title", "")
        self.detail: str = body.get("detail", "")
        self.errors: list[dict[str, str]] = body.get("errors", [])
        self.body = dict(body)
        self.retry_after_s = max(retry_after_s, float(body.get("retry_after_s") or 0))
        super().__init__(": ".join(filter(None, [str(status), self.title, self.detail])))

    @property
    def field(self) -> str | None:
        return self.errors[0]["field"] if self.errors else None

    @property
    def is_retryable(self) -> bool:  # type: ignore[override]
        return self.status in (408, 429) or self.status >= 500
