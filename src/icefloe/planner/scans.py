"""Which tables the statements of a plan read, and which partitions of them: one :class:`Scan` for each time a statement names one.

This says in values what :mod:`icefloe.planner.statements` says in SQL; a test holds the two together. A DELETE of whole partitions
reads nothing: it only drops files.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from icefloe.planner.analysis import Analysis, PartitionLink, bare, days_of
from icefloe.planner.influence import Occurrence
from icefloe.planner.inputs import PartitionKey, TargetState
from icefloe.planner.plan import Partitions, Plan
from icefloe.planner.query import TableName
from icefloe.planner.spans import Span

Relation = Literal["changes", "end", "start", "target", "result"]
"""A change table; a source at either end of the capture; the target before the write, and with what was written."""


@dataclass(frozen=True, slots=True)
class Scan:
    """``values`` None: all of it. Else the partitions of ``column`` (by ``transform``) with these values. With ``span``: the partitions of
    ``column``, as it is or by its days, that can hold rows of the span."""

    relation: Relation
    table: str
    column: str = ""
    transform: str = "identity"
    values: tuple[Any, ...] | None = None
    span: Span | None = None
    for_keys: bool = field(default=False, compare=False)
    """Changed keys are collected from it."""


def scans(plan: Plan, analysis: Analysis, target: TargetState) -> tuple[Scan, ...]:
    """What the plan's statements read."""
    if not plan.statements:
        return ()
    return tuple(_Scans(plan, analysis, target).all())


def recomputation(analysis: Analysis) -> tuple[Scan, ...]:
    """What the SELECT reads when it is run over everything."""
    return tuple(Scan("end", table.name) for table in analysis.query.tables)


