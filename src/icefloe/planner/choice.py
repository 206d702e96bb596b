"""The second half of planning: the cheapest pattern that is proven right, for this change and this target."""

from __future__ import annotations

from dataclasses import replace
from difflib import get_close_matches
from typing import Any

from sqlglot import exp

from icefloe.planner import compaction, cost, functions
from icefloe.planner.analysis import Analysis, PartitionLink
from icefloe.planner.errors import KeysMissingError, RangeError, UnsoundPatternError
from icefloe.planner.inputs import PartitionContents, Pattern, Size, TargetState
from icefloe.planner.keys import found_by
from icefloe.planner.plan import Compaction, Partitions, Plan, PlannedStatement, Refusal, TableRead
from icefloe.planner.search import search
from icefloe.planner.spans import Span
from icefloe.planner.statements import KeyColumn, StatementWriter

LARGE_PART = 0.3
"""A partition of which this share of the source's rows is new is overwritten: see ``docs/concepts/the-write-planner.md``."""

NEARLY_UNIQUE = 0.3
"""Where the result has this many rows for each row of the source, grouping before a shuffle shrinks nothing."""
LOOKED_THROUGH = 16
"""Rows that one core looks through for changed keys in the time in which it groups and writes one: see ``docs/benchmarks.md``."""
MANY_SMALL_GROUPS = {"spark.sql.codegen.aggregate.map.twolevel.enabled": "false"}
"""Spark's small map in front of the large one is full at once, and then each row is looked up in both."""

PROPERTIES = {
    "format-version": "3",
    "write.delete.mode": "merge-on-read",
    "write.update.mode": "merge-on-read",
    "write.merge.mode": "merge-on-read",
    "write.delete.granularity": "partition",
    "write.distribution-mode": "none",
    "write.spark.fanout.enabled": "true",
    "write.wap.enabled": "true",
}
"""What a target is made with: deletes as bitmaps, one for each file however many batches there were (by position in one file per
partition where the user wants version 2), and appends that need no shuffle to lie in their partitions."""


def plan(
    analysis: Analysis,
    target: TargetState,
    contents: PartitionContents | None = None,
    *,
    columns: tuple[str, ...] | None = None,
    span: Span | None = None,
    cores: int | None = None,
) -> Plan:
    """The plan. ``columns`` are the result's as Spark names them; without them those that the analysis found. ``span`` is written anew,
    whatever has changed. ``cores`` are those of a local server; ``None``: not known, or there are many."""
    if columns is not None:
        analysis = _agreed(analysis, columns)
    choice = _Choice(analysis, target, contents or PartitionContents(), columns or analysis.columns or (), cores)
    return choice.plan() if span is None else choice.plan_with(span)


def _agreed(analysis: Analysis, columns: tuple[str, ...]) -> Analysis:
    """Only what Spark sees as the analysis does is built on."""
    mine = analysis.columns
    if mine is None or len(mine) != len(columns):
        differ = f"Spark sees {len(columns)} columns in the result and the planner {len(mine or ())}"
        return replace(analysis, influence=None, columns=None, key_maps={}, obstacle=analysis.obstacle or differ)
    same = {a.lower() for a, b in zip(mine, columns, strict=True) if a.lower() == b.lower()}
    return replace(analysis, key_maps={name: maps for name, maps in analysis.key_maps.items() if name in same})


