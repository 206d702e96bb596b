"""Consumers, checkpoints and captures: the rows, and the statements that touch them.

Every statement that moves something says what it moves *from*: a capture's state and claim, a consumer's version. One that
touches no row has lost against somebody else, and its caller gives up without having changed anything.
"""

from __future__ import annotations

import json
from collections.abc import Collection
from dataclasses import asdict, dataclass, replace
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from icefloe.store.database import insert_if_absent
from icefloe.store.tables import captures, checkpoints, consumers, publications, runs

OPEN_STATES = ("planned", "pinned", "built")


@dataclass(frozen=True, slots=True)
class ConsumerRecord:
    """``version`` goes up by one with each commit."""

    name: str
    workflow_id: str
    version: int
    created_at: float


@dataclass(frozen=True, slots=True)
class CheckpointRecord:
    """How far a consumer has read one source."""

    consumer: str
    source: str
    ref: str
    table_uuid: str
    snapshot_id: int
    sequence_number: int
    schema_id: int
    capture_id: str | None
    moved_at: float


@dataclass(frozen=True, slots=True)
class CaptureRecord:
    """``sources`` is a list of maps that only the capture package looks into.

    ``pinned_batches``: so many of the consumer's newest committed captures keep their pins; None: as long as change tables are kept.
    ``settled``: what follows a commit on the sources, the checkpoint tag and older captures' pins, has been done.
    """

    id: str
    consumer: str
    run_id: str
    step_path: str
    claim: str
    state: str
    base_version: int
    sources: list[dict[str, Any]]
    released: bool
    keep_seconds: float
    created_at: float
    built_at: float | None = None
    ended_at: float | None = None
    pinned_batches: int | None = None
    settled: bool = True

    @property
    def is_open(self) -> bool:
        return self.state in OPEN_STATES

    @property
    def release_at(self) -> float | None:
        """When its pins and change tables may go; None: not yet known, or they are gone."""
        if self.released or self.is_open or self.ended_at is None:
            return None
        return self.ended_at + (self.keep_seconds if self.state == "committed" else 0.0)


def ensure_consumer(connection: Connection, name: str, workflow_id: str, now: float) -> ConsumerRecord:
    """The consumer, held until the transaction ends; made when it is new."""
    consumer = lock_consumer(connection, name)
    if consumer is None:
        values = {"name": name, "workflow_id": workflow_id, "version": 0, "created_at": now}
        insert_if_absent(connection, consumers, values)
        consumer = lock_consumer(connection, name)
        assert consumer is not None
    return consumer


def lock_consumer(connection: Connection, name: str) -> ConsumerRecord | None:
    """The consumer, held until the transaction ends."""
    row = connection.execute(sa.select(consumers).where(consumers.c.name == name).with_for_update()).first()
    return None if row is None else ConsumerRecord(*row)


def consumer(connection: Connection, name: str) -> ConsumerRecord | None:
    row = connection.execute(sa.select(consumers).where(consumers.c.name == name)).first()
    return None if row is None else ConsumerRecord(*row)


def all_consumers(connection: Connection, *, after: str | None = None, most: int | None = None) -> list[ConsumerRecord]:
    """By name; ``after`` and ``most``: a page of them."""
    query = sa.select(consumers).order_by(consumers.c.name).limit(most)
    if after is not None:
        query = query.where(consumers.c.name > after)
    return [ConsumerRecord(*row) for row in connection.execute(query)]


def raise_version(connection: Connection, name: str, base: int) -> bool:
    """Compare-and-set of the consumer's version."""
    moved = connection.execute(
        sa.update(consumers).where(consumers.c.name == name, consumers.c.version == base).values(version=base + 1)
    )
    return moved.rowcount == 1


def checkpoints_of(connection: Connection, name: str) -> dict[str, CheckpointRecord]:
    rows = connection.execute(sa.select(checkpoints).where(checkpoints.c.consumer == name))
    return {row.source: CheckpointRecord(*row) for row in rows}


def set_checkpoint(connection: Connection, record: CheckpointRecord) -> None:
    remove_checkpoint(connection, record.consumer, record.source)
    connection.execute(sa.insert(checkpoints), asdict(record))


def open_capture(connection: Connection, name: str) -> CaptureRecord | None:
    """The one open capture of a consumer, if there is one."""
    query = sa.select(captures).where(captures.c.consumer == name, captures.c.state.in_(OPEN_STATES))
    row = connection.execute(query).first()
    return None if row is None else capture_of(row)


def capture(connection: Connection, capture_id: str) -> CaptureRecord | None:
    row = connection.execute(sa.select(captures).where(captures.c.id == capture_id)).first()
    return None if row is None else capture_of(row)


