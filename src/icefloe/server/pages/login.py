"""How a browser gets in: by a one-time link, a token, or what a trusted proxy says."""

from __future__ import annotations

from typing import Annotated
from urllib.parse import urlsplit

from fastapi import APIRouter, Form, Request
from starlette.responses import RedirectResponse, Response

from icefloe.server.access import CurrentActor, address_of, is_behind_tls, proxy_actor
from icefloe.server.limits import Failures
from icefloe.server.rendering import page
from icefloe.server.routes.connection import Project
from icefloe.service.access import (
    PROXY_SESSION_SECONDS,
    SERVER_TOKEN,
    SESSION_SECONDS,
    Access,
    Actor,
    LinkUsedError,
    Role,
)

router = APIRouter()


@router.get("/login")
def login(request: Request, project: Project, key: str = "", next: str = "/") -> Response:
    """With a key: use the one-time link. Behind a trusted proxy: by its header. Else: the form for a token."""
    access: Access = request.app.state.access
    wanted = _own_path(next)
    if key:
        if request.headers.get("sec-fetch-site", "none") not in ("none", "same-origin"):
            # A page elsewhere leads here: nobody is to become somebody else without a word of their own.
            return page(request, "login.html", next=wanted, problem=None, key=key[:200])
        return _by_link(request, key, wanted)
    if actor := proxy_actor(project.config, request):
        secret, _ = access.open_session(actor, by_means_of="proxy", seconds=PROXY_SESSION_SECONDS)
        return _let_in(request, secret, wanted, PROXY_SESSION_SECONDS)
    if request.state.actor is not None:
        return RedirectResponse(wanted, status_code=303)
    return page(request, "login.html", next=wanted, problem=None, key="")


@router.post("/login")
def login_by_form(
    request: Request,
    token: Annotated[str, Form(max_length=500)] = "",
    key: Annotated[str, Form(max_length=200)] = "",
    next: Annotated[str, Form(max_length=2000)] = "/",
) -> Response:
    """With a token, or with the key of a link that a page elsewhere has led to."""
    access: Access = request.app.state.access
    wanted = _own_path(next)
    if key:
        return _by_link(request, key, wanted)
    failures: Failures = request.app.state.failed_logins
    address = address_of(request.app.state.client.config, request)
    failures.refuse_if_many(address)
    actor = access.actor_of_token(token.strip()) or _server_actor(request, token.strip())
    if actor is None:
        failures.count(address)
        problem = "This token is unknown, expired or revoked."
        return page(request, "login.html", status_code=403, next=wanted, problem=problem, key="")
    secret, _ = access.open_session(actor, by_means_of="token")
    return _let_in(request, secret, wanted)


@router.post("/logout")
def logout(request: Request, actor: CurrentActor) -> Response:
    request.app.state.access.close_session(actor)
    response = RedirectResponse("/login", status_code=303)
    response.delete_cookie(request.app.state.session_cookie)
    return response


def _server_actor(request: Request, token: str) -> Actor | None:
    return Actor(SERVER_TOKEN, Role.admin) if request.app.state.is_server_token(token) else None


def _by_link(request: Request, key: str, wanted: str) -> Response:
    access: Access = request.app.state.access
    failures: Failures = request.app.state.failed_logins
    address = address_of(request.app.state.client.config, request)
    failures.refuse_if_many(address)
    try:
        secret, _ = access.open_by_link(key[:200])
    except LinkUsedError:
        failures.count(address)
        raise
    return _let_in(request, secret, wanted)


def _let_in(request: Request, secret: str, wanted: str, seconds: float = SESSION_SECONDS) -> Response:
    if request.state.actor is not None:  # who was logged in before is not any more
        request.app.state.access.close_session(request.state.actor)
    response = RedirectResponse(wanted, status_code=303)
    response.set_cookie(
        request.app.state.session_cookie,
        secret,
        max_age=int(seconds),
        httponly=True,
        samesite="lax",
        secure=is_behind_tls(request.app.state.client.config, request),
    )
    return response


def _own_path(wanted: str) -> str:
    """A place on this server: a link must not lead elsewhere after the login."""
    parts = urlsplit(wanted)
    is_own = wanted.startswith("/") and not wanted.startswith(("//", "/\\")) and not parts.netloc and not parts.scheme
    return wanted if is_own and wanted.isprintable() else "/"
