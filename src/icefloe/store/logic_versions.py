"""The versions of planned writes' logic: each change of what a step publishes to a target, only ever added to."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from icefloe.store.tables import logic_versions


@dataclass(frozen=True, slots=True)
class LogicRecord:
    """``columns`` are names and types of the result, ``None`` where they are not known. ``root_id``: the first run that published it."""

    workflow_id: str
    place: str
    target: str
    ref: str
    fingerprint: str
    text: str
    columns: tuple[tuple[str, str], ...] | None
    root_id: str
    recorded_at: float


def add(connection: Connection, record: LogicRecord) -> None:
    """Remember a version, unless it is the newest one already."""
    versions = known(connection, record.workflow_id, record.place, record.target, record.ref, most=1)
    if versions and versions[0].fingerprint == record.fingerprint:
        return
    values = {name: getattr(record, name) for name in record.__slots__}
    columns = json.dumps(record.columns) if record.columns is not None else None
    connection.execute(sa.insert(logic_versions), {**values, "columns": columns})


def known(
    connection: Connection, workflow_id: str, place: str, target: str, ref: str, *, most: int = 20
) -> list[LogicRecord]:
    """The newest first."""
    query = (
        sa.select(logic_versions)
        .where(
            logic_versions.c.workflow_id == workflow_id,
            logic_versions.c.place == place,
            logic_versions.c.target == target,
            logic_versions.c.ref == ref,
        )
        .order_by(logic_versions.c.seq.desc())
        .limit(most)
    )
    return [_record(row) for row in connection.execute(query)]


def _record(row: sa.Row[Any]) -> LogicRecord:
    values = {name: value for name, value in row._mapping.items() if name != "seq"}
    columns = None
    if values["columns"] is not None:
        columns = tuple((str(name), str(kind)) for name, kind in json.loads(values["columns"]))
    return LogicRecord(**{**values, "columns": columns})
