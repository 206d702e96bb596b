"""What a run has read and published, and which of its restarts an event belongs to."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from icefloe.store.tables import captures, consumers, events, publications, runs, savings

_ENDED = ("SUCCEEDED", "FAILED", "STOPPED", "TIMED_OUT")


@dataclass(frozen=True, slots=True)
class RunOrigin:
    """A run as it was at an event: ``restarts`` is how often it had been restarted by then."""

    run_id: str
    workflow_id: str
    version: int
    path: str
    parent_id: str | None
    restarts: int


@dataclass(frozen=True, slots=True)
class CapturedTable:
    table: str
    snapshot_id: int | None


@dataclass(frozen=True, slots=True)
class PublishedTable:
    """``place``: the step's, with the loops around it. What the savings ledger does not know is None."""

    place: str
    table: str
    snapshot_id: int | None
    rows: int | None = None
    bytes: int | None = None


def origin(connection: Connection, run_id: str, seq: int) -> RunOrigin | None:
    """The run at the event with this number. One statement: a restart in between is in both of its numbers, or in none."""
    later = (
        sa.select(sa.func.count())
        .where(events.c.run_id == run_id, events.c.step_id.is_(None), events.c.seq > seq)
        .where(events.c.status == "CREATED", events.c.previous.in_(_ENDED))
        .scalar_subquery()
    )
    query = sa.select(
        runs.c.id, runs.c.workflow_id, runs.c.version, runs.c.path, runs.c.parent_id, runs.c.restarts - later
    ).where(runs.c.id == run_id)
    row = connection.execute(query).first()
    return None if row is None else RunOrigin(*row)


def captured(
    connection: Connection, root_id: str, workflow_id: str | None = None, step_id: str | None = None
) -> list[CapturedTable]:
    """The sources of what a run has captured, or of what this step of this workflow inside it has."""
    query = sa.select(captures.c.sources, captures.c.step_path).where(captures.c.run_id == root_id)
    if step_id is not None:
        query = query.join(consumers, consumers.c.name == captures.c.consumer).where(
            consumers.c.workflow_id == workflow_id
        )
    rows = connection.execute(query.order_by(captures.c.created_at, captures.c.id))
    return _sources(row.sources for row in rows if step_id is None or row.step_path.rpartition("/")[2] == step_id)


def captured_for(connection: Connection, root_id: str, place: str) -> list[CapturedTable]:
    """The sources of the captures that were published at this place."""
    query = (
        sa.select(captures.c.sources)
        .join(publications, publications.c.capture_id == captures.c.id)
        .where(captures.c.run_id == root_id, publications.c.step_path == place)
        .order_by(captures.c.created_at, captures.c.id)
    )
    return _sources(row.sources for row in connection.execute(query))


def published(connection: Connection, root_id: str, catalog: str) -> list[PublishedTable]:
    """What a run with all runs inside it has published, with what the savings ledger says of it."""
    query = (
        sa.select(publications.c.step_path, publications.c.target, publications.c.snapshot_id)
        .join(captures, captures.c.id == publications.c.capture_id)
        .where(captures.c.run_id == root_id)
        .order_by(publications.c.published_at)
    )
    snapshots = {
        (row.step_path, row.target.removeprefix(f"{catalog}.")): int(row.snapshot_id)
        for row in connection.execute(query)
    }
    ledger = sa.select(
        savings.c.place, savings.c.target, savings.c.written_rows, savings.c.written_bytes, savings.c.written_files,
        savings.c.written_delete_files,
    ).where(savings.c.root_id == root_id)  # fmt: skip
    written = {(row.place, row.target): row for row in connection.execute(ledger)}
    wrote = [key for key, row in written.items() if row.written_files or row.written_delete_files]
    tables = []
    for key in sorted({*snapshots, *wrote}):
        line = written.get(key)
        rows, size = (line.written_rows, line.written_bytes) if line is not None else (None, None)
        tables.append(PublishedTable(*key, snapshots.get(key), rows, size))
    return tables


def _sources(texts: Any) -> list[CapturedTable]:
    """Each table once, as it was captured last."""
    tables: dict[str, CapturedTable] = {}
    for text in texts:
        for source in json.loads(text):
            end: Mapping[str, Any] = source.get("end") or {}
            tables[source["table"]] = CapturedTable(source["table"], end.get("snapshot_id"))
    return list(tables.values())