class _Choice:
    def __init__(
        self,
        analysis: Analysis,
        target: TargetState,
        contents: PartitionContents,
        columns: tuple[str, ...],
        cores: int | None,
    ) -> None:
        self._cores = cores
        self._analysis = analysis
        self._target = target
        self._contents = contents
        self._columns = columns
        self._request = analysis.request
        self._link = analysis.link(target)
        self._refusals: list[Refusal] = []
        self._keys = self._declared_keys()

    def plan(self) -> Plan:
        """The plan, with what it costs and what a full run would; that run in its place where it is clearly cheaper."""
        plan = self._chosen()
        if not plan.statements:
            return plan
        full = cost.of_full(self._analysis, self._target, checked=self._checked())
        plan = replace(plan, cost=cost.of_plan(plan, self._analysis, self._target, self._contents), full_cost=full)
        if plan.pattern == "full" or plan.cost is None or not cost.clearly_cheaper(full, plan.cost):
            return plan
        assert full is not None
        summary = cost.comparison(full, plan.cost, plan.pattern)
        kept = cost.why_not_full(self._analysis, self._target)
        if kept is not None:
            return replace(plan, notes=(*plan.notes, f"{summary}; not taken, since {kept}"))
        self._refusals.append(Refusal(plan.pattern, f"{plan.reason}, but a full run is cheaper"))
        return replace(self._full(summary), cost=full, full_cost=full, outweighed=plan.cost)

    def _chosen(self) -> Plan:
        """By what is right, and what is usually the cheapest of that."""
        analysis, requested = self._analysis, self._request.pattern
        if self._request.rebuild is not None:
            return self._full(self._request.rebuild)
        first = self._first_run()
        if first is not None:
            return self._full(first)
        if not analysis.changed and analysis.obstacle is None:
            return self._done("none", "nothing that the SELECT reads has changed", (), None, ())
        if requested == "full":
            return self._full("pattern: full was asked for")
        obstacle = analysis.obstacle
        if obstacle is not None and not (requested == "append" and self._only_clock()):
            return self._full_or_refuse(obstacle)
        reason = self._why_no_append()
        if reason is None and requested in ("auto", "append"):
            return self._append()
        if requested == "append":
            raise self._unsound("append", reason or "")
        self._refusals.append(Refusal("append", reason or "the pattern was asked for"))
        by_range, by_key = self._why_no_range(), self._why_no_keys()
        range_first = not analysis.append_only or set(analysis.key_maps) <= {
            self._link.column.lower() if self._link else ""
        }
        if requested == "range_overwrite" or (requested == "auto" and by_range is None and range_first):
            if by_range is not None:
                raise self._unsound("range_overwrite", by_range)
            self._refusals.append(Refusal("key_filter", self._why_range_first()))
            return self._range_overwrite()
        if by_key is None:
            return self._key_filter()
        if requested in ("merge", "key_filter"):
            raise self._unsound(requested, by_key)
        self._refusals.append(Refusal("key_filter", by_key))
        if by_range is None:
            return self._range_overwrite()
        self._refusals.append(Refusal("range_overwrite", by_range))
        return self._full(by_key)

    def plan_with(self, span: Span) -> Plan:
        """What changed first, or it would be lost with the commit; then the range. Where nothing is captured, the range alone."""
        self._refuse_clock_in(span)
        self._cores = None  # nothing runs beside anything else then
        reason = "nothing that the SELECT reads has changed"
        if self._request.rebuild is not None or any(state.captured for state in self._read_states()):
            plan = self.plan()
        else:
            reason = "no table that the SELECT reads is captured"
            plan = self._done("none", reason, (), None, ())
        if plan.pattern == "full":
            return replace(plan, notes=(*plan.notes, f"the range {span} adds nothing to it"))
        if span.empty:
            return replace(plan, notes=(*plan.notes, "the sources have no rows to look back on"))
        changed = bool(plan.statements)
        rows = self._target.exists and self._target.total.rows > 0
        # One after the other: what is appended at the same time could lie in the range, and be deleted or not.
        before = tuple(replace(statement, beside=False) for statement in plan.statements)
        touched = plan.partitions
        parts = None if changed and touched is None else (*((touched,) if touched is not None else ()), span)
        # Outside of the range rows of another time may stay, with a key that is now in it, unless the range is over a key.
        over_key = span.column.lower() in {key.lower() for key in self._keys}
        unchecked = not self._keys or (over_key and self._provably_unique())
        return replace(
            plan,
            pattern=plan.pattern if changed else "range",
            reason=plan.reason if changed else f"the range {span} was asked for; {reason}",
            notes=(*plan.notes, *([f"the range {span} is written anew"] if changed else ())),
            statements=(*before, *self._writer().span(span, delete=changed or rows)),
            duplicates=None if unchecked else self._writer().duplicates(self._keys, parts),
            reads=(*plan.reads, *self._span_reads(span)),
            span=span,
        )

    # -- what stands in the way --------------------------------------------------------------------------------------------

    def _first_run(self) -> str | None:
        if not self._target.exists or self._target.total.rows == 0:
            # An append that starts at the source's present is not to load its past.
            return None if self._request.pattern == "append" and not self._whole() else "the target has no rows yet"
        whole = self._whole()
        if not whole:
            return None
        if self._request.pattern == "append":
            raise self._unsound(
                "append",
                f"{whole[0]} is captured as a whole, and the target has rows already: they would be there twice",
            )
        return f"{whole[0]} is captured as a whole: its first capture, or its history was lost"

    def _whole(self) -> list[str]:
        return [
            occurrence.table.name for occurrence in self._analysis.changed if self._analysis.state(occurrence).whole
        ]

    def _why_no_append(self) -> str | None:
        analysis = self._analysis
        influence = analysis.influence
        assert influence is not None
        relation = influence.relation
        if self._keys and self._request.pattern != "append":
            return "keys were given, so rows are looked up by key; leave keys out, or say pattern: append"
        if not analysis.append_only:
            table = next(
                occurrence.table.name for occurrence in analysis.changed if not analysis.state(occurrence).append_only
            )
            return f"rows of {table} were changed or deleted, not only added"
        ids = frozenset(occurrence.id for occurrence in analysis.changed)
        if not ids <= relation.linear:
            return "the SELECT does more than look at each row by itself: old rows of the result can change"
        if any(a in ids and b in ids for a, b in relation.tangled):
            return "two changed tables are joined: new rows of one meet old rows of the other"
        starts: dict[int, set[int]] = {}
        for occurrence in influence.occurrences:
            starts.setdefault(occurrence.table.start, set()).add(occurrence.id)
        if any(len(same) > 1 for same in starts.values()):
            return "a WITH clause that reads a changed table is used more than once"
        return None

    def _why_no_keys(self) -> str | None:
        analysis = self._analysis
        if not analysis.key_maps:
            return (
                "no column of the result tells which rows a changed row of "
                f"{' and '.join(analysis.changed_tables)} has to do with"
            )
        for occurrence in analysis.changed:
            state = analysis.state(occurrence)
            if state.append_only:
                continue
            if state.at_from is None:
                return f"rows of {state.name} were changed or deleted, and it cannot be read as it was before"
            if state.partition_filter in (None, "TRUE"):
                return f"rows of {state.name} were changed or deleted, and metadata does not tell in which partitions"
        return None

    def _why_no_range(self) -> str | None:
        if self._link is not None:
            return None
        if not self._target.identity_columns:
            return "the target is not partitioned by a column as it is"
        named = " or ".join(self._target.identity_columns)
        return f"the changed partitions of {' and '.join(self._analysis.changed_tables)} do not tell those of the target ({named})"

    def _why_range_first(self) -> str:
        if not self._analysis.append_only:
            return "rows were changed or deleted: whole partitions are cheaper than finding out which keys had them"
        return "the partition is the only key there is"

    def _only_clock(self) -> bool:
        """``pattern: append`` with nothing against it but a load time or a random id in the SELECT list."""
        analysis = self._analysis
        tree = analysis.query.tree
        clauses = [
            tree.args.get(name) for name in ("where", "group", "having", "qualify", "joins", "distinct", "limit")
        ]
        return (
            bool(analysis.doubts)
            and analysis.influence is not None
            and analysis.obstacle == str(analysis.doubts[0])
            and not any(clause for clause in clauses)
        )

    def _refuse_clock_in(self, span: Span) -> None:
        """A column that is another one at each run tells no rows apart: all of them would lie in today's range."""
        tree = self._analysis.query.tree
        for projection in tree.expressions if isinstance(tree, exp.Select) else ():
            doubt = next((candidate for candidate in functions.doubts(projection) if candidate.known_volatile), None)
            if projection.alias_or_name.lower() == span.column.lower() and doubt is not None:
                raise RangeError(
                    f"a range over {span.column} would write every row again: {doubt}",
                    where=self._request.where,
                    hint="choose another column of the result, or all",
                )

    def _full_or_refuse(self, reason: str) -> Plan:
        if self._request.pattern not in ("auto", "full"):
            raise self._unsound(self._request.pattern, reason)
        self._refusals += [Refusal(name, reason) for name in ("append", "key_filter", "range_overwrite")]
        return self._full(reason)

    def _unsound(self, pattern: str, reason: str) -> UnsoundPatternError:
        return UnsoundPatternError(
            f"pattern: {pattern} would give a wrong result: {reason}",
            where=self._request.where,
            hint="say pattern: auto, and look at it with: icefloe explain",
        )

    def _declared_keys(self) -> tuple[str, ...]:
        keys = []
        by_name = {column.lower(): column for column in self._columns}
        for key in self._request.keys:
            if not self._columns:
                return self._request.keys
            if key.lower() not in by_name:
                near = get_close_matches(key.lower(), by_name, n=1)
                raise KeysMissingError(
                    f"write.keys names {key!r}, which the SELECT does not give",
                    where=self._request.where,
                    hint=f"did you mean {by_name[near[0]]!r}?" if near else f"it gives: {', '.join(self._columns)}",
                )
            keys.append(by_name[key.lower()])
        return tuple(keys)

    # -- the patterns ------------------------------------------------------------------------------------------------------

    def _full(self, reason: str) -> Plan:
        rows = self._target.exists and self._target.total.rows > 0
        reads = [
            TableRead(state.name, "as it is at the end of the capture", state.total) for state in self._read_states()
        ]
        return self._done("full", reason, self._writer().full(delete=rows), None, reads)

    def _append(self) -> Plan:
        touched = None
        if self._link is not None:
            new, late = self._split(self._link)
            touched = Partitions(self._link.column, new=new, late=late)
        done = self._done(
            "append",
            "every row of the result comes from one new row",
            self._writer().append(touched),
            touched,
            self._change_reads(),
        )
        if not self._analysis.key_maps:
            return done
        return replace(done, changed_keys=self._writer(self._filter_keys()).changed_keys(None))

    def _range_overwrite(self) -> Plan:
        link = self._link
        assert link is not None
        new, old = self._split(link)
        touched = Partitions(link.column, new=new, overwritten=old)
        from_changes = self._new_from_changes()
        statements = self._writer().restricted(touched, new_from_changes=from_changes)
        reads = self._source_reads(touched, from_changes)
        return self._done("range_overwrite", f"by the changed values of {link.column}", statements, touched, reads)

    def _key_filter(self) -> Plan:
        keys = self._filter_keys()
        writer = self._writer(keys)
        touched = None
        from_changes = self._new_from_changes()
        if self._link is not None:
            new, old = self._split(self._link)
            large = tuple(value for value in old if self._changed_in_large_part(value))
            late = tuple(value for value in old if value not in large)
            touched = Partitions(self._link.column, new=new, late=late, overwritten=large)
            writer = replace(writer, new_in_one_task=self._new_in_one_task(self._link, touched))
        statements = writer.restricted(touched, new_from_changes=from_changes)
        influence = self._analysis.influence
        assert influence is not None
        ids = frozenset(occurrence.id for occurrence in self._analysis.changed)
        pattern: Pattern = "merge" if ids <= influence.relation.linear else "key_filter"
        if self._request.pattern in ("merge", "key_filter"):
            pattern = self._request.pattern
        reason = f"only rows with a changed {', '.join(key.name for key in keys)} can differ"
        reads = [*self._change_reads(), *self._source_reads(touched, from_changes), *self._target_reads(touched)]
        by_key = touched is None or bool(touched.late)
        done = self._done(pattern, reason, statements, touched, reads)
        key_search = None
        if touched is not None and self._link is not None and self._cores is not None and self._request.search:
            key_search = search(
                self._analysis,
                self._target,
                self._contents,
                self._link,
                touched,
                writer,
                new_from_changes=from_changes,
            )
        return replace(done, changed_keys=writer.changed_keys(touched) if by_key else None, search=key_search)

    def _done(
        self,
        pattern: Pattern,
        reason: str,
        statements: tuple[PlannedStatement, ...],
        touched: Partitions | None,
        reads: list[TableRead] | tuple[TableRead, ...],
    ) -> Plan:
        duplicates = None
        if statements and self._checked():
            duplicates = self._writer().duplicates(self._keys, (touched,) if touched is not None else None)
        return Plan(
            pattern,
            reason,
            tuple(self._refusals),
            tuple(self._notes()),
            self._columns,
            self._keys,
            statements,
            duplicates,
            tuple(reads),
            touched,
            self._partition_by(),
            PROPERTIES,
            MANY_SMALL_GROUPS if self._groups_are_small() else {},
            uncaptured=tuple(
                name
                for name in self._analysis.query.table_names
                if name not in self._analysis.sources or not self._analysis.sources[name].captured
            ),
            compaction=self._compaction(statements, touched),
        )

    def _compaction(self, statements: tuple[PlannedStatement, ...], touched: Partitions | None) -> Compaction | None:
        if touched is None or self._link is None or not self._request.compact:
            return None
        deletes = any(statement.role == "delete keys" for statement in statements)
        return compaction.due(self._target, self._link.type, self._contents, touched, deletes=deletes)

    # -- parts -------------------------------------------------------------------------------------------------------------

    def _writer(self, keys: tuple[KeyColumn, ...] = ()) -> StatementWriter:
        gathered_by = None
        if self._target.scattered:
            gathered_by = next((name for name in self._columns if name.lower() in self._partition_columns()), None)
        return StatementWriter(
            self._analysis,
            self._target,
            self._columns,
            keys,
            self._link,
            self._clustered(),
            gathered_by,
            self._grouped_by_partition(),
            self._rows_a_group(),
        )

    def _grouped_by_partition(self) -> bool:
        """One SELECT with one GROUP BY, in which the partition column is a key."""
        tree, influence = self._analysis.query.tree, self._analysis.influence
        if self._link is None or influence is None or not influence.relation.unique or not _groups_once(tree):
            return False
        if len(self._columns) != len(influence.relation.columns):
            return False
        return self._link.column.lower() in {self._columns[index].lower() for index in influence.relation.unique}

    def _partition_columns(self) -> set[str]:
        return {name.lower() for name in self._target.identity_columns}

    def _clustered(self) -> tuple[str, ...]:
        """What the source's rows are sent to their group by before they are grouped, once, in place of a shuffle each for the
        partial groups and the distinct values in them. Only where groups are so small that grouping first would not shrink them."""
        if not _counts_distinct(self._analysis.query.tree) or not self._groups_are_small():
            return ()
        influence = self._analysis.influence
        unique = influence.relation.unique if influence is not None else None
        if not unique or len(self._columns) != len(influence.relation.columns if influence else ()):
            return ()
        return tuple(self._columns[index] for index in sorted(unique))

    def _groups_are_small(self) -> bool:
        both = self._rows_in_both()
        return both is not None and both[0] >= NEARLY_UNIQUE * both[1]

    def _new_in_one_task(self, link: PartitionLink, touched: Partitions) -> bool:
        """Small groups of one new partition need no shuffle then, which is a quarter of their cost. Only where looking through the late
        partitions keeps the other cores busy for as long."""
        in_target, live = self._contents.target or {}, self._contents.source or {}
        if self._cores is None or len(touched.new) != 1 or not self._groups_are_small():
            return False
        looked_through = sum(side[value].rows for side in (in_target, live) for value in touched.late if value in side)
        (value,) = touched.new
        return looked_through >= LOOKED_THROUGH * (self._cores - 1) * link.added.get(value, 0)

    def _rows_a_group(self) -> float | None:
        """Of the one changed table, on average; ``None``: not known."""
        both = self._rows_in_both()
        return both[1] / both[0] if both is not None and both[0] else None

    def _rows_in_both(self) -> tuple[int, int] | None:
        """The target's rows and the one changed table's, in partitions that both have, where the SELECT groups the one into the other."""
        in_target, live = self._contents.target, self._contents.source
        if not in_target or not live or not self._analysis.query.tree.args.get("group"):
            return None
        common = [value for value in in_target if value in live]
        return sum(in_target[value].rows for value in common), sum(live[value].rows for value in common)

    def _filter_keys(self) -> tuple[KeyColumn, ...]:
        return found_by(self._analysis, self._target, self._contents, self._link, self._columns, self._keys)

    def _split(self, link: PartitionLink) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        """Changed partitions that the target does not have, and those that it may have."""
        in_target = self._contents.target
        new = tuple(value for value in link.values if in_target is not None and value not in in_target)
        return new, tuple(value for value in link.values if value not in new)

    def _changed_in_large_part(self, value: Any) -> bool:
        live = (self._contents.source or {}).get(value)
        if live is None or live.rows == 0 or self._link is None or len(self._analysis.changed) != 1:
            return False
        return self._link.added.get(value, 0) >= LARGE_PART * live.rows

    def _new_from_changes(self) -> bool:
        """Whether a partition that the target does not have can be computed from the change tables alone."""
        analysis = self._analysis
        influence = analysis.influence
        assert influence is not None
        ids = frozenset(occurrence.id for occurrence in analysis.changed)
        return analysis.append_only and len(ids) == 1 and ids <= influence.relation.grows

    def _checked(self) -> bool:
        """Keys are looked for twice."""
        return bool(self._keys) and not self._provably_unique()

    def _provably_unique(self) -> bool:
        influence = self._analysis.influence
        if (
            influence is None
            or influence.relation.unique is None
            or len(self._columns) != len(influence.relation.columns)
        ):
            return False
        names = {self._columns[index].lower() for index in influence.relation.unique}
        return names <= {key.lower() for key in self._keys}

    def _partition_by(self) -> tuple[str, ...]:
        """Of a new target: what was asked for, else the first date among the keys, or that a source is partitioned by."""
        if self._request.partition_by:
            return self._request.partition_by
        influence = self._analysis.influence
        if influence is None or len(self._columns) != len(influence.relation.columns):
            return ()
        keys = {key.lower() for key in self._keys}
        unique = {self._columns[index].lower() for index in influence.relation.unique or ()}
        partitions = {
            key.column.lower() for state in self._analysis.sources.values() for key in state.changed_partitions
        }
        for name, place in zip(self._columns, influence.relation.columns, strict=True):
            if place.type == "date" and name.lower() in (keys or unique or partitions):
                return (name,)
        return ()

    def _notes(self) -> list[str]:
        out = []
        for state in self._analysis.sources.values():
            if state.changed and state.ignored:
                named = ", ".join(f"{count} × {name}" for name, count in state.ignored.items())
                out.append(f"{state.name}: the capture passed over {named}, and so does the target")
        if self._request.lookup_tables:
            named = ", ".join(self._request.lookup_tables)
            out.append(f"read as they are, their changes recompute nothing: {named}")
        if self._target.exists and not self._target.merge_on_read:
            out.append(
                "the target rewrites whole files at each delete; cheaper: ALTER TABLE "
                f"{self._target.name} SET TBLPROPERTIES ('write.delete.mode'='merge-on-read')"
            )
        return out

    def _read_states(self) -> list[Any]:
        names = self._analysis.query.table_names
        return [self._analysis.sources[name] for name in names if name in self._analysis.sources]

    def _change_reads(self) -> list[TableRead]:
        tables = dict.fromkeys(self._analysis.changed_tables)
        return [
            TableRead(name, "what changed", self._analysis.sources[name].added)
            for name in tables
            if self._analysis.sources[name].append_only
        ]

    def _source_reads(self, touched: Partitions | None, from_changes: bool) -> list[TableRead]:
        out = []
        for state in self._read_states():
            if touched is None or state.name not in self._analysis.changed_tables:
                out.append(TableRead(state.name, "as it is at the end of the capture", state.total))
                continue
            values = (*touched.late, *touched.overwritten, *(() if from_changes else touched.new))
            live = self._contents.source
            size = sum((live.get(value, Size()) for value in values), Size()) if live is not None else None
            description = f"{len(values)} partition{'s' if len(values) != 1 else ''} at the end of the capture"
            if values:
                out.append(TableRead(state.name, description, size))
        return out

    def _span_reads(self, span: Span) -> list[TableRead]:
        reads = [TableRead(state.name, f"the range {span}", state.total) for state in self._read_states()]
        if self._target.exists and span.column.lower() not in self._partition_columns():
            reads.append(TableRead(self._target.name, f"the range {span}", self._target.total))
        return reads

    def _target_reads(self, touched: Partitions | None) -> list[TableRead]:
        if touched is None:
            return [TableRead(self._target.name, "its keys", self._target.total)]
        if not touched.late:
            return []
        in_target = self._contents.target
        size = sum((in_target.get(value, Size()) for value in touched.late), Size()) if in_target is not None else None
        count = len(touched.late)
        return [TableRead(self._target.name, f"the keys of {count} partition{'s' if count != 1 else ''}", size)]


def _groups_once(tree: exp.Query) -> bool:
    """One SELECT over one table or subquery, grouped."""
    return isinstance(tree, exp.Select) and bool(tree.args.get("group")) and not tree.args.get("joins")


def _counts_distinct(tree: exp.Query) -> bool:
    """With a DISTINCT inside an aggregate: the shape that Spark shuffles twice."""
    return _groups_once(tree) and any(distinct.find_ancestor(exp.AggFunc) for distinct in tree.find_all(exp.Distinct))
