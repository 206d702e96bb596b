"""Incidents: something is wrong with a workflow, from when to when, and who has been told.

``told`` goes ``nobody -> opened -> over``. Whoever wants to send a message claims it first (:func:`claim`), and says afterwards
that it was sent (:func:`sent`): two schedulers do not send the same message, and one that dies in between is replaced by another
that has seen the same claim for too long.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from icefloe.store.database import insert_if_absent
from icefloe.store.tables import incidents

NOBODY, OPENED, OVER = "nobody", "opened", "over"


@dataclass(frozen=True, slots=True)
class IncidentRecord:
    """``closed_at`` None: it goes on. ``claim`` names one attempt to send the message that is due."""

    seq: int
    workflow_id: str
    kind: str
    subject: str
    message: str
    opened_at: float
    closed_at: float | None
    told: str
    claim: str


def open_if_new(
    connection: Connection, *, workflow_id: str, kind: str, subject: str, message: str, notified: str, now: float
) -> None:
    """Open an incident, unless it is open. ``notified`` OPENED: nobody wants to hear of it."""
    values: dict[str, Any] = {
        "workflow_id": workflow_id, "kind": kind, "subject": subject, "message": message, "opened_at": now,
        "closed_at": None, "told": notified, "claim": "",
    }  # fmt: skip
    insert_if_absent(connection, incidents, values)


def close(connection: Connection, seq: int, now: float) -> bool:
    query = sa.update(incidents).where(incidents.c.seq == seq, incidents.c.closed_at.is_(None))
    return connection.execute(query.values(closed_at=now, claim="")).rowcount == 1


def open_of(connection: Connection, workflow_id: str | None = None) -> list[IncidentRecord]:
    query = sa.select(incidents).where(sa.text("closed_at IS NULL")).order_by(incidents.c.seq)
    if workflow_id is not None:
        query = query.where(incidents.c.workflow_id == workflow_id)
    return [IncidentRecord(*row) for row in connection.execute(query)]


def untold(connection: Connection) -> list[IncidentRecord]:
    """Those about which a message is due: opened, or over after it was told that they had opened."""
    query = sa.select(incidents).where(
        sa.text("told <> 'over'"), sa.or_(incidents.c.told == NOBODY, incidents.c.closed_at.is_not(None))
    )
    return [IncidentRecord(*row) for row in connection.execute(query.order_by(incidents.c.seq))]


def claim(connection: Connection, record: IncidentRecord, token: str) -> bool:
    """Take it upon oneself to send the message that ``record`` says is due."""
    query = sa.update(incidents).where(
        incidents.c.seq == record.seq, incidents.c.told == record.told, incidents.c.claim == record.claim
    )
    return connection.execute(query.values(claim=token)).rowcount == 1


def sent(connection: Connection, seq: int, token: str, notified: str) -> None:
    connection.execute(
        sa.update(incidents).where(incidents.c.seq == seq, incidents.c.claim == token).values(told=notified, claim="")
    )


def settle(connection: Connection, seq: int) -> None:
    """It opened and ended before anybody could be told: there is nothing left to say."""
    connection.execute(sa.update(incidents).where(incidents.c.seq == seq).values(told=OVER, claim=""))


def listing(
    connection: Connection, workflow_id: str | None, most: int, before: int | None = None, only_open: bool = False
) -> list[IncidentRecord]:
    """Newest first; ``before``: older than this ``seq``."""
    query = sa.select(incidents).order_by(incidents.c.seq.desc()).limit(most)
    if before is not None:
        query = query.where(incidents.c.seq < before)
    if only_open:
        query = query.where(sa.text("closed_at IS NULL"))
    if workflow_id is not None:
        query = query.where(incidents.c.workflow_id == workflow_id)
    return [IncidentRecord(*row) for row in connection.execute(query)]
