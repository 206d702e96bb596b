"""The first half of planning: what the SELECT allows, whatever the target is like."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from icefloe.planner import functions, influence
from icefloe.planner.influence import Influence, Occurrence
from icefloe.planner.inputs import PartitionKey, SourceState, TargetState, WriteRequest
from icefloe.planner.query import Query, read
from icefloe.planner.relation import UnclearError

_NO_KEYS = ("map", "list", "struct", "variant")


@dataclass(frozen=True, slots=True)
class PartitionLink:
    """A partition column of the target that is, unchanged, a partition column of every changed source."""

    column: str
    type: str
    sources: Mapping[int, PartitionKey]
    """Changed occurrence -> what the source is partitioned by."""
    values: tuple[Any, ...]
    """The partitions that may have changed; ``None`` among them is NULL's."""
    added: Mapping[Any, int]
    """Rows that were added under each value."""


@dataclass(frozen=True)
class Analysis:
    """``obstacle``: why nothing but a full run can be right. ``key_maps``: output column -> changed occurrence -> SQL."""

    request: WriteRequest
    query: Query
    sources: Mapping[str, SourceState]
    influence: Influence | None
    obstacle: str | None
    doubts: tuple[functions.DoubtfulCall, ...]
    columns: tuple[str, ...] | None
    """The result's columns, where they are understood."""
    changed: tuple[Occurrence, ...]
    key_maps: Mapping[str, Mapping[int, str]]

    def state(self, occurrence: Occurrence) -> SourceState:
        return self.sources[occurrence.table.name]

    @property
    def append_only(self) -> bool:
        return all(self.state(occurrence).append_only for occurrence in self.changed)

    @property
    def changed_tables(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(occurrence.table.name for occurrence in self.changed))

    @property
    def single(self) -> Occurrence | None:
        """The one changed reading, where every row of the result needs a row of it."""
        if self.influence is None or len(self.changed) != 1:
            return None
        (occurrence,) = self.changed
        return occurrence if occurrence.id in self.influence.relation.needs else None

    def link(self, target: TargetState) -> PartitionLink | None:
        """How changed partitions of the sources show as partitions of the target, if they do."""
        types = {column.name.lower(): column.type for column in target.columns}
        for column in target.identity_columns:
            maps = self.key_maps.get(column.lower())
            if maps is None or not self.changed:
                continue
            partition_keys = {
                occurrence.id: self._partition_key(occurrence, maps[occurrence.id]) for occurrence in self.changed
            }
            keys = {occurrence_id: key for occurrence_id, key in partition_keys.items() if key is not None}
            if len(keys) < len(partition_keys) or any(key.type != types.get(column.lower()) for key in keys.values()):
                continue
            values: dict[Any, int] = {}
            for key in keys.values():
                for value, rows in key.added.items():
                    values[value] = values.get(value, 0) + rows
            ordered = sorted(values, key=lambda value: (value is not None, value if value is not None else 0))
            return PartitionLink(column, types[column.lower()], keys, tuple(ordered), values)
        return None

    def _partition_key(self, occurrence: Occurrence, sql: str) -> PartitionKey | None:
        """The partition key that an expression over the source's columns is the value of."""
        for key in self.state(occurrence).changed_partitions:
            is_itself = key.transform == "identity" or key.column_type == "date"
            if (is_itself and sql == bare(key.column)) or (key.transform == "day" and sql in days_of(key.column)):
                return key
        return None


def analyse(
    request: WriteRequest, sources: Mapping[str, SourceState], canonical: Callable[[str], str] = lambda name: name
) -> Analysis:
    """``sources`` are by the names that ``canonical`` gives. A table that is missing there is not known to Icefloe."""
    query = read(request.text, where=request.where, canonical=canonical)
    doubts = tuple(functions.doubts(query.tree))
    lookups = {canonical(name) for name in request.lookup_tables}
    obstacle = None
    row_influence: Influence | None = None
    try:
        if "|>" in request.text:
            raise UnclearError("pipe syntax")
        row_influence = influence.analyse(query, {name: state.columns for name, state in sources.items()})
    except UnclearError as error:
        obstacle = f"this part of the SELECT could not be traced: {error}"
    strangers = [
        name for name in query.table_names if name not in lookups and not (name in sources and sources[name].captured)
    ]
    if obstacle is None and strangers:
        obstacle = (
            f"{strangers[0]} is read but not captured, so that nobody knows whether it changed; "
            "add it to source_tables of the capture, or to write.lookup_tables if its changes are not to recompute anything"
        )
    if obstacle is None and doubts:
        obstacle = str(doubts[0])
    changed_names = frozenset(name for name, state in sources.items() if state.changed and name not in lookups)
    changed = row_influence.of(changed_names) if row_influence is not None else ()
    columns = tuple(place.name for place in row_influence.relation.columns) if row_influence is not None else None
    key_maps = _key_maps(row_influence, changed) if row_influence is not None and changed else {}
    return Analysis(request, query, sources, row_influence, obstacle, doubts, columns, changed, key_maps)


def _key_maps(row_influence: Influence, changed: tuple[Occurrence, ...]) -> dict[str, dict[int, str]]:
    """The columns that every changed occurrence is mapped in, each as SQL over the occurrence's own columns."""
    out: dict[str, dict[int, str]] = {}
    relation = row_influence.relation
    for index, place in enumerate(relation.columns):
        if (place.type or "") in _NO_KEYS:
            continue
        maps = {occurrence.id: relation.maps[occurrence.id].get(index) for occurrence in changed}
        texts = {occurrence_id: _faithful(value) for occurrence_id, value in maps.items() if value is not None}
        exact = {occurrence_id: text for occurrence_id, text in texts.items() if text is not None}
        if len(exact) == len(changed):
            out[place.name.lower()] = exact
    return out


def _faithful(value: exp.Expr) -> str | None:
    """The expression as SQL, if what is written reads back as what was written."""
    text = value.sql(dialect="spark")
    try:
        again = sqlglot.parse_one(text, dialect="spark").sql(dialect="spark")
    except SqlglotError:
        return None
    return text if again == text else None


def bare(name: str) -> str:
    """A column by itself, as the SQL of a map has it."""
    return exp.column(exp.to_identifier(name, quoted=True)).sql(dialect="spark")


def days_of(name: str) -> tuple[str, ...]:
    """The day of a column, likewise."""
    return f"CAST({bare(name)} AS DATE)", f"TO_DATE({bare(name)})"
