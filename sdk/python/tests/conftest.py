"""One stack for all tests; each test has users of its own."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator

import pytest
from stack import Stack

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
