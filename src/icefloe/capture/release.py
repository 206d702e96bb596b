"""What follows a commit, and may be repeated: the checkpoint tag, the pins, the change tables past their keep time.

None of this is needed for exactness, so none of it is in the commit's transaction. A process that dies before it is done
leaves the capture marked as not released, and the next one that looks takes it up.
"""

from __future__ import annotations

from collections.abc import Iterable

from icefloe import suppressed
from icefloe.capture import building
from icefloe.capture.sources import Source
from icefloe.errors import IcefloeError
from icefloe.lake import Lake
from icefloe.lake.pins import checkpoint_tag
from icefloe.store import captures
from icefloe.store.captures import CaptureRecord
from icefloe.store.database import Database


def settle(lake: Lake, database: Database, records: Iterable[CaptureRecord]) -> None:
    """Move the consumers' checkpoint tags to where their checkpoints are, so that the snapshots they have read up to stay.

    What the tag should be is read from the checkpoint as it is now, never from a capture: whoever does this late, after
    another commit, moves no tag back.
    """
    for record in records:
        with database.read() as connection:
            standing = captures.checkpoints_of(connection, record.consumer)
        for source in (Source.from_json(one) for one in record.sources):
            checkpoint = standing.get(source.table)
            if checkpoint is not None:
                with suppressed.errors(
                    "capture.checkpoint_tag", IcefloeError, where=source.table
                ):  # found undone by the next one
                    _tag(lake, record.consumer, source, checkpoint.snapshot_id)


def _tag(lake: Lake, consumer: str, source: Source, snapshot_id: int) -> None:
    held = lake.table(source.table).metadata.refs.get(checkpoint_tag(consumer))
    if held is None and source.branch is None:
        return  # a source that may not be pinned is not tagged either
    if held is None or held.snapshot_id != snapshot_id:
        lake.set_checkpoint_tag(source.table, consumer=consumer, snapshot_id=snapshot_id)


def sweep(lake: Lake, database: Database, now: float) -> int:
    """Release ended captures whose keep time is over. Returns how many."""
    with database.read() as connection:
        waiting = captures.unreleased(connection)
    settle(lake, database, _latest_of_each_consumer(waiting))
    done = 0
    for record in waiting:
        if record.ended_at is not None and record.ended_at + record.keep_seconds > now and record.state == "committed":
            continue
        with suppressed.errors("capture.release", IcefloeError, where=record.id):
            sources = [Source.from_json(one) for one in record.sources]
            building.discard(lake, sources, capture_id=record.id)
            with database.write() as connection:
                captures.set_released(connection, record.id)
            done += 1
    return done


def _latest_of_each_consumer(records: Iterable[CaptureRecord]) -> list[CaptureRecord]:
    latest: dict[str, CaptureRecord] = {}
    for record in records:
        if record.state == "committed" and record.created_at >= getattr(
            latest.get(record.consumer), "created_at", record.created_at
        ):
            latest[record.consumer] = record
    return list(latest.values())
