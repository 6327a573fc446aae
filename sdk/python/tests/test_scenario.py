"""The scenario that all clients pass: sdk/README.md."""

from __future__ import annotations

import json
import random
import re
from pathlib import Path
from typing import Any

import pytest

from tidemark import Client, Problem

SCENARIO = Path(__file__).parents[2] / "scenario.json"


def test_scenario(client: Client) -> None:
    for number, step in enumerate(steps(), 1):
        try:
            run(client, step)
        except (AssertionError, Problem) as error:
            pytest.fail(f"step {number}, {step}: {error}")


def steps() -> list[dict[str, Any]]:
    text = SCENARIO.read_text()
    ids = {name: str(random.randrange(1, 2**53)) for name in json.loads(text)["ids"]}
    return json.loads(re.sub(r'"\$(\w+)"', lambda found: f'"{ids[found[1]]}"', text))["steps"]


def run(client: Client, step: dict[str, Any]) -> None:
    if "refused" in step:
        with pytest.raises(Problem) as refusal:
            call(client, step)
        refused = {"status": refusal.value.status, "field": refusal.value.field}
        assert refused == step["refused"]
    elif "outcome" in step:
        assert_matches(client.outcome(call(client, step)), step["outcome"])
    else:
        assert_matches(call(client, step), step["result"])


def call(client: Client, step: dict[str, Any]) -> Any:
    if "post" in step:
        ((kind, body),) = step["post"].items()
        return POSTS[kind](client, **body)
    result = READS[step["read"]](client, **step["with"])
    return result if isinstance(result, dict) else list(result)


POSTS = {
    "message": Client.send,
    "read_ack": Client.ack,
    "message_change": Client.change,
    "reaction": Client.react,
    "contact_change": Client.change_contact,
    "profile": Client.set_profile,
    "group": Client.create_group,
    "group_change": Client.change_group,
}
READS = {
    "unread": Client.unread,
    "history": Client.history,
    "changes": Client.changes,
    "conversations": Client.conversations,
    "sync": Client.sync,
}


def assert_matches(found: Any, expected: Any, at: str = "") -> None:
    if isinstance(expected, dict):
        for name, member in expected.items():
            assert_matches(found.get(name), member, f"{at}.{name}")
    elif isinstance(expected, list):
        assert len(found) == len(expected), f"{at or 'it'} is {found}"
        for index, element in enumerate(expected):
            assert_matches(found[index], element, f"{at}[{index}]")
    else:
        assert found == expected, f"{at} is {found!r}; must be {expected!r}"
