"""Starting runs for occasions, each exactly once.

A decision is made on rows that were read some time ago. It counts only if they still say the same when its run is made: the
transaction that makes the run holds the workflow's row, looks again (:class:`CursorClaim`), and moves the trigger's cursor by
compare-and-set. Two schedulers that decide the same thing at once therefore make one run; so do one that was paused for an
hour in between and one that was killed and started again. The run's occasion is unique per workflow besides.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from sqlalchemy.engine import Connection

from icefloe.faults import fault
from icefloe.store import captures, triggers
from icefloe.store.definitions import WorkflowRecord
from icefloe.store.triggers import TriggerRecord
from icefloe.triggers.workflow_snapshots import WorkflowSnapshot
from icefloe.workflow.model import Param


@dataclass(frozen=True, slots=True)
class TriggerEvent:
    """What a run is started for. ``state`` is the trigger's cursor afterwards."""

    name: str
    state: Mapping[str, Any]
    reason: str
    params: tuple[Param, ...] = ()
    values: Mapping[str, Any] = field(default_factory=dict)
    signals: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    lineage: Mapping[str, int] = field(default_factory=dict)
    alone: bool = False
    """Only while no other run of the workflow is under way."""


class Starter(Protocol):
    """Makes runs; see ``icefloe.service.runs``."""

    def __call__(
        self,
        workflow_id: str,
        occasion: TriggerEvent,
        trigger: str,
        claim: Callable[[Connection, WorkflowRecord, str], bool],
    ) -> str | None:
        """The id of the run, made now or before; None: the claim did not hold, and nothing was made."""
        ...


@dataclass(frozen=True, slots=True)
class CursorClaim:
    """Whether a decision still holds, asked inside the transaction that makes its run."""

    snapshot: WorkflowSnapshot
    row: TriggerRecord
    occasion: TriggerEvent
    now: float

    def __call__(self, connection: Connection, workflow: WorkflowRecord, run_id: str) -> bool:
        known = self.snapshot.record
        if workflow.latest_version != self.snapshot.plan.version or workflow.paused or not workflow.active:
            return False
        if workflow.forgiven != known.forgiven:
            return False
        if self.occasion.alone:
            if triggers.active_runs(connection, workflow.id, 1):
                return False
            for name, reading in self.snapshot.readings.items():
                consumer = captures.consumer(connection, name)
                if consumer is not None and consumer.version != reading.version:
                    return False
        fault("scheduler.before_start")
        return triggers.move(connection, self.row, self.occasion.state, run_id=run_id, now=self.now) is not None
