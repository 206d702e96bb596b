"""The janitor: deletes what is over and past its keep time (``[keep]``), in ``icefloe serve`` and by ``icefloe db prune``."""

from __future__ import annotations

import logging
import os
import random
import secrets
import socket
import threading
import time
from dataclasses import asdict, dataclass
from typing import Any

from icefloe.config import Config
from icefloe.errors import ConflictError, IcefloeError
from icefloe.faults import fault
from icefloe.store import janitor, retention
from icefloe.store.database import Database
from icefloe.store.janitor import PruningRecord
from icefloe.store.retention import Amount, Kind

LOG = logging.getLogger("icefloe.janitor")
LEASE_SECONDS = 60.0


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
    """One round at a time over all processes: see :mod:`icefloe.store.janitor`."""

    def __init__(self, config: Config, database: Database) -> None:
        self.id = f"{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(3)}"
        self._config, self._database = config, database
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._repeat, name="icefloe-janitor", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join(10)

    def due(self, now: float | None = None) -> list[Pruned]:
        """What a round would delete now; nothing is."""
        found = []
        for kind, before in self._kinds(time.time() if now is None else now):
            with self._database.read() as connection:
                amount = kind.due(connection, before)
            found.append(Pruned(kind.name, amount.items, amount.bytes))
        return found

    def prune(self, now: float | None = None) -> list[Pruned]:
        """One round. Raises :class:`JanitorBusyError` when another process is at it."""
        self._take()
        done = False
        try:
            found = [self._prune(kind, before) for kind, before in self._kinds(time.time() if now is None else now)]
            done = True
            return found
        finally:
            with self._database.write() as connection:
                janitor.give_back(connection, self.id, time.time(), done=done)

    def release(self, now: float | None = None) -> int:
        """Settle what commits left undone, and take away pins and change tables that are due, of all consumers. Returns how many
        captures are released. May be done by several at once."""
        from icefloe.capture import release  # PyIceberg takes a second to import
        from icefloe.lake import Lake

        return release.sweep(Lake.open(self._config), self._database, time.time() if now is None else now, most=1000)

    def _kinds(self, now: float) -> list[tuple[Kind, float]]:
        keep = self._config.keep
        times = [(kind, keep.seconds(kind.name)) for kind in retention.kinds(keep.last_runs)]
        return [(kind, now - seconds) for kind, seconds in times if seconds is not None]

    def _prune(self, kind: Kind, before: float) -> Pruned:
        began, total, error = time.monotonic(), Amount(), None
        try:
            while not self._stop.is_set():
                with self._database.write() as connection:
                    if not janitor.beat(connection, self.id, time.time()):
                        raise JanitorBusyError("another janitor has taken over")
                    gone = kind.delete(connection, before)
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
        """The lease, at once when it is free, or when its holder has not moved for the whole of ``LEASE_SECONDS``."""
        watched, since = None, time.monotonic()
        while True:
            with self._database.write() as connection:
                seen = janitor.lease(connection)
                silent = watched == seen and time.monotonic() - since >= LEASE_SECONDS
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

    def _repeat(self) -> None:
        every = self._config.keep.every_minutes * 60
        while not self._stop.wait(every * random.uniform(0.8, 1.2)):
            try:
                self.release()
                self.prune()
                self._database.give_back_space()
            except JanitorBusyError as error:
                LOG.info("%s", error)
            except Exception:
                LOG.exception("a round of the janitor failed; the next follows")
