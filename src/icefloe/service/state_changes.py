"""What has changed in the state database since somebody looked, as topics.

A topic is ``runs``, ``run:ID``, ``workflow:ID``, ``workflows``, ``incidents``, ``consumers``, ``signals``, ``audits``, ``system`` or ``janitor``; ``all``
stands for every one. A :class:`Position` is how far somebody has read: whoever comes back with it hears what was missed.
"""

from __future__ import annotations

import hashlib
import re
import time
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection, Row

from icefloe.store.database import Database
from icefloe.store.tables import (
    audits,
    captures,
    checkpoints,
    events,
    incidents,
    prunings,
    runs,
    signals,
    watermarks,
    workers,
    workflows,
)

MOST_RUNS = 500
"""So many runs are named in one change; more of them are ``all``."""
MOST_EVENTS = 10_000
SETTLED_SECONDS = 5.0
"""PostgreSQL numbers events before they are committed: for so long a number below the highest may still appear."""
ALL = ("all",)


@dataclass(frozen=True, slots=True)
class Position:
    """``number``: every event up to it has been told. ``marks``: a short digest of each other topic's state."""

    number: int = 0
    marks: Mapping[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        return ".".join((str(self.number), *(self.marks.get(topic, "") for topic in _MARKS)))

    @classmethod
    def parse(cls, text: str) -> Position | None:
        """None: nothing that this program has written."""
        number, *marks = text.split(".")
        if not re.fullmatch(r"[0-9]{1,18}", number) or len(marks) != len(_MARKS):
            return None
        return cls(int(number), dict(zip(_MARKS, marks, strict=True)))


def missed(database: Database, position: Position) -> tuple[str, ...]:
    """The topics of what happened after a position."""
    with database.read() as connection:
        rows = _events_after(connection, position.number)
        marks = _marks(connection)
    return _topics(rows) + tuple(topic for topic in marks if marks[topic] != position.marks.get(topic))


class ChangeReader:
    """Looks again and again. Not for several threads at once."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._settle = 0.0 if database.is_sqlite else SETTLED_SECONDS
        self._told: set[int] = set()
        self._highest: deque[tuple[float, int]] = deque()
        self.position: Position | None = None

    def look(self) -> tuple[str, ...]:
        """The topics that have changed since the last look; ``all`` at the first."""
        with self._database.read() as connection:
            last = int(connection.execute(_LAST_EVENT).scalar() or 0)
            rows = _events_after(connection, self.position.number) if self.position is not None else []
            marks = _marks(connection)
        before = self.position
        new = [row for row in rows if row.seq not in self._told]
        self._told.update(row.seq for row in new)
        self.position = Position(self._settled(last, time.monotonic()), marks)
        self._told = {seq for seq in self._told if seq > self.position.number}
        if before is None:
            return ALL
        return _topics(new) + tuple(topic for topic in marks if marks[topic] != before.marks.get(topic))

    def _settled(self, last: int, now: float) -> int:
        """The number up to which no event can appear any more."""
        self._highest.append((now, last))
        settled = self.position.number if self.position is not None else last
        while self._highest and self._highest[0][0] <= now - self._settle:
            settled = max(settled, self._highest.popleft()[1])
        return settled


def _topics(rows: Iterable[Row[Any]]) -> tuple[str, ...]:
    """Of events: their runs, the runs around them, and their workflows."""
    affected: dict[str, None] = {}
    workflow_ids: dict[str, None] = {}
    count = 0
    for row in rows:
        count += 1
        affected |= {row.run_id: None, row.root_id: None}
        workflow_ids[row.workflow_id] = None
    if count >= MOST_EVENTS or len(affected) > MOST_RUNS:
        return ALL
    if not affected:
        return ()
    return ("runs", *(f"run:{one}" for one in affected), *(f"workflow:{one}" for one in workflow_ids))


def _events_after(connection: Connection, number: int) -> list[Row[Any]]:
    return list(connection.execute(_EVENTS_AFTER, {"number": number}))


def _marks(connection: Connection) -> dict[str, str]:
    return {topic: _digest(connection.execute(query).one()) for topic, query in _MARKS.items()}


def _digest(row: Row[Any]) -> str:
    return hashlib.sha256(repr(tuple(row)).encode()).hexdigest()[:8]


def _values(*values: sa.ColumnElement[Any]) -> sa.Select[Any]:
    """One row of values that have nothing to do with each other."""
    return sa.select(*(sa.select(value).scalar_subquery() for value in values))


_LAST_EVENT = sa.select(sa.func.max(events.c.seq))
_EVENTS_AFTER = (
    sa.select(events.c.seq, events.c.run_id, runs.c.root_id, runs.c.workflow_id)
    .join(runs, runs.c.id == events.c.run_id)
    .where(events.c.seq > sa.bindparam("number"))
    .order_by(events.c.seq.desc())
    .limit(MOST_EVENTS)
)
_IS_THERE = workers.c.status != "GONE"
_MARKS = {
    "incidents": _values(sa.func.max(incidents.c.seq), sa.func.max(incidents.c.closed_at)),
    "consumers": _values(
        sa.func.max(audits.c.seq), sa.func.max(captures.c.ended_at), sa.func.max(checkpoints.c.moved_at)
    ),
    "signals": _values(sa.func.max(signals.c.seq), sa.func.max(watermarks.c.set_at)),
    "workflows": _values(
        sa.func.max(workflows.c.updated_at), sa.func.sum(workflows.c.paused), sa.func.sum(workflows.c.active)
    ),
    "audits": _values(sa.func.max(audits.c.seq)),
    "system": sa.select(
        sa.func.count(), sa.func.max(workers.c.started_at), sa.func.sum(sa.case((workers.c.status == "DRAINING", 1)))
    ).where(_IS_THERE),
    "janitor": _values(sa.func.max(prunings.c.seq)),
}
"""One row each, which is another when something has changed."""
