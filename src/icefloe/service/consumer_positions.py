"""How far behind its source a consumer is: in snapshots, rows and time, from the source's metadata alone."""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass, replace
from typing import Any

from icefloe.errors import IcefloeError
from icefloe.lake import Checkpoint, history
from icefloe.lake.catalog import LoadedTable
from icefloe.lake.metadata import Snapshot
from icefloe.store.captures import CheckpointRecord


@dataclass(frozen=True, slots=True)
class ConsumerPosition:
    """One consumer's place in one source. The lag is unknown (``None``) when the source cannot be read, or history is lost."""

    consumer: str
    table: str
    snapshot_id: int | None
    """``None``: it has not committed anything of this source yet."""
    version: int
    lag_snapshots: int | None
    lag_rows: int | None
    lag_seconds: float | None
    """How long the oldest unseen snapshot has been there."""
    open_capture: str | None
    problem: str | None = None

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def with_lag(
    standing: ConsumerPosition, checkpoint: CheckpointRecord | None, ref: str, table: LoadedTable | IcefloeError
) -> ConsumerPosition:
    """The standing with what lies between the checkpoint and the head, or with the reason why that cannot be told."""
    try:
        if isinstance(table, IcefloeError):
            raise table
        unseen = unseen_snapshots(table, checkpoint_of(checkpoint), ref)
    except IcefloeError as error:
        return replace(standing, problem=f"{error.code}: {error.message}")
    age = time.time() - unseen[0].timestamp_ms / 1000 if unseen else 0.0
    return replace(
        standing,
        lag_snapshots=len(unseen),
        lag_rows=rows_in(unseen),
        lag_seconds=round(max(age, 0.0), 1),
    )


def unseen_snapshots(table: LoadedTable, since: Checkpoint | None, ref: str) -> list[Snapshot]:
    """Oldest first. Without a checkpoint: all that the table still has."""
    head = history.head(table.metadata, ref, table=table.name)
    if since is None:
        return list(history.ancestors(table.metadata, head))[::-1] if head is not None else []
    return history.between(table.metadata, since, head, ref=ref, table=table.name)


def rows_in(snapshots: list[Snapshot]) -> int:
    """Rows added, by the summaries. Compaction adds none."""
    told = (snapshot.summary.get("added-records", "0") for snapshot in snapshots if snapshot.operation != "replace")
    return sum(int(text) for text in told if text.isdigit())


def checkpoint_of(record: CheckpointRecord | None) -> Checkpoint | None:
    if record is None:
        return None
    return Checkpoint(record.table_uuid, record.snapshot_id, record.sequence_number, record.schema_id)
