"""Calls of ingest and query-api."""

from __future__ import annotations

import json
import random
import ssl
import time
import uuid
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import TYPE_CHECKING, Any, cast

import httpx

from .errors import NoAnswer, Problem, TidemarkError

if TYPE_CHECKING:
    from typing_extensions import Self

    from .types import ingest, query

#: A uid or gid, 1 to 2^63-1; answers have them as strings.
Id = int | str
_IDS = ("srcid", "destid", "gid", "uid", "peer", "by", "owner")
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.1, 5.0


class Client:
    """Calls ingest and query-api, and repeats what may succeed later.

    Every command has an id from the start, so a repeat of a call whose outcome is unknown is the same command. A call is repeated after no answer,
    and after 408, 429 and 5xx, for up to `retry_within_s`: with growing pauses, never before the service's `Retry-After`.

    Reads carry `after=` for everything that this client has posted: they reflect it (read your writes), and wait if the stores are behind.
    `after` has the newest offset of `chat.inbound` by partition; `after.clear()` ends the waiting.

    Calls raise `Problem` for a refusal and `NoAnswer` for none. A client is for one thread at a time.
    """

    def __init__(
        self,
        ingest_url: str,
        query_url: str,
        token: str | None = None,
        *,
        timeout_s: float = 15.0,
        retry_within_s: float = 30.0,
        verify: ssl.SSLContext | bool = True,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        self._ingest, self._query = ingest_url.rstrip("/"), query_url.rstrip("/")
        self._retry_within_s = retry_within_s
        self._http = httpx.Client(
            headers={"authorization": f"Bearer {token}"} if token else {},
            timeout=timeout_s,
            verify=verify,
            transport=transport,
            # No proxy of the environment between a program and its own services.
            trust_env=False,
        )
        self.after: dict[int, int] = {}

    def close(self) -> None:
        self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # Commands. Each returns where it is on the log; `outcome` says what became of it.

    def send(
        self, srcid: Id, destid: Id | None = None, *, msg: str, gid: Id | None = None, client_msg_id: str | None = None
    ) -> ingest.AcceptedBody:
        """Sends a message to a user or a group. A send with the same `client_msg_id` is the same message."""
        client_msg_id = client_msg_id or new_id()
        body = _body(srcid=srcid, destid=destid, gid=gid, client_msg_id=client_msg_id, msg=msg)
        return self._post("/v1/messages", body)

    def ack(
        self,
        uid: Id,
        peer: Id | None = None,
        *,
        device: str,
        mid: int | str = "latest",
        gid: Id | None = None,
        command_id: str | None = None,
    ) -> ingest.AcceptedBody:
        """Says that `uid`, on a device of the class "pc" or "mobile", has read up to `mid`; "latest" is what is sequenced before this."""
        return self._post("/v1/read-acks", _body(uid=uid, peer=peer, gid=gid, device=device, mid=mid), command_id)

    def change(
        self,
        by: Id,
        peer: Id | None = None,
        *,
        mid: int,
        kind: str,
        msg: str | None = None,
        gid: Id | None = None,
        command_id: str | None = None,
    ) -> ingest.AcceptedBody:
        """Changes a message; `kind` is "recall", "edit" (to `msg`), "delete", "hide" or "clear"."""
        body = _body(by=by, peer=peer, gid=gid, mid=mid, kind=kind, msg=msg)
        return self._post("/v1/message-changes", body, command_id)

    def react(
        self,
        by: Id,
        peer: Id | None = None,
        *,
        mid: int,
        emoji: str,
        gid: Id | None = None,
        command_id: str | None = None,
    ) -> ingest.AcceptedBody:
        """Reacts to a message; an empty `emoji` takes the former reaction back."""
        return self._post("/v1/reactions", _body(by=by, peer=peer, gid=gid, mid=mid, emoji=emoji), command_id)

    def change_contact(self, uid: Id, peer: Id, *, command_id: str | None = None, **flags: bool) -> ingest.AcceptedBody:
        """Sets what `uid` says about a contact: `favourite`, `pinned`, `muted`, `blocked`; or `deleted=True`."""
        return self._post("/v1/contact-changes", _body(uid=uid, peer=peer, **flags), command_id)

    def set_profile(
        self,
        uid: Id,
        *,
        nick: str,
        avatar: str | None = None,
        extra: Mapping[str, Any] | None = None,
        command_id: str | None = None,
    ) -> ingest.AcceptedBody:
        """Sets a user's profile as a whole."""
        return self._post(f"/v1/users/{uid}/profile", _body(nick=nick, avatar=avatar, extra=extra), command_id, "PUT")

    def create_group(self, owner: Id, *, name: str, command_id: str | None = None, **group: Any) -> ingest.AcceptedBody:
        """Begins a group: with `client_id` or `gid`, and `members`, `open`, `whole_history`. The answer has its `gid`."""
        return self._post("/v1/groups", _body(owner=owner, name=name, **group), command_id)

    def change_group(self, gid: Id, by: Id, *, command_id: str | None = None, **action: Any) -> ingest.AcceptedBody:
        """Changes a group by one of `add`, `remove`, `join`, `leave`, `role`, `rename`, `mute`, `unmute`, `options`, `dissolve`."""
        return self._post(f"/v1/groups/{gid}/changes", _body(by=by, **action), command_id)

    def stream(self, lines: Iterable[ingest.EventBody], *, per_request: int = 500) -> Iterator[ingest.ResultLine]:
        """Posts many events as NDJSON (`POST /v1/events`), and yields the result of each, in order; `line` counts from 1.

        A line is `{"message": {…}}`, `{"read_ack": {…}}` and so on. A result with status 202 says where the event is on the log, every other one is
        a problem. Lines without an id get one. Lines that were not taken are posted again, after the later lines of their request.

        Raises `Problem` or `NoAnswer` if no line was taken for `retry_within_s`, or the request was refused as a whole. To post the lines of such a
        call again, give them ids of your own.
        """
        lines, number = iter(lines), 0
        while chunk := [_with_id(line) for line in islice(lines, per_request)]:
            for result in self._post_lines(chunk):
                number += 1
                yield cast("ingest.ResultLine", {**result, "line": number})

    def outcome(self, accepted: ingest.AcceptedBody) -> query.InboundOutcome:
        """What became of an accepted command. Waits while it is pending, for up to `retry_within_s`."""
        end, pause = time.monotonic() + self._retry_within_s, _FIRST_PAUSE_S
        while True:
            path = f"/v1/inbound/{accepted['partition']}/{accepted['offset']}"
            found = self._repeat("GET", self._query + path)
            if found["state"] != "pending" or time.monotonic() > end:
                return cast("query.InboundOutcome", found)
            time.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE_S)

    # Reads.

    def get(self, path: str, **parameters: Any) -> Any:
        """Any call of query-api that takes `after=`: `get("/v1/groups/5001/members", uid=1001)`."""
        after = [f"{partition}:{offset}" for partition, offset in sorted(self.after.items())]
        return self._repeat("GET", self._query + path, params={**_given(parameters), "after": after})

    def unread(self, uid: Id, device: str) -> query.UnreadAnswer:
        """Counts a user's unread messages by sender, on the class of devices "pc" or "mobile"."""
        return cast("query.UnreadAnswer", self.get(f"/v1/users/{uid}/unread", device=device))

    def history(
        self, uid: Id, peer: Id | None = None, *, gid: Id | None = None, after_mid: int = 0
    ) -> Iterator[query.MessageItem]:
        """Iterates over the messages of a conversation or a group above `after_mid`, the oldest first, as `uid` sees them."""
        path, parameters = _conversation(uid, peer, gid)
        return self._pages(f"{path}/messages", {**parameters, "after_mid": after_mid})

    def changes(self, uid: Id, peer: Id | None = None, *, gid: Id | None = None) -> Iterator[query.ChangeItem]:
        """Iterates over the changes of a conversation or a group, as `uid` sees them."""
        path, parameters = _conversation(uid, peer, gid)
        return self._pages(f"{path}/changes", {**parameters, "after_chg": 0})

    def conversations(self, uid: Id) -> Iterator[query.ConversationItem]:
        """Iterates over a user's conversations and groups: pinned ones first, then the one with the newest message."""
        return self._pages(f"/v1/users/{uid}/conversations", {}, "cursor=")

    def sync(self, uid: Id, since: str | None = None, *, limit: int | None = None) -> query.SyncAnswer:
        """What has changed for a user since a token, the `next` of an earlier answer; everything without one.

        While `more` is true, ask again with `next`. The call takes no `after=`: it may lack what was posted last, and a later one has it.
        """
        answer = self._repeat(
            "GET", f"{self._query}/v1/users/{uid}/sync", params=_given({"since": since, "limit": limit})
        )
        return cast("query.SyncAnswer", answer)

    # How calls are made.

    def _post(
        self, path: str, body: dict[str, Any], command_id: str | None = None, method: str = "POST"
    ) -> ingest.AcceptedBody:
        if "client_msg_id" not in body:
            body["command_id"] = command_id or new_id()
        accepted = self._repeat(method, self._ingest + path, json=body)
        self._remember(accepted)
        return cast("ingest.AcceptedBody", accepted)

    def _remember(self, accepted: Mapping[str, Any]) -> None:
        partition = accepted["partition"]
        self.after[partition] = max(accepted["offset"], self.after.get(partition, 0))

    def _pages(self, path: str, parameters: dict[str, Any], before_next: str = "") -> Iterator[Any]:
        """The items of all pages. `next` of a page, after `before_next`, has the parameters of the next page: `after_mid=3`."""
        while True:
            page = self.get(path, limit=200, **parameters)
            yield from page["items"]
            if page["next"] is None:
                return
            following = f"{before_next}{page['next']}".split("&")
            parameters = {**parameters, **dict(one.split("=", 1) for one in following)}

    def _post_lines(self, lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
        results: dict[int, dict[str, Any]] = {}
        retry = _Retry(self._retry_within_s)
        while missing := [number for number in range(len(lines)) if number not in results]:
            body = b"".join(json.dumps(lines[number], ensure_ascii=False).encode() + b"\n" for number in missing)
            error: TidemarkError = NoAnswer(f"{self._ingest}/v1/events answered fewer lines than it got")
            try:
                answer = self._once(
                    "POST", f"{self._ingest}/v1/events", content=body, headers={"content-type": "application/x-ndjson"}
                )
            except TidemarkError as refusal:
                retry.wait_or_raise(refusal)
                continue
            for text in answer.content.splitlines():
                result = json.loads(text)
                # The summary has no line, and a batch that ended early has one after its last.
                if not 1 <= result.get("line", 0) <= len(missing):
                    continue
                problem = Problem(result["status"], result)
                if problem.is_retryable:
                    error = problem
                    continue
                results[missing[result["line"] - 1]] = result
                if result["status"] == 202:
                    self._remember(result)
                retry = _Retry(self._retry_within_s)
            if len(results) < len(lines):
                retry.wait_or_raise(error)
        return [results[number] for number in range(len(lines))]

    def _repeat(self, method: str, url: str, **request: Any) -> Any:
        retry = _Retry(self._retry_within_s)
        while True:
            try:
                return self._once(method, url, **request).json()
            except TidemarkError as error:
                retry.wait_or_raise(error)
            except ValueError:
                retry.wait_or_raise(NoAnswer(f"the answer of {url} is not JSON"))

    def _once(self, method: str, url: str, **request: Any) -> httpx.Response:
        try:
            response = self._http.request(method, url, **request)
        except httpx.TransportError as error:
            raise NoAnswer(f"{url} does not answer ({error or type(error).__name__})") from error
        if response.is_success:
            return response
        try:
            body = response.json()
        except ValueError:
            body = None
        if not isinstance(body, dict):
            # Of a proxy, say.
            body = {"detail": response.text[:200]}
        asked = response.headers.get("retry-after", "")
        raise Problem(response.status_code, body, float(asked) if asked.isdecimal() else 0.0)


class _Retry:
    """The pauses between the attempts of one call."""

    def __init__(self, within_s: float) -> None:
        self._end = time.monotonic() + within_s
        self._pause = _FIRST_PAUSE_S

    def wait_or_raise(self, error: TidemarkError) -> None:
        """Waits until the next attempt; raises `error` if that may not succeed, or would begin too late."""
        pause = max(self._pause * random.uniform(0.5, 1.0), error.retry_after_s)
        if not error.is_retryable or time.monotonic() + pause > self._end:
            raise error
        time.sleep(pause)
        self._pause = min(2 * self._pause, _LONGEST_PAUSE_S)


def new_id() -> str:
    """An id that no command has: a UUIDv7, which `uuid` has from Python 3.14 on."""
    bits = time.time_ns() // 1_000_000 << 80 | random.SystemRandom().getrandbits(76)
    return str(uuid.UUID(int=bits & ~(0xF << 76 | 0x3 << 62) | 0x7 << 76 | 0x2 << 62))


def _body(**fields: Any) -> dict[str, Any]:
    given = _given(fields)
    return {name: str(value) if name in _IDS else value for name, value in given.items()}


def _given(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}


def _with_id(line: Mapping[str, Any]) -> dict[str, Any]:
    """A copy of the line in which the event has an id. What ingest will refuse stays as it is."""
    copy = dict(line)
    for kind, event in copy.items():
        if isinstance(event, Mapping):
            copy[kind] = {"client_msg_id" if kind == "message" else "command_id": new_id(), **event}
    return copy


def _conversation(uid: Id, peer: Id | None, gid: Id | None) -> tuple[str, dict[str, Any]]:
    if (peer is None) == (gid is None):
        raise ValueError("must have one of peer and gid")
    return (f"/v1/groups/{gid}", {"uid": uid}) if peer is None else (f"/v1/users/{uid}/conversations/{peer}", {})
