"""How far consumers are behind, kept for some seconds: pages ask often, and each answer loads the metadata of every source.

One thread at a time looks. Who asks gets the last answer at once; only the first asker, who would get nothing, waits a moment.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from icefloe.errors import IcefloeError
from icefloe.store import captures
from icefloe.store.database import Database

if TYPE_CHECKING:
    from icefloe.service.consumer_positions import ConsumerPosition
    from icefloe.service.consumers import Consumers

KEPT_SECONDS = 15.0


@dataclass(frozen=True, slots=True)
class LagReport:
    """``at`` None: nobody has looked yet. ``problem``: why the last look failed."""

    by_workflow: dict[str, tuple[ConsumerPosition, ...]]
    at: float | None = None
    problem: str | None = None

    def to_dict(self) -> dict[str, Any]:
        lags = {name: [position.to_dict() for position in each] for name, each in self.by_workflow.items()}
        return {"consumers": lags, "at": self.at, "problem": self.problem}


class ConsumerLags:
    def __init__(self, database: Database, consumers: Callable[[], Consumers]) -> None:
        self._database = database
        self._consumers = consumers
        self._changed = threading.Condition()
        self._report = LagReport({})
        self._looked_at = float("-inf")
        self._looking = False

    def latest(self, wait: float = 0.5) -> LagReport:
        """Never raises: what is wrong is in the report."""
        with self._changed:
            if not self._looking and time.monotonic() - self._looked_at > KEPT_SECONDS:
                self._looking = True
                threading.Thread(target=self._look, name="icefloe-lags", daemon=True).start()
            if self._report.at is None and self._report.problem is None:
                self._changed.wait_for(lambda: not self._looking, wait)
            return self._report

    def _look(self) -> None:
        report = LagReport(self._report.by_workflow, self._report.at, "the catalog could not be read")
        try:
            with self._database.read() as connection:
                owners = {record.name: record.workflow_id for record in captures.all_consumers(connection)}
            by_workflow: dict[str, tuple[ConsumerPosition, ...]] = {}
            for position in self._consumers().listing() if owners else ():
                workflow_id = owners.get(position.consumer, "")
                by_workflow[workflow_id] = (*by_workflow.get(workflow_id, ()), position)
            report = LagReport(by_workflow, time.time())
        except IcefloeError as error:
            report = LagReport(self._report.by_workflow, self._report.at, error.message)
        finally:
            with self._changed:
                self._report = report
                self._looked_at = time.monotonic()
                self._looking = False
                self._changed.notify_all()
