"""Who is alive: a worker's own lease, and its view of the others.

A worker counts up a number in its row. It may rely on what it holds until a moment on its *own* monotonic clock, reckoned
from before the last count was written (:attr:`Lease.valid_until`); its steps' supervisors end them at that moment. A contender
takes a worker for gone when it has seen the same count for the whole length of a lease on *its* monotonic clock, without a
gap in its own observation. No two clocks are ever compared, and a jump of the wall clock means nothing.

On one host a worker also holds a file lock; a lock that can be taken proves death at once.
"""

from __future__ import annotations

import fcntl
import os
import platform
import threading
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import icefloe
from icefloe import suppressed
from icefloe.errors import IcefloeError
from icefloe.store import workers
from icefloe.store.database import Database
from icefloe.store.workers import WorkerRecord

TRUST = 0.75
"""The part of a lease for which its holder relies on it; the rest is the contender's margin."""
BEATS_PER_LEASE = 6


def this_host() -> str:
    """This machine since its last boot."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()[:8]
    except OSError:
        boot = "-"
    return f"{platform.node()}/{boot}"


class Lease:
    """This process's own row among the workers, kept alive by a thread."""

    def __init__(
        self,
        database: Database,
        folder: Path,
        *,
        seconds: float,
        slots: int,
        serves: str,
        on_change: Callable[[], None] = lambda: None,
    ) -> None:
        self.worker_id = f"{platform.node()}-{os.getpid()}-{uuid.uuid4().hex[:6]}"
        self.seconds = seconds
        self.valid_until = 0.0
        self.lost = False
        self._database = database
        self._slots = slots
        self._serves = serves
        self._on_change = on_change
        folder.mkdir(parents=True, exist_ok=True)
        self._file = folder / f"{self.worker_id}.lock"
        self._lock: IO[bytes] | None = None
        self._counts: dict[str, suppressed.Suppressed] = {}
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._keep, name="icefloe-lease", daemon=True)

    @property
    def interval(self) -> float:
        return self.seconds / BEATS_PER_LEASE

    def open(self) -> None:
        # The lock is held before anybody can see the row: an unlocked file always means a dead worker.
        self._lock = self._file.open("wb")
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        now, at = time.time(), time.monotonic()
        record = WorkerRecord(
            self.worker_id, this_host(), os.getpid(), str(self._file), workers.ALIVE, 0, self._slots, self._serves,
            icefloe.__version__, now, now,
        )  # fmt: skip
        with self._database.write() as connection:
            workers.add(connection, record)
            workers.forget_gone(connection, before=now - 24 * 3600)
        self.valid_until = at + TRUST * self.seconds
        self._thread.start()

    def _keep(self) -> None:
        wait = self.interval
        while not self._stop.wait(wait):
            at = time.monotonic()
            try:
                with self._database.write() as connection:
                    alive = workers.beat(connection, self.worker_id, time.time())
            except IcefloeError as error:
                suppressed.count("lease.beat", error, where=self.worker_id)
                wait = min(self.interval, 0.5)
                continue
            wait = self.interval
            self._leave_counts()
            if not alive:
                self.lost = True
                self._on_change()
                return
            self.valid_until = at + TRUST * self.seconds
            self._on_change()

    def _leave_counts(self) -> None:
        counts = suppressed.counts()
        if counts != self._counts:
            with suppressed.errors("suppressed.write", OSError):
                suppressed.write(suppressed.file_beside(self._file))
                self._counts = counts

    def drain(self) -> None:
        with self._database.write() as connection:
            workers.set_status(connection, self.worker_id, workers.DRAINING)

    def close(self) -> None:
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join(timeout=10)
        # When it cannot be said, others find the lock released.
        with suppressed.errors("lease.close", IcefloeError, where=self.worker_id), self._database.write() as connection:
            workers.declare_gone(connection, self.worker_id, None)
        if self._lock is not None:
            suppressed.file_beside(self._file).unlink(missing_ok=True)
            self._file.unlink(missing_ok=True)
            self._lock.close()


@dataclass(slots=True)
class _BeatSeen:
    beat: int
    since: float
    last: float


class LivenessMonitor:
    """Watches the other workers and says which are gone."""

    def __init__(self, lease_seconds: float, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._seconds = lease_seconds
        self._clock = clock
        self._beats: dict[str, _BeatSeen] = {}

    def dead_workers(self, living: list[WorkerRecord], own_id: str) -> list[tuple[WorkerRecord, int | None]]:
        """Workers to declare gone, each with the count it was seen with (None: its death is proven)."""
        now = self._clock()
        silent: list[tuple[WorkerRecord, int | None]] = []
        for worker in living:
            if worker.id == own_id:
                continue
            if is_dead(worker):
                silent.append((worker, None))
            elif self._silent(worker, now):
                silent.append((worker, worker.beat))
        self._beats = {key: beat for key, beat in self._beats.items() if key in {w.id for w in living}}
        return silent

    def _silent(self, worker: WorkerRecord, now: float) -> bool:
        beat = self._beats.get(worker.id)
        # A gap in our own view (we were paused, or the database was away) proves nothing: start over.
        watched = beat is not None and now - beat.last <= self._seconds / 2
        if beat is None or beat.beat != worker.beat or not watched:
            self._beats[worker.id] = _BeatSeen(worker.beat, now, now)
            return False
        beat.last = now
        return now - beat.since >= self._seconds


def is_dead(worker: WorkerRecord) -> bool:
    """Whether the worker's file lock, if it is on a file that we can see, is free."""
    if worker.host != this_host():
        return False
    try:
        with Path(worker.lock_file).open("r+b") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