def captures_of_run(connection: Connection, run_id: str, step_path: str) -> list[CaptureRecord]:
    """What a step of a run has captured, newest last."""
    query = sa.select(captures).where(captures.c.run_id == run_id, captures.c.step_path == step_path)
    return [capture_of(row) for row in connection.execute(query.order_by(captures.c.created_at))]


def held_by_run(connection: Connection, run_id: str) -> list[CaptureRecord]:
    """The built, open captures that a run owns."""
    query = sa.select(captures).where(captures.c.run_id == run_id, captures.c.state == "built")
    return [capture_of(row) for row in connection.execute(query.order_by(captures.c.id))]


def recent_captures(
    connection: Connection,
    *,
    consumer_name: str | None,
    most: int,
    before: tuple[float, str] | None = None,
    state: str | None = None,
) -> list[CaptureRecord]:
    """The newest first; ``before``: older than the one that was taken then and has this id."""
    query = sa.select(captures).order_by(captures.c.created_at.desc(), captures.c.id.desc()).limit(most)
    if consumer_name is not None:
        query = query.where(captures.c.consumer == consumer_name)
    if before is not None:
        query = query.where(sa.tuple_(captures.c.created_at, captures.c.id) < sa.tuple_(*map(sa.literal, before)))
    if state is not None:
        query = query.where(captures.c.state == state)
    return [capture_of(row) for row in connection.execute(query)]


def last_committed(connection: Connection, consumer_name: str) -> CaptureRecord | None:
    query = sa.select(captures).where(captures.c.consumer == consumer_name, captures.c.state == "committed")
    row = connection.execute(
        query.order_by(captures.c.ended_at.desc(), captures.c.base_version.desc()).limit(1)
    ).first()
    return None if row is None else capture_of(row)


def unsettled(connection: Connection, consumer_names: Collection[str] | None = None) -> list[CaptureRecord]:
    """Committed captures whose checkpoint tags may be behind, of some consumers or of all."""
    query = (
        sa.select(captures).where(sa.text("captures.settled = 0")).order_by(captures.c.consumer, captures.c.ended_at)
    )
    if consumer_names is not None:
        query = query.where(captures.c.consumer.in_(sorted(consumer_names)))
    return [capture_of(row) for row in connection.execute(query)]


def to_release(
    connection: Connection, now: float, consumer_names: Collection[str] | None = None, most: int = 100
) -> list[CaptureRecord]:
    """Ended captures whose pins and change tables are due to go, the longest due first."""
    query = sa.select(captures).where(captures.c.release_at.is_not(None), captures.c.release_at <= now)
    if consumer_names is not None:
        query = query.where(captures.c.consumer.in_(sorted(consumer_names)))
    return [capture_of(row) for row in connection.execute(query.order_by(captures.c.release_at).limit(most))]


def count_to_release(connection: Connection, now: float) -> int:
    """How many ended captures' pins and change tables are due to go."""
    query = sa.select(sa.func.count()).where(captures.c.release_at.is_not(None), captures.c.release_at <= now)
    return int(connection.execute(query).scalar_one())


def any_to_settle_or_release(connection: Connection, now: float) -> bool:
    query = sa.select(captures.c.id).where(sa.text("captures.settled = 0")).limit(1)
    return connection.execute(query).first() is not None or bool(to_release(connection, now, most=1))


def of_consumer(connection: Connection, name: str, capture_ids: Collection[str]) -> list[tuple[CaptureRecord, bool]]:
    """Those of these captures that are this consumer's, each with whether the run that owns it has yet to end."""
    active = sa.text("runs.status IN ('CREATED', 'IN_PROGRESS', 'PAUSED')")
    query = (
        sa.select(captures, runs.c.id.is_not(None).label("under_way"))
        .outerjoin(runs, sa.and_(runs.c.id == captures.c.run_id, active))
        .where(captures.c.consumer == name, captures.c.id.in_(sorted(capture_ids)))
    )
    return [(capture_of(row), bool(row.under_way)) for row in connection.execute(query)]


def add_capture(connection: Connection, record: CaptureRecord) -> None:
    """Raises an integrity error if the consumer has an open capture already."""
    connection.execute(sa.insert(captures), _values(record))


def move_capture(connection: Connection, old: CaptureRecord, **changes: Any) -> CaptureRecord | None:
    """Change a capture that is still as ``old`` says: same state, same claim, same run. ``None``: it is not."""
    new = replace(old, **changes)
    moved = connection.execute(
        sa.update(captures)
        .where(
            captures.c.id == old.id,
            captures.c.state == old.state,
            captures.c.claim == old.claim,
            captures.c.run_id == old.run_id,
        )
        .values(_values(new))
    )
    return new if moved.rowcount == 1 else None


def set_released(connection: Connection, *capture_ids: str) -> None:
    query = sa.update(captures).where(captures.c.id.in_(sorted(capture_ids)))
    connection.execute(query.values(released=1, settled=1, release_at=None))


