"""One ref's past: which snapshots lie between two, and what became of a past that is gone.

The parent chain is the only order there is. Commit times are never compared: a staged snapshot is published later than it
was written, so a checkpoint by time would lose it. Sequence numbers are compared only to say *why* a chain is broken; they
grow with each commit to the table, so a snapshot that is missing from a chain although its number lies inside the chain's
span was left by a roll-back, and one that lies below a chain's parentless root was replaced.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from icefloe.lake.errors import (
    HistoryExpiredError,
    HistoryLostError,
    HistoryRolledBackError,
    RefGoneError,
    RefNotFoundError,
    SnapshotNotFoundError,
    SnapshotOrderError,
    TableRecreatedError,
    TableReplacedError,
)
from icefloe.lake.metadata import Snapshot, TableMetadata


@dataclass(frozen=True)
class Checkpoint:
    """How far a consumer has read a table: enough to recognise the table and to explain a gap later."""

    table_uuid: str
    snapshot_id: int
    sequence_number: int = 0
    schema_id: int = 0


def checkpoint_at(metadata: TableMetadata, snapshot_id: int) -> Checkpoint:
    snapshot = metadata.snapshots[snapshot_id]
    return Checkpoint(metadata.uuid, snapshot.id, snapshot.sequence_number, metadata.schema.id)


def ancestors(metadata: TableMetadata, snapshot_id: int) -> Iterator[Snapshot]:
    """A snapshot and its ancestors, newest first, as far as the metadata still has them."""
    current = metadata.snapshots.get(snapshot_id)
    visited: set[int] = set()
    while current is not None and current.id not in visited:
        visited.add(current.id)
        yield current
        current = metadata.snapshots.get(current.parent_id) if current.parent_id is not None else None


def head(metadata: TableMetadata, ref: str, *, table: str) -> int | None:
    """The snapshot a ref points at; ``None`` for ``main`` of a table that has no snapshot yet."""
    target = metadata.refs.get(ref)
    if target is not None:
        return target.snapshot_id
    if ref == "main":
        return None
    known = ", ".join(sorted(metadata.refs)) or "none"
    raise RefNotFoundError(f"there is no branch or tag {ref!r}", where=table, hint=f"the refs are: {known}")


def resolve_until(metadata: TableMetadata, ref: str, until: int | None, *, table: str) -> int | None:
    """The end of a range: the ref's head, or a given snapshot that is proven to lie in the ref's past."""
    tip = head(metadata, ref, table=table)
    if until is None:
        return tip
    if tip is not None and any(snapshot.id == until for snapshot in ancestors(metadata, tip)):
        return until
    if until in metadata.snapshots:
        raise SnapshotOrderError(
            f"snapshot {until} is not in the history of {ref!r}: it is staged, on another branch or rolled back",
            where=table,
            hint="name the branch with --ref, or leave --until out for the head",
        )
    raise unknown_snapshot(until, table)


def between(
    metadata: TableMetadata, since: Checkpoint, until: int | None, *, ref: str, table: str, until_given: bool = False
) -> list[Snapshot]:
    """The snapshots in (since, until], oldest first; or the reason, as a typed error, why that cannot be told."""
    if since.table_uuid and since.table_uuid != metadata.uuid:
        raise TableRecreatedError(
            f"the table was dropped and made anew: its uuid is {metadata.uuid}, the checkpoint's {since.table_uuid}",
            where=table,
        )
    if until is None:
        if not since.table_uuid:
            raise unknown_snapshot(since.snapshot_id, table)
        raise TableReplacedError(
            f"the table has no snapshot any more, the checkpoint is at {since.snapshot_id}", where=table
        )
    chain: list[Snapshot] = []
    for snapshot in ancestors(metadata, until):
        if snapshot.id == since.snapshot_id:
            return chain[::-1]
        chain.append(snapshot)
    if chain[-1].parent_id == since.snapshot_id:
        # The checkpoint itself is expired, but nothing after it is: its child names it.
        return chain[::-1]
    raise _explain(metadata, since, chain, ref=ref, table=table, until_given=until_given)


def ref_gone(metadata: TableMetadata, ref: str, *, table: str) -> RefGoneError:
    known = ", ".join(sorted(metadata.refs)) or "none"
    return RefGoneError(
        f"the branch or tag {ref!r} that the checkpoint was taken on is gone",
        where=table,
        hint=f"name another ref: the refs are: {known}",
    )


def unknown_snapshot(snapshot_id: int, table: str) -> SnapshotNotFoundError:
    return SnapshotNotFoundError(
        f"the table has no snapshot {snapshot_id}: it was expired, or belongs to another table",
        where=table,
        hint=f'list what it has with: icefloe sql "SELECT snapshot_id, operation FROM {table}.snapshots"',
    )


def _explain(
    metadata: TableMetadata, since: Checkpoint, chain: list[Snapshot], *, ref: str, table: str, until_given: bool
) -> HistoryLostError | SnapshotOrderError | SnapshotNotFoundError:
    """Why ``since`` is not in the chain of ``until`` (``chain``: newest first, complete as far as metadata has it)."""
    until, oldest = chain[0], chain[-1]
    last_read = metadata.snapshots.get(since.snapshot_id)
    number = last_read.sequence_number if last_read else since.sequence_number
    past = {snapshot.id for snapshot in ancestors(metadata, last_read.id)} if last_read else set()
    name = f"snapshot {since.snapshot_id}"

    if until.id in past:
        if until_given:
            return SnapshotOrderError(
                f"--since {since.snapshot_id} is newer than --until {until.id}", where=table, hint="swap the two"
            )
        return HistoryRolledBackError(
            f"{ref!r} was rolled back to {until.id}, behind the checkpoint at {name}", where=table, diff_possible=True
        )
    if past & {snapshot.id for snapshot in chain}:
        return HistoryRolledBackError(
            f"{name} is not in the history of {ref!r} any more: the branch was rolled back and went another way",
            where=table,
            diff_possible=True,
        )
    complete = oldest.is_first
    if complete and (last_read or number):
        if number and oldest.sequence_number and number > oldest.sequence_number:
            return HistoryRolledBackError(
                f"{name} is not in the history of {ref!r} any more: the branch was rolled back and went another way",
                where=table,
                diff_possible=last_read is not None,
            )
        return TableReplacedError(
            f"the table was replaced (CREATE OR REPLACE): {ref!r} starts anew at {oldest.id}, after {name}",
            where=table,
            diff_possible=last_read is not None,
        )
    if complete and since.table_uuid:
        return HistoryLostError(
            f"{name} is not in the history of {ref!r} any more, which starts at {oldest.id}: the branch was rolled back, or "
            "the table replaced; snapshots of format v1 have no numbers to tell which",
            where=table,
        )
    if complete:
        return unknown_snapshot(since.snapshot_id, table)
    if number and oldest.sequence_number and number > oldest.sequence_number:
        return HistoryRolledBackError(
            f"{name} was left behind by a roll-back of {ref!r}", where=table, diff_possible=last_read is not None
        )
    if last_read is None and not since.table_uuid:
        return HistoryExpiredError(
            f"{name} is not there: it was expired (the history of {ref!r} starts at {oldest.id}), or belongs to another table",
            where=table,
        )
    return HistoryExpiredError(
        f"the history of {ref!r} between {name} and {oldest.id} was expired",
        where=table,
        diff_possible=last_read is not None,
    )
