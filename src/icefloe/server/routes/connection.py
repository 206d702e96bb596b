"""What routes are given: the project's client, as the application holds it."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, Request

from icefloe.service.client import Client

BY_REST = "rest"
"""Who published what came over REST: the token says that somebody may, not who."""


def _client(request: Request) -> Client:
    found = request.app.state.client
    assert isinstance(found, Client)
    return found


Project = Annotated[Client, Depends(_client)]
