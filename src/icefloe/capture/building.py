"""From a planned range to a built capture: pin the sources, find what changed, make the change tables."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from icefloe import suppressed
from icefloe.capture.completeness import Goal
from icefloe.capture.errors import OtherOperationsError
from icefloe.capture.sources import Source, found_in
from icefloe.errors import IcefloeError
from icefloe.lake import ChangeSet, Lake
from icefloe.lake.changes import OnGap
from icefloe.lake.pins import PinMode

MOST_SECONDS_OPEN = 30 * 86_400
"""How long a failed batch may wait for its repetition before its source may expire its files."""


@dataclass(frozen=True, slots=True)
class Wish:
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
    completes: Goal | None = None
    """The table whose watermark is derived."""

    def columns_of(self, table: str) -> tuple[str, ...]:
        return tuple(dict.fromkeys((*self.columns.get("*", ()), *self.columns.get(table, ()))))


def find(lake: Lake, source: Source, wish: Wish) -> ChangeSet:
    """What changed in a planned range. Refuses to pass over rows silently."""
    changes = lake.changes(
        source.table,
        since=source.start,
        until=source.end.snapshot_id if source.end else None,
        ref=source.ref,
        operations=wish.operations,
        columns=wish.columns_of(source.table),
        on_gap=wish.on_gap,
    )
    if changes.skipped_operations and wish.on_other_operations == "fail":
        named = ", ".join(f"{count} × {name}" for name, count in changes.skipped_operations.items())
        asked = ", ".join((*wish.operations, *changes.skipped_operations))
        raise OtherOperationsError(
            f"rows were changed by operations that were not asked for: {named}",
            where=source.table,
            hint=f"capture them with data_operations: [{asked}], or pass over them with on_other_operations: ignore",
        )
    return changes


def pin(
    lake: Lake,
    source: Source,
    changes: ChangeSet,
    wish: Wish,
    *,
    consumer: str,
    capture_id: str,
    log: Callable[[str], None],
) -> Source:
    report = lake.pin(changes, owner=consumer, capture=capture_id, keep_seconds=_held_for(wish), mode=wish.pin)
    if report.refused:
        log(f"{source.table} is not pinned: {report.refused}")
    return replace(source, branch=report.branch)


def extend_pins(
    lake: Lake, sources: Sequence[Source], wish: Wish, *, consumer: str, capture_id: str, log: Callable[[str], None]
) -> None:
    """A batch that is taken up again is held as long as a new one."""
    for source in sources:
        if source.branch is None:
            continue
        try:
            lake.extend_pins(source.table, owner=consumer, capture=capture_id, keep_seconds=_held_for(wish))
        except IcefloeError as error:
            log(f"the pins on {source.table} keep their old age: {error}")


def _held_for(wish: Wish) -> float:
    """Pins are taken away after the commit and its keep time. Their own age is for captures that nobody ever ends."""
    return MOST_SECONDS_OPEN + wish.keep_seconds


def build(lake: Lake, source: Source, changes: ChangeSet) -> Source:
    """Make the change table, and the table at ``end`` where one is needed, under the names that were recorded before."""
    if source.change_table is not None:
        lake.create_change_table(changes, name=_bare(source.change_table))
        if source.alias is not None:
            lake.point_change_table(source.alias, at=source.change_table)
    if source.at_end is not None:
        assert source.end is not None
        whole = lake.changes(source.table, until=source.end.snapshot_id, ref=source.ref, details=False)
        lake.create_change_table(whole, name=_bare(source.at_end))
    return replace(source, found=found_in(changes))


def discard(lake: Lake, sources: Sequence[Source], *, capture_id: str) -> None:
    """Take away pins and change tables. What is gone already is fine; what cannot be removed now is left to the clean-up."""
    for source in sources:
        if source.alias is not None and source.change_table is not None:
            with suppressed.errors("capture.unpoint", IcefloeError, where=source.alias):
                lake.unpoint_change_table(source.alias, at=source.change_table)
        for name in source.made_tables:
            with suppressed.errors("capture.drop_table", IcefloeError, where=name):
                lake.drop_change_table(name)
        with suppressed.errors("capture.unpin", IcefloeError, where=source.table):
            lake.unpin(source.table, capture=capture_id)


def _bare(name: str) -> str:
    return name.rsplit(".", 1)[-1]
