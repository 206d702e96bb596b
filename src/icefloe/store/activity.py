"""What has happened, for who reports it elsewhere: moves of runs and steps, ended captures and prunings, each told once.

:class:`Activity` reads on from where it was. It looks back a little every time: on PostgreSQL a transaction that took a lower number may
commit after a higher one was seen. Who must not lose its place keeps a :class:`Place` of its own, and asks :func:`moves_after`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from icefloe.store.captures import CaptureRecord, capture_of
from icefloe.store.janitor import PruningRecord
from icefloe.store.tables import attempts, captures, events, prunings, runs, steps

LOOK_BACK = 300
"""So many numbers below the newest are looked at again."""
LOOK_BACK_SECONDS = 120.0
"""Captures have no number: so far before the newest end they are looked at again."""


@dataclass(frozen=True, slots=True)
class MoveRecord:
    """One event, with the run and, of a step's event, the step and the attempt as they are now."""

    seq: int
    at: float
    run_id: str
    step_id: str | None
    attempt: int | None
    previous: str | None
    status: str
    cause: str | None
    workflow_id: str
    root_id: str
    version: int
    path: str
    iteration: int | None
    restarts: int
    created_at: float
    started_at: float | None
    ended_at: float | None
    step_type: str | None
    available_at: float | None
    attempt_status: str | None
    attempt_started_at: float | None
    attempt_ended_at: float | None
    worker: str | None


_MOVES = (
    sa.select(
        events.c.seq, events.c.at, events.c.run_id, events.c.step_id, events.c.attempt, events.c.previous, events.c.status,
        events.c.cause, runs.c.workflow_id, runs.c.root_id, runs.c.version, runs.c.path, runs.c.iteration, runs.c.restarts,
        runs.c.created_at, runs.c.started_at, runs.c.ended_at, steps.c.type.label("step_type"), steps.c.available_at,
        attempts.c.status.label("attempt_status"), attempts.c.started_at.label("attempt_started_at"),
        attempts.c.ended_at.label("attempt_ended_at"), attempts.c.worker,
    )
    .join(runs, runs.c.id == events.c.run_id)
    .outerjoin(steps, sa.and_(steps.c.run_id == events.c.run_id, steps.c.step_id == events.c.step_id))
    .outerjoin(
        attempts,
        sa.and_(
            attempts.c.run_id == events.c.run_id,
            attempts.c.step_id == events.c.step_id,
            attempts.c.attempt == events.c.attempt,
        ),
    )
    .where(events.c.seq > sa.bindparam("after"))
    .order_by(events.c.seq)
    .limit(sa.bindparam("most"))
)  # fmt: skip


class Activity:
    """A place in the record of what has happened. Not for several threads at once."""

    def __init__(self, moves: int, prunings: int, captures: float) -> None:
        self._moves = Place(moves)
        self._prunings = Place(prunings)
        self._captures_until = captures
        self._captures_seen: dict[str, float] = {}

    @classmethod
    def from_now(cls, connection: Connection) -> Activity:
        """What has happened so far is not told."""
        moves, prunes = last_move(connection), connection.execute(sa.select(sa.func.max(prunings.c.seq))).scalar()
        until = float(connection.execute(sa.select(sa.func.max(captures.c.ended_at))).scalar() or 0.0)
        activity = cls(moves, int(prunes or 0), until)
        activity._moves = Place.of_last_move(connection)
        activity.captures(connection)
        activity._prunings.seen.update(range(activity._prunings.last - LOOK_BACK, activity._prunings.last + 1))
        return activity

    @property
    def last(self) -> int:
        """The number of the last move that was told."""
        return self._moves.last

    def moves(self, connection: Connection, most: int) -> list[MoveRecord]:
        """What has happened to runs and steps since the last call, oldest first; the rest, if there is more, with the next."""
        return self._moves.new(moves_after(connection, self._moves, most))

    def prunings(self, connection: Connection, most: int = 1000) -> list[PruningRecord]:
        """What the janitor has deleted since the last call."""
        after = self._prunings.last - LOOK_BACK
        query = sa.select(prunings).where(prunings.c.seq > after).order_by(prunings.c.seq).limit(most + LOOK_BACK)
        rows = self._prunings.new(connection.execute(query))
        return [PruningRecord(*row[1:]) for row in rows]

    def captures(self, connection: Connection, most: int = 1000) -> list[CaptureRecord]:
        """Captures that have ended since the last call."""
        floor = self._captures_until - LOOK_BACK_SECONDS
        # What was told lies at the floor or above it: there may be more of it than a call may read.
        query = sa.select(captures).where(captures.c.ended_at > floor).order_by(captures.c.ended_at)
        rows = connection.execute(query.limit(most + len(self._captures_seen)))
        fresh = [record for row in rows if (record := capture_of(row)).id not in self._captures_seen]
        for record in fresh:
            self._captures_seen[record.id] = record.ended_at or 0.0
            self._captures_until = max(self._captures_until, record.ended_at or 0.0)
        floor = self._captures_until - LOOK_BACK_SECONDS
        self._captures_seen = {name: at for name, at in self._captures_seen.items() if at > floor}
        return fresh


def last_move(connection: Connection) -> int:
    return int(connection.execute(sa.select(sa.func.max(events.c.seq))).scalar() or 0)


def moves_after(connection: Connection, place: Place, most: int) -> list[MoveRecord]:
    """What has happened to runs and steps and is not behind the place yet, oldest first. The place stays where it is."""
    rows: Iterable[Any] = connection.execute(_MOVES, {"after": place.last - LOOK_BACK, "most": most + LOOK_BACK})
    return [MoveRecord(*row) for row in rows if row.seq not in place.seen][:most]


class Place:
    """The last number, and which of those shortly below it were told."""

    def __init__(self, last: int, seen: Iterable[int] = ()) -> None:
        self.last = last
        self.seen: set[int] = set(seen)

    @classmethod
    def of_last_move(cls, connection: Connection) -> Place:
        """Behind everything that has happened so far."""
        last = last_move(connection)
        return cls(last, connection.execute(sa.select(events.c.seq).where(events.c.seq > last - LOOK_BACK)).scalars())

    @classmethod
    def from_text(cls, text: str) -> Place:
        kept = json.loads(text)
        return cls(kept["last"], kept["seen"])

    def to_text(self) -> str:
        return json.dumps({"last": self.last, "seen": sorted(self.seen)})

    def pass_by(self, seq: int) -> None:
        """This one is told."""
        self.last = max(self.last, seq)
        self.seen.add(seq)
        self.seen = {number for number in self.seen if number > self.last - LOOK_BACK}

    def new(self, rows: Iterable[Any]) -> list[Any]:
        """Those that were not told yet; now they are."""
        fresh = [row for row in rows if row.seq not in self.seen]
        self.seen.update(row.seq for row in fresh)
        self.last = max((self.last, *(row.seq for row in fresh)))
        self.seen = {seq for seq in self.seen if seq > self.last - LOOK_BACK}
        return fresh
