"""Runs as listings and charts show them: few columns of many runs. Iterations of a foreach are left out everywhere here.

No statement reads more than it is asked for, however many runs there are: pages go by ``seq``, and a moment is first
turned into a ``seq`` (:func:`seq_at`).
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from icefloe.store.tables import runs, steps

# Literally the predicate of the partial indexes: SQLite does not see through bound values (3.40).
_IS_LISTED = sa.text("runs.iteration IS NULL")
_AT_ONCE = 60
"""Statements in one UNION: SQLite takes 500 at most, and each has its own place in the plan."""


@dataclass(frozen=True, slots=True)
class RunLine:
    """A run in a listing."""

    seq: int
    id: str
    workflow_id: str
    number: int | None
    version: int
    status: str
    request: str | None
    created_at: float
    started_at: float | None
    ended_at: float | None
    restarts: int
    parent_id: str | None
    initiator: dict[str, Any]
    cause: dict[str, Any] | None

    def to_dict(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.__slots__}


@dataclass(frozen=True, slots=True)
class StepOutcome:
    """One step of one run, for a grid."""

    run_id: str
    step_id: str
    status: str
    attempts: int
    started_at: float | None
    ended_at: float | None


_COLUMNS = (
    runs.c.seq, runs.c.id, runs.c.workflow_id, runs.c.number, runs.c.version, runs.c.status, runs.c.request,
    runs.c.created_at, runs.c.started_at, runs.c.ended_at, runs.c.restarts, runs.c.parent_id, runs.c.initiator,
    runs.c.cause,
)  # fmt: skip


def lines(
    connection: Connection,
    *,
    workflow_id: str | None = None,
    status: str | None = None,
    before: int | None = None,
    after: int | None = None,
    since: int | None = None,
    until: int | None = None,
    most: int = 50,
) -> list[RunLine]:
    """Newest first. ``before`` and ``after`` are the ``seq`` to go on from, to older or to newer runs; ``since`` (with it)
    and ``until`` (without it) bound the whole."""
    query = sa.select(*_COLUMNS).where(_IS_LISTED)
    if workflow_id is not None:
        query = query.where(runs.c.workflow_id == workflow_id)
    if status is not None:
        query = query.where(runs.c.status == status)
    if before is not None:
        query = query.where(runs.c.seq < before)
    if since is not None:
        query = query.where(runs.c.seq >= since)
    if until is not None:
        query = query.where(runs.c.seq < until)
    if after is not None:
        rows = connection.execute(query.where(runs.c.seq > after).order_by(runs.c.seq).limit(most)).all()
        return [_line(row) for row in reversed(rows)]
    return [_line(row) for row in connection.execute(query.order_by(runs.c.seq.desc()).limit(most))]


def active(connection: Connection, most: int) -> list[RunLine]:
    """Runs that have not ended, newest first."""
    query = sa.select(*_COLUMNS).where(sa.text("runs.status IN ('CREATED', 'IN_PROGRESS', 'PAUSED')"), _IS_LISTED)
    return [_line(row) for row in connection.execute(query.order_by(runs.c.seq.desc()).limit(most))]


def newest_of_each(connection: Connection, workflow_ids: Sequence[str], most: int) -> dict[str, list[RunLine]]:
    """The newest runs of each workflow, newest first, in few statements."""
    found: dict[str, list[RunLine]] = {workflow_id: [] for workflow_id in workflow_ids}
    for start in range(0, len(workflow_ids), _AT_ONCE):
        parts = []
        for workflow_id in workflow_ids[start : start + _AT_ONCE]:
            newest = sa.select(*_COLUMNS).where(_IS_LISTED, runs.c.workflow_id == workflow_id)
            parts.append(sa.select(newest.order_by(runs.c.seq.desc()).limit(most).subquery()))
        for row in connection.execute(sa.union_all(*parts)):
            found[row.workflow_id].append(_line(row))
    for each in found.values():
        each.sort(key=lambda line: -line.seq)
    return found


def seq_at(connection: Connection, moment: float) -> int:
    """The ``seq`` from which on runs were made at or after a moment.

    Runs are numbered as they are made, so this halves the range again and again: some twenty reads by the primary key
    instead of an index on times.
    """
    bounds = connection.execute(sa.select(sa.func.min(runs.c.seq), sa.func.max(runs.c.seq))).one()
    if bounds[0] is None:
        return 0
    low, high = int(bounds[0]), int(bounds[1]) + 1
    while low < high:
        middle = (low + high) // 2
        query = sa.select(runs.c.seq, runs.c.created_at).where(runs.c.seq >= middle).order_by(runs.c.seq).limit(1)
        row = connection.execute(query).one()
        if row.created_at >= moment:
            high = middle
        else:
            low = int(row.seq) + 1
    return low


def step_outcomes(connection: Connection, run_ids: Sequence[str]) -> list[StepOutcome]:
    """Every step of some runs."""
    if not run_ids:
        return []
    query = sa.select(
        steps.c.run_id, steps.c.step_id, steps.c.status, steps.c.attempt, steps.c.started_at, steps.c.ended_at
    ).where(steps.c.run_id.in_(list(run_ids)))
    return [StepOutcome(*row) for row in connection.execute(query.order_by(steps.c.run_id, steps.c.position))]


def iterations(
    connection: Connection, run_id: str, step_id: str, *, statuses: Sequence[str] = (), after: int = -1, most: int = 50
) -> list[tuple[int, str, str]]:
    """Number, run and status of a foreach's iterations, in order."""
    query = sa.select(runs.c.iteration, runs.c.id, runs.c.status).where(
        runs.c.parent_id == run_id, runs.c.parent_step == step_id, runs.c.iteration > after
    )
    if statuses:
        query = query.where(runs.c.status.in_(list(statuses)))
    rows = connection.execute(query.order_by(runs.c.iteration).limit(most))
    return [(int(row[0]), str(row[1]), str(row[2])) for row in rows]


def _line(row: Any) -> RunLine:
    values = dict(row._mapping)
    values["initiator"] = json.loads(values["initiator"]) if values["initiator"] else {}
    values["cause"] = json.loads(values["cause"]) if values["cause"] else None
    return RunLine(**values)
