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
    scenario = load_scenario()
    for number, step in enumerate(scenario["steps"], 1):
        try:
            run(client, scenario["methods"], step)
        except (AssertionError, Problem) as error:
            pytest.fail(f"step {number}, {step}: {error}")


def load_scenario() -> dict[str, Any]:
    text = SCENARIO.read_text()
    ids = {name: str(random.randrange(1, 2**53)) for name in json.loads(text)["ids"]}
    return json.loads(re.sub(r'"\$(\w+)"', lambda found: f'"{ids[found[1]]}"', text))


def run(client: Client, methods: dict[str, str], step: dict[str, Any]) -> None:
    if "refused" in step:
        with pytest.raises(Problem) as refusal:
            call(client, methods, step)
        refused = {"status": refusal.value.status, "field": refusal.value.field}
        assert refused == step["refused"]
    elif "outcome" in step:
        assert_matches(client.outcome(call(client, methods, step)), step["outcome"])
    else:
        assert_matches(call(client, methods, step), step["result"])


def call(client: Client, methods: dict[str, str], step: dict[str, Any]) -> Any:
    if "post" in step:
        ((kind, body),) = step["post"].items()
        return getattr(client, methods[kind])(**body)
    result = getattr(client, step["read"])(**step["with"])
    return result if isinstance(result, dict) else list(result)


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