def set_settled(connection: Connection, *capture_ids: str) -> None:
    connection.execute(sa.update(captures).where(captures.c.id.in_(sorted(capture_ids))).values(settled=1))


def postpone_release(connection: Connection, capture_ids: Collection[str], until: float) -> None:
    """What could not be taken away now is looked at again then."""
    query = sa.update(captures).where(captures.c.id.in_(sorted(capture_ids)), captures.c.release_at.is_not(None))
    connection.execute(query.values(release_at=until))


def publish(
    connection: Connection,
    *,
    capture_id: str,
    step_path: str,
    iteration: int | None,
    target: str,
    snapshot_id: int,
    now: float,
) -> None:
    """Remember that a step's result for a capture is in its target. Saying it twice is fine."""
    values = {
        "capture_id": capture_id,
        "step_path": step_path,
        "iteration": -1 if iteration is None else iteration,
        "target": target,
        "snapshot_id": snapshot_id,
        "published_at": now,
    }
    insert_if_absent(connection, publications, values)


def publications_of(connection: Connection, capture_ids: Collection[str]) -> list[dict[str, Any]]:
    query = sa.select(publications).where(publications.c.capture_id.in_(list(capture_ids)))
    return [dict(row._mapping) for row in connection.execute(query)]


def targets_of(connection: Connection, name: str) -> list[str]:
    """Every table that a batch of this consumer was ever published to."""
    query = (
        sa.select(publications.c.target)
        .join(captures, captures.c.id == publications.c.capture_id)
        .where(captures.c.consumer == name)
        .distinct()
    )
    return sorted(str(target) for target in connection.execute(query).scalars())


@dataclass(frozen=True, slots=True)
class PublicationSummary:
    """When a consumer's batch was last published to a target."""

    consumer: str
    target: str
    published_at: float


def publications_by_target(connection: Connection, since: float | None = None) -> list[PublicationSummary]:
    """One line for each consumer and target, of batches published after ``since``."""
    query = (
        sa.select(captures.c.consumer, publications.c.target, sa.func.max(publications.c.published_at))
        .join(captures, captures.c.id == publications.c.capture_id)
        .group_by(captures.c.consumer, publications.c.target)
    )
    if since is not None:
        query = query.where(publications.c.published_at > since)
    return [PublicationSummary(*row) for row in connection.execute(query)]


def all_checkpoints(connection: Connection) -> list[CheckpointRecord]:
    query = sa.select(checkpoints).order_by(checkpoints.c.consumer, checkpoints.c.source)
    return [CheckpointRecord(*row) for row in connection.execute(query)]


def open_captures(connection: Connection) -> dict[str, CaptureRecord]:
    """By consumer: each has one at most."""
    # Literally the predicate of the partial index.
    query = sa.select(captures).where(sa.text("captures.state IN ('planned', 'pinned', 'built')"))
    return {row.consumer: capture_of(row) for row in connection.execute(query)}


def consumers_of_workflow(connection: Connection, workflow_id: str) -> list[ConsumerRecord]:
    """Those that would lose something if nobody named them any more: with a checkpoint, or an open capture."""
    standing = sa.select(checkpoints.c.consumer).union(
        sa.select(captures.c.consumer).where(captures.c.state.in_(OPEN_STATES))
    )
    query = sa.select(consumers).where(consumers.c.workflow_id == workflow_id, consumers.c.name.in_(standing))
    return [ConsumerRecord(*row) for row in connection.execute(query.order_by(consumers.c.name))]


def rename_consumer(connection: Connection, old: ConsumerRecord, name: str) -> None:
    """With its checkpoints and all its captures. The new name must be free."""
    connection.execute(sa.insert(consumers), {**asdict(old), "name": name})
    for table in (checkpoints, captures):
        connection.execute(sa.update(table).where(table.c.consumer == old.name).values(consumer=name))
    connection.execute(sa.delete(consumers).where(consumers.c.name == old.name))


def remove_checkpoint(connection: Connection, name: str, source: str) -> None:
    connection.execute(sa.delete(checkpoints).where(checkpoints.c.consumer == name, checkpoints.c.source == source))


def capture_of(row: sa.Row[Any]) -> CaptureRecord:
    values: dict[str, Any] = {name: row._mapping[name] for name in _FIELDS}
    read = {"sources": json.loads(values["sources"]), "released": bool(values["released"])}
    return CaptureRecord(**{**values, **read, "settled": bool(values["settled"])})


def _values(record: CaptureRecord) -> dict[str, Any]:
    written = {"sources": json.dumps(record.sources), "released": int(record.released), "settled": int(record.settled)}
    return {**asdict(record), **written, "release_at": record.release_at}


_FIELDS = tuple(CaptureRecord.__slots__)
