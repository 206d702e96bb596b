"""What follows a commit, and may be repeated: the checkpoint tag, the pins, the change tables past their keep time.

None of this is needed for exactness, so none of it is in the commit's transaction. What is left to do is written down with it
(``settled``, ``release_at``): a process that dies before it is done, or finds the catalog away, leaves it to the next commit of the
same consumer, or to the janitor.

A source sees one commit of its metadata for it: the tag moves, and the pins that nobody needs any more go along.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Sequence

from icefloe import suppressed
from icefloe.capture import build
from icefloe.capture.sources import Source
from icefloe.errors import IcefloeError
from icefloe.lake import Lake
from icefloe.lake.errors import CommitConflictError, TableNotFoundError
from icefloe.lake.pins import checkpoint_tag, pins_of
from icefloe.store import captures
from icefloe.store.captures import CaptureRecord
from icefloe.store.database import Database

LOG = logging.getLogger("icefloe.release")
RETRY_SECONDS = 900.0
"""What could not be taken away is tried again after so long."""
MOST_AT_ONCE = 20
"""A commit takes away so many of its consumer's captures that are due; the janitor takes the rest."""


def settle(lake: Lake, database: Database, records: Iterable[CaptureRecord], now: float | None = None) -> int:
    """Move the consumers' checkpoint tags to where their checkpoints are, so that the snapshots they have read up to stay, and drop
    the pins that are no longer needed (:func:`without_need`). Returns how many captures could not be settled now.

    What the tag should be is read from the checkpoint as it is now, never from a capture, and after the source's metadata: whoever
    does this late, after another commit, moves no tag back.
    """
    sources: dict[tuple[str, str], tuple[Source, list[str]]] = {}
    listed = list(records)
    for record in listed:
        for source in (Source.from_json(data) for data in record.sources):
            known = sources.get((record.consumer, source.table))
            sources[(record.consumer, source.table)] = (source, [*(known[1] if known else ()), record.id])
    failed: set[str] = set()
    for (consumer, table), (source, capture_ids) in sources.items():
        try:
            _settle_source(lake, database, consumer, source, now)
        except TableNotFoundError:
            LOG.info("%s is gone, and the pins of %s with it", table, consumer)
        except CommitConflictError as error:
            LOG.info("the checkpoint tag of %s is left to who moved it: %s", consumer, error)
            failed.update(capture_ids)
        except IcefloeError as error:
            suppressed.count("capture.settle_later", error, where=consumer)
            failed.update(capture_ids)
    done = [record.id for record in listed if record.id not in failed]
    if done:
        with database.write() as connection:
            captures.set_settled(connection, *done)
    return len(failed)


def _settle_source(lake: Lake, database: Database, consumer: str, source: Source, now: float | None) -> None:
    metadata = lake.table(source.table).metadata
    tag = metadata.refs.get(checkpoint_tag(consumer))
    tagged = tag.snapshot_id if tag is not None else None
    pinned = {pin.capture for pin in pins_of(metadata)}
    with database.read() as connection:
        checkpoint = captures.checkpoints_of(connection, consumer).get(source.table)
        pinning = captures.of_consumer(connection, consumer, pinned) if pinned else []
    goal = checkpoint.snapshot_id if checkpoint is not None else None
    if tag is None and source.branch is None:
        goal = None  # a source that may not be pinned is not tagged either
    if goal is not None and goal not in metadata.snapshots:
        suppressed.count(
            "capture.untagged", f"snapshot {goal} of {source.table} is gone and cannot be tagged", where=consumer
        )
        goal = None
    drop = without_need(pinning, now)
    if drop or (goal is not None and goal != tagged):
        lake.settle_pins(source.table, consumer=consumer, snapshot_id=goal, tagged=tagged, captures=drop)


def without_need(pinning: Sequence[tuple[CaptureRecord, bool]], now: float | None) -> list[str]:
    """Of one consumer's captures that pin a source, each with whether its run is under way: those whose pins may go. Pure.

    An open capture keeps its pins. A committed one keeps them for its keep time (``now`` None: not looked at), and among the
    newest ``pinned_batches`` only, unless steps of its own run may still read it.
    """
    ended = [(record, under_way) for record, under_way in pinning if not record.is_open]
    ended.sort(key=lambda item: (item[0].base_version, item[0].ended_at or 0.0), reverse=True)
    drop, newer = [], 0
    for record, under_way in ended:
        over = now is not None and record.release_at is not None and record.release_at <= now
        surplus = record.pinned_batches is not None and newer >= record.pinned_batches and not under_way
        if record.released or record.state != "committed" or over or surplus:
            drop.append(record.id)
        newer += record.state == "committed"
    return drop


def sweep(
    lake: Lake,
    database: Database,
    now: float,
    *,
    consumers: Collection[str] | None = None,
    most: int = 100,
) -> int:
    """Do what earlier commits left undone, and release captures whose keep time is over, the longest due first: of all consumers or
    of some. Returns how many were released."""
    with database.read() as connection:
        unsettled = captures.unsettled(connection, consumers)
    if unsettled:
        settle(lake, database, unsettled)
    with database.read() as connection:
        due = captures.to_release(connection, now, consumers, most)
    return release(lake, database, due, now)


def release(lake: Lake, database: Database, records: Sequence[CaptureRecord], now: float) -> int:
    """Take away pins and change tables of ended captures: one commit for each source. Returns how many are gone wholly; the others are
    tried again later."""
    if not records:
        return 0
    by_table: dict[str, list[str]] = {}
    for record in records:
        for table in {data["table"] for data in record.sources}:
            by_table.setdefault(table, []).append(record.id)
    stuck: set[str] = set()
    for table, capture_ids in by_table.items():
        if build.remove_pins(lake, table, capture_ids):
            stuck.update(capture_ids)
    for record in records:
        if build.drop_change_tables(lake, [Source.from_json(data) for data in record.sources]):
            stuck.add(record.id)
    released = [record.id for record in records if record.id not in stuck]
    with database.write() as connection:
        if released:
            captures.set_released(connection, *released)
        if stuck:
            captures.postpone_release(connection, stuck, now + RETRY_SECONDS)
    return len(released)
