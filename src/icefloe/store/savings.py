"""The savings ledger: one line for each batch that a planned write has published, or found nothing to write for."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from icefloe.store.database import insert_if_absent
from icefloe.store.tables import savings


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


def _record(row: sa.Row[Any]) -> SavingsRecord:
    values = dict(row._mapping)
    return SavingsRecord(**{**values, "notes": tuple(json.loads(values["notes"]))})
