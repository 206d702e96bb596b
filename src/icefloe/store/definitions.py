"""Pushed workflows: immutable versions, and the files they refer to, by content."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from icefloe.store.database import insert_if_absent
from icefloe.store.tables import files, runs, workflow_versions, workflows


@dataclass(frozen=True, slots=True)
class WorkflowRecord:
    id: str
    latest_version: int
    next_number: int
    paused: bool
    unblocked: int
    """Runs up to this ``seq`` no longer block a STRICT_SEQUENTIAL workflow."""
    created_at: float
    updated_at: float
    active: bool = True
    """False: nothing starts it, neither triggers nor people."""
    forgiven: int = 0
    """Runs up to this ``seq`` no longer count as failures that hold a trigger back."""


@dataclass(frozen=True, slots=True)
class VersionRecord:
    """``definition`` is the model's canonical JSON; ``source`` is what the user wrote."""

    workflow_id: str
    version: int
    digest: str
    definition: str
    source: str
    source_name: str
    pushed_at: float
    pushed_by: str


def lock(connection: Connection, workflow_id: str) -> WorkflowRecord | None:
    """The workflow's row, held until the transaction ends. Taken before any run's lock, never after."""
    row = connection.execute(sa.select(workflows).where(workflows.c.id == workflow_id).with_for_update()).first()
    return None if row is None else _workflow(row)


def load(connection: Connection, workflow_id: str) -> WorkflowRecord | None:
    row = connection.execute(sa.select(workflows).where(workflows.c.id == workflow_id)).first()
    return None if row is None else _workflow(row)


def listing(connection: Connection, *, after: str | None = None, most: int | None = None) -> list[WorkflowRecord]:
    query = sa.select(workflows).order_by(workflows.c.id).limit(most)
    if after is not None:
        query = query.where(workflows.c.id > after)
    return [_workflow(row) for row in connection.execute(query)]


def create_if_absent(connection: Connection, workflow_id: str, now: float) -> None:
    values = {
        "id": workflow_id,
        "latest_version": 0,
        "next_number": 1,
        "paused": 0,
        "unblocked": 0,
        "created_at": now,
        "updated_at": now,
        "active": 1,
        "forgiven": 0,
    }
    insert_if_absent(connection, workflows, values)


def add_version(connection: Connection, record: VersionRecord) -> None:
    """The caller holds the workflow's lock."""
    connection.execute(sa.insert(workflow_versions), {name: getattr(record, name) for name in record.__slots__})
    connection.execute(
        sa.update(workflows)
        .where(workflows.c.id == record.workflow_id)
        .values(latest_version=record.version, updated_at=record.pushed_at)
    )


def version(connection: Connection, workflow_id: str, number: int) -> VersionRecord | None:
    query = sa.select(workflow_versions).where(
        workflow_versions.c.workflow_id == workflow_id, workflow_versions.c.version == number
    )
    row = connection.execute(query).first()
    return None if row is None else VersionRecord(*row)


def versions(connection: Connection, workflow_id: str, most: int) -> list[tuple[int, float, str, str]]:
    """Number, when and by whom it was pushed, and from which file; the newest first."""
    columns = (
        workflow_versions.c.version, workflow_versions.c.pushed_at, workflow_versions.c.pushed_by,
        workflow_versions.c.source_name,
    )  # fmt: skip
    query = sa.select(*columns).where(workflow_versions.c.workflow_id == workflow_id)
    rows = connection.execute(query.order_by(workflow_versions.c.version.desc()).limit(most))
    return [(int(row[0]), float(row[1]), str(row[2]), str(row[3])) for row in rows]


def take_number(connection: Connection, record: WorkflowRecord) -> int:
    """The next run's number. The caller holds the workflow's lock."""
    connection.execute(
        sa.update(workflows).where(workflows.c.id == record.id).values(next_number=record.next_number + 1)
    )
    return record.next_number


def set_paused(connection: Connection, workflow_id: str, paused: bool) -> None:
    connection.execute(sa.update(workflows).where(workflows.c.id == workflow_id).values(paused=int(paused)))


def set_active(connection: Connection, workflow_id: str, active: bool) -> None:
    connection.execute(sa.update(workflows).where(workflows.c.id == workflow_id).values(active=int(active)))


def touch(connection: Connection, workflow_id: str, now: float) -> None:
    """Triggers that are new count from here."""
    connection.execute(sa.update(workflows).where(workflows.c.id == workflow_id).values(updated_at=now))


def forgive(connection: Connection, workflow_id: str) -> None:
    """Let failures of the past no longer hold triggers back."""
    last = sa.select(sa.func.coalesce(sa.func.max(runs.c.seq), 0)).where(runs.c.workflow_id == workflow_id)
    connection.execute(
        sa.update(workflows).where(workflows.c.id == workflow_id).values(forgiven=last.scalar_subquery())
    )


def unblock(connection: Connection, workflow_id: str, seq: int) -> None:
    connection.execute(sa.update(workflows).where(workflows.c.id == workflow_id).values(unblocked=seq))


def add_files(connection: Connection, contents: Mapping[str, bytes]) -> None:
    """Store contents by digest, each once."""
    if contents:
        known = connection.execute(sa.select(files.c.digest).where(files.c.digest.in_(contents))).scalars()
        new = contents.keys() - set(known)
        if new:
            connection.execute(sa.insert(files), [{"digest": d, "content": contents[d]} for d in sorted(new)])


def file(connection: Connection, digest: str) -> bytes | None:
    content = connection.execute(sa.select(files.c.content).where(files.c.digest == digest)).scalar()
    return None if content is None else bytes(content)


def _workflow(row: sa.Row[tuple[object, ...]]) -> WorkflowRecord:
    values = dict(row._mapping)
    return WorkflowRecord(**{**values, "paused": bool(values["paused"]), "active": bool(values["active"])})
