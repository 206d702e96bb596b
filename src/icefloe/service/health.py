"""Whether a server can do its work: for load balancers and supervisors, who are told which check failed and nothing else."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from icefloe.errors import IcefloeError
from icefloe.service.serving import Service
from icefloe.store import migrations
from icefloe.store.database import Database
from icefloe.store.migrations import SchemaError

SILENT_SECONDS = 60.0
"""A scheduler or worker whose loop has not gone round for so long hangs: it does so every few seconds."""
FRESH_SECONDS = 1.0
"""An answer is given again for so long: nobody has logged in who asks, and a look costs a transaction."""
PATIENCE_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class Check:
    """``problem`` None: all is well. It is a fixed text, without addresses or names."""

    name: str
    problem: str | None


class Readiness:
    """``service`` None: this process has neither a scheduler nor a worker to be asked about."""

    def __init__(self, database: Database, service: Service | None = None) -> None:
        self._database = database
        self._service = service
        self._lock = threading.Lock()
        self._checked: tuple[float, tuple[Check, ...]] = (float("-inf"), ())

    def checks(self) -> tuple[Check, ...]:
        """What holds now, or held a moment ago. One look at a time, however many ask."""
        if not self._lock.acquire(timeout=PATIENCE_SECONDS):
            return (Check("state", "the state database has not answered yet"),)
        try:
            at, known = self._checked
            if time.monotonic() - at >= FRESH_SECONDS:
                known = tuple(self._look())
                self._checked = time.monotonic(), known
            return known
        finally:
            self._lock.release()

    def _look(self) -> list[Check]:
        found = [Check("state", self._state())]
        if self._service is not None:
            scheduler, worker = self._service.scheduler, self._service.worker
            found.append(Check("scheduler", _turning(self._service.schedules, lambda: scheduler.looked_at)))
            found.append(Check("worker", _turning(self._service.works, lambda: worker.turned_at)))
        return found

    def _state(self) -> str | None:
        try:
            migrations.check(self._database)
        except SchemaError:
            return "the schema does not fit this program"
        except IcefloeError:
            return "the state database does not answer"
        return None


def _turning(alive: bool, last: Callable[[], float | None]) -> str | None:
    if not alive:
        return "does not run"
    at = last()
    if at is None:
        return "has not begun yet"
    silent = time.monotonic() - at
    return f"has not gone round for {silent:.0f} s" if silent > SILENT_SECONDS else None
