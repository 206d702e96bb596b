"""System: who works here, what cleans up, who may come in, and who has done what."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Request
from starlette.responses import HTMLResponse, Response

from icefloe.errors import UsageError
from icefloe.server.access import Admin, CurrentActor, Operator
from icefloe.server.pages.forms import Fields, back
from icefloe.server.rendering import page
from icefloe.service.access import Access, Role
from icefloe.service.system import System

router = APIRouter(prefix="/system")
MOST_AUDITS = 25
Before = Annotated[int | None, Query(ge=1, le=2**62)]


@router.get("")
def system(
    request: Request, actor: CurrentActor, before: Before = None, who: Annotated[str, Query(max_length=200)] = ""
) -> HTMLResponse:
    return _shown(request, is_admin=actor.role.covers(Role.admin), before=before, actor=who or None)


@router.post("/tokens")
def add_token(request: Request, actor: Admin, fields: Fields) -> HTMLResponse:
    """The page itself, not a way back to it: the secret is shown once, and is in no address."""
    access: Access = request.app.state.access
    days = fields.get("days", "").strip()
    name, role = fields.get("name", ""), fields.get("role", Role.viewer.value)
    secret = access.add_token(name, role, days=_number(days) if days else None, by=actor.name)
    return _shown(request, is_admin=True, made=(name, secret))


@router.post("/tokens/{name:path}/revoke")
def revoke_token(request: Request, actor: Admin, name: str) -> Response:
    access: Access = request.app.state.access
    revoked = access.revoke_token(name, by=actor.name)
    notice = f"token {name} is revoked" if revoked else f"token {name} was revoked before"
    return back("/system", notice, "#tokens")


@router.post("/spark/stop")
def stop_spark(request: Request, actor: Operator) -> Response:
    stopped = _system(request).stop_spark(actor.name)
    return back("/system", "the Spark server is stopped" if stopped else "no Spark server was running", "#spark")


@router.post("/janitor/prune")
def prune(request: Request, actor: Admin) -> Response:
    items = sum(one.items for one in _system(request).prune(actor.name))
    return back("/system", f"the janitor has deleted {items:,} items", "#janitor")


def _shown(
    request: Request,
    *,
    is_admin: bool,
    before: int | None = None,
    actor: str | None = None,
    made: tuple[str, str] | None = None,
) -> HTMLResponse:
    known = _system(request)
    access: Access = request.app.state.access
    return page(
        request,
        "system.html",
        overview=known.overview(),
        audits=known.audits(before=before, actor=actor, most=MOST_AUDITS),
        before=before,
        who=actor or "",
        tokens=access.tokens() if is_admin else None,
        made=made,
        roles=list(Role),
    )


def _system(request: Request) -> System:
    known = request.app.state.system
    assert isinstance(known, System)
    return known


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError as error:
        raise UsageError("the days a token is valid must be a number", where="days") from error
