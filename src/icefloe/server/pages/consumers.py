"""Consumers: how far each has read, and moving that by hand. Nothing is moved that has not been shown first, as it will be done."""

from __future__ import annotations

from typing import Annotated
from urllib.parse import urlencode

from fastapi import APIRouter, Form, Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from icefloe.errors import UsageError
from icefloe.server.access import CurrentActor, Operator
from icefloe.server.rendering import address, capture_address, page
from icefloe.server.routes.connection import Project
from icefloe.service import consumer_details, tables
from icefloe.service.client import Client
from icefloe.service.consumer_positions import ConsumerPosition
from icefloe.service.interventions import Preview

router = APIRouter(prefix="/consumers")
MOST = 500
VERBS = {
    "rewind": "Rewind",
    "fast-forward": "Fast-forward",
    "rename": "Rename",
    "remove": "Remove",
    "abandon": "Abandon the capture",
}


@router.get("")
def consumers(
    request: Request, project: Project, _actor: CurrentActor, name: str | None = None, q: str = ""
) -> HTMLResponse:
    if name:
        return page(request, "consumer.html", consumer=consumer_details.show(project, name))
    wanted = q[:200].strip().lower()
    found = [one for one in tables.positions(project) if wanted in f"{one.consumer} {one.table}".lower()]
    found.sort(key=_urgency)
    return page(request, "consumers.html", positions=found[:MOST], more=len(found) - MOST, q=q[:200])


def _urgency(position: ConsumerPosition) -> tuple[bool, float, str]:
    """What cannot be told first, then who is furthest behind."""
    return position.problem is None, -(position.lag_seconds or 0), position.consumer


@router.get("/preview")
def preview(
    request: Request,
    project: Project,
    _actor: CurrentActor,
    verb: str,
    name: str = "",
    to: str = "",
    table: str = "",
    new: str = "",
    capture: str = "",
) -> HTMLResponse:
    """What a verb would do now. Changes nothing."""
    shown = _do(project, verb, name, to, table, new, capture)
    if verb in ("rewind", "fast-forward") and len(shown.moves) == 1 and shown.moves[0].to_snapshot is not None:
        to = str(shown.moves[0].to_snapshot)  # the place itself: "latest" is another one a moment later
    fields = {"verb": verb, "name": name, "to": to, "table": table, "new": new, "capture": capture}
    return page(
        request,
        "preview.html",
        preview=shown,
        label=VERBS[verb],
        fields={**fields, "agreed": shown.digest},
        back=_back(shown, capture),
    )


@router.post("/confirm")
def confirm(
    project: Project,
    actor: Operator,
    verb: Annotated[str, Form(max_length=20)],
    agreed: Annotated[str, Form(min_length=1, max_length=100)],
    why: Annotated[str, Form(max_length=2000)] = "",
    name: Annotated[str, Form(max_length=2000)] = "",
    to: Annotated[str, Form(max_length=200)] = "",
    table: Annotated[str, Form(max_length=2000)] = "",
    new: Annotated[str, Form(max_length=2000)] = "",
    capture: Annotated[str, Form(max_length=200)] = "",
) -> Response:
    """Do what the preview showed, or nothing: 409 when the consumer has moved since."""
    done = _do(project, verb, name, to, table, new, capture, why=why, by=actor.name, agreed=agreed)
    project.table_metadata.forget()
    project.definition_tables.forget()
    notice = f"Done: {VERBS[verb].lower()} of {done.consumer}"
    name = done.renamed_to or done.consumer
    back = capture_address(capture) if capture else address("/consumers", name=name)
    return RedirectResponse(f"{back}{'&' if '?' in back else '?'}{urlencode({'notice': notice})}", status_code=303)


def _do(
    project: Client,
    verb: str,
    name: str,
    to: str,
    table: str,
    new: str,
    capture: str,
    *,
    why: str = "",
    by: str | None = None,
    agreed: str | None = None,
) -> Preview:
    """Without ``agreed`` a preview."""
    consumers, yes = project.consumers, agreed is not None
    if verb in ("rewind", "fast-forward"):
        if not to.strip() and verb == "rewind":
            raise UsageError(
                "where to is not said", hint="a snapshot id, a time such as 2026-03-01T00:00:00Z, or earliest"
            )
        move = consumers.rewind if verb == "rewind" else consumers.fast_forward
        return move(name, to.strip() or "latest", table=table or None, yes=yes, why=why, by=by, agreed=agreed)
    if verb == "rename":
        return consumers.rename(name, new.strip(), yes=yes, why=why, by=by, agreed=agreed)
    if verb == "remove":
        return consumers.remove(name, yes=yes, why=why, by=by, agreed=agreed)
    if verb == "abandon":
        return consumers.abandon(capture, yes=yes, why=why, by=by, agreed=agreed)
    raise UsageError(f"there is no verb {verb!r}", hint=f"choose from: {', '.join(VERBS)}")


def _back(shown: Preview, capture: str) -> str:
    return capture_address(capture) if capture else address("/consumers", name=shown.consumer)
