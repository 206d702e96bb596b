"""What follows a commit, and may be repeated: the checkpoint tag, the pins, the change tables past their keep time.

None of this is needed for exactness, so none of it is in the commit's transaction. A process that dies before it is done
leaves the capture marked as not released, and the next one that looks takes it up.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

from icefloe.capture import building
from icefloe.capture.sources import Source
from icefloe.errors import IcefloeError
from icefloe.lake import Lake
from icefloe.store import captures
from icefloe.store.captures import CaptureRecord
from icefloe.store.database import Database


def move_tags(lake: Lake, record: CaptureRecord, log: Callable[[str], None]) -> None:
    """The consumer's checkpoint tag on each source, so that the snapshot it has read up to stays."""
    for source in (Source.from_json(one) for one in record.sources):
        if source.end is None or source.branch is None:
            continue  # a source that may not be pinned is not tagged either
        try:
            lake.set_checkpoint_tag(source.table, consumer=record.consumer, snapshot_id=source.end.snapshot_id)
        except IcefloeError as error:
            log(f"the checkpoint tag on {source.table} was not moved: {error}")


def sweep(lake: Lake, database: Database, now: float) -> int:
    """Release ended captures whose keep time is over. Returns how many."""
    with database.read() as connection:
        waiting = captures.unreleased(connection)
    done = 0
    for record in waiting:
        if record.ended_at is not None and record.ended_at + record.keep_seconds > now and record.state == "committed":
            continue
        with suppress(IcefloeError):
            sources = [Source.from_json(one) for one in record.sources]
            building.discard(lake, sources, capture_id=record.id)
            with database.write() as connection:
                captures.set_released(connection, record.id)
            done += 1
    return done
