"""The stream of changes: server-sent events, one stream a tab."""

from __future__ import annotations

import json
import threading
from collections.abc import AsyncIterator
from typing import Annotated

import anyio
from fastapi import APIRouter, Header, Request
from starlette.responses import StreamingResponse

from icefloe.errors import IcefloeError
from icefloe.server.changes import Change, ChangeFeed

router = APIRouter(tags=["changes"])
MOST_STREAMS = 200
BEAT_SECONDS = 15.0
"""A comment is sent at least so often: proxies close what is silent, and a browser that has gone is noticed."""
_streams = threading.Semaphore(MOST_STREAMS)


class TooManyStreamsError(IcefloeError):
    """More browsers follow this server than it serves streams."""

    code = "server.too-many"
    retryable = True


@router.get("/changes", response_class=StreamingResponse, responses={200: {"content": {"text/event-stream": {}}}})
async def changes(
    request: Request, last_event_id: Annotated[str | None, Header(max_length=30)] = None
) -> StreamingResponse:
    """Events named ``changed``: their data is ``{"topics": [...], "connected": true}``, their id the place to come back to."""
    if not _streams.acquire(blocking=False):
        raise TooManyStreamsError("too many streams are open", hint="close tabs that are not needed")
    feed: ChangeFeed = request.app.state.changes
    since = int(last_event_id) if last_event_id and last_event_id.isdigit() and len(last_event_id) < 19 else None

    async def stream() -> AsyncIterator[str]:
        try:
            yield "retry: 2000\n\n"
            if since is not None:
                yield _event(await anyio.to_thread.run_sync(feed.missed, since))
            turn = -1
            while not await request.is_disconnected():
                turn, change = await anyio.to_thread.run_sync(
                    feed.after, turn, BEAT_SECONDS, abandon_on_cancel=True, limiter=_limiter()
                )
                yield _event(change) if change is not None else ": still here\n\n"
        finally:
            _streams.release()

    return StreamingResponse(stream(), media_type="text/event-stream", headers={"X-Accel-Buffering": "no"})


def _event(change: Change) -> str:
    data = json.dumps({"topics": change.topics, "connected": change.connected})
    return f"id: {change.number}\nevent: changed\ndata: {data}\n\n"


_limiters: dict[int, anyio.CapacityLimiter] = {}


def _limiter() -> anyio.CapacityLimiter:
    """Threads of their own: those that wait here must not keep routes from theirs."""
    if 0 not in _limiters:
        _limiters[0] = anyio.CapacityLimiter(MOST_STREAMS)
    return _limiters[0]
