"""How much a request may bring, how long it may take to bring it, and how often somebody may try to log in."""

from __future__ import annotations

import asyncio
import ipaddress
import threading
import time
from collections import OrderedDict
from collections.abc import Callable

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from icefloe.errors import IcefloeError, UsageError
from icefloe.server.answers import problem

READ_SECONDS = 30.0
DRAINED = 1024 * 1024
"""So much more of a body that is too large is read and thrown away: who is cut off while sending may not see the answer."""


FAILURES_A_MINUTE = 10
MOST_ADDRESSES = 10_000


class TooManyFailuresError(IcefloeError):
    """Too many logins have failed from this address: none is looked at for a while."""

    code = "server.too-many-logins"
    retryable = True


class Failures:
    """Failed logins of the last minute by address, of IPv6 by network: whoever has one has many. Kept in memory, and bounded."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._failed: OrderedDict[str, list[float]] = OrderedDict()

    def refuse_if_many(self, address: str) -> None:
        with self._lock:
            failed = [at for at in self._failed.get(_network(address), ()) if at > self._clock() - 60]
        if len(failed) >= FAILURES_A_MINUTE:
            raise TooManyFailuresError("too many logins have failed", hint="wait for a minute, then try again")

    def count(self, address: str) -> None:
        key, now = _network(address), self._clock()
        with self._lock:
            failed = [at for at in self._failed.pop(key, ()) if at > now - 60]
            self._failed[key] = [*failed[-FAILURES_A_MINUTE:], now]
            while len(self._failed) > MOST_ADDRESSES:
                self._failed.popitem(last=False)


def _network(address: str) -> str:
    try:
        ip = ipaddress.ip_address(address)
    except ValueError:
        return address[:100]
    return str(ipaddress.ip_network((ip, 64), strict=False)) if ip.version == 6 else str(ip)


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
