"""What routes and pages are given: the project's client, as the application holds it."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, Request

from icefloe.service.client import Client


def client_of(request: Request) -> Client:
    client = request.app.state.client
    assert isinstance(client, Client)
    return client


Project = Annotated[Client, Depends(client_of)]
