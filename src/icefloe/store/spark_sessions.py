"""The Spark sessions of attempts: written before an attempt begins, so that whoever comes after it can find and end them."""

from __future__ import annotations

from dataclasses import asdict, dataclass

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from icefloe.store.tables import runs, spark_sessions

KEPT_SECONDS = 7 * 86_400.0
"""How long a session that is gone stays on record, for people who look into what happened."""


@dataclass(frozen=True, slots=True)
class SparkSessionRecord:
    """``work`` is the same for all attempts at the same work; ``branch`` is where this one writes."""

    session_id: str
    work: str
    run_id: str
    step_id: str
    branch: str
    opened_at: float
    gone_at: float | None = None


def opened(connection: Connection, record: SparkSessionRecord) -> list[SparkSessionRecord]:
    """Remember a session. Returns the earlier ones of the same work that nobody has seen end, newest first."""
    query = (
        sa.select(spark_sessions)
        .where(spark_sessions.c.work == record.work, spark_sessions.c.gone_at.is_(None))
        .order_by(spark_sessions.c.opened_at.desc())
    )
    earlier = [SparkSessionRecord(*row) for row in connection.execute(query)]
    connection.execute(sa.delete(spark_sessions).where(spark_sessions.c.gone_at < record.opened_at - KEPT_SECONDS))
    connection.execute(sa.insert(spark_sessions), asdict(record))
    return earlier


def mark_ended(connection: Connection, work: str, now: float) -> None:
    """All sessions of a piece of work are gone, or have nothing left that they could do."""
    connection.execute(
        sa.update(spark_sessions)
        .where(spark_sessions.c.work == work, spark_sessions.c.gone_at.is_(None))
        .values(gone_at=now)
    )


def left_behind(connection: Connection) -> list[str]:
    """The branches of attempts that were never seen to end, of runs that have ended: nobody will publish them."""
    query = (
        sa.select(spark_sessions.c.branch)
        .join(runs, runs.c.id == spark_sessions.c.run_id)
        .where(spark_sessions.c.gone_at.is_(None), runs.c.ended_at.is_not(None))
    )
    return list(connection.execute(query).scalars())
