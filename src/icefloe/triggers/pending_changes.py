"""What one consumer has not seen of one table, from the table's metadata alone. Pure.

Counts come from snapshots' summaries, which every engine writes; no manifest is opened for them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from icefloe.errors import IcefloeError
from icefloe.lake import Checkpoint, history
from icefloe.lake.errors import HistoryLostError
from icefloe.lake.metadata import Snapshot, TableMetadata

_TOUCHES = ("added-data-files", "deleted-data-files", "added-delete-files", "removed-delete-files", "added-dvs")


@dataclass(frozen=True, slots=True)
class PendingChanges:
    """What lies in (``start``, ``end``]. ``start`` None: the consumer has seen nothing yet, and all of the table is unseen.

    ``snapshots`` counts those with changes of the wanted operations, ``others`` those with changes of other ones. With
    neither, and ``start`` and ``end`` apart, the range holds nothing but maintenance: the checkpoint may move over it.
    """

    table: str
    start: int | None = None
    end: Checkpoint | None = None
    snapshots: int = 0
    others: int = 0
    rows: int = 0
    files: int = 0
    bytes: int = 0
    oldest_ms: int | None = None
    newest_ms: int | None = None
    writers: tuple[str, ...] = ()
    """The Icefloe runs whose commits these are; an empty name stands for everybody else."""
    lost: str | None = None
    """History is lost: why, and what to type."""
    problem: str | None = None
    """The table cannot be looked at now."""

    @property
    def moved(self) -> bool:
        return self.end is not None and self.end.snapshot_id != self.start

    @property
    def only_maintenance(self) -> bool:
        return self.moved and self.start is not None and not self.snapshots and not self.others and not self.lost

    @property
    def range(self) -> str:
        return f"{self.table}@{self.start or '-'}..{self.end.snapshot_id if self.end else '-'}"


def pending_changes(
    metadata: TableMetadata, table: str, *, ref: str, position: Checkpoint | None, operations: frozenset[str]
) -> PendingChanges:
    """``position`` is how far the consumer has read; None: not at all."""
    start = position.snapshot_id if position else None
    try:
        head = history.head(metadata, ref, table=table)
        if head is None and position is None:
            return PendingChanges(table)
        end = history.checkpoint_at(metadata, head) if head is not None else None
        if position is None:
            assert head is not None
            return _whole(metadata.snapshots[head], table, end)
        chain = history.between(metadata, position, head, ref=ref, table=table)
    except HistoryLostError as error:
        lost_end = history.checkpoint_at(metadata, head) if head is not None else None
        return PendingChanges(table, start, lost_end, lost=f"{error.code}: {error.message}")
    except IcefloeError as error:
        return PendingChanges(table, start, problem=f"{error.code}: {error.message}")
    wanted = [
        snapshot
        for snapshot in chain
        if changes(snapshot) and (snapshot.operation is None or snapshot.operation in operations)
    ]
    others = [
        snapshot
        for snapshot in chain
        if changes(snapshot) and snapshot.operation is not None and snapshot.operation not in operations
    ]
    return PendingChanges(
        table,
        start,
        end,
        snapshots=len(wanted),
        others=len(others),
        rows=sum(_number(snapshot.summary, "added-records") for snapshot in wanted),
        files=sum(_number(snapshot.summary, "added-data-files") for snapshot in wanted),
        bytes=sum(_number(snapshot.summary, "added-files-size") for snapshot in wanted),
        oldest_ms=wanted[0].timestamp_ms if wanted else None,
        newest_ms=wanted[-1].timestamp_ms if wanted else None,
        writers=tuple(dict.fromkeys(snapshot.summary.get("icefloe.run", "") for snapshot in wanted)),
    )


def changes(snapshot: Snapshot) -> bool:
    """Whether a snapshot may have changed rows. Compaction has not; nor has a commit whose summary counts no file."""
    if snapshot.operation == "replace":
        return False
    complete = "total-data-files" in snapshot.summary
    return not complete or any(_number(snapshot.summary, key) for key in _TOUCHES)


def _whole(head: Snapshot, table: str, end: Checkpoint | None) -> PendingChanges:
    summary = head.summary
    return PendingChanges(
        table,
        None,
        end,
        snapshots=1,
        rows=_number(summary, "total-records"),
        files=_number(summary, "total-data-files"),
        bytes=_number(summary, "total-files-size"),
        oldest_ms=head.timestamp_ms,
        newest_ms=head.timestamp_ms,
        writers=("",),
    )


def _number(summary: Mapping[str, str], key: str) -> int:
    text = summary.get(key, "0")
    return int(text) if text.isdigit() else 0
