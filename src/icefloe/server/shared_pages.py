"""One rendering for all tabs that fetch the same page again because of the same change.

When a run moves, every tab that shows it asks at nearly the same moment. The first is answered by the page's function; who asked before
that answer was begun gets the same one. A page is rendered for this at most once a second. Only what the pages' script asks for
(``X-Live``) is shared, between people of the same role; the CSRF token in forms is each session's own.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from dataclasses import dataclass, field

from starlette.requests import HTTPConnection
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from icefloe.server.access import csrf_token
from icefloe.service.access import Actor

LIVE_HEADER = "x-live"
LEAST_SECONDS = 1.0
MOST_PAGES = 200
LARGEST = 4 * 1024 * 1024
_CSRF = b"{csrf token of whoever asks}"


@dataclass
class _Page:
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    begun_at: float = float("-inf")
    start: Message | None = None
    body: bytes = b""


class SharePages:
    """Stands behind the login: it needs to know who asks."""

    def __init__(self, app: ASGIApp, cookie: str) -> None:
        self._app = app
        self._cookie = cookie
        self._pages: OrderedDict[tuple[str, ...], _Page] = OrderedDict()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        actor = scope.get("state", {}).get("actor")
        if scope["type"] != "http" or scope["method"] != "GET" or not isinstance(actor, Actor):
            await self._app(scope, receive, send)
            return
        connection = HTTPConnection(scope)
        live = connection.headers.get(LIVE_HEADER)
        if live is None:
            await self._app(scope, receive, send)
            return
        secret = connection.cookies.get(self._cookie)
        csrf = csrf_token(secret).encode() if secret else b""
        key = (scope["path"], scope.get("query_string", b"").decode("latin-1"), live, actor.role, str(bool(csrf)))
        page = self._page(key)
        asked_at = time.monotonic()
        async with page.lock:
            if page.start is None or page.begun_at < asked_at:
                await asyncio.sleep(max(page.begun_at + LEAST_SECONDS - asked_at, 0.0))
                await self._render(page, csrf, scope, receive)
            start, body = page.start, page.body
        assert start is not None
        if start["status"] != 200 or len(body) > LARGEST:
            self._pages.pop(key, None)
        own = body.replace(_CSRF, csrf) if csrf else body
        headers = [(name, value) for name, value in start["headers"] if name.lower() != b"content-length"]
        await send({**start, "headers": [*headers, (b"content-length", str(len(own)).encode())]})
        await send({"type": "http.response.body", "body": own})

    def _page(self, key: tuple[str, ...]) -> _Page:
        page = self._pages.setdefault(key, _Page())
        self._pages.move_to_end(key)
        while len(self._pages) > MOST_PAGES:
            self._pages.popitem(last=False)
        return page

    async def _render(self, page: _Page, csrf: bytes, scope: Scope, receive: Receive) -> None:
        parts: list[bytes] = []
        page.start = None
        page.begun_at = time.monotonic()

        async def keep(message: Message) -> None:
            if message["type"] == "http.response.start":
                page.start = dict(message)
            else:
                parts.append(message.get("body", b""))

        await self._app(scope, receive, keep)
        body = b"".join(parts)
        page.body = body.replace(csrf, _CSRF) if csrf else body
