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
import re
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

from icefloe.acting import acting
from icefloe.config import Config, expand
from icefloe.errors import ConfigError, IcefloeError, UsageError
from icefloe.server.answers import API, ErrorPage, problem, status_of
from icefloe.service.access import SERVER_TOKEN, Access, Actor, ForbiddenError, Role

SHORTEST = 16
PROBES = frozenset({"/healthz", "/readyz"})
"""Asked by machines, under whatever name they have for this one. They tell nothing that a stranger could use."""
LOGIN = "/login"
_PROGRAMS = frozenset({"/metrics"})
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
        if scope["type"] == "http" and scope["path"] not in PROBES:
            name = host_name(Headers(scope=scope).getlist("host"))
            if name is None or (self._allowed is not None and name not in self._allowed):
                error = HostError(
                    "this server does not answer for that host",
                    hint="open it by the address that icefloe serve has printed, or name the host in [server] hosts",
                )
                await problem(error)(scope, receive, send)
                return
        await self._app(scope, receive, send)


_HOST = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(?::\d{1,5})?")


def host_name(headers: list[str]) -> str | None:
    """The name in a Host header, without its port. None: there is none, there are several, or it is none."""
    match = _HOST.fullmatch(headers[0]) if len(headers) == 1 else None
    return match[1].strip("[]").lower() if match else None


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

    ``open_paths`` and everything below ``open_folders`` need no login, and nobody is asked who comes there but at the login itself. For
    programs the answer to who is unknown is 401; for a page it is the way to the login. ``own_hosts``: names of this server besides the
    one that a request is for, when something in front of it gives requests another one.
    """

    def __init__(
        self,
        app: ASGIApp,
        access: Access,
        server_token: str,
        cookie: str,
        open_paths: frozenset[str],
        open_folders: tuple[str, ...],
        error_page: ErrorPage,
        own_hosts: frozenset[str] = frozenset(),
    ) -> None:
        self._app = app
        self._error_page = error_page
        self._own_hosts = own_hosts
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
        path: str = scope["path"]
        is_open = path in self._open_paths or path.startswith(self._open_folders)
        state = scope.setdefault("state", {})
        state["actor"] = None
        try:
            actor, by_cookie = (None, False) if is_open and path != LOGIN else await self._actor(connection)
        except IcefloeError as error:  # the state database is away
            await self._answer(scope, error)(scope, receive, send)
            return
        state["actor"] = actor
        if actor is None and not is_open:
            await self._refuse(connection)(scope, receive, send)
            return
        if scope["method"] not in SAFE_METHODS and (path == LOGIN or (actor is not None and by_cookie)):
            forged = self._from_elsewhere(connection)
            if forged is None and path != LOGIN:
                forged = self._forged(connection, connection.cookies.get(self._cookie, ""))
            if forged is not None:
                await self._answer(scope, forged)(scope, receive, send)
                return
        with acting(actor.name if actor else None, "rest" if path.startswith(API) else "page"):
            await self._app(scope, receive, send)

    def _answer(self, scope: Scope, error: IcefloeError) -> Response:
        if _is_for_programs(scope["path"]):
            return problem(error)
        return self._error_page(Request(scope), error, status_of(error))

    async def _actor(self, connection: HTTPConnection) -> tuple[Actor | None, bool]:
        """Who it is, and whether only a cookie says so."""
        scheme, _, shown = connection.headers.get("authorization", "").partition(" ")
        if scheme:
            shown = shown.strip()
            if scheme.lower() != "bearer" or not shown:
                return None, False
            if is_same(self._server_token, shown):
                return Actor(SERVER_TOKEN, Role.admin), False
            return await run_in_threadpool(self._access.actor_of_token, shown), False
        secret = connection.cookies.get(self._cookie)
        return (await run_in_threadpool(self._access.actor_of_session, secret) if secret else None), True

    def _from_elsewhere(self, connection: HTTPConnection) -> IcefloeError | None:
        """Whether the browser says that a page of another site asks for this. One that says nothing must know the token."""
        own = {connection.headers.get("host", "").lower(), *self._own_hosts}
        origin = connection.headers.get("origin")
        strange = origin is not None and urlsplit(origin).netloc.lower() not in own
        if strange or connection.headers.get("sec-fetch-site", "none") not in ("same-origin", "none"):
            return StaleFormError("this came from a page of another site", hint="open the page here, and try again")
        return None

    def _forged(self, connection: HTTPConnection, secret: str) -> IcefloeError | None:
        """Why a change that a cookie asks for is not believed. Forms carry the token in a field, which the pages check."""
        header = connection.headers.get(CSRF_HEADER)
        is_form = connection.headers.get("content-type", "").startswith(
            ("application/x-www-form-urlencoded", "multipart/form-data")
        )
        if header is None and is_form and not _is_for_programs(connection.scope["path"]):
            return None
        if header is None or not hmac.compare_digest(header.encode(), csrf_token(secret).encode()):
            return StaleFormError("this page is older than your login", hint="reload the page, and try again")
        return None

    def _refuse(self, connection: HTTPConnection) -> Response:
        if _is_for_programs(connection.scope["path"]):
            error = UnauthorizedError(
                "the token is missing or wrong",
                hint="send the header 'Authorization: Bearer TOKEN'; icefloe serve says at its start where the token is",
            )
            return problem(error, headers={"WWW-Authenticate": "Bearer"})
        query = connection.scope["query_string"].decode("latin-1")
        wanted = connection.scope["path"] + (f"?{query}" if query else "")
        response = RedirectResponse(f"/login?next={quote(wanted, safe='/')}", status_code=303)
        if "hx-request" in connection.headers:  # htmx would put the login page into a part of this one
            response.headers["HX-Redirect"] = response.headers["location"]
        return response


def _is_for_programs(path: str) -> bool:
    return path.startswith(API) or path in _PROGRAMS


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
    if request.method in SAFE_METHODS or CSRF_HEADER in request.headers or request.scope["path"] == LOGIN:
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
    # One header, with one name in it: what a proxy has added to a header that came from outside is no proxy's word.
    names = request.headers.getlist(settings.proxy_header)
    name = names[0].strip() if len(names) == 1 else ""
    if not name or len(name) > 100 or not name.isprintable() or "," in name or name == SERVER_TOKEN:
        return None
    role = Role.admin if name in settings.proxy_admins else Role(settings.proxy_role)
    return Actor(name, role)


def _is_trusted(address: str, networks: Iterable[str]) -> bool:
    try:
        ip = ipaddress.ip_address(address)
    except ValueError:
        return False
    if isinstance(ip, ipaddress.IPv6Address) and ip.ipv4_mapped is not None:  # as a socket for both kinds shows it
        ip = ip.ipv4_mapped
    return any(ip in ipaddress.ip_network(network, strict=False) for network in networks)


def address_of(config: Config, request: Request) -> str:
    """Where a request comes from: the proxy's word for it, when it comes from a trusted one."""
    address = request.client.host if request.client is not None else ""
    if config.server.proxy_header is not None and _is_trusted(address, config.server.trusted_proxies):
        forwarded = request.headers.getlist("x-forwarded-for")
        last = forwarded[-1].rpartition(",")[2].strip() if forwarded else ""  # who was there before may have lied
        return last or address
    return address


def own_hosts(config: Config) -> frozenset[str]:
    """Under which name people's browsers know this server, when something in front of it gives requests another one."""
    return frozenset({urlsplit(config.server.url).netloc.lower()} if config.server.url else ())


def is_behind_tls(config: Config, request: Request) -> bool:
    """Whether the browser has come over TLS, as far as it can be told. Lying about it harms only who lies."""
    told = request.headers.get("x-forwarded-proto", "").rpartition(",")[2].strip()
    return request.url.scheme == "https" or told == "https" or (config.server.url or "").startswith("https:")


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
