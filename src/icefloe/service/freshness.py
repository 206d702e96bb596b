"""How fresh each target is, and against which goal: ``freshness:`` of the workflow that writes it, else the time of its ``max_lag``.

A goal is judged as the scheduler judges it: by the age of the oldest change that the workflow has not taken, and for a workflow without
captures by the time since its last good run. Metadata and the state database are looked at; nothing is opened that holds rows.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

from icefloe.capture.completeness import stated_watermark
from icefloe.errors import IcefloeError
from icefloe.lake import Checkpoint, history
from icefloe.lake.catalog import LoadedTable
from icefloe.lake.metadata import Snapshot
from icefloe.service.client import Client
from icefloe.service.definition_tables import KnownTables, WorkflowTables
from icefloe.store import triggers
from icefloe.store.database import Database
from icefloe.store.definitions import WorkflowRecord
from icefloe.triggers import workflow_snapshots
from icefloe.triggers.pending_changes import pending_changes
from icefloe.triggers.plans import ArmedTrigger
from icefloe.triggers.sources import WatchedTable
from icefloe.triggers.workflow_snapshots import WorkflowSnapshot
from icefloe.workflow.model import IncrementalTrigger

State = Literal["fresh", "late", "unknown"]
MOST_TABLES = 500
Loaded = Mapping[str, LoadedTable | IcefloeError]


@dataclass(frozen=True, slots=True)
class TableFreshness:
    """One target. ``state`` is unknown without a goal, and where ``behind_seconds`` cannot be told; ``why`` says which.

    ``newest_at``: when the head of ``main`` was committed. ``published_at``: when Icefloe last published a batch. ``complete_through``: by the
    table's watermark or its own property. ``behind_seconds`` is what is compared with the goal.
    """

    table: str
    state: State
    why: str
    workflow_id: str | None = None
    goal_seconds: float | None = None
    behind_seconds: float | None = None
    complete_through: float | None = None
    newest_at: float | None = None
    newest_snapshot: int | None = None
    published_at: float | None = None
    rows: int | None = None
    problem: str | None = None
    """Why the table cannot be read."""

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True, slots=True)
class _Behind:
    """How far one workflow is behind its goal."""

    workflow_id: str
    goal: float
    seconds: float | None
    why: str

    @property
    def state(self) -> State:
        if self.seconds is None:
            return "unknown"
        return "late" if self.seconds > self.goal else "fresh"


def freshness(client: Client) -> list[TableFreshness]:
    """Of every target that definitions or publications name, by name; those that are late come first."""
    known = client.definition_tables.known()
    targets = sorted(known.targets)[:MOST_TABLES]
    goals = [one for one in known.workflows.values() if one.freshness is not None]
    sources = {watched.table for one in goals if one.plan.reading for watched in one.plan.reading.watches}
    loaded = client.table_metadata.load([*targets, *sources])
    behind = behind_goals(client.database, known, goals, loaded)
    found = [freshness_of(table, known, behind, loaded) for table in targets]
    return sorted(found, key=lambda one: (one.state != "late", one.table))


def behind_goals(
    database: Database, known: KnownTables, goals: Iterable[WorkflowTables], loaded: Loaded
) -> dict[str, _Behind]:
    """By workflow. ``loaded`` has the tables that their captures read."""
    found: dict[str, _Behind] = {}
    now = time.time()
    with database.read() as connection:
        for one in goals:
            reading = one.plan.reading
            if reading is None:
                last = triggers.last_success(connection, one.workflow_id)
                found[one.workflow_id] = _behind_runs(one, known.records[one.workflow_id], last, now)
                continue
            # What a trigger remembers by itself is read for each; a consumer's checkpoint is known already.
            snapshot = None
            if any(watched.consumer is None for watched in reading.watches):
                snapshot = workflow_snapshots.read(connection, known.records[one.workflow_id], one.plan)
            positions = {watched: _position(known, snapshot, reading, watched) for watched in reading.watches}
            found[one.workflow_id] = _behind_reading(one, reading, positions, loaded, now)
    return found


def _position(
    known: KnownTables, snapshot: WorkflowSnapshot | None, reading: ArmedTrigger, watched: WatchedTable
) -> Checkpoint | None:
    if watched.consumer is None:
        return snapshot.position(reading, watched) if snapshot is not None else None
    record = known.positions.get((watched.consumer, watched.table))
    return workflow_snapshots.checkpoint_of(record) if record is not None and record.ref == watched.ref else None


def freshness_of(table: str, known: KnownTables, behind: Mapping[str, _Behind], loaded: Loaded) -> TableFreshness:
    answer = loaded[table]
    judged = [behind[name] for name in known.writers(table) if name in behind]
    worst = max(judged, key=lambda one: (one.state == "late", one.state == "unknown", -one.goal), default=None)
    if isinstance(answer, IcefloeError):
        head, through, problem = (
            None,
            stated_watermark(known.watermarks.get(table), {}),
            f"{answer.code}: {answer.message}",
        )
    else:
        head, problem = head_of(answer), None
        through = stated_watermark(known.watermarks.get(table), answer.metadata.properties)
    state: State = "unknown" if worst is None else worst.state
    why = "no goal is set: freshness: 30m in the workflow that writes it" if worst is None else worst.why
    return TableFreshness(
        table,
        state if problem is None or state == "late" else "unknown",
        why if problem is None or state == "late" else f"the table cannot be read: {problem}",
        worst.workflow_id if worst else None,
        worst.goal if worst else None,
        worst.seconds if worst else None,
        through,
        head.timestamp_ms / 1000 if head else None,
        head.id if head else None,
        known.published.get(table),
        number(head, "total-records") if head else None,
        problem,
    )


def head_of(table: LoadedTable) -> Snapshot | None:
    """The newest snapshot of ``main``."""
    found = history.head(table.metadata, "main", table=table.name)
    return table.metadata.snapshots.get(found) if found is not None else None


def number(snapshot: Snapshot, key: str) -> int | None:
    """A count of a snapshot's summary; None: its writer did not say."""
    text = snapshot.summary.get(key, "")
    return int(text) if text.isascii() and text.isdigit() else None


