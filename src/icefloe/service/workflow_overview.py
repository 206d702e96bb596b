"""All workflows at a glance: how their last runs ended, when they start next, what holds them back.

A handful of statements however many workflows there are. Definitions are parsed once per version; what a listing needs of
them is kept.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from icefloe.config import Config
from icefloe.engine.states import RunStatus
from icefloe.store import definitions, incidents, run_history, runs, triggers
from icefloe.store.database import Database
from icefloe.store.definitions import WorkflowRecord
from icefloe.store.incidents import IncidentRecord
from icefloe.store.run_history import RunLine
from icefloe.store.tables import workflow_versions
from icefloe.store.triggers import TriggerRecord
from icefloe.triggers.next_fires import next_fires
from icefloe.triggers.plans import ArmedTrigger, plan
from icefloe.workflow.model import RunRule
from icefloe.workflow.versions import WorkflowVersion

OUTCOMES = 20
_AT_ONCE = 400


@dataclass(frozen=True, slots=True)
class WorkflowFacts:
    """What listings need of one version's definition."""

    version: int
    owner: str | None
    name: str | None
    description: str | None
    tags: tuple[str, ...]
    criticality: str | None
    steps: int
    run_rule: str
    freshness: float | None
    armed: tuple[ArmedTrigger, ...]


@dataclass(frozen=True, slots=True)
class WorkflowOverview:
    """``outcomes`` are its newest runs, newest first. ``blocked_by``: the run after which a STRICT_SEQUENTIAL workflow waits for a word."""

    id: str
    version: int
    owner: str | None
    name: str | None
    description: str | None
    tags: tuple[str, ...]
    criticality: str | None
    steps: int
    triggers: tuple[str, ...]
    run_strategy: str
    freshness: float | None
    paused: bool
    active: bool
    pushed_at: float
    outcomes: tuple[RunLine, ...]
    next_start: float | None
    blocked_by: str | None
    incidents: tuple[IncidentRecord, ...]
    armed: tuple[ArmedTrigger, ...] = ()

    @property
    def last_ended(self) -> RunLine | None:
        return next((run for run in self.outcomes if RunStatus(run.status).ended), None)

    @property
    def running(self) -> tuple[RunLine, ...]:
        return tuple(run for run in self.outcomes if not RunStatus(run.status).ended)

    @property
    def state(self) -> str:
        """One word: what somebody would want to know first."""
        last = self.last_ended
        if not self.active:
            return "deactivated"
        if self.blocked_by:
            return "blocked"
        if last is not None and last.status in ("FAILED", "TIMED_OUT"):
            return "failed"
        if self.paused:
            return "paused"
        if self.running:
            return "running"
        if last is None:
            return "new"
        return "stopped" if last.status == "STOPPED" else "ok"

    def to_dict(self) -> dict[str, Any]:
        values = {
            name: getattr(self, name) for name in self.__slots__ if name not in ("outcomes", "incidents", "armed")
        }
        return {
            **values,
            "state": self.state,
            "outcomes": [{"run_id": run.id, "status": run.status} for run in self.outcomes],
            "incidents": [incident.message for incident in self.incidents],
        }


STATES = ("failed", "blocked", "paused", "deactivated", "running", "stopped", "new", "ok")


