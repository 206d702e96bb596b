"""Who may come in, and from where.

A request is let in by a bearer token or by a browser's session cookie. A cookie alone never changes anything: what changes
something also needs the session's CSRF token and, where the browser names one, an origin that is this server. Requests for another host's
name are refused, so that a page elsewhere cannot reach a server on this machine by a name it has pointed here.
"""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import os
import secrets
import stat
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Annotated
from urllib.parse import quote, urlsplit

from fastapi import Depends, Request
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers
from starlette.requests import HTTPConnection
from starlette.responses import RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from icefloe.config import Config, expand
from icefloe.errors import ConfigError, IcefloeError, UsageError
from icefloe.server.answers import API, problem
from icefloe.service.access import Access, Actor, ForbiddenError, Role

SHORTEST = 16
SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
CSRF_HEADER = "x-csrf-token"
SECURITY_HEADERS = {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; "
    "connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}


class UnauthorizedError(IcefloeError):
    """No token, or a wrong one."""

    code = "server.unauthorized"


class HostError(UsageError):
    """The request is for another host's name."""

    code = "server.host"


class StaleFormError(IcefloeError):
    """A form without this session's CSRF token, or from another site."""

    code = "server.stale-form"


def session_cookie(config: Config) -> str:
    """Cookies are not kept apart by port: two projects on one machine need two names."""
    return f"icefloe_{hashlib.sha256(str(config.root).encode()).hexdigest()[:10]}"


def csrf_token(session_secret: str) -> str:
    """Known to who has the cookie's value: this server and the browser that shows its pages."""
    return hmac.new(session_secret.encode(), b"csrf", hashlib.sha256).hexdigest()


class SecurityHeaders:
    """On every answer. Pages are not cached: what they show is about now, and for who has logged in."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = message.setdefault("headers", [])
                present = {name.lower() for name, _ in headers}
                wanted = {**SECURITY_HEADERS, "cache-control": "no-store"}
                headers += [
                    (name.encode(), value.encode()) for name, value in wanted.items() if name.encode() not in present
                ]
            await send(message)

        await self._app(scope, receive, send_with_headers if scope["type"] == "http" else send)


class CheckHost:
    """Refuses requests for a host that is not this server's: DNS rebinding. ``allowed`` None: any."""

    def __init__(self, app: ASGIApp, allowed: frozenset[str] | None) -> None:
        self._app = app
        self._allowed = allowed

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and self._allowed is not None:
            name = host_name(Headers(scope=scope).get("host", ""))
            if name not in self._allowed:
                error = HostError(
                    "this server does not answer for that host",
                    hint="open it by the address that icefloe serve has printed, or name the host in [server] hosts",
                )
                await problem(error)(scope, receive, send)
                return
        await self._app(scope, receive, send)


def host_name(header: str) -> str:
    """The name in a Host header, without its port."""
    if header.startswith("["):
        return header.partition("]")[0].removeprefix("[").lower()
    return header.rpartition(":")[0].lower() if ":" in header else header.lower()


def allowed_hosts(config: Config, listens_on: str) -> frozenset[str] | None:
    """On a loopback address only its own names; elsewhere those in ``[server] hosts``, or any when none is named there."""
    named = frozenset(host.lower() for host in config.server.hosts)
    if config.server.url:
        named |= {(urlsplit(config.server.url).hostname or "").lower()} - {""}
    try:
        loopback = ipaddress.ip_address(listens_on).is_loopback
    except ValueError:
        loopback = listens_on == "localhost"
    if loopback:
        return named | {"localhost", "127.0.0.1", "::1"}
    return named | {"localhost", "127.0.0.1", "::1", listens_on.lower()} if named else None


class Authenticate:
    """Finds out who makes a request, and refuses what nobody unknown may see.

    ``open_paths`` and everything below ``open_folders`` need no login. For the API the answer to who is unknown is 401; for a page
    it is the way to the login.
    """

    def __init__(
        self,
        app: ASGIApp,
        access: Access,
        server_token: str,
        cookie: str,
        open_paths: frozenset[str],
        open_folders: tuple[str, ...],
    ) -> None:
        self._app = app
        self._access = access
        self._server_token = server_token
        self._cookie = cookie
        self._open_paths = open_paths
        self._open_folders = open_folders

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        connection = HTTPConnection(scope)
        try:
            actor, by_cookie = await self._actor(connection)
        except IcefloeError as error:  # the state database is away
            await problem(error)(scope, receive, send)
            return
        scope.setdefault("state", {})["actor"] = actor
        path = scope["path"]
        if actor is None and path not in self._open_paths and not path.startswith(self._open_folders):
            await self._refuse(connection)(scope, receive, send)
            return
        if actor is not None and by_cookie and scope["method"] not in SAFE_METHODS:
            secret = connection.cookies.get(self._cookie, "")
            if forged := self._forged(connection, secret):
                await problem(forged)(scope, receive, send)
                return
        await self._app(scope, receive, send)

    async def _actor(self, connection: HTTPConnection) -> tuple[Actor | None, bool]:
        """Who it is, and whether only a cookie says so."""
        scheme, _, shown = connection.headers.get("authorization", "").partition(" ")
        if scheme:
            shown = shown.strip()
            if scheme.lower() != "bearer" or not shown:
                return None, False
            if is_same(self._server_token, shown):
                return Actor("server-token", Role.admin), False
            return await run_in_threadpool(self._access.actor_of_token, shown), False
        secret = connection.cookies.get(self._cookie)
        return (await run_in_threadpool(self._access.actor_of_session, secret) if secret else None), True

    def _forged(self, connection: HTTPConnection, secret: str) -> IcefloeError | None:
        """Why a change that a cookie asks for is not believed. Forms carry the token in a field, which the pages check."""
        origin = connection.headers.get("origin")
        host = connection.headers.get("host", "")
        if origin is not None and urlsplit(origin).netloc.lower() != host.lower():
            return StaleFormError("this came from a page of another site", hint="open the page here, and try again")
        header = connection.headers.get(CSRF_HEADER)
        is_form = connection.headers.get("content-type", "").startswith(
            ("application/x-www-form-urlencoded", "multipart/form-data")
        )
        if header is None and is_form and not connection.url.path.startswith(API):
            return None
        if header is None or not hmac.compare_digest(header.encode(), csrf_token(secret).encode()):
            return StaleFormError("this page is older than your login", hint="reload the page, and try again")
        return None

    def _refuse(self, connection: HTTPConnection) -> Response:
        if connection.url.path.startswith(API):
            error = UnauthorizedError(
                "the token is missing or wrong",
                hint="send the header 'Authorization: Bearer TOKEN'; icefloe serve says at its start where the token is",
            )
            return problem(error, headers={"WWW-Authenticate": "Bearer"})
        wanted = connection.url.path + (f"?{connection.url.query}" if connection.url.query else "")
        response = RedirectResponse(f"/login?next={quote(wanted, safe='/')}", status_code=303)
        if "hx-request" in connection.headers:  # htmx would put the login page into a part of this one
            response.headers["HX-Redirect"] = response.headers["location"]
        return response


# -- what routes ask for ---------------------------------------------------------------------------------------------------


def _actor(request: Request) -> Actor:
    actor = request.state.actor
    if not isinstance(actor, Actor):
        raise UnauthorizedError("nobody has logged in", hint="icefloe tokens link")
    return actor


CurrentActor = Annotated[Actor, Depends(_actor)]


def require(role: Role) -> Callable[[Request], Actor]:
    """A dependency: whoever asks has this role, or one that covers it."""

    def check(request: Request) -> Actor:
        actor = _actor(request)
        if not actor.role.covers(role):
            raise ForbiddenError(
                f"{actor.name} is a {actor.role}, and this takes a {role}",
                hint=f"an admin makes a token for it: icefloe tokens add NAME --role {role}",
            )
        return actor

    return check


Operator = Annotated[Actor, Depends(require(Role.operator))]
Admin = Annotated[Actor, Depends(require(Role.admin))]


async def checked_form(request: Request) -> None:
    """A dependency of all pages: a form that changes something carries the session's CSRF token."""
    if request.method in SAFE_METHODS or CSRF_HEADER in request.headers or request.url.path == "/login":
        return
    secret = request.cookies.get(request.app.state.session_cookie)
    if secret is None:
        return  # a bearer token: no browser sends one by itself
    form = await request.form()
    shown = form.get("csrf")
    if not isinstance(shown, str) or not hmac.compare_digest(shown.encode(), csrf_token(secret).encode()):
        raise StaleFormError("this page is older than your login", hint="reload the page, and try again")


def proxy_actor(config: Config, request: Request) -> Actor | None:
    """Who a trusted proxy says it is, at the login route alone."""
    settings = config.server
    if settings.proxy_header is None or request.client is None:
        return None
    if not _is_trusted(request.client.host, settings.trusted_proxies):
        return None
    name = request.headers.get(settings.proxy_header, "").strip()
    if not name or len(name) > 100 or not name.isprintable():
        return None
    role = Role.admin if name in settings.proxy_admins else Role(settings.proxy_role)
    return Actor(name, role)


def _is_trusted(address: str, networks: Iterable[str]) -> bool:
    try:
        ip = ipaddress.ip_address(address)
    except ValueError:
        return False
    return any(ip in ipaddress.ip_network(network, strict=False) for network in networks)


def is_same(token: str, shown: str) -> bool:
    """Compared in constant time."""
    return hmac.compare_digest(token.encode(), shown.encode())


# -- the server's own token ------------------------------------------------------------------------------------------------


def token_of(config: Config) -> tuple[str, str]:
    """The server's own token, and where it is, for people. It comes from the environment, or from a file that only its owner can read;
    the file is made at the first start."""
    if config.server.token is not None:
        return _checked(expand(config.server.token.get_secret_value()), "[server] token"), "[server] token"
    file = config.root / config.server.token_file
    try:
        with suppress(FileExistsError):
            _make(file)
        return _checked(_read(file), str(file)), str(file)
    except OSError as error:
        raise ConfigError(f"the token's file cannot be used: {error.strerror}", where=str(file)) from error


def _make(file: Path) -> None:
    """Complete from the first moment that it has its name: two servers that start at once share one token."""
    if file.exists():
        return
    draft = file.with_name(f"{file.name}.{secrets.token_hex(4)}")
    try:
        with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as stream:
            stream.write(secrets.token_urlsafe(32) + "\n")
        os.link(draft, file)
    finally:
        draft.unlink(missing_ok=True)


def _read(file: Path) -> str:
    with file.open(encoding="utf-8", errors="replace") as stream:
        about = os.fstat(stream.fileno())
        if stat.S_IMODE(about.st_mode) & 0o077 or about.st_uid != os.geteuid():
            raise ConfigError(
                "others than its owner can read the token", where=str(file), hint=f"chmod 600 {file}, or delete it"
            )
        return stream.read(10_000).strip()


def _checked(token: str, where: str) -> str:
    if len(token) < SHORTEST or not token.isascii() or not token.isprintable() or " " in token:
        raise ConfigError(
            f"the token must have at least {SHORTEST} characters, ASCII without spaces",
            where=where,
            hint="python -c 'import secrets; print(secrets.token_urlsafe(32))'",
        )
    return token
