"""Workers and their leases: one row per living worker, with a counter that goes up while it lives."""

from __future__ import annotations

from dataclasses import dataclass

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from icefloe.store.tables import workers

ALIVE, DRAINING, GONE = "ALIVE", "DRAINING", "GONE"


@dataclass(frozen=True, slots=True)
class WorkerRecord:
    """``seen_at`` is for people; whether a worker lives is judged by ``beat`` alone."""

    id: str
    host: str
    pid: int
    lock_file: str
    status: str
    beat: int
    slots: int
    serves: str
    program: str
    started_at: float
    seen_at: float


def add(connection: Connection, record: WorkerRecord) -> None:
    connection.execute(sa.insert(workers), {name: getattr(record, name) for name in record.__slots__})


def living(connection: Connection) -> list[WorkerRecord]:
    return [WorkerRecord(*row) for row in connection.execute(sa.select(workers).where(workers.c.status != GONE))]


def beat(connection: Connection, worker_id: str, now: float) -> bool:
    """Count up. False: this worker was declared gone, and must stop what it does."""
    done = connection.execute(
        sa.update(workers)
        .where(workers.c.id == worker_id, workers.c.status != GONE)
        .values(beat=workers.c.beat + 1, seen_at=now)
    )
    return done.rowcount == 1


def may_claim(connection: Connection, worker_id: str) -> bool:
    """Whether the worker is alive; held so for the rest of the transaction, so that nobody declares it gone meanwhile."""
    query = sa.select(workers.c.id).where(workers.c.id == worker_id, workers.c.status == ALIVE)
    return connection.execute(query.with_for_update(read=True)).first() is not None


def set_status(connection: Connection, worker_id: str, status: str) -> None:
    connection.execute(
        sa.update(workers).where(workers.c.id == worker_id, workers.c.status != GONE).values(status=status)
    )


def declare_gone(connection: Connection, worker_id: str, seen_beat: int | None) -> bool:
    """Fence a worker that was seen with ``seen_beat`` for too long (None: its death is proven). False: it moved."""
    query = sa.update(workers).where(workers.c.id == worker_id, workers.c.status != GONE)
    if seen_beat is not None:
        query = query.where(workers.c.beat == seen_beat)
    return connection.execute(query.values(status=GONE)).rowcount == 1


def forget_gone(connection: Connection, before: float) -> None:
    connection.execute(sa.delete(workers).where(workers.c.status == GONE, workers.c.seen_at < before))


def hold_limit(connection: Connection, name: str) -> None:
    """Let nobody else count what runs under a limit until this transaction ends. SQLite: nobody else writes anyway."""
    if connection.dialect.name != "sqlite":
        connection.execute(sa.text("SELECT pg_advisory_xact_lock(hashtext(:name))"), {"name": f"icefloe.limit.{name}"})
