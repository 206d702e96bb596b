"""From a planned range to a built capture: pin the sources, find what changed, make the change tables."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal

from icefloe import suppressed
from icefloe.capture.completeness import WatermarkGoal
from icefloe.capture.errors import OtherOperationsError
from icefloe.capture.sources import Source, change_summary
from icefloe.errors import IcefloeError
from icefloe.lake import ChangeSet, Lake
from icefloe.lake.changes import OnGap
from icefloe.lake.errors import MetadataMissingError, NotAChangeTableError, TableNotFoundError
from icefloe.lake.pins import PinMode

MOST_SECONDS_OPEN = 30 * 86_400
"""How long a failed batch may wait for its repetition before its source may expire its files."""


@dataclass(frozen=True, slots=True)
class CaptureOptions:
    """What a capture step asks for."""

    operations: tuple[str, ...]
    on_other_operations: Literal["fail", "ignore"]
    on_gap: OnGap
    columns: Mapping[str, tuple[str, ...]]
    """By source; ``*`` for all of them."""
    pin: PinMode
    keep_seconds: float
    change_tables: bool
    """False for ``capture_mode: RANGE``, which publishes ranges only."""
    skip_empty: bool
    """Nothing changed anywhere: no pins and no change tables, since nothing will read them."""
    alias: str | None = None
    """A stable name for the change table of a capture with one source."""
    completes: WatermarkGoal | None = None
    """The table whose watermark is derived."""
    pinned_batches: int | None = None
    """How many committed captures keep their pins; None: all that are within their keep time."""

    def columns_of(self, table: str) -> tuple[str, ...]:
        return tuple(dict.fromkeys((*self.columns.get("*", ()), *self.columns.get(table, ()))))


def find_changes(lake: Lake, source: Source, options: CaptureOptions) -> ChangeSet:
    """What changed in a planned range. Refuses to pass over rows silently."""
    changes = lake.changes(
        source.table,
        since=source.start,
        until=source.end.snapshot_id if source.end else None,
        ref=source.ref,
        operations=options.operations,
        columns=options.columns_of(source.table),
        on_gap=options.on_gap,
    )
    if changes.skipped_operations and options.on_other_operations == "fail":
        named = ", ".join(f"{count} × {name}" for name, count in changes.skipped_operations.items())
        operations = ", ".join((*options.operations, *changes.skipped_operations))
        raise OtherOperationsError(
            f"rows were changed by operations that were not asked for: {named}",
            where=source.table,
            hint=f"capture them with data_operations: [{operations}], or pass over them with on_other_operations: ignore",
        )
    return changes


def pin(
    lake: Lake,
    source: Source,
    changes: ChangeSet,
    options: CaptureOptions,
    *,
    consumer: str,
    capture_id: str,
    log: Callable[[str], None],
) -> Source:
    report = lake.pin(changes, owner=consumer, capture=capture_id, keep_seconds=_pin_seconds(options), mode=options.pin)
    if report.refused:
        log(f"{source.table} is not pinned: {report.refused}")
    return replace(source, branch=report.branch)


def extend_pins(
    lake: Lake,
    sources: Sequence[Source],
    options: CaptureOptions,
    *,
    consumer: str,
    capture_id: str,
    log: Callable[[str], None],
) -> None:
    """A batch that is taken up again is held as long as a new one."""
    for source in sources:
        if source.branch is None:
            continue
        try:
            lake.extend_pins(source.table, owner=consumer, capture=capture_id, keep_seconds=_pin_seconds(options))
        except IcefloeError as error:
            log(f"the pins on {source.table} keep their old age: {error}")


def _pin_seconds(options: CaptureOptions) -> float:
    """Pins are taken away after the commit and its keep time. Their own age is for captures that nobody ever ends."""
    return MOST_SECONDS_OPEN + options.keep_seconds


def build(lake: Lake, source: Source, changes: ChangeSet) -> Source:
    """Make the change table, and the table at ``end`` where one is needed, under the names that were recorded before."""
    if source.change_table is not None:
        lake.create_change_table(changes, name=_short_name(source.change_table))
        if source.alias is not None:
            lake.point_change_table(source.alias, at=source.change_table)
    if source.at_end is not None:
        assert source.end is not None
        whole = lake.changes(source.table, until=source.end.snapshot_id, ref=source.ref, details=False)
        lake.create_change_table(whole, name=_short_name(source.at_end))
    return replace(source, found=change_summary(changes))


def discard(lake: Lake, sources: Sequence[Source], *, capture_id: str) -> bool:
    """Take away pins and change tables; what is gone already is fine. False: some of it could not be removed now."""
    troubles = drop_change_tables(lake, sources)
    for table in dict.fromkeys(source.table for source in sources):
        troubles += remove_pins(lake, table, [capture_id])
    return troubles == 0


def drop_change_tables(lake: Lake, sources: Sequence[Source]) -> int:
    """Drop change tables. Returns how many could not be dropped now; each is logged."""
    troubles = 0
    for source in sources:
        if source.alias is not None and source.change_table is not None:
            troubles += _not_removed(
                f"the name {source.alias}", partial(_unpoint, lake, source.alias, source.change_table)
            )
        for name in source.made_tables:
            troubles += _not_removed(f"change table {name}", partial(lake.drop_change_table, name))
    return troubles


def remove_pins(lake: Lake, table: str, capture_ids: Collection[str]) -> int:
    """Remove the pins of captures from a source. Returns 1, and logs why, if they could not be removed now."""
    return _not_removed(f"the pins on {table}", partial(lake.unpin_all, table, captures=capture_ids))


def _unpoint(lake: Lake, alias: str, at: str) -> None:
    lake.unpoint_change_table(alias, at=at)


def _not_removed(name: str, remove: Callable[[], object]) -> int:
    try:
        remove()
    except (TableNotFoundError, NotAChangeTableError):
        return 0  # gone already, or the name is somebody else's by now
    except MetadataMissingError as error:
        suppressed.count("capture.files_gone", error, where=name)
        return 0  # trying again would not help
    except IcefloeError as error:
        suppressed.count("capture.remove_later", error, where=name)
        return 1
    return 0


def _short_name(name: str) -> str:
    return name.rsplit(".", 1)[-1]
