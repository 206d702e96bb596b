"""How far consumers are behind and how fresh targets are, kept for some seconds: pages ask often, and each answer loads metadata.

One thread at a time looks. Who asks gets the last answer at once; only the first asker, who would get nothing, waits a moment.
"""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from icefloe.errors import IcefloeError
from icefloe.store import captures

if TYPE_CHECKING:
    from icefloe.service.client import Client
    from icefloe.service.consumer_positions import ConsumerPosition
    from icefloe.service.freshness import TableFreshness

KEPT_SECONDS = 15.0


@dataclass(frozen=True, slots=True)
class LagReport:
    """``at`` None: nobody has looked yet. ``problem``: why the last look failed."""

    by_workflow: dict[str, tuple[ConsumerPosition, ...]]
    at: float | None = None
    problem: str | None = None
    targets: tuple[TableFreshness, ...] = ()
    """The late ones first."""

    def to_dict(self) -> dict[str, Any]:
        lags = {name: [position.to_dict() for position in each] for name, each in self.by_workflow.items()}
        targets = [target.to_dict() for target in self.targets]
        return {"consumers": lags, "targets": targets, "at": self.at, "problem": self.problem}


class ConsumerLags:
    def __init__(self, client: Client) -> None:
        self._client = client
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
        from icefloe.service.freshness import freshness  # PyIceberg takes a second to import

        before = self._report
        report = replace(before, problem="the catalog could not be read")
        try:
            with self._client.database.read() as connection:
                owners = {record.name: record.workflow_id for record in captures.all_consumers(connection)}
            by_workflow: dict[str, tuple[ConsumerPosition, ...]] = {}
            for position in self._client.consumers.listing() if owners else ():
                workflow_id = owners.get(position.consumer, "")
                by_workflow[workflow_id] = (*by_workflow.get(workflow_id, ()), position)
            report = LagReport(by_workflow, time.time(), None, tuple(freshness(self._client)))
        except IcefloeError as error:
            report = replace(before, problem=error.message)
        finally:
            with self._changed:
                self._report = report
                self._looked_at = time.monotonic()
                self._looking = False
                self._changed.notify_all()
