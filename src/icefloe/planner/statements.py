"""The SQL of a plan. Everything that decides is elsewhere; here it is written down.

Two forms restrict the SELECT to what changed. Where one reading of one table changed and every row of the result needs a row of
it, the table's name is bound to a selection of its rows: late partitions by key, overwritten ones whole, new ones from the change
table. In all other cases the selection stands on top of the SELECT, and Spark's optimizer pushes
it down as far as it can; the result is the same.

Where a few rows go to each of many partitions, and nothing else brings them together, they are computed by a reading of the SELECT of
their own and gathered by partition before they are written: one small file in each, not one of every task. What reads the target later, the next batch's search for its keys first of all, pays for each file.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import sqlglot
from sqlglot import exp

from icefloe.lake.predicates import days_filter, literal
from icefloe.planner.analysis import Analysis, PartitionLink
from icefloe.planner.influence import Occurrence
from icefloe.planner.inputs import PartitionKey, SourceState, TargetState
from icefloe.planner.plan import FOUND_ROWS, ChangedKeys, Partitions, PlannedStatement
from icefloe.planner.spans import Span

_MOST_BROADCAST_ROWS = 20_000_000
"""More changed rows than this are not forced into the memory of every executor."""
FEW_ROWS = 1_000_000
"""So few changed rows in late partitions that another shuffle costs more than it saves: one task makes their keys distinct, a partition's
rows go through one task, and what is computed of them is kept while others run. See ``docs/benchmarks.md``."""
FEW_APPENDED = 200_000
"""So few that are appended as they are go through few tasks."""
_FILES_A_TASK = 64
"""That such a task reads."""


def quote(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


@dataclass(frozen=True, slots=True)
class KeyColumn:
    """A column of the target that changed rows are found by."""

    name: str
    nullable: bool
    """NULLs may be among the changed keys."""
    few: bool = False
    """The partition column: it says little, and is kept out of the hash key."""

    def same(self, left: str, right: str) -> str:
        name = quote(self.name)
        if self.nullable:
            return f"{left}.{name} <=> {right}.{name}"
        if self.few:
            # As two comparisons it stays out of the hash key, which takes half of the time (Spark 4.1).
            return f"{left}.{name} BETWEEN {right}.{name} AND {right}.{name}"
        return f"{left}.{name} = {right}.{name}"


@dataclass(frozen=True)
class StatementWriter:
    """Writes the statements for one analysis and one target."""

    analysis: Analysis
    target: TargetState
    columns: tuple[str, ...]
    keys: tuple[KeyColumn, ...] = ()
    link: PartitionLink | None = None
    clustered: tuple[str, ...] = ()
    """Columns of the result: the changed table's rows are sent to where these are equal before anything is computed of them."""
    gathered_by: str | None = None
    """The result's column that the target is partitioned by, if there is one."""
    grouped_by_partition: bool = False
    """Rows of different partitions never meet in one group: gathered before they are grouped, they stay gathered."""
    rows_a_group: float | None = None
    """Of the changed table, on average; ``None``: not known."""
    new_in_one_task: bool = False
    """What goes to a new partition beside other work is computed without a shuffle, by one task."""
    searched: bool = False
    """The rows with changed keys are found already, and those of the target deleted (:class:`icefloe.planner.plan.KeySearch`)."""

    # -- whole statements --------------------------------------------------------------------------------------------------

    def full(self, *, delete: bool) -> tuple[PlannedStatement, ...]:
        everything = self._append([self._rows(self._at_to(), None, gathered=True)])
        if not delete:
            return (everything,)
        return (PlannedStatement("delete all", f"DELETE FROM {self.target.branch_name} WHERE TRUE"), everything)

    def span(self, span: Span, *, delete: bool) -> tuple[PlannedStatement, ...]:
        """What lies in a range of the result, anew. It rests on nothing but the SELECT, whatever that does."""
        column = quote(span.column)
        rows = self._append([self._rows(self._at_to(), span.condition(f"q.{column}"), gathered=True)])
        if not delete:
            return (rows,)
        return PlannedStatement(
            "delete range", f"DELETE FROM {self.target.branch_name} WHERE {span.condition(column)}"
        ), rows

    def append(self, touched: Partitions | None) -> tuple[PlannedStatement, ...]:
        """The SELECT over what is new. A few rows for partitions that may be there already go through few tasks, since each of
        them writes a file to each of these."""
        single = self.analysis.single
        few = single is not None and self._apart() and self._few(single, touched, min(FEW_ROWS, FEW_APPENDED))
        if single is None or touched is None or not touched.late or not few:
            return (self._append([self._rows(self._new_rows(), None)]),)
        assert self.link is not None
        state, key = self.analysis.state(single), self.link.sources[single.id]
        parts = [(touched.late, f"COALESCE({max(math.ceil(state.added.files / _FILES_A_TASK), 1)})"), (touched.new, "")]
        out = []
        for values, hint in parts if touched.new else parts[:1]:
            where = f" WHERE {within(key, values)}" if touched.new else ""
            rows = {single.table.start: f"(SELECT * FROM {self._change_table(state)}{where})"}
            out.append(self._rows(rows, None, hint=hint))
        return (replace(self._append(out), apart=len(out) > 1),)

    def _new_rows(self) -> dict[int, str]:
        """Changed tables by their change tables. A branch of a UNION ALL in which nothing is new gives nothing."""
        influence = self.analysis.influence
        assert influence is not None
        changed = frozenset(occurrence.id for occurrence in self.analysis.changed)
        silent = {
            occurrence_id
            for whole, branch in influence.relation.unions
            if whole & changed and not branch & changed
            for occurrence_id in branch
        }
        relations: dict[int, str] = {}
        for occurrence in influence.occurrences:
            state = self.analysis.state(occurrence)
            if occurrence.id in changed:
                relations[occurrence.table.start] = self._change_table(state)
            elif occurrence.id in silent:
                relations[occurrence.table.start] = f"(SELECT * FROM {self._read(state)} WHERE FALSE)"
            elif state.captured:
                relations[occurrence.table.start] = state.at_to
        return relations

    def restricted(self, touched: Partitions | None, *, new_from_changes: bool) -> tuple[PlannedStatement, ...]:
        """Delete what changed from the target, then append it as it is now. What goes to new partitions has nothing to wait for."""
        out = []
        if touched is not None and touched.overwritten:
            condition = self._among(quote(touched.column), touched.overwritten)
            out.append(
                PlannedStatement("delete partitions", f"DELETE FROM {self.target.branch_name} WHERE {condition}")
            )
        by_key = touched is None or bool(touched.late)
        if by_key and not self.searched:
            out.append(self._delete_keys(touched))
        single = self.analysis.single
        if single is None:
            return (*out, self._append(self._filtered(touched, by_key, new_from_changes)))
        if not (by_key and touched is not None and touched.new and self._apart()):
            rows = self._append(self._selected(single, touched, by_key, new_from_changes))
            return (*out, self._ahead(rows, single, touched) if by_key else rows)
        old, new = replace(touched, new=()), Partitions(touched.column, new=touched.new)
        late = self._append(self._selected(single, old, by_key, new_from_changes))
        fresh = self._append(self._selected(single, new, False, new_from_changes))
        return (*out, self._ahead(late, single, old), replace(fresh, beside=True))

    def _ahead(self, late: PlannedStatement, occurrence: Occurrence, touched: Partitions | None) -> PlannedStatement:
        """The rows of a few changed keys are computed while these are deleted: whole partitions would be too much to keep."""
        if touched is not None and (touched.new or touched.overwritten):
            return late
        if self.searched or not self._few(occurrence, touched):
            return late
        return replace(late, rows=late.sql.partition("\n")[2])

    def duplicates(self, keys: Sequence[str], parts: Sequence[Partitions | Span] | None) -> str:
        """Gives a row for each key that stands twice in what the target would become; ``parts``: where to look, ``None``: everywhere.
        A part is of one column, and only of use where that is one of the keys."""
        named = ", ".join(quote(key) for key in keys)
        where = ""
        if parts and all(part.column.lower() in {key.lower() for key in keys} for part in parts):
            where = (
                f" WHERE {' OR '.join(f'({text})' if len(parts) > 1 else text for text in map(self._inside, parts))}"
            )
        return (
            f"SELECT {named}, count(*) AS rows FROM {self.target.branch_name}{where} "
            f"GROUP BY {named} HAVING count(*) > 1 LIMIT 5"
        )

    def changed_keys(self, touched: Partitions | None) -> ChangedKeys:
        """The keys of all changed rows, of late partitions only where partitions are known."""
        return ChangedKeys(tuple(key.name for key in self.keys), self._changed_keys(touched), bool(self._hint()))

    # -- parts -------------------------------------------------------------------------------------------------------------

    def _inside(self, part: Partitions | Span) -> str:
        column = quote(part.column)
        if isinstance(part, Span):
            return part.condition(column)
        return self._among(column, (*part.new, *part.late, *part.overwritten))

    def _append(self, rows: Sequence[str]) -> PlannedStatement:
        named = f" ({', '.join(quote(column) for column in self.columns)})" if self.columns else ""
        return PlannedStatement(
            "append", f"INSERT INTO {self.target.branch_name}{named}\n" + "\nUNION ALL\n".join(rows)
        )

    def _rows(self, relations: dict[int, str], condition: str | None, *, gathered: bool = False, hint: str = "") -> str:
        named = ", ".join(f"q.{quote(column)}" for column in self.columns) or "q.*"
        text = self.analysis.query.bound(lambda table: relations.get(table.start))
        where = f"\nWHERE {condition}" if condition else ""
        if gathered and self.gathered_by:
            hint = f"REBALANCE({quote(self.gathered_by)})"
        return f"SELECT {f'/*+ {hint} */ ' if hint else ''}{named} FROM (\n{text}\n) AS q{where}"

    def _delete_keys(self, touched: Partitions | None) -> PlannedStatement:
        within = f"{self._among('t.' + quote(touched.column), touched.late)} AND " if touched is not None else ""
        keys = self._changed_keys(touched)
        same = " AND ".join(key.same("t", "k") for key in self.keys)
        sql = (
            f"DELETE FROM {self.target.branch_name} AS t\n"
            f"WHERE {within}EXISTS (SELECT {self._hint()}1 FROM (\n{keys}\n) AS k WHERE {same})"
        )
        return PlannedStatement("delete keys", sql)

    def _changed_keys(self, touched: Partitions | None) -> str:
        """The keys of all changed rows, each once. With deletes and overwrites: of all rows of the changed partitions."""
        parts, few = [], True
        for occurrence in self.analysis.changed:
            state = self.analysis.state(occurrence)
            values = ", ".join(
                f"{self.analysis.key_maps[key.name.lower()][occurrence.id]} AS {quote(key.name)}" for key in self.keys
            )
            late = ""
            if touched is not None and self.link is not None:
                late = within(self.link.sources[occurrence.id], touched.late)
            few = few and self._few(occurrence, touched)
            if state.append_only:
                sides = [(self._change_table(state), late)]
            else:
                assert state.at_from is not None and state.partition_filter is not None
                inside = f"({state.partition_filter})" + (f" AND {late}" if late else "")
                sides = [(state.at_from, inside), (state.at_to, inside)]
            for relation, condition in sides:
                where = f" WHERE {condition}" if condition else ""
                parts.append(f"SELECT {values} FROM {relation}{where}")
        if few:
            # In one task, where that needs no shuffle. A key that many late rows share must not be there as often: rows with it are
            # compared with each of them until one is of their own partition.
            named = ", ".join(quote(key.name) for key in self.keys)
            every = "\nUNION ALL\n".join(parts)
            return f"SELECT DISTINCT {named} FROM (SELECT /*+ COALESCE(1) */ * FROM (\n{every}\n))"
        if len(parts) == 1:
            return parts[0].replace("SELECT ", "SELECT DISTINCT ", 1)
        return "\nUNION\n".join(parts)

    def _selected(
        self, occurrence: Occurrence, touched: Partitions | None, by_key: bool, new_from_changes: bool
    ) -> list[str]:
        """The SELECT over the rows of the one changed table that matter: those with changed keys, and whole partitions."""
        state = self.analysis.state(occurrence)
        rows, parts = [], []
        if by_key:
            some = f"SELECT * FROM {FOUND_ROWS}" if self.searched else self._with_changed_keys(occurrence, touched)
            if self._apart():
                rows.append(self._late(occurrence, some, touched))
            else:
                parts.append(some)
        if touched is not None and self.link is not None:
            key = self.link.sources[occurrence.id]
            whole = touched.overwritten if new_from_changes else (*touched.overwritten, *touched.new)
            if whole:
                parts.append(f"SELECT * FROM {state.at_to} WHERE {within(key, whole)}")
            if new_from_changes and touched.new:
                everything = not by_key and not whole and set(touched.new) == set(self.link.values)
                where = "" if everything else f" WHERE {within(key, touched.new)}"
                parts.append(f"SELECT * FROM {self._change_table(state)}{where}")
        if not rows and not parts:
            parts.append(f"SELECT * FROM {state.at_to} WHERE FALSE")
        if parts:
            some = "(\n" + "\nUNION ALL\n".join(parts) + "\n)"
            alone = self.new_in_one_task and not by_key and touched is not None and not touched.overwritten
            sent = f"(SELECT /*+ COALESCE(1) */ * FROM {some})" if alone else self._sent(occurrence, some)
            rows.append(self._rows(self._in_place_of(occurrence, sent), None))
        return rows

    def _with_changed_keys(self, occurrence: Occurrence, touched: Partitions | None) -> str:
        late = ""
        if touched is not None and self.link is not None:
            late = f"{within(self.link.sources[occurrence.id], touched.late, 's.')} AND "
        same = " AND ".join(self._same_as_source(key, occurrence) for key in self.keys)
        return (
            f"SELECT s.* FROM {self.analysis.state(occurrence).at_to} AS s WHERE {late}"
            f"EXISTS (SELECT {self._hint()}1 FROM (\n{self._changed_keys(touched)}\n) AS k WHERE {same})"
        )

    def _late(self, occurrence: Occurrence, some: str, touched: Partitions | None) -> str:
        """The SELECT over the rows with changed keys, gathered by partition: before it is run where that is the last shuffle then, unless
        so many come along with the changed ones that grouping them first leaves far less to shuffle."""
        most = int(FEW_ROWS / max(self.rows_a_group, 1)) if self.rows_a_group is not None else 0
        if self.grouped_by_partition and self.link is not None and self._few(occurrence, touched, most):
            partition = self.link.sources[occurrence.id]
            if partition.transform == "identity":
                some = f"SELECT /*+ REPARTITION({quote(partition.column)}) */ * FROM (\n{some}\n)"
                return self._rows(self._in_place_of(occurrence, f"(\n{some}\n)"), None)
        return self._rows(self._in_place_of(occurrence, f"(\n{some}\n)"), None, gathered=True)

    def _few(self, occurrence: Occurrence, touched: Partitions | None, most: int | None = None) -> bool:
        """Few rows changed, in the late partitions where these are known. Where rows went, nobody knows how many keys those had."""
        state = self.analysis.state(occurrence)
        rows = state.added.rows
        if touched is not None and self.link is not None:
            rows = sum(self.link.added.get(value, 0) for value in touched.late)
        return state.append_only and rows <= (FEW_ROWS if most is None else most)

    def _apart(self) -> bool:
        """Late partitions get a reading of the SELECT of their own, where that reads no other table twice."""
        return self.gathered_by is not None and len(self.analysis.query.tables) == 1

    def _in_place_of(self, occurrence: Occurrence, rows: str) -> dict[int, str]:
        return {**self._at_to(), occurrence.table.start: rows}

    def _sent(self, occurrence: Occurrence, rows: str) -> str:
        columns = {quote(column.name) for column in self.analysis.state(occurrence).columns}
        maps = [self.analysis.key_maps.get(name.lower(), {}).get(occurrence.id, "") for name in self.clustered]
        if not maps or not all(text in columns for text in maps):
            return rows
        return f"(SELECT /*+ REPARTITION({', '.join(maps)}) */ * FROM {rows})"

    def _same_as_source(self, key: KeyColumn, occurrence: Occurrence) -> str:
        """A key of the change table against the same expression over a row of the source."""
        tree = sqlglot.parse_one(self.analysis.key_maps[key.name.lower()][occurrence.id], dialect="spark")
        for column in list(tree.find_all(exp.Column)):
            column.set("table", exp.to_identifier("s"))
        left, right = tree.sql(dialect="spark"), f"k.{quote(key.name)}"
        if key.nullable:
            return f"{left} <=> {right}"
        return f"{left} BETWEEN {right} AND {right}" if key.few else f"{left} = {right}"

    def _filtered(self, touched: Partitions | None, by_key: bool, new_from_changes: bool) -> list[str]:
        """The selection on top of the SELECT."""
        rows = []
        at_to = self._at_to()
        if by_key:
            within = f"{self._among('q.' + quote(touched.column), touched.late)} AND " if touched is not None else ""
            same = " AND ".join(key.same("q", "k") for key in self.keys)
            condition = (
                f"{within}EXISTS (SELECT {self._hint()}1 FROM (\n{self._changed_keys(touched)}\n) AS k WHERE {same})"
            )
            rows.append(self._rows(at_to, condition))
        if touched is not None:
            column = "q." + quote(touched.column)
            whole = touched.overwritten if new_from_changes else (*touched.overwritten, *touched.new)
            if whole:
                rows.append(self._rows(at_to, self._among(column, whole)))
            if new_from_changes and touched.new:
                fresh = dict(at_to)
                for occurrence in self.analysis.changed:
                    fresh[occurrence.table.start] = self._change_table(self.analysis.state(occurrence))
                rows.append(self._rows(fresh, self._among(column, touched.new)))
        return rows

    def _at_to(self) -> dict[int, str]:
        sources = self.analysis.sources
        return {
            table.start: sources[table.name].at_to
            for table in self.analysis.query.tables
            if table.name in sources and sources[table.name].captured and table.plain
        }

    def _read(self, state: SourceState) -> str:
        return state.at_to if state.captured else state.name

    def _change_table(self, state: SourceState) -> str:
        assert state.change_table is not None
        return state.change_table

    def _hint(self) -> str:
        rows = sum(self.analysis.state(occurrence).added.rows for occurrence in self.analysis.changed)
        # A derived table has no statistics: without the hint this becomes a sort-merge join over the whole target.
        return "/*+ BROADCAST(k) */ " if rows <= _MOST_BROADCAST_ROWS else ""

    def _among(self, column: str, values: Sequence[Any]) -> str:
        assert self.link is not None
        return among(column, self.link.type, values)


def among(column: str, kind: str, values: Sequence[Any]) -> str:
    """Rows with one of these values, NULL included."""
    texts = [str(literal(value, kind)) for value in values if value is not None]
    parts = []
    if texts:
        parts.append(f"{column} = {texts[0]}" if len(texts) == 1 else f"{column} IN ({', '.join(texts)})")
    if None in values:
        parts.append(f"{column} IS NULL")
    if not parts:
        return "FALSE"
    return parts[0] if len(parts) == 1 else f"({' OR '.join(parts)})"


def within(key: PartitionKey, values: Sequence[Any], prefix: str = "") -> str:
    """The source's rows in these partitions, said by the column itself so that files are pruned."""
    column = prefix + quote(key.column)
    if key.transform == "identity" or key.column_type == "date":
        return among(column, key.column_type, values)
    return days_filter(column, key.column_type, values)
