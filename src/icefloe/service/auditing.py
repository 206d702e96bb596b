"""Writing the audit record: who did what to what, in the transaction that does it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlalchemy.engine import Connection

from icefloe.acting import via, who
from icefloe.store import audits
from icefloe.store.audits import AuditRecord


def audit(
    connection: Connection, now: float, verb: str, subject: str, details: Mapping[str, Any], by: str | None = None
) -> None:
    """Write the deed into the audit record, in the transaction that does it."""
    given = {name: value for name, value in details.items() if value not in (None, "", {}, [], ())}
    audits.add(connection, AuditRecord(now, who(by), verb, subject, {**given, "via": via()}))
