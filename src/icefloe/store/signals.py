"""Signals that were published, and how far tables are complete (watermarks)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from icefloe.store.database import insert_if_absent
from icefloe.store.tables import runs, signals, steps, watermarks

# Any number: PostgreSQL's advisory lock that makes signals visible in the order of their numbers.
_LOCK = 7_246_173_002


@dataclass(frozen=True, slots=True)
class SignalRecord:
    """``seq`` is the order in which signals became visible: who has seen one has seen all before it."""

    seq: int
    id: str
    name: str
    params: Mapping[str, Any]
    publisher: str
    published_at: float


@dataclass(frozen=True, slots=True)
class WatermarkRecord:
    """``valid_through``: the table is complete up to here, in seconds since the epoch."""

    source: str
    valid_through: float
    publisher: str
    set_at: float


def publish(
    connection: Connection, *, signal_id: str, name: str, params: Mapping[str, Any], publisher: str, now: float
) -> bool:
    """Publish a signal, unless one with its id has been. False: it had been.

    Without the lock a transaction that took a lower number could commit after a trigger has looked past that number.
    """
    if connection.dialect.name != "sqlite":
        connection.execute(sa.text("SELECT pg_advisory_xact_lock(:key)"), {"key": _LOCK})
    if connection.execute(sa.select(signals.c.seq).where(signals.c.id == signal_id)).first() is not None:
        return False
    values = {
        "id": signal_id, "name": name, "params": json.dumps(params), "publisher": publisher, "published_at": now,
    }  # fmt: skip
    insert_if_absent(connection, signals, values)
    return True


def after(connection: Connection, name: str, seq: int, most: int = 100) -> list[SignalRecord]:
    """Signals of a name, oldest first."""
    query = sa.select(signals).where(signals.c.name == name, signals.c.seq > seq).order_by(signals.c.seq).limit(most)
    return [_signal(row) for row in connection.execute(query)]


def newest(
    connection: Connection, name: str | None = None, most: int = 100, before: int | None = None
) -> list[SignalRecord]:
    """``before``: older than this ``seq``."""
    query = sa.select(signals).order_by(signals.c.seq.desc()).limit(most)
    if before is not None:
        query = query.where(signals.c.seq < before)
    return [_signal(row) for row in connection.execute(query if name is None else query.where(signals.c.name == name))]


def last_before(connection: Connection, moment: float) -> int:
    """The number of the last signal that was published before a moment."""
    query = sa.select(sa.func.coalesce(sa.func.max(signals.c.seq), 0)).where(signals.c.published_at < moment)
    return int(connection.execute(query).scalar_one())


def last(connection: Connection) -> int:
    return int(connection.execute(sa.select(sa.func.coalesce(sa.func.max(signals.c.seq), 0))).scalar_one())


def waiting_steps(connection: Connection) -> list[tuple[str, str, str]]:
    """Steps that wait for signals or watermarks: run, step, root run."""
    query = (
        sa.select(steps.c.run_id, steps.c.step_id, steps.c.root_id)
        .join(runs, runs.c.id == steps.c.run_id)
        .where(sa.text("steps.status = 'WAITING_FOR_SIGNALS'"), runs.c.status == "IN_PROGRESS")
    )
    return [(str(row[0]), str(row[1]), str(row[2])) for row in connection.execute(query)]


def watermark(connection: Connection, source: str) -> WatermarkRecord | None:
    row = connection.execute(sa.select(watermarks).where(watermarks.c.source == source)).first()
    return None if row is None else WatermarkRecord(*row)


def all_watermarks(connection: Connection) -> list[WatermarkRecord]:
    return [WatermarkRecord(*row) for row in connection.execute(sa.select(watermarks).order_by(watermarks.c.source))]


def raise_watermark(connection: Connection, record: WatermarkRecord, *, back: bool = False) -> bool:
    """Set a watermark; it goes forward only, unless ``back``. False: it is as far already."""
    insert_if_absent(connection, watermarks, {**_fields(record), "valid_through": float("-inf")})
    query = sa.update(watermarks).where(watermarks.c.source == record.source)
    if not back:
        query = query.where(watermarks.c.valid_through < record.valid_through)
    return connection.execute(query.values(_fields(record))).rowcount == 1


def _fields(record: WatermarkRecord) -> dict[str, Any]:
    return {name: getattr(record, name) for name in record.__slots__}


def _signal(row: sa.Row[Any]) -> SignalRecord:
    return SignalRecord(int(row.seq), row.id, row.name, json.loads(row.params), row.publisher, row.published_at)
