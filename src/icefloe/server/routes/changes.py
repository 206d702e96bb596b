"""The stream of changes: server-sent events, one stream a tab."""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator
from typing import Annotated

from fastapi import APIRouter, Header, Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from icefloe.errors import IcefloeError
from icefloe.server.access import CurrentActor
from icefloe.server.changes import Change, ChangeFeed, Subscription
from icefloe.service.access import Access, Actor

router = APIRouter(tags=["changes"])
BEAT_SECONDS = 15.0
"""A comment is sent at least so often: proxies close what is silent, and a browser that has gone is noticed."""


@router.get(
    "/changes",
    response_class=StreamingResponse,
    responses={200: {"content": {"text/event-stream": {"schema": {"type": "string"}}}, "description": "Events"}},
)
async def follow_changes(
    request: Request, actor: CurrentActor, last_event_id: Annotated[str | None, Header(max_length=200)] = None
) -> StreamingResponse:
    """Follow what changes: events named ``changed`` whose data is ``{"topics": [...], "connected": true}``.

    Topics: ``runs``, ``run:ID``, ``workflows``, ``workflow:ID``, ``incidents``, ``consumers``, ``signals``, ``system``, ``janitor``, or ``all``.
    An event's id, sent back as ``Last-Event-ID``, brings what was missed in between.
    """
    feed: ChangeFeed = request.app.state.changes
    access: Access = request.app.state.access
    # Before what was missed is asked for: a change in between is told twice, never not at all.
    subscription = feed.subscribe()
    try:
        missed = await run_in_threadpool(feed.missed, last_event_id) if last_event_id else None
    except BaseException:
        feed.unsubscribe(subscription)
        raise
    return _Stream(_events(subscription, missed, access, actor), feed, subscription)


class _Stream(StreamingResponse):
    """Unsubscribes however it ends, also when who asked has gone before the first event."""

    def __init__(self, events: AsyncIterator[str], feed: ChangeFeed, subscription: Subscription) -> None:
        super().__init__(events, media_type="text/event-stream", headers={"X-Accel-Buffering": "no"})
        self._feed = feed
        self._subscription = subscription

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._feed.unsubscribe(self._subscription)


async def _events(
    subscription: Subscription, missed: Change | None, access: Access, actor: Actor
) -> AsyncIterator[str]:
    yield "retry: 2000\n\n"
    if missed is not None and missed.topics:
        yield _event(missed)
    checked_at = time.monotonic()
    while not subscription.ended:
        change = await subscription.next(BEAT_SECONDS)
        if time.monotonic() - checked_at >= BEAT_SECONDS:
            checked_at = time.monotonic()
            if not await run_in_threadpool(_is_still_in, access, actor):
                return
        yield _event(change) if change is not None else ": still here\n\n"


def _is_still_in(access: Access, actor: Actor) -> bool:
    """Tokens are revoked and sessions end while a stream is open."""
    try:
        return access.is_valid(actor)
    except IcefloeError:  # the state database is away: it is not the reader's fault
        return True


def _event(change: Change) -> str:
    data = json.dumps({"topics": change.topics, "connected": change.connected})
    return f"id: {change.id}\nevent: changed\ndata: {data}\n\n"
