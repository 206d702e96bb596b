"""Moving a checkpoint over a range in which nothing happened but maintenance: no capture, no run."""

from __future__ import annotations

from icefloe.lake import Checkpoint
from icefloe.store import captures
from icefloe.store.captures import CheckpointRecord
from icefloe.store.database import Database


def advance(database: Database, known: CheckpointRecord, base_version: int, end: Checkpoint, now: float) -> bool:
    """Move one source's checkpoint from ``known`` to ``end``. False: somebody captures or has moved it; nothing changed.

    The consumer's version goes up as with any commit, so a capture that was planned meanwhile notices.
    """
    with database.write() as connection:
        capture = captures.open_capture(connection, known.consumer)
        if capture is not None or not captures.raise_version(connection, known.consumer, base_version):
            return False
        captures.set_checkpoint(
            connection,
            CheckpointRecord(
                known.consumer,
                known.source,
                known.ref,
                end.table_uuid,
                end.snapshot_id,
                end.sequence_number,
                end.schema_id,
                known.capture_id,
                now,
            ),
        )
        database.announce(connection)
    return True
