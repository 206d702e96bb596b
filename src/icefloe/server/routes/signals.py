"""Signals: publish one, list them."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any

from fastapi import APIRouter, Query, Response
from pydantic import BaseModel, ConfigDict, StrictStr

from icefloe.server.access import Operator
from icefloe.server.routes.connection import Project

router = APIRouter(prefix="/signals", tags=["signals"])


class NewSignal(BaseModel):
    """``id``: the same id twice is one signal."""

    model_config = ConfigDict(extra="forbid")

    name: StrictStr
    params: dict[str, Any] = {}
    id: StrictStr | None = None


class Published(BaseModel):
    id: str
    created: bool


@router.post("", status_code=201)
def publish(signal: NewSignal, project: Project, response: Response, actor: Operator) -> Published:
    """Publish a signal: 201 when it is new, 200 when one with its id had been published before."""
    chosen, new = project.triggers.signal(signal.name, signal.params, signal_id=signal.id, by=actor.name)
    response.status_code = 201 if new else 200
    return Published(id=chosen, created=new)


@router.get("")
def listing(
    project: Project, name: str | None = None, limit: Annotated[int, Query(ge=1, le=10_000)] = 20
) -> dict[str, list[dict[str, Any]]]:
    """Newest first."""
    return {"signals": [asdict(one) for one in project.triggers.signals(name, limit)]}