class WorkflowOverviews:
    """Keeps what it has read of definitions; everything else is read anew each time."""

    def __init__(self, config: Config, database: Database, clock: Callable[[], float] = time.time) -> None:
        self._catalog = config.catalog.name
        self._database = database
        self._clock = clock
        self._facts: dict[str, WorkflowFacts] = {}

    def all(self, *, outcomes: int = OUTCOMES) -> list[WorkflowOverview]:
        with self._database.read() as connection:
            records = [record for record in definitions.listing(connection) if record.latest_version]
            return self._overviews(connection, records, outcomes)

    def one(self, workflow_id: str, *, outcomes: int = OUTCOMES) -> WorkflowOverview | None:
        with self._database.read() as connection:
            record = definitions.load(connection, workflow_id)
            if record is None or not record.latest_version:
                return None
            return self._overviews(connection, [record], outcomes)[0]

    def _overviews(
        self, connection: Connection, records: list[WorkflowRecord], outcomes: int
    ) -> list[WorkflowOverview]:
        self._read_facts(connection, records)
        newest = run_history.newest_of_each(connection, [record.id for record in records], outcomes)
        only = records[0].id if len(records) == 1 else None
        opened: dict[str, list[IncidentRecord]] = {}
        for incident in incidents.open_of(connection, only):
            opened.setdefault(incident.workflow_id, []).append(incident)
        cursors = _cursors(connection, only)
        now = self._clock()
        found = []
        for record in records:
            facts = self._facts.get(record.id)
            if facts is None:
                continue
            fires = [
                fire for armed in facts.armed for fire in next_fires(record, armed, cursors.get(record.id, {}), now, 1)
            ]
            found.append(
                WorkflowOverview(
                    record.id, facts.version, facts.owner, facts.name, facts.description, facts.tags,
                    facts.criticality, facts.steps, tuple(armed.kind for armed in facts.armed), facts.run_rule,
                    facts.freshness, record.paused, record.active, record.updated_at, tuple(newest[record.id]),
                    min(fires, default=None), _blocked_by(connection, record, facts, newest[record.id]),
                    tuple(opened.get(record.id, ())), facts.armed,
                )
            )  # fmt: skip
        return found

    def _read_facts(self, connection: Connection, records: list[WorkflowRecord]) -> None:
        missing = [
            record.id
            for record in records
            if record.id not in self._facts or self._facts[record.id].version != record.latest_version
        ]
        latest = {record.id: record.latest_version for record in records}
        columns = (workflow_versions.c.workflow_id, workflow_versions.c.version, workflow_versions.c.definition)
        for start in range(0, len(missing), _AT_ONCE):
            pairs = [(name, latest[name]) for name in missing[start : start + _AT_ONCE]]
            key = sa.tuple_(workflow_versions.c.workflow_id, workflow_versions.c.version)
            for row in connection.execute(sa.select(*columns).where(key.in_(pairs))):
                self._facts[row.workflow_id] = self._parsed(int(row.version), row.definition)

    def _parsed(self, version: int, definition: str) -> WorkflowFacts:
        workflow = WorkflowVersion.from_dict(json.loads(definition)).workflow
        return WorkflowFacts(
            version, workflow.owner, workflow.name, workflow.description, workflow.tags, workflow.criticality,
            sum(1 for _ in workflow.all_steps()), workflow.run_strategy.rule.value, workflow.freshness,
            plan(workflow, version, catalog=self._catalog).triggers,
        )  # fmt: skip


def _cursors(connection: Connection, only: str | None) -> Mapping[str, dict[str, TriggerRecord]]:
    if only is not None:
        return {only: triggers.of_workflow(connection, only)}
    found: dict[str, dict[str, TriggerRecord]] = {}
    for record in triggers.listing(connection):
        found.setdefault(record.workflow_id, {})[record.name] = record
    return found


def _blocked_by(
    connection: Connection, record: WorkflowRecord, facts: WorkflowFacts, outcomes: list[RunLine]
) -> str | None:
    """The same question as the conductor asks before it lets a run begin."""
    if facts.run_rule != RunRule.STRICT_SEQUENTIAL.value:
        return None
    ended = next((run for run in outcomes if RunStatus(run.status).ended), None)
    if ended is not None:
        last: tuple[str, str, int] | None = (ended.id, ended.status, ended.seq)
    else:
        older = runs.latest(connection, record.id, ended=True) if outcomes else None
        last = (older.id, older.status, older.seq or 0) if older is not None else None
    if last is None or last[1] == RunStatus.SUCCEEDED or last[2] <= record.unblocked:
        return None
    return last[0]
