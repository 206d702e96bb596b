"""The sizes of what a plan reads, asked of the lake: metadata only."""

from __future__ import annotations

from collections.abc import Sequence

from icefloe.capture.sources import Source
from icefloe.errors import IcefloeError
from icefloe.lake import Lake, history, read_sizes
from icefloe.lake.catalog import LoadedTable
from icefloe.lake.partition_sizes import sizes_by_value
from icefloe.lake.survey import FileCounts
from icefloe.planner.analysis import Analysis
from icefloe.planner.inputs import Size
from icefloe.planner.plan import Plan
from icefloe.planner.savings import SavingsEstimate
from icefloe.planner.scans import Scan, recomputation, scans
from icefloe.planner.spans import Span
from icefloe.steps.write.facts import Facts
from icefloe.workflow.lookbacks import Lookback

FULL = "a full recomputation"


class ScanSizes:
    """Counts for one batch. What could not be told as finely as it was asked for is said in ``notes``."""

    def __init__(self, lake: Lake, sources: Sequence[Source], base: int | None) -> None:
        self.notes: dict[str, None] = {}
        self._lake = lake
        self._sources = {source.table: source for source in sources}
        self._base = base
        self._loaded: dict[str, LoadedTable] = {}
        self._known: dict[Scan, Size] = {}

    def total(self, wanted: Sequence[Scan]) -> Size:
        total = Size()
        for scan in wanted:
            total += self.size(scan)
        return total

    def size(self, scan: Scan) -> Size:
        if scan not in self._known:
            self._known[scan] = self._size(scan)
        return self._known[scan]

    def looked_back(self, name: str, lookback: Lookback) -> Size:
        """What lies in a source's newest partitions; all of it where it is not partitioned so."""
        source = self._sources.get(name)
        if source is None:
            self._note(f"{name} is not captured: a lookback is taken to read all of it")
            return self.size(Scan("end", name))
        if source.end is None:
            return Size()
        find = read_sizes.newest_days if lookback.unit == "days" else read_sizes.newest_partitions
        newest = find(self._table(name), source.end.snapshot_id, lookback.count)
        if newest is None:
            unit = lookback.unit.removesuffix("s")
            self._note(f"{name} is not partitioned by {unit}: a lookback is taken to read all of it")
            return self.size(Scan("end", name))
        return _size(newest.counts)

    def _size(self, scan: Scan) -> Size:
        try:
            table, snapshot_id = self._place(scan)
        except IcefloeError:
            self._note(f"{scan.table} is not known to the catalog and not counted")
            return Size()
        if scan.span is not None:
            return self._spanned(scan, scan.span, table, snapshot_id)
        if scan.values is None:
            return _size(read_sizes.whole(table, snapshot_id))
        counts = read_sizes.in_partitions(table, snapshot_id, scan.column, scan.values, scan.transform)
        if counts is None:
            self._note(f"{scan.table}: counted as a whole, its files do not tell their {scan.column}")
            return _size(read_sizes.whole(table, snapshot_id))
        return _size(counts)

    def _spanned(self, scan: Scan, span: Span, table: LoadedTable, snapshot_id: int | None) -> Size:
        """What lies in the partitions that can hold rows of a range; all of it where the table is not partitioned so."""
        for transform in ("identity", "day"):
            sizes = sizes_by_value(table, snapshot_id, scan.column, None, transform)
            if sizes is None:
                continue
            values = [value for value in sizes.by_value if span.may_hold(value)]
            counts = read_sizes.in_partitions(table, snapshot_id, scan.column, values, transform)
            if counts is not None:
                return _size(counts)
        self._note(f"{scan.table}: counted as a whole, its files do not tell their {scan.column}")
        return _size(read_sizes.whole(table, snapshot_id))

    def _place(self, scan: Scan) -> tuple[LoadedTable, int | None]:
        if scan.relation in ("target", "result"):
            return self._table(scan.table), self._base
        source = self._sources.get(scan.table)
        if source is None:
            return self._at_head(scan.table)
        if scan.relation == "changes" and source.change_table is not None:
            return self._at_head(source.change_table)
        point = source.start if scan.relation == "start" else source.end
        return self._table(scan.table), point.snapshot_id if point is not None else None

    def _at_head(self, name: str) -> tuple[LoadedTable, int | None]:
        table = self._table(name)
        return table, history.head(table.metadata, "main", table=name)

    def _table(self, name: str) -> LoadedTable:
        if name not in self._loaded:
            self._loaded[name] = self._lake.table(name)
        return self._loaded[name]

    def _note(self, text: str) -> None:
        self.notes.setdefault(text)


def estimate_savings(
    lake: Lake, sources: Sequence[Source], lookback: Lookback | None, analysis: Analysis, facts: Facts, plan: Plan
) -> SavingsEstimate:
    """What a plan will read, and what it stands in for would."""
    meter = ScanSizes(lake, sources, facts.base)
    wanted = scans(plan, analysis, facts.target)
    emptied = plan.pattern == "full"
    # After a full run there is nothing in the target but what was written.
    read = meter.total([scan for scan in wanted if not (emptied and scan.relation == "result")])
    instead = Size()
    for scan in recomputation(analysis):
        instead += meter.looked_back(scan.table, lookback) if lookback is not None else meter.size(scan)
    return SavingsEstimate(
        plan.pattern,
        read,
        instead,
        f"a lookback over {lookback}" if lookback is not None else FULL,
        tuple(meter.notes),
        rechecked=any(scan.relation == "result" for scan in wanted),
    )


def _size(counts: FileCounts) -> Size:
    return Size(counts.files, counts.rows, counts.bytes or 0)
