"""The client in both its forms, on both databases: what holds for one holds for the other."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import icefloe
from icefloe.server.listening import Listener
from icefloe.service.access import Access
from tests.contract.capture.conftest import Bench, bench

__all__ = ["Bench", "bench"]


@pytest.fixture(params=["local", "remote"])
def client(request: pytest.FixtureRequest, bench: Bench) -> Iterator[Any]:
    """``icefloe.Client`` of this project: of its folder, or of the server that listens for it."""
    if request.param == "local":
        yield bench.project.client
        return
    listener = Listener(bench.project.client, "127.0.0.1:0")
    listener.start(on_failure=lambda: None)
    token = Access(bench.project.client.database).add_token("ada", "operator")
    try:
        with icefloe.Client(listener.address, token=token) as remote:
            yield remote
    finally:
        listener.close()


@pytest.fixture
def definition(tmp_path: Path) -> Path:
    return tmp_path / "definition.yaml"