def _behind_reading(
    one: WorkflowTables,
    reading: ArmedTrigger,
    positions: Mapping[WatchedTable, Checkpoint | None],
    loaded: Loaded,
    now: float,
) -> _Behind:
    goal, name = one.freshness, one.workflow_id
    assert goal is not None
    assert isinstance(reading.trigger, IncrementalTrigger)
    oldest: list[tuple[float, str]] = []
    for watched, position in positions.items():
        answer = loaded.get(watched.table)
        if not isinstance(answer, LoadedTable):
            problem = answer.message if answer is not None else "it has not been read"
            return _Behind(name, goal, None, f"{watched.table} cannot be read: {problem}")
        found = pending_changes(
            answer.metadata,
            watched.table,
            ref=watched.ref,
            position=position,
            operations=frozenset(reading.trigger.operations),
        )
        if found.lost or found.problem:
            return _Behind(name, goal, None, f"{watched.table}: {found.lost or found.problem}")
        if found.snapshots and found.oldest_ms is not None:
            oldest.append((found.oldest_ms / 1000, watched.table))
    if not oldest:
        return _Behind(name, goal, 0.0, "it has taken everything that its sources have")
    at, table = min(oldest)
    return _Behind(name, goal, max(now - at, 0.0), f"the oldest change that it has not taken is in {table}")


def _behind_runs(one: WorkflowTables, record: WorkflowRecord, last_success: float | None, now: float) -> _Behind:
    goal = one.freshness
    assert goal is not None
    since = last_success if last_success is not None else record.created_at
    why = "since its last good run" if last_success is not None else "none of its last runs has succeeded"
    return _Behind(one.workflow_id, goal, max(now - since, 0.0), why)
