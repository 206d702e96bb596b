"""What a plan would cost, by metadata alone, and whether filling the target anew would be clearly cheaper.

Rows are what is counted. Each row that a plan touches is scanned and then used in one of a few ways, which cost differently: its key is collected, it is
compared with the changed keys, it goes through the SELECT, it is written, or it is deleted by position. Where metadata does not tell how many
rows there are, there is no cost, and nothing is decided by it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from icefloe.planner.analysis import Analysis, PartitionLink
from icefloe.planner.influence import Occurrence
from icefloe.planner.inputs import PartitionContents, Size, TargetState
from icefloe.planner.plan import Cost, Partitions, Plan
from icefloe.planner.scans import Scan, recomputation, scans

COLLECTED = 1.0
"""Microseconds to read a row's key and make it distinct, on two cores of a warm local server: with this and the four below, what
``python -m benchmarks.after_deletes`` took at 600,000 rows, by statement (``docs/benchmarks.md``). Only their proportions decide."""
COMPARED = 0.5
"""To read a row and look its key up among the changed ones,"""
COMPARED_HERE = 0.15
"""and where the step itself does that."""
COMPUTED = 0.7
"""To read a row and take it through the SELECT."""
WRITTEN = 0.8
"""To write a row of the result."""
DELETED = 0.6
"""To delete a row of the target by its position."""

MARGIN = 1.4
"""A plan must cost so many times what a full run does before that takes its place: these are estimates."""
LEAST_SECONDS = 0.5
"""And so much must be saved. On small tables every statement takes the time of its planning and its commit."""


def clearly_cheaper(full: Cost | None, than: Cost | None) -> bool:
    """Whether a full run is, by enough to be sure of it."""
    if full is None or than is None:
        return False
    return than.seconds >= MARGIN * full.seconds and than.seconds - full.seconds >= LEAST_SECONDS


def why_not_full(analysis: Analysis, target: TargetState) -> str | None:
    """Why the target is not filled anew although that is cheaper: the user said otherwise, or it may hold what the SELECT does not give
    any more."""
    request = analysis.request
    if request.pattern != "auto":
        return f"pattern: {request.pattern} was asked for"
    if request.lookup_tables:
        return "changes of lookup_tables are not to recompute anything"
    if any(state.ignored for state in analysis.sources.values()):
        return "the capture passes over some operations, and a full run would not"
    if not target.recomputable:
        return (
            "the target's history does not say that this SELECT has filled all of it; "
            "it will after one run with WRITE_RANGE=all"
        )
    return None


def comparison(full: Cost, other: Cost, pattern: str) -> str:
    return (
        f"a full run is clearly cheaper: {full.read.rows:,} rows read and {full.written.rows:,} written, against "
        f"{other.read.rows:,} read, {other.deleted:,} deleted and {other.written.rows:,} written by {pattern}"
    )


def of_full(analysis: Analysis, target: TargetState, *, checked: bool) -> Cost | None:
    """Of filling the target anew. ``checked``: keys are looked for twice in it afterwards."""
    sizes = [_total(analysis, scan.table) for scan in recomputation(analysis)]
    if any(size is None for size in sizes) or _known(target.total) is None:
        return None
    read = sum((size for size in sizes if size is not None), Size())
    rows = round(target.total.rows * _growth(analysis))
    written = _result(target, rows)
    read_again = written if checked else Size()
    return timed(Cost(read + read_again, written, collected=read_again.rows, computed=read.rows))


def of_plan(plan: Plan, analysis: Analysis, target: TargetState, contents: PartitionContents) -> Cost | None:
    """Of carrying a plan out. ``None``: metadata does not tell, or there is nothing to do."""
    if not plan.statements or plan.span is not None:
        return None
    if plan.pattern == "full":
        return of_full(analysis, target, checked=plan.duplicates is not None)
    return _Estimate(plan, analysis, target, contents).cost()


class _Estimate:
    """Of an append, of changed keys or of changed partitions."""

    def __init__(self, plan: Plan, analysis: Analysis, target: TargetState, contents: PartitionContents) -> None:
        self._plan = plan
        self._analysis = analysis
        self._target = target
        self._contents = contents
        self._link: PartitionLink | None = analysis.link(target)

    def cost(self) -> Cost | None:
        sized = [(scan, self._size(scan)) for scan in scans(self._plan, self._analysis, self._target)]
        known = [(scan, size) for scan, size in sized if size is not None]
        if len(known) < len(sized):
            return None
        by_key = self._by_key()
        late = self._plan.partitions.late if self._plan.partitions is not None else None
        collected = compared = computed = 0
        for scan, size in known:
            if scan.for_keys or scan.relation == "result":
                collected += size.rows
            elif scan.relation == "target" or (by_key and self._restricted(scan, late)):
                compared += size.rows
            else:
                computed += size.rows
        touched = self._touched(late) if by_key else 0
        if touched is None:
            return None
        whole = self._whole()
        if whole is None:
            return None
        if by_key:
            computed += self._source_rows(touched, late)
        cost = Cost(
            read=sum((size for _, size in known), Size()),
            written=_result(self._target, touched + whole),
            collected=collected,
            compared=compared,
            computed=computed,
            deleted=touched,
        )
        return timed(cost, local=self._plan.search is not None)

    def _by_key(self) -> bool:
        touched = self._plan.partitions
        return self._plan.pattern in ("merge", "key_filter") and (touched is None or bool(touched.late))

    def _restricted(self, scan: Scan, late: tuple[Any, ...] | None) -> bool:
        """The one changed table is filtered before the SELECT; in all other cases the SELECT is computed, and filtered then."""
        occurrence = self._analysis.single
        return occurrence is not None and scan.table == occurrence.table.name and (late is None or scan.values == late)

    def _touched(self, late: tuple[Any, ...] | None) -> int | None:
        """Rows of the result that have a changed key, among those that are looked through: as many go as come."""
        rows_in_target = self._target_rows(late)
        if rows_in_target is None:
            return None
        influence = self._analysis.influence
        assert influence is not None
        total = 0.0
        for occurrence in self._analysis.changed:
            changed, live = self._changed_rows(occurrence, late), self._live_rows(occurrence, late)
            if changed is None or live is None:
                return None
            share = rows_in_target / max(live, 1)
            # A row that is looked at by itself is so many rows of the result; else each is at least in a group of its own.
            total += changed * (share if occurrence.id in influence.relation.linear else max(share, 1))
        return round(min(total, rows_in_target))

    def _source_rows(self, touched: int, late: tuple[Any, ...] | None) -> int:
        """Rows of the one changed table that those of the result are made of."""
        occurrence = self._analysis.single
        if occurrence is None:
            return 0  # everything is computed, and counted already
        rows_in_target, live = self._target_rows(late) or 0, self._live_rows(occurrence, late) or 0
        return round(live * min(touched / rows_in_target, 1)) if rows_in_target else live

    def _whole(self) -> int | None:
        """Rows of the result in partitions that are written whole, and of an append."""
        touched, target = self._plan.partitions, self._target
        if self._plan.pattern == "append" or (touched is not None and touched.new):
            rows = sum(self._added_rows(occurrence, touched) for occurrence in self._analysis.changed)
            live = sum(self._analysis.state(occurrence).total.rows for occurrence in self._analysis.changed)
            appended = round(rows * min(target.total.rows / max(live, 1), 1))
        else:
            appended = 0
        if touched is None or not touched.overwritten or self._plan.pattern == "append":
            return appended
        rows_in_target = self._target_rows(touched.overwritten)
        return None if rows_in_target is None else rows_in_target + appended

    def _added_rows(self, occurrence: Occurrence, touched: Partitions | None) -> int:
        if touched is None or self._link is None or self._plan.pattern == "append":
            return self._analysis.state(occurrence).added.rows
        return sum(self._link.sources[occurrence.id].added.get(value, 0) for value in touched.new)

    def _target_rows(self, values: tuple[Any, ...] | None) -> int | None:
        if values is None:
            return self._target.total.rows
        return _among(self._contents.target, values)

    def _live_rows(self, occurrence: Occurrence, late: tuple[Any, ...] | None) -> int | None:
        if late is None:
            return self._analysis.state(occurrence).total.rows
        return _among(self._contents.source, late)

    def _changed_rows(self, occurrence: Occurrence, late: tuple[Any, ...] | None) -> int | None:
        """Whose keys are changed: the new rows, and after deletes and overwrites all rows of changed partitions."""
        state = self._analysis.state(occurrence)
        if not state.append_only:
            size = self._contents.changed.get(state.name) if late is None else None
            return size.rows if size is not None else self._live_rows(occurrence, late) if late is not None else None
        if late is None or self._link is None:
            return state.added.rows
        return sum(self._link.sources[occurrence.id].added.get(value, 0) for value in late)

    def _size(self, scan: Scan) -> Size | None:
        if scan.relation in ("target", "result"):
            return self._target.total if scan.values is None else _sized(self._contents.target, scan.values)
        state = self._analysis.sources.get(scan.table)
        if state is None:
            return None
        if scan.values is None:
            return state.added if scan.relation == "changes" else state.total
        if scan.relation == "changes":
            keys = [key for key in state.changed_partitions if key.column == scan.column]
            rows = sum(keys[0].added.get(value, 0) for value in scan.values) if keys else state.added.rows
            part = rows / state.added.rows if state.added.rows else 0
            return Size(state.added.files, rows, round(state.added.bytes * part))
        if self._link is None:
            return self._contents.changed.get(scan.table)
        return _sized(self._contents.source, scan.values)


def timed(cost: Cost, *, local: bool = False) -> Cost:
    """``local``: the step itself compares the keys."""
    micros = (
        COLLECTED * cost.collected
        + (COMPARED_HERE if local else COMPARED) * cost.compared
        + COMPUTED * cost.computed
        + WRITTEN * cost.written.rows
        + DELETED * cost.deleted
    )
    return replace(cost, seconds=micros / 1e6)


def _total(analysis: Analysis, name: str) -> Size | None:
    state = analysis.sources.get(name)
    return _known(state.total) if state is not None else None


def _known(total: Size) -> Size | None:
    """A snapshot whose summary does not tell its rows counts as one row."""
    return None if total.rows == 1 else total


def _growth(analysis: Analysis) -> float:
    """By how much the result has grown, if it grows as its sources do."""
    if not analysis.append_only:
        return 1.0
    grown = [1.0]
    for occurrence in analysis.changed:
        state = analysis.state(occurrence)
        before = state.total.rows - state.added.rows
        grown.append(state.total.rows / before if before > 0 else 1.0)
    return max(grown)


def _result(target: TargetState, rows: int) -> Size:
    """Rows of the result, as large as those that are there."""
    bytes_per_row = target.total.bytes / target.total.rows if target.total.rows else 0
    return Size(0, rows, round(rows * bytes_per_row))


def _among(sizes: Any, values: Iterable[Any]) -> int | None:
    size = _sized(sizes, values)
    return size.rows if size is not None else None


def _sized(sizes: Any, values: Iterable[Any]) -> Size | None:
    if sizes is None:
        return None
    return sum((sizes.get(value, Size()) for value in values), Size())
