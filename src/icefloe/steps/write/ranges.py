"""A range that is to be written anew: what the step and the run say, and what it comes to, by the lake's metadata."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from typing import Any

from sqlglot import exp

from icefloe.capture.sources import Source
from icefloe.errors import IcefloeError
from icefloe.lake import Lake, history, read_sizes
from icefloe.lake.metadata import Snapshot
from icefloe.lake.read_sizes import NewestPartitions
from icefloe.planner import spans
from icefloe.planner.analysis import Analysis
from icefloe.planner.errors import RangeError
from icefloe.planner.inputs import Column
from icefloe.planner.spans import Span
from icefloe.steps.write.versions import LOGIC
from icefloe.workflow import write_ranges
from icefloe.workflow.lookbacks import Lookback
from icefloe.workflow.values import TypedValue
from icefloe.workflow.write_ranges import PARAMETER, WriteRange

RANGE = "icefloe.range"
"""In the summary of each published snapshot: the range that was written with it."""


@dataclass(frozen=True, slots=True)
class RangeOrder:
    """``for_run``: the run was started with it, and not just the step defined so."""

    text: str
    for_run: bool = False

    @property
    def parsed(self) -> WriteRange:
        return write_ranges.parse(self.text)


def order(value: TypedValue | None, defined: str | None, where: str) -> RangeOrder | None:
    """What the run was told, else what the step says. Raises :class:`RangeError` for what is no range."""
    text = str(value.value) if value is not None else defined
    if text is None:
        return None
    setting = PARAMETER if value is not None else "write.range"
    try:
        return RangeOrder(write_ranges.parse(text).text, value is not None)
    except ValueError as error:
        raise RangeError(
            f"{setting}: {error}", where=where, hint=f"for example {PARAMETER}='event_day 2026-01-01..2026-01-31'"
        ) from None


def everything(analysis: Analysis, range_order: RangeOrder) -> Analysis:
    """The same analysis, for a plan that writes everything anew."""
    setting = PARAMETER if range_order.for_run else "write.range"
    return replace(analysis, request=replace(analysis.request, rebuild=f"{setting} is {range_order.text}"))


def span(
    lake: Lake, write_range: WriteRange, analysis: Analysis, sources: Sequence[Source], columns: Sequence[Column]
) -> Span | None:
    """The range with values of its column's type; ``columns`` are the result's. ``None``: everything."""
    if write_range.everything:
        return None
    where = analysis.request.where
    column = spans.column_of(write_range, columns, where)
    if write_range.lookback is None:
        return spans.between(write_range, column, where)
    starts, has_rows = _starts(lake, write_range.lookback, analysis, sources, column)
    if starts:
        return Span(column.name, column.type, max(starts))
    if not has_rows:
        return Span(column.name, column.type, empty=True)
    unit = write_range.lookback.unit.removesuffix("s")
    raise RangeError(
        f"no table that the SELECT reads is partitioned by {unit} in a column that {column.name} is made of, so metadata does "
        f"not tell where {write_range.lookback} begin",
        where=where,
        hint=f"say where it begins: {column.name} FROM..TO, or {column.name} FROM..",
    )


def _starts(
    lake: Lake, lookback: Lookback, analysis: Analysis, sources: Sequence[Source], column: Column
) -> tuple[list[Any], bool]:
    """Where the newest days or partitions of each source begin, as values of the column; and whether any source has rows."""
    ends = {source.table: source.end.snapshot_id if source.end is not None else None for source in sources}
    find = read_sizes.newest_days if lookback.unit == "days" else read_sizes.newest_partitions
    starts, has_rows = [], False
    for name in analysis.query.table_names:
        try:
            table = lake.table(name)
        except IcefloeError:
            has_rows = True  # for all that is known
            continue
        end = ends[name] if name in ends else history.head(table.metadata, "main", table=name)
        newest = find(table, end, lookback.count) if end is not None else None
        if end is None or (newest is not None and newest.start is None):
            continue
        has_rows = True
        if newest is not None and _tells(analysis, name, newest.column, column.name):
            starts.append(_as(newest, column.type))
    return [value for value in starts if value is not None], has_rows


def _tells(analysis: Analysis, table: str, column: str, of_result: str) -> bool:
    """Whether a column of the result is made of nothing but a table's column, or at least has its name."""
    if column.lower() == of_result.lower():
        return True
    influence, names = analysis.influence, [name.lower() for name in analysis.columns or ()]
    if influence is None or of_result.lower() not in names:
        return False
    place = names.index(of_result.lower())
    values = [influence.relation.maps[occurrence.id].get(place) for occurrence in influence.of(frozenset({table}))]
    used = [{item.name.lower() for item in value.find_all(exp.Column)} for value in values if value is not None]
    return {column.lower()} in used


def _as(newest: NewestPartitions, kind: str) -> Any:
    """Where it begins as a value of a type; ``None``: not known how."""
    start = newest.start
    if isinstance(start, datetime):
        if kind == "date":
            return start.date()
        return start if kind == ("timestamp" if start.tzinfo is None else "timestamptz") else None
    if isinstance(start, date):
        if kind == "date":
            return start
        if kind in ("timestamp", "timestamptz"):
            return datetime(start.year, start.month, start.day, tzinfo=UTC if kind == "timestamptz" else None)
        return _spelt(start, newest, kind)
    fits = kind in ("int", "long") if isinstance(start, int) else kind == "string" and isinstance(start, str)
    return start if fits and newest.transform == "identity" else None


def _spelt(day: date, newest: NewestPartitions, kind: str) -> Any:
    """A day as the table's partitions spell theirs: 20260131, or 2026-01-31."""
    like = newest.values[-1]
    if isinstance(like, int) and kind in ("int", "long") and newest.transform == "identity":
        return int(day.strftime("%Y%m%d"))
    if isinstance(like, str) and kind == "string":
        return day.isoformat() if "-" in like else day.strftime("%Y%m%d")
    return None


def refuse_foreign(
    past: Iterable[Snapshot], range_order: RangeOrder, *, consumers: Sequence[str], place: str, target: str
) -> None:
    """Without a capture the range is read at the head of its sources. What a consumer has not read yet it would then add again."""
    own = ",".join(consumers)
    for snapshot in past:
        summary = snapshot.summary
        consumer = summary.get("icefloe.consumer")
        if consumer is None or (consumer == own and summary.get("icefloe.step") == place):
            continue
        writer = summary.get(LOGIC, "").rpartition("@")[0].removesuffix(f"/{summary.get('icefloe.step', '')}")
        raise RangeError(
            f"it is kept by the consumer {consumer}, and this run holds no capture of it: rows that the consumer has not read yet "
            "would be written now, and once more by its next batch",
            where=target,
            hint=f"write the range in that workflow: icefloe run {writer or 'WORKFLOW'} {PARAMETER}='{range_order.text}' --wait",
        )


def refuse_published(snapshot: Snapshot | None, range_order: RangeOrder, target: str, workflow: str) -> None:
    """A batch that is published is not written again, so that a range that is asked for now would be forgotten."""
    if not range_order.for_run or snapshot is None or snapshot.summary.get(RANGE) == range_order.text:
        return
    raise RangeError(
        f"this batch is published already, without {PARAMETER}={range_order.text!r}, and is not written again",
        where=target,
        hint=f"end the batch first: icefloe run {workflow} --wait; then: icefloe run {workflow} {PARAMETER}='{range_order.text}' --wait",
    )
