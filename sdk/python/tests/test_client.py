"""The client, on a stack and against a service that fails."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from tidemark import Client, NoAnswer, Problem

UNKNOWN = {"type": "/problems/unknown-outcome", "title": "The outcome is unknown", "status": 503, "detail": "retry"}
ACCEPTED = {"partition": 3, "offset": 7, "client_msg_id": "once"}


def test_a_read_reflects_what_was_posted_before_it(client: Client, users: list[int]) -> None:
    ann, ben, *_ = users
    for sent in range(1, 6):
        accepted = client.send(ann, ben, msg=f"text {sent}")
        assert client.after[accepted["partition"]] == accepted["offset"]
        unread = client.unread(ben, "pc")
        assert (unread["unread"], unread["total"]) == ({str(ann): sent}, sent)
        (conversation,) = client.conversations(ben)
        assert conversation["last_mid"] == sent


def test_a_stream_answers_each_line_and_history_has_all_pages(client: Client, users: list[int]) -> None:
    ann, ben, *_ = users
    lines: list[Any] = [{"message": {"srcid": str(ann), "destid": str(ben), "msg": f"text {i}"}} for i in range(1_200)]
    lines[700] = {"message": {"srcid": str(ann), "destid": str(ben), "msg": ""}}
    results = list(client.stream(iter(lines)))
    assert [result["line"] for result in results] == list(range(1, 1_201))
    refused = [result for result in results if result["status"] != 202]
    assert [(result["line"], result["status"], result["errors"][0]["field"]) for result in refused] == [
        (701, 400, "message.msg")
    ]
    history = list(client.history(ben, ann))
    assert [message["mid"] for message in history] == list(range(1, 1_200))
    assert history[0]["msg"] == "text 0" and history[-1]["msg"] == "text 1199"
    assert [message["mid"] for message in client.history(ben, ann, after_mid=1_198)] == [1_199]


def test_conversations_have_all_pages(client: Client, users: list[int]) -> None:
    ann, *_ = users
    peers = [str(ann + 100 + i) for i in range(250)]
    for result in client.stream({"message": {"srcid": peer, "destid": str(ann), "msg": "hello"}} for peer in peers):
        assert result["status"] == 202
    # Its partitions are all 64.
    assert len(client.after) == 64
    assert {conversation["peer"] for conversation in client.conversations(ann)} == set(peers)
    client.change(ann, peers[0], mid=1, kind="hide")
    assert [(change["kind"], change["mid"]) for change in client.changes(ann, peers[0])] == [("hide", 1)]


def test_a_device_syncs_from_its_token_on(client: Client, users: list[int]) -> None:
    ann, ben, cem, *_ = users
    client.send(ann, ben, msg="one")
    assert len(list(client.conversations(ben))) == 1
    first = client.sync(ben)
    assert first["full"] and [one["peer"] for one in first["conversations"]] == [str(ann)]
    client.send(cem, ben, msg="two")
    assert len(list(client.conversations(ben))) == 2
    second = client.sync(ben, first["next"])
    assert not second["full"] and [one["peer"] for one in second["conversations"]] == [str(cem)]


def test_a_refusal_is_an_exception_with_what_the_service_said(client: Client) -> None:
    with pytest.raises(Problem) as refusal:
        client.send(0, 1, msg="hello")
    problem = refusal.value
    assert (problem.status, problem.type, problem.field) == (400, "/problems/invalid-field", "srcid")
    assert problem.title == "A field is not valid" and "srcid" in problem.detail and not problem.is_retryable
    assert str(problem) == f"400: {problem.title}: {problem.detail}"


def scripted(*answers: httpx.Response | Exception, within_s: float = 5.0) -> tuple[Client, list[httpx.Request]]:
    """A client of a service that gives these answers, and the requests that the service gets."""
    requests: list[httpx.Request] = []

    def answer(request: httpx.Request) -> httpx.Response:
        requests.append(request)
        found = answers[min(len(requests), len(answers)) - 1]
        if isinstance(found, Exception):
            raise found
        return found

    transport = httpx.MockTransport(answer)
    return Client("http://ingest", "http://query", retry_within_s=within_s, transport=transport), requests


def ids(requests: list[httpx.Request], name: str) -> set[str]:
    return {json.loads(request.content)[name] for request in requests}


@pytest.mark.parametrize(
    ("post", "name"),
    [
        (lambda client: client.send(1, 2, msg="hello"), "client_msg_id"),
        (lambda client: client.ack(1, 2, device="pc"), "command_id"),
        (lambda client: client.set_profile(1, nick="Ann"), "command_id"),
    ],
)
def test_a_command_of_unknown_outcome_is_posted_again_with_its_id(post: Callable[[Client], Any], name: str) -> None:
    lost = httpx.ReadError("the connection broke")
    client, requests = scripted(httpx.Response(503, json=UNKNOWN), lost, httpx.Response(202, json=ACCEPTED))
    assert post(client) == ACCEPTED
    assert len(requests) == 3 and len(ids(requests, name)) == 1
    assert client.after == {3: 7}


def test_a_retry_waits_as_long_as_the_service_says() -> None:
    limited = httpx.Response(429, json={"type": "/problems/rate-limited"}, headers={"retry-after": "1"})
    client, requests = scripted(limited, httpx.Response(202, json=ACCEPTED))
    began = time.monotonic()
    client.send(1, 2, msg="hello", client_msg_id="once")
    assert time.monotonic() - began >= 1.0 and ids(requests, "client_msg_id") == {"once"}
    # Not at all where that is too long.
    limited.headers["retry-after"] = "3600"
    client, requests = scripted(limited)
    with pytest.raises(Problem) as refusal:
        client.send(1, 2, msg="hello")
    assert len(requests) == 1 and refusal.value.retry_after_s == 3600


def test_a_call_that_never_succeeds_raises_the_last_error() -> None:
    client, requests = scripted(httpx.ConnectError("refused"), within_s=0.5)
    with pytest.raises(NoAnswer, match="refused"):
        client.unread(1, "pc")
    assert len(requests) > 1
    client, requests = scripted(httpx.Response(403, json={"title": "Not allowed"}))
    with pytest.raises(Problem, match="403: Not allowed"):
        client.unread(1, "pc")
    assert len(requests) == 1
    client, _ = scripted(httpx.Response(502, text="<html>"), within_s=0.0)
    with pytest.raises(Problem) as refusal:
        client.unread(1, "pc")
    assert (refusal.value.type, refusal.value.detail) == ("about:blank", "<html>")


def test_lines_that_were_not_taken_are_posted_again() -> None:
    def results(*results: Any) -> httpx.Response:
        return httpx.Response(200, content=b"".join(json.dumps(result).encode() + b"\n" for result in results))

    def taken(line: int) -> dict[str, int]:
        return {"line": line, "status": 202, "partition": 1, "offset": line}

    busy = {"line": 2, "status": 429, "type": "/problems/rate-limited"}
    client, requests = scripted(
        results(taken(1), busy),
        httpx.ReadError("the connection broke"),
        results(
            {"line": 1, "status": 400, "type": "/problems/invalid-field"}, taken(2), {"accepted": 1, "rejected": 1}
        ),
    )
    lines: list[Any] = [{"message": {"srcid": "1", "destid": "2", "msg": text}} for text in "abc"]
    assert [(result["line"], result["status"]) for result in client.stream(lines)] == [(1, 202), (2, 400), (3, 202)]
    posted = [[json.loads(line)["message"] for line in request.content.splitlines()] for request in requests]
    assert [[message["msg"] for message in request] for request in posted] == [["a", "b", "c"], ["b", "c"], ["b", "c"]]
    assert posted[0][1:] == posted[1] == posted[2]
    assert "client_msg_id" not in lines[0]["message"]
