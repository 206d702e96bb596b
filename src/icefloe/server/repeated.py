"""``Idempotency-Key``: a POST that is sent twice is done once, and answered twice.

What succeeded is kept, and given again. What failed has changed nothing: its key is free, and the same request may be tried again.
"""

from __future__ import annotations

import hashlib

from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from icefloe.errors import IcefloeError
from icefloe.server.answers import API, RequestError, problem
from icefloe.service.access import Actor
from icefloe.service.idempotency import IdempotencyKeys, KeptAnswer

HEADER = "idempotency-key"
LONGEST_KEY = 200
KEPT_HEADERS = ("content-type", "location", "etag", "link")


class RepeatedRequests:
    """Behind the one that knows who asks, and the one that has read the body."""

    def __init__(self, app: ASGIApp, keys: IdempotencyKeys) -> None:
        self._app = app
        self._keys = keys

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        actor = scope.get("state", {}).get("actor") if scope["type"] == "http" else None
        if not isinstance(actor, Actor) or scope["method"] != "POST" or not scope["path"].startswith(API):
            await self._app(scope, receive, send)
            return
        key = Headers(scope=scope).get(HEADER)
        if key is None:
            await self._app(scope, receive, send)
            return
        first = await receive()  # the whole body: LimitBody has put it together
        try:
            _check(key)
            kept = await run_in_threadpool(self._keys.begin, actor.name, key, _digest(scope, first.get("body", b"")))
        except IcefloeError as error:
            await problem(error)(scope, receive, send)
            return
        if kept is not None:
            await _again(kept, send)
            return
        await self._do(actor.name, key, first, scope, receive, send)

    async def _do(self, actor: str, key: str, first: Message, scope: Scope, receive: Receive, send: Send) -> None:
        answer: list[Message] = []
        given = False

        async def body() -> Message:
            nonlocal given
            if given:
                return await receive()
            given = True
            return first

        async def keep(message: Message) -> None:
            answer.append(message)

        try:
            await self._app(scope, body, keep)
        except BaseException:
            await run_in_threadpool(self._keys.give_up, actor, key)
            raise
        start = answer[0]
        if 200 <= start["status"] < 300:
            # Kept before it is sent: who does not hear it asks again.
            content = b"".join(message.get("body", b"") for message in answer[1:])
            headers = {name: value for name, value in Headers(raw=start["headers"]).items() if name in KEPT_HEADERS}
            await run_in_threadpool(self._keys.finish, actor, key, KeptAnswer(start["status"], headers, content))
        else:
            await run_in_threadpool(self._keys.give_up, actor, key)
        for message in answer:
            await send(message)


def _check(key: str) -> None:
    if not (0 < len(key) <= LONGEST_KEY) or not key.isascii() or not key.isprintable():
        raise RequestError(
            f"a key has 1 to {LONGEST_KEY} printable ASCII characters",
            where="Idempotency-Key",
            hint="take a new random text for each request, such as a UUID",
        )


def _digest(scope: Scope, body: bytes) -> str:
    parts = (scope["method"].encode(), scope["path"].encode("utf-8", "surrogateescape"), scope["query_string"], body)
    return hashlib.sha256(b"\0".join(parts)).hexdigest()


async def _again(kept: KeptAnswer, send: Send) -> None:
    headers = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in kept.headers.items()]
    headers += [(b"content-length", str(len(kept.body)).encode()), (b"idempotency-replayed", b"true")]
    await send({"type": "http.response.start", "status": kept.status, "headers": headers})
    await send({"type": "http.response.body", "body": kept.body})
