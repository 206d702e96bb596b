"""What people did: who, when, through what, to what, and why. Only ever added to."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from icefloe.store.tables import audits

CONSUMER_VERBS = ("rewind", "fast-forward", "remove", "rename", "abandon")
"""What is done to consumers: their newest record stays, however old."""


@dataclass(frozen=True, slots=True)
class AuditRecord:
    """``subject`` is the consumer, run, workflow or whatever else it was done to; ``details`` say ``via`` what, and more by the verb.
    ``seq`` None: not stored yet."""

    at: float
    who: str
    verb: str
    subject: str
    details: Mapping[str, Any]
    seq: int | None = None

    def to_dict(self) -> dict[str, Any]:
        return {"at": self.at, "who": self.who, "verb": self.verb, "subject": self.subject, **self.details}


def add(connection: Connection, record: AuditRecord) -> None:
    values = {"at": record.at, "who": record.who, "verb": record.verb, "subject": record.subject}
    connection.execute(sa.insert(audits), {**values, "details": json.dumps(dict(record.details), default=str)})


def listing(
    connection: Connection,
    *,
    subject: str | None = None,
    who: str | None = None,
    before: int | None = None,
    most: int = 50,
) -> list[AuditRecord]:
    """The newest first; ``before``: those with a lower ``seq``."""
    query = sa.select(audits).order_by(audits.c.seq.desc()).limit(most)
    if before is not None:
        query = query.where(audits.c.seq < before)
    if who is not None:
        query = query.where(audits.c.who == who)
    if subject is not None:
        query = query.where(audits.c.subject == subject)
    return [_record(row) for row in connection.execute(query)]


def last(connection: Connection, *, subject: str, verb: str) -> AuditRecord | None:
    query = sa.select(audits).where(audits.c.subject == subject, audits.c.verb == verb)
    row = connection.execute(query.order_by(audits.c.seq.desc()).limit(1)).first()
    return None if row is None else _record(row)


def _record(row: sa.Row[Any]) -> AuditRecord:
    return AuditRecord(row.at, row.who, row.verb, row.subject, json.loads(row.details), int(row.seq))
