"""The savings ledger: one line for each batch that a planned write has published, or found nothing to write for.

Lines past their keep time are deleted, but what they come to stays, for each workflow, step and target (:func:`roll_up`).
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, fields
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from icefloe.store.database import insert_if_absent
from icefloe.store.tables import savings, savings_totals

TEXTS_KEPT = 50
"""Of all notes that deleted lines had, so many stay."""


@dataclass(frozen=True, slots=True)
class SavingsRecord:
    """``place`` has the loops around the step, ``step`` is its path alone. ``instead``: what ``compared_with`` would have read."""

    root_id: str
    place: str
    target: str
    workflow_id: str
    step: str
    pattern: str
    compared_with: str
    read_files: int
    read_rows: int
    read_bytes: int
    instead_files: int
    instead_rows: int
    instead_bytes: int
    written_files: int
    written_rows: int
    written_bytes: int
    written_delete_files: int
    seconds: float | None
    notes: tuple[str, ...]
    recorded_at: float


@dataclass(frozen=True, slots=True)
class SavingsTotal:
    """What deleted lines of a workflow's step and target come to. ``seconds`` are of ``timed`` of the ``runs``; ``first_at`` and
    ``last_at``: when the oldest and the newest of the lines were recorded."""

    workflow_id: str
    step: str
    target: str
    runs: int
    read_files: int
    read_rows: int
    read_bytes: int
    instead_files: int
    instead_rows: int
    instead_bytes: int
    written_files: int
    written_rows: int
    written_bytes: int
    written_delete_files: int
    seconds: float
    timed: int
    compared_with: tuple[str, ...]
    notes: tuple[str, ...]
    first_at: float
    last_at: float

    @classmethod
    def of(cls, line: SavingsRecord) -> SavingsTotal:
        shared = {item.name: getattr(line, item.name) for item in fields(cls) if hasattr(line, item.name)}
        own = {"runs": 1, "seconds": line.seconds or 0.0, "timed": int(line.seconds is not None)}
        times = {"first_at": line.recorded_at, "last_at": line.recorded_at}
        return cls(**{**shared, **own, **times, "compared_with": (line.compared_with,)})

    def __add__(self, other: SavingsTotal) -> SavingsTotal:
        """Of the same workflow, step and target, the older one first."""
        names = [item.name for item in fields(self) if item.type in ("int", "float")]
        sums = {name: getattr(self, name) + getattr(other, name) for name in names}
        return SavingsTotal(
            **{
                **asdict(self),
                **sums,
                "compared_with": tuple(dict.fromkeys((*self.compared_with, *other.compared_with))),
                "notes": tuple(dict.fromkeys((*self.notes, *other.notes)))[:TEXTS_KEPT],
                "first_at": min(self.first_at, other.first_at),
                "last_at": max(self.last_at, other.last_at),
            }
        )


def add(connection: Connection, record: SavingsRecord) -> None:
    """A batch counts once: said again, by a retry or a restart, it changes nothing."""
    insert_if_absent(connection, savings, {**asdict(record), "notes": json.dumps(record.notes)})


def listing(
    connection: Connection, *, workflow_id: str | None = None, since: float | None = None
) -> list[SavingsRecord]:
    """The oldest first."""
    query = sa.select(savings).order_by(savings.c.recorded_at, savings.c.root_id, savings.c.place, savings.c.target)
    if workflow_id is not None:
        query = query.where(savings.c.workflow_id == workflow_id)
    if since is not None:
        query = query.where(savings.c.recorded_at >= since)
    return [_record(row) for row in connection.execute(query)]


@dataclass(frozen=True, slots=True)
class DaySum:
    """What the lines of one day come to; ``day`` counts from 1970, in UTC."""

    day: int
    runs: int
    read_files: int
    read_rows: int
    read_bytes: int
    instead_files: int
    instead_rows: int
    instead_bytes: int
    seconds: float
    timed: int


def by_day(connection: Connection, *, workflow_id: str | None, since: float) -> list[DaySum]:
    """Summed by the database: a day may have many thousand lines. The oldest first."""
    day = sa.cast(sa.func.floor(savings.c.recorded_at / 86_400), sa.Integer)
    sizes = ("read_files", "read_rows", "read_bytes", "instead_files", "instead_rows", "instead_bytes")
    query = (
        sa.select(
            day.label("day"),
            sa.func.count().label("runs"),
            *(sa.func.sum(savings.c[name]).label(name) for name in sizes),
            sa.func.coalesce(sa.func.sum(savings.c.seconds), 0.0).label("seconds"),
            sa.func.count(savings.c.seconds).label("timed"),
        )
        .where(savings.c.recorded_at >= since)
        .group_by(day)
        .order_by(day)
    )
    if workflow_id is not None:
        query = query.where(savings.c.workflow_id == workflow_id)
    # PostgreSQL sums large numbers as decimals.
    counts = ("day", "runs", *sizes, "timed")
    return [
        DaySum(**{name: int(row[name]) for name in counts}, seconds=float(row["seconds"]))
        for row in connection.execute(query).mappings()
    ]


def roll_up(connection: Connection, due: sa.ColumnElement[bool], most: int) -> list[tuple[str, str, str]]:
    """Add lines that are due to the totals. Returns their keys: whoever calls deletes them in the same transaction."""
    query = sa.select(savings).where(due).order_by(savings.c.recorded_at).limit(most)
    lines = [_record(row) for row in connection.execute(query)]
    for line in lines:
        _add_to_total(connection, SavingsTotal.of(line))
    return [(line.root_id, line.place, line.target) for line in lines]


def totals(connection: Connection, workflow_id: str | None = None) -> list[SavingsTotal]:
    """Of the lines that are deleted."""
    query = sa.select(savings_totals)
    if workflow_id is not None:
        query = query.where(savings_totals.c.workflow_id == workflow_id)
    return [_total(row) for row in connection.execute(query)]


def _add_to_total(connection: Connection, total: SavingsTotal) -> None:
    key = sa.and_(
        savings_totals.c.workflow_id == total.workflow_id,
        savings_totals.c.step == total.step,
        savings_totals.c.target == total.target,
    )
    row = connection.execute(sa.select(savings_totals).where(key).with_for_update()).first()
    whole = total if row is None else _total(row) + total
    values = {**asdict(whole), "compared_with": json.dumps(whole.compared_with), "notes": json.dumps(whole.notes)}
    if row is None:
        connection.execute(sa.insert(savings_totals), values)
    else:
        connection.execute(sa.update(savings_totals).where(key).values(values))


def _total(row: sa.Row[Any]) -> SavingsTotal:
    values = dict(row._mapping)
    texts = {name: tuple(json.loads(values[name])) for name in ("compared_with", "notes")}
    return SavingsTotal(**{**values, **texts})


def _record(row: sa.Row[Any]) -> SavingsRecord:
    values = dict(row._mapping)
    return SavingsRecord(**{**values, "notes": tuple(json.loads(values["notes"]))})
