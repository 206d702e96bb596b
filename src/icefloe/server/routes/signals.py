"""Signals: publish one, list them."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request, Response
from pydantic import BaseModel, ConfigDict, Field

from icefloe.server.access import CurrentActor, Operator
from icefloe.server.routes.bodies import Body
from icefloe.server.routes.connection import Project
from icefloe.server.routes.listings import After, Limit, number_after, page_model, page_of
from icefloe.store.signals import SignalRecord

router = APIRouter(prefix="/signals", tags=["signals"])


class NewSignal(Body):
    model_config = ConfigDict(
        json_schema_extra={"examples": [{"name": "upstream_done", "params": {"region": "eu"}, "id": "load-7"}]}
    )

    name: str
    params: dict[str, Any] = Field({})
    id: str | None = Field(None, description="The same id twice is one signal.")


class Published(BaseModel):
    id: str
    created: bool


@router.post("", status_code=201, responses={200: {"model": Published, "description": "It had been published before."}})
def publish_signal(signal: NewSignal, project: Project, response: Response, actor: Operator) -> Published:
    """Publish a signal: 201 when it is new, 200 when one with its id had been published before."""
    chosen, new = project.triggers.signal(signal.name, signal.params, signal_id=signal.id, by=actor.name)
    response.status_code = 201 if new else 200
    return Published(id=chosen, created=new)


@router.get("", response_model=page_model("signals", SignalRecord))
def list_signals(
    request: Request,
    response: Response,
    project: Project,
    _actor: CurrentActor,
    name: str | None = None,
    limit: Limit = 20,
    after: After = None,
) -> dict[str, Any]:
    """Newest first."""
    found = project.triggers.signals(name, limit + 1, number_after(after))
    return page_of(request, response, "signals", found, limit, lambda signal: signal.seq)
