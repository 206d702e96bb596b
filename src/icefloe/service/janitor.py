"""The janitor: deletes what is over and past its keep time (``[keep]``), in ``icefloe serve`` and by ``icefloe db prune``."""

from __future__ import annotations

import logging
import os
import random
import secrets
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

from icefloe.config import Config
from icefloe.engine import leftovers
from icefloe.errors import ConflictError, IcefloeError
from icefloe.faults import fault
from icefloe.store import captures, janitor, retention
from icefloe.store.database import Database
from icefloe.store.janitor import PruningRecord
from icefloe.store.retention import Amount, Limits, RetentionRule

LOG = logging.getLogger("icefloe.janitor")
LEASE_SECONDS = 60.0
RELEASED_AT_ONCE = 200


class JanitorBusyError(ConflictError):
    """Another process is cleaning up at this moment."""

    code = "janitor.busy"


@dataclass(frozen=True, slots=True)
class Pruned:
    """What went of one kind, or would go."""

    kind: str
    items: int
    bytes: int
    error: str | None = None

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


class Janitor:
    """Rows: one round at a time over all processes, see :mod:`icefloe.store.janitor`. Pins and files: any number at once."""

    def __init__(self, config: Config, database: Database, *, lease_seconds: float = LEASE_SECONDS) -> None:
        self.id = f"{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(3)}"
        self._config, self._database, self._lease_seconds = config, database, lease_seconds
        self._stop = threading.Event()
        self.next_at: float | None = None
        """When this process looks next; None: it does not."""
        self._thread = threading.Thread(target=self._repeat, name="icefloe-janitor", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join(10)

    # -- counting ----------------------------------------------------------------------------------------------------------

    def due(self, now: float | None = None) -> list[Pruned]:
        """What :meth:`prune` would delete after :meth:`release`; nothing is."""
        limits = self._limits(now)
        counted = []
        for kind in self._kinds(limits):
            with self._database.read() as connection:
                amount = kind.due(connection, limits)
            counted.append(Pruned(kind.name, amount.items, amount.bytes))
        return counted

    def due_releases(self, now: float | None = None) -> int:
        """How many captures :meth:`release` would release."""
        with self._database.read() as connection:
            return captures.count_to_release(connection, time.time() if now is None else now)

    def due_files(self, now: float | None = None) -> Pruned:
        paths = leftovers.leftovers(self._config.home, self._database, time.time() if now is None else now)
        return Pruned("files", len(paths), sum(leftovers.bytes_of(path) for path in paths))

    # -- deleting ----------------------------------------------------------------------------------------------------------

    def prune(self, now: float | None = None) -> list[Pruned]:
        """One round over the rows. Raises :class:`JanitorBusyError` when another process is at it."""
        limits = self._limits(now)
        self._take()
        done = False
        try:
            pruned = [self._prune(kind, limits) for kind in self._kinds(limits)]
            done = not self._stop.is_set()
            return pruned
        finally:
            with self._database.write() as connection:
                janitor.give_back(connection, self.id, time.time(), done=done)

    def release(self, now: float | None = None) -> int:
        """Settle what commits left undone, and take away pins and change tables that are due, of all consumers. Returns how many
        captures are released; what could not be now is tried again later."""
        now = time.time() if now is None else now
        with self._database.read() as connection:
            if not captures.any_to_settle_or_release(connection, now):
                return 0
        from icefloe.capture import release  # PyIceberg takes a second to import
        from icefloe.lake import Lake

        lake, total = Lake.open(self._config), 0
        while not self._stop.is_set():
            released = release.sweep(lake, self._database, now, most=RELEASED_AT_ONCE)
            total += released
            if not released:
                break
        return total

    def remove_files(self, now: float | None = None) -> Pruned:
        """What dead workers have left in this project's folder."""
        paths = leftovers.leftovers(self._config.home, self._database, time.time() if now is None else now)
        return Pruned("files", len(paths), sum(leftovers.remove(path) for path in paths))

    def _limits(self, now: float | None) -> Limits:
        now = time.time() if now is None else now
        keep = self._config.keep
        times = {kind.name: keep.seconds(kind.name) for kind in retention.kinds()}
        before = {name: now - seconds for name, seconds in times.items() if seconds is not None}
        return Limits(now, before, keep.last_runs)

    def _kinds(self, limits: Limits) -> list[RetentionRule]:
        return [kind for kind in retention.kinds() if kind.name in limits.before]

    def _prune(self, kind: RetentionRule, limits: Limits) -> Pruned:
        began, total, error = time.monotonic(), Amount(), None
        try:
            while not self._stop.is_set():
                with self._database.write() as connection:
                    if not janitor.beat(connection, self.id, time.time()):
                        raise JanitorBusyError("another janitor has taken over")
                    gone = kind.delete(connection, limits)
                fault("janitor.between")
                total += gone
                if not gone.items:
                    break
        except JanitorBusyError:
            raise
        except IcefloeError as problem:
            error = str(problem)
            LOG.warning("%s could not be deleted, and will be later: %s", kind.name, error)
        if total.items or error:
            LOG.info("deleted %s %s (%s bytes)", total.items, kind.name, total.bytes)
            seconds = time.monotonic() - began
            entry = PruningRecord(time.time(), self.id, kind.name, total.items, total.bytes, seconds, error)
            with self._database.write() as connection:
                janitor.record(connection, entry)
        return Pruned(kind.name, total.items, total.bytes, error)

    def _take(self) -> None:
        """The lease, at once when it is free, or when its holder has not moved for the whole of ``lease_seconds``."""
        watched, since = None, time.monotonic()
        while True:
            with self._database.write() as connection:
                seen = janitor.lease(connection)
                silent = watched == seen and time.monotonic() - since >= self._lease_seconds
                if (seen is None or seen.holder is None or silent) and janitor.take(
                    connection, seen, self.id, time.time()
                ):
                    return
            if watched is not None and watched != seen:
                raise JanitorBusyError(f"{seen.holder if seen else 'another process'} is cleaning up at this moment")
            if watched is None:
                watched, since = seen, time.monotonic()
            if self._stop.wait(0.5):
                raise JanitorBusyError("told to end")

    # -- in serve ----------------------------------------------------------------------------------------------------------

    def _pause(self, seconds: float) -> float:
        self.next_at = time.time() + seconds
        return seconds

    def _repeat(self) -> None:
        every = self._config.keep.every_minutes * 60
        parts: tuple[Callable[[], object], ...] = (
            self.release,
            self.prune,
            self._database.give_back_space,
            self.remove_files,
        )
        while not self._stop.wait(self._pause(every * random.uniform(0.8, 1.2))):
            for part in parts:  # a catalog that is away keeps nothing else from being done
                try:
                    part()
                except JanitorBusyError as error:
                    LOG.info("%s", error)
                except Exception:
                    LOG.exception("a part of the janitor's round failed; the next round follows")
