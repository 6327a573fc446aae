"""One stack for all tests; each test has users of its own."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator

import pytest
from lake import Lake
from stack import Stack
from traffic import append_again, traffic

import tidemark
from tidemark import Client


@pytest.fixture(scope="session")
def stack() -> Iterator[Stack]:
    program = os.environ.get("TIDEMARK")
    if program is None:
        pytest.skip("TIDEMARK does not name the program tidemark")
    stack = Stack(program)
    yield stack
    stack.stop()


@pytest.fixture
def client(stack: Stack) -> Iterator[Client]:
    with Client(stack.ingest, stack.query) as client:
        yield client


@pytest.fixture
def users() -> list[int]:
    """Five uids that no other test has, nor gids."""
    first = random.randrange(1, 2**52)
    return [first + i for i in range(5)]


@pytest.fixture(scope="module")
def lake(stack: Stack, tmp_path_factory: pytest.TempPathFactory) -> Lake:
    """All datasets of the running system's log, after traffic of which a former owner has appended the last events again."""
    first = random.randrange(1, 2**52)
    ann, ben, cem, lunch = range(first, first + 4)
    with Client(stack.ingest, stack.query) as client:
        traffic(client, ann, ben, cem, lunch)
        client.outcome(client.send(ann, gid=lunch, msg="Bring a chair."))
        client.outcome(client.change(ann, gid=lunch, mid=1, kind="recall"))
        client.outcome(client.change(cem, gid=lunch, mid=2, kind="hide"))
        client.outcome(client.ack(ben, gid=lunch, device="mobile", mid=2))
    for partition in ((ann + ben) % 64, lunch % 64):
        events = tidemark.events(stack.brokers, partitions=[partition])
        append_again(stack, partition, [event.offset for event in events][-20:])
    lake = Lake(stack, tmp_path_factory.mktemp("log") / "lake")
    lake.export()
    return lake
