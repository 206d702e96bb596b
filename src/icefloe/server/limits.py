"""How much a request may bring, and how long it may take to bring it."""

from __future__ import annotations

import asyncio

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from icefloe.errors import UsageError
from icefloe.server.answers import problem

READ_SECONDS = 30.0
DRAINED = 1024 * 1024
"""So much more of a body that is too large is read and thrown away: who is cut off while sending may not see the answer."""


class TooLargeError(UsageError):
    """The body is larger than the server takes."""

    code = "server.too-large"


class TooSlowError(UsageError):
    """The body took too long to arrive."""

    code = "server.too-slow"


class LimitBody:
    """Takes the whole body in before anybody looks at it: what is too large or too slow never reaches a route."""

    def __init__(self, app: ASGIApp, most: int) -> None:
        self._app = app
        self._most = most

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        too_large = TooLargeError(
            f"the body is larger than {self._most // 1024} KiB", hint="[server] max_body_kib is the limit"
        )
        try:
            async with asyncio.timeout(READ_SECONDS):
                body = await self._read(receive)
        except TimeoutError:
            slow = TooSlowError(f"the body did not arrive within {READ_SECONDS:g} seconds")
            await problem(slow)(scope, receive, send)
            return
        if body is None:
            await problem(too_large)(scope, receive, send)
            return
        await self._app(scope, _replay(body, receive), send)

    async def _read(self, receive: Receive) -> bytes | None:
        parts, size = [], 0
        while True:
            message = await receive()
            part = message.get("body", b"")
            size += len(part)
            if size <= self._most:
                parts.append(part)
            elif size > self._most + DRAINED:
                return None
            if message["type"] != "http.request" or not message.get("more_body", False):
                return b"".join(parts) if size <= self._most else None


def _replay(body: bytes, receive: Receive) -> Receive:
    given = False

    async def again() -> Message:
        nonlocal given
        if given:
            return await receive()
        given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return again