class _Scans:
    def __init__(self, plan: Plan, analysis: Analysis, target: TargetState) -> None:
        self._plan = plan
        self._analysis = analysis
        self._target = target
        self._link: PartitionLink | None = analysis.link(target)
        self._starts = {occurrence.table.start: occurrence for occurrence in analysis.changed}

    def all(self) -> Iterator[Scan]:
        plan = self._plan
        if plan.pattern == "full":
            yield from recomputation(self._analysis)
        elif plan.pattern == "append":
            yield from self._append()
        elif plan.pattern != "range":
            yield from self._restricted(plan.partitions)
        if plan.span is not None:
            yield from self._span(plan.span)
        if plan.duplicates is not None:
            yield self._duplicates()

    def _span(self, span: Span) -> Iterator[Scan]:
        """The SELECT in a range, and the target's rows in it; whole partitions of the target are not read to be deleted."""
        for table in self._analysis.query.tables:
            column = self._spanned(table, span)
            yield Scan("end", table.name, column, span=span) if column is not None else Scan("end", table.name)
        if any(statement.role == "delete range" for statement in self._plan.statements) and not self._is_partition(
            span
        ):
            yield Scan("target", self._target.name)

    def _spanned(self, table: TableName, span: Span) -> str | None:
        """The column of a table that the range's is, or is the day of, in every reading of it."""
        influence, columns = self._analysis.influence, self._analysis.columns or ()
        places = [place for place, name in enumerate(columns) if name.lower() == span.column.lower()]
        if influence is None or not places or table.name not in self._analysis.sources:
            return None
        readings = [occurrence.id for occurrence in influence.occurrences if occurrence.table.start == table.start]
        texts = {
            value.sql(dialect="spark")
            if (value := influence.relation.maps[occurrence_id].get(places[0])) is not None
            else ""
            for occurrence_id in readings
        }
        names = [column.name for column in self._analysis.sources[table.name].columns]
        return next((name for name in names if texts and texts <= {bare(name), *days_of(name)}), None)

    def _is_partition(self, span: Span) -> bool:
        return span.column.lower() in {name.lower() for name in self._target.identity_columns}

    def _append(self) -> Iterator[Scan]:
        touched = self._plan.partitions
        if self._plan.statements[0].apart and touched is not None:
            for values in (touched.late, touched.new):
                yield from self._select("changes", values, None)
            return
        influence = self._analysis.influence
        assert influence is not None
        changed = frozenset(occurrence.id for occurrence in self._analysis.changed)
        silent = {
            occurrence_id
            for whole, branch in influence.relation.unions
            if whole & changed and not branch & changed
            for occurrence_id in branch
        }
        for occurrence in influence.occurrences:
            if occurrence.id in changed:
                yield Scan("changes", occurrence.table.name)
            elif occurrence.id not in silent:
                yield Scan("end", occurrence.table.name)

    def _restricted(self, touched: Partitions | None) -> Iterator[Scan]:
        by_key = touched is None or bool(touched.late)
        late = touched.late if touched is not None else None
        if by_key:
            yield self._of_target("target", late)
            yield from self._collected(late)
        whole: tuple[Any, ...] = ()
        fresh: tuple[Any, ...] = ()
        if touched is not None:
            from_changes = self._new_from_changes()
            whole = touched.overwritten if from_changes else (*touched.overwritten, *touched.new)
            fresh = touched.new if from_changes else ()
        single = self._analysis.single
        if single is not None:
            yield from self._unchanged()
        if by_key:
            if self._plan.search is None:  # else they are read once for both
                yield from self._collected(late)
            yield from self._select("end", late, single)
        if whole:
            yield from self._select("end", whole, single)
        if fresh:
            yield from self._select("changes", fresh, single)

    def _select(self, relation: Relation, values: tuple[Any, ...] | None, single: Occurrence | None) -> Iterator[Scan]:
        """The SELECT with its changed tables restricted to partitions."""
        for occurrence in self._starts.values():
            yield self._of_source(relation, occurrence, values)
        if single is None:
            yield from self._unchanged()

    def _unchanged(self) -> Iterator[Scan]:
        for table in self._analysis.query.tables:
            if table.start not in self._starts:
                yield Scan("end", table.name)

    def _collected(self, late: tuple[Any, ...] | None) -> Iterator[Scan]:
        return (replace(scan, for_keys=True) for scan in self._keys(late))

    def _keys(self, late: tuple[Any, ...] | None) -> Iterator[Scan]:
        """The changed keys; after deletes and overwrites all keys of the changed partitions, before and after."""
        for occurrence in self._analysis.changed:
            state = self._analysis.state(occurrence)
            if state.append_only:
                yield self._of_source("changes", occurrence, late)
                continue
            key = next(iter(state.changed_partitions), None)
            for relation in ("start", "end"):
                if late is not None:
                    yield self._of_source(relation, occurrence, late)
                elif key is None:
                    yield Scan(relation, state.name)
                else:
                    yield _within(relation, state.name, key, tuple(key.added))

    def _duplicates(self) -> Scan:
        touched, span = self._plan.partitions, self._plan.span
        keys = {key.lower() for key in self._plan.keys}
        if span is not None and (span.column.lower() not in keys or not self._is_partition(span)):
            return Scan("result", self._target.name)
        if span is not None and self._plan.pattern == "range":
            # Nothing is there but what was written, and that is counted then.
            return Scan("result", self._target.name, span.column, "identity", ())
        if touched is None or touched.column.lower() not in keys:
            return Scan("result", self._target.name)
        return self._of_target("result", touched.late)

    def _of_target(self, relation: Relation, values: tuple[Any, ...] | None) -> Scan:
        if values is None or self._link is None:
            return Scan(relation, self._target.name)
        return Scan(relation, self._target.name, self._link.column, "identity", values)

    def _of_source(self, relation: Relation, occurrence: Occurrence, values: tuple[Any, ...] | None) -> Scan:
        if values is None or self._link is None:
            return Scan(relation, occurrence.table.name)
        return _within(relation, occurrence.table.name, self._link.sources[occurrence.id], values)

    def _new_from_changes(self) -> bool:
        influence = self._analysis.influence
        assert influence is not None
        ids = frozenset(occurrence.id for occurrence in self._analysis.changed)
        return self._analysis.append_only and len(ids) == 1 and ids <= influence.relation.grows


def _within(relation: Relation, table: str, key: PartitionKey, values: tuple[Any, ...]) -> Scan:
    return Scan(relation, table, key.column, key.transform, values)
