"""How a browser gets in: by a one-time link, a token, or what a trusted proxy says."""

from __future__ import annotations

from typing import Annotated
from urllib.parse import urlsplit

from fastapi import APIRouter, Form, Request
from starlette.responses import RedirectResponse, Response

from icefloe.server.access import CurrentActor, proxy_actor
from icefloe.server.rendering import page
from icefloe.server.routes.connection import Project
from icefloe.service.access import SESSION_SECONDS, Access, Actor, Role

router = APIRouter()


@router.get("/login")
def login(request: Request, project: Project, key: str = "", next: str = "/") -> Response:
    """With a key: use the one-time link. Behind a trusted proxy: by its header. Else: the form for a token."""
    access: Access = request.app.state.access
    if key:
        secret, _ = access.open_by_link(key[:200])
        return _let_in(request, secret, next)
    if actor := proxy_actor(project.config, request):
        secret, _ = access.open_session(actor)
        return _let_in(request, secret, next)
    if request.state.actor is not None:
        return RedirectResponse(_own_path(next), status_code=303)
    return page(request, "login.html", next=_own_path(next), problem=None)


@router.post("/login")
def login_with_token(
    request: Request,
    token: Annotated[str, Form(max_length=500)],
    next: Annotated[str, Form(max_length=2000)] = "/",
) -> Response:
    access: Access = request.app.state.access
    actor = access.actor_of_token(token.strip()) or _server_actor(request, token.strip())
    if actor is None:
        problem = "This token is unknown, expired or revoked."
        return page(request, "login.html", status_code=403, next=_own_path(next), problem=problem)
    secret, _ = access.open_session(actor)
    return _let_in(request, secret, next)


@router.post("/logout")
def logout(request: Request, actor: CurrentActor) -> Response:
    request.app.state.access.close_session(actor)
    response = RedirectResponse("/login", status_code=303)
    response.delete_cookie(request.app.state.session_cookie)
    return response


def _server_actor(request: Request, token: str) -> Actor | None:
    return Actor("server-token", Role.admin) if request.app.state.is_server_token(token) else None


def _let_in(request: Request, secret: str, next: str) -> Response:
    response = RedirectResponse(_own_path(next), status_code=303)
    response.set_cookie(
        request.app.state.session_cookie,
        secret,
        max_age=int(SESSION_SECONDS),
        httponly=True,
        samesite="lax",
        secure=request.url.scheme == "https" or request.headers.get("x-forwarded-proto") == "https",
    )
    return response


def _own_path(wanted: str) -> str:
    """A place on this server: a link must not lead elsewhere after the login."""
    parts = urlsplit(wanted)
    is_own = wanted.startswith("/") and not wanted.startswith(("//", "/\\")) and not parts.netloc and not parts.scheme
    return wanted if is_own and wanted.isprintable() else "/"
