"""Tells pages what has changed: one thread looks for all who listen, at most once a second.

Who listens has a :class:`Subscription`. Changes that it has not come to yet are put together, so that a slow reader is told less often
and misses nothing. Nothing here says what the new state is: who hears a topic asks again for what it shows.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections import deque
from dataclasses import dataclass

from icefloe.errors import IcefloeError
from icefloe.service.state_changes import ALL, ChangeReader, Position, missed
from icefloe.store.database import Database, Watch

LOG = logging.getLogger("icefloe.server")
LEAST_SECONDS = 1.0
"""Between two looks."""
WAIT_SECONDS = 2.0
"""A look is taken at least so often: not every change is announced, and a database that is away must be noticed."""
IDLE_SECONDS = 30.0
"""Without a listener for so long, the looking ends."""
REMEMBERED_SECONDS = 10.0
"""Who begins to listen is told what changed in this time: its page may be older than its stream."""
MOST_TOPICS = 1000
MOST_STREAMS = 200


class TooManyStreamsError(IcefloeError):
    """More browsers follow this server than it serves streams."""

    code = "server.too-many"
    retryable = True


@dataclass(frozen=True, slots=True)
class Change:
    """``id``: the position up to which this has read."""

    id: str
    topics: tuple[str, ...] = ()
    connected: bool = True
    """False: the state database does not answer."""

    def then(self, later: Change) -> Change:
        """Both as one."""
        topics = tuple(dict.fromkeys((*self.topics, *later.topics)))
        return Change(later.id, topics if len(topics) <= MOST_TOPICS and "all" not in topics else ALL, later.connected)


class Subscription:
    """What one stream has yet to send. Belongs to the event loop that made it."""

    def __init__(self) -> None:
        self.ended = False
        self._loop = asyncio.get_running_loop()
        self._pending: Change | None = None
        self._news = asyncio.Event()

    async def next(self, seconds: float) -> Change | None:
        """The next change; None when there is none in time, or it has ended."""
        try:
            async with asyncio.timeout(seconds):
                await self._news.wait()
        except TimeoutError:
            return None
        change, self._pending = self._pending, None
        if not self.ended:
            self._news.clear()
        return change

    def put(self, change: Change | None) -> None:
        """From any thread; None ends it."""
        try:
            self._loop.call_soon_threadsafe(self._take, change)
        except RuntimeError:  # its loop has been closed, and with it the stream
            self.ended = True

    def _take(self, change: Change | None) -> None:
        if change is None:
            self.ended = True
        else:
            self._pending = change if self._pending is None else self._pending.then(change)
        self._news.set()


class ChangeFeed:
    """Looks while somebody listens. Does not outlive :meth:`close`."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._reader = ChangeReader(database)
        self._lock = threading.RLock()
        self._subscriptions: set[Subscription] = set()
        self._recent: deque[tuple[float, Change]] = deque()
        self._left_at = 0.0
        self._thread: threading.Thread | None = None
        self._closing = threading.Event()

    def subscribe(self) -> Subscription:
        """In an event loop."""
        subscription = Subscription()
        with self._lock:
            if len(self._subscriptions) >= MOST_STREAMS:
                raise TooManyStreamsError("too many streams are open", hint="close tabs that are not needed")
            if self._closing.is_set():
                subscription.put(None)
                return subscription
            self._subscriptions.add(subscription)
            since = time.monotonic() - REMEMBERED_SECONDS
            for at, change in self._recent:
                if at >= since:
                    subscription.put(change)
            if self._thread is None:
                self._thread = threading.Thread(target=self._look, name="icefloe-changes", daemon=True)
                self._thread.start()
        return subscription

    def unsubscribe(self, subscription: Subscription) -> None:
        with self._lock:
            self._subscriptions.discard(subscription)
            self._left_at = time.monotonic()

    def missed(self, last_id: str) -> Change:
        """What happened after a change: for who comes back. What cannot be told any more is ``all``."""
        position = Position.parse(last_id)
        if position is None:
            return Change(last_id, ALL)
        return Change(last_id, missed(self._database, position))

    def end_streams(self) -> None:
        """Also from a signal handler."""
        self._closing.set()
        with self._lock:
            for subscription in self._subscriptions:
                subscription.put(None)

    def close(self) -> None:
        """End all streams and the thread."""
        self.end_streams()
        thread = self._thread
        if thread is not None:
            thread.join(WAIT_SECONDS + 5)

    def _look(self) -> None:
        watch: Watch | None = None
        connected = True
        try:
            while not self._closing.is_set():
                with self._lock:
                    if not self._subscriptions and time.monotonic() - self._left_at > IDLE_SECONDS:
                        self._thread = None
                        return
                try:
                    watch = watch or self._database.watch()
                    topics = self._reader.look()
                    if topics or not connected:
                        self._tell(Change(str(self._reader.position), topics if connected else ALL))
                    connected = True
                except Exception as error:  # whatever it is: who listens must hear that nothing is heard
                    if connected:
                        LOG.warning("pages are not told of changes: %s", error)
                        self._tell(Change(str(self._reader.position or Position()), (), connected=False))
                    connected = False
                self._closing.wait(LEAST_SECONDS)
                if connected and watch is not None and not self._closing.is_set():
                    watch = self._wait(watch)
        finally:
            if watch is not None:
                watch.close()

    def _wait(self, watch: Watch) -> Watch | None:
        try:
            watch.wait(WAIT_SECONDS)
        except Exception:  # the next look finds out what is wrong
            watch.close()
            return None
        return watch

    def _tell(self, change: Change) -> None:
        now = time.monotonic()
        with self._lock:
            self._recent.append((now, change))
            while self._recent[0][0] < now - REMEMBERED_SECONDS:
                self._recent.popleft()
            for subscription in self._subscriptions:
                subscription.put(change)
