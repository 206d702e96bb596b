"""A listener over a project on either state database, and callers of it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from icefloe.server.listening import Listener
from tests.contract.triggers.conftest import Stage, stage

__all__ = ["Stage", "stage"]


@pytest.fixture
def listener(stage: Stage) -> Iterator[Listener]:
    made = Listener(stage.project.client, "127.0.0.1:0")
    made.start(on_failure=lambda: None)
    try:
        yield made
    finally:
        made.close()


@pytest.fixture
def rest(listener: Listener) -> Iterator[httpx.Client]:
    """As an admin, by the server's own token."""
    token = Path(listener.token_at).read_text().strip()
    with httpx.Client(base_url=listener.address, headers={"Authorization": f"Bearer {token}"}, timeout=60) as made:
        yield made


def code(answer: httpx.Response) -> str:
    """Of an error, which is always a whole problem document."""
    found = answer.json()
    assert set(found) - {"problems"} == {
        "type", "title", "status", "detail", "code", "where", "hint", "retryable", "fatal"
    }  # fmt: skip
    assert (found["type"], found["status"]) == (f"urn:icefloe:problem:{found['code']}", answer.status_code)
    assert answer.headers["content-type"] == "application/problem+json"
    return str(found["code"])
