"""One capture against brute force: numbers, partitions, ranges, predicates, and the rows that two engines read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from icefloe.lake import ChangeSet, ChangeTable, Range
from tests.histories.history import Column, Commit, History, Row, quoted
from tests.histories.kinds import comparable, from_arrow
from tests.oracle.brute_force import File, totals
from tests.oracle.tally import Tally


class MismatchError(AssertionError):
    """The lake and brute force disagree."""


@dataclass
class Comparison:
    """What the lake said to one request, compared piece by piece. Every method raises :class:`MismatchError`."""

    history: History
    tally: Tally
    request: Mapping[str, Any] = field(default_factory=dict)

    def counts(self, changes: ChangeSet, added: Iterable[File], removed: Iterable[File]) -> None:
        expected = totals(added)
        self.same(
            "added",
            (changes.added.files, changes.added.rows, changes.added.bytes),
            (expected.files, expected.rows, expected.bytes),
        )
        expected = totals(removed)
        self.same("removed", (changes.removed.files, changes.removed.rows), (expected.files, expected.rows))

    def partitions(
        self, changes: ChangeSet, added: Iterable[File], removed: Iterable[File], deletes: Iterable[File]
    ) -> None:
        expected: dict[Any, list[int]] = {}
        for position, files in ((0, added), (3, removed), (5, deletes)):
            for file in files:
                counts = expected.setdefault((file.spec_id, file.partition), [0] * 6)
                counts[position] += 1
                if position < 5:
                    counts[position + 1] += file.rows
                if position == 0:
                    counts[2] += file.bytes
        found = {
            (p.spec_id, frozenset((n, comparable(v)) for n, v in p.values.items() if v is not None)): [
                p.files,
                p.rows,
                p.bytes,
                p.removed_files,
                p.removed_rows,
                p.delete_files,
            ]
            for p in changes.partitions or ()
        }
        self.same("partitions", found, expected)

    def rows(
        self, changes: ChangeSet, table: ChangeTable, rows: Iterable[Row] | Mapping[int, Row], *, tight: bool
    ) -> None:
        h = self.history
        rows = list(rows.values() if isinstance(rows, Mapping) else rows)
        expected = h.spelled(rows)
        self.tally.rows += expected.total()
        filters = {"range_filter": changes.range_filter, "partition_filter": changes.partition_filter}
        relation = table.name
        selects = [f"SELECT 'all' AS via, {h.projection()} FROM {relation}"]
        selects += [
            f"SELECT '{name}', {h.projection()} FROM {relation} WHERE {text}" for name, text in filters.items() if text
        ]
        found: dict[str, Counter[tuple[Any, ...]]] = {"all": Counter()}
        for row in h.spark.sql(" UNION ALL ".join(selects)).collect():
            found.setdefault(row[0], Counter())[tuple(comparable(v) for v in row[1:])] += 1
        self.same_rows("the change table by Spark", found["all"], expected)
        for name, text in filters.items():
            if text:
                self.same_rows(f"the change table under {name} {text}", found.get(name, Counter()), expected)
        names = [c.name for c in h.spark.sql(f"SELECT * FROM {relation} LIMIT 0").schema]
        self.same("columns", names, [c.name for c in h.columns])
        self.tally.reads["Spark"] += 1
        self.second_engine(table, expected)
        self.ranges(changes, rows, tight=tight)

    def second_engine(self, table: ChangeTable, expected: Counter[tuple[Any, ...]]) -> None:
        h = self.history
        reason = unreadable_by_pyiceberg(h)
        if reason:
            self.tally.reads[f"PyIceberg cannot: {reason}"] += 1
            return
        arrow = h.catalog.load_table(table.name).scan().to_arrow()
        found: Counter[tuple[Any, ...]] = Counter()
        for record in arrow.to_pylist():
            found[tuple(from_arrow(c.kind, record[c.name]) for c in h.columns)] += 1
        self.same_rows("the change table by PyIceberg", found, expected)
        self.tally.reads["PyIceberg"] += 1

    def ranges(self, changes: ChangeSet, rows: Sequence[Row], *, tight: bool) -> None:
        h = self.history
        by_name = {c.name: c for c in h.columns}
        self.same("columns with ranges", set(changes.ranges), set(self.request["columns"]))
        for name, found in changes.ranges.items():
            column = by_name[name]
            values = [comparable(row.get(column.key)) for row in rows]
            real = [v for v in values if v is not None and v != "NaN"]
            self.contains(column, found, values, real)
            well_kept = h.properties["write.format.default"] == "parquet" and "change_metrics" not in h.done
            # The snapshot that added a file tells whether it is older than a column; a cherry-pick or expiry hides it.
            age_hidden = column.key not in h.first_columns and (h.done["expire"] or h.done["cherry_pick"])
            # PyIceberg counts no NaNs, so a file of nothing else looks like one without bounds.
            nan_hidden = "NaN" in values and h.done["append_by_second_writer"]
            if tight and well_kept and not age_hidden and not nan_hidden:
                self.tight(column, found, real)

    def contains(self, column: Column, found: Range, values: Sequence[Any], real: Sequence[Any]) -> None:
        where = f"the range of {column.name} ({column.kind.name}): {found}"
        low, high = comparable(found.min), comparable(found.max)
        outside = [v for v in real if (low is not None and v < low) or (high is not None and v > high)]
        if outside:
            raise MismatchError(f"{where} leaves out {outside}")
        if real and found.empty:
            raise MismatchError(f"{where} is said to be empty, but there is {real}")
        if (None in values and found.nulls == 0) or ("NaN" in values and found.nans == 0):
            raise MismatchError(f"{where} denies NULL or NaN in {values}")

    def tight(self, column: Column, found: Range, real: Sequence[Any]) -> None:
        """With full metrics of plain appends nothing needs to be unknown, and numbers and times are exact."""
        where = f"the range of {column.name} ({column.kind.name}): {found}"
        cut = column.kind.name in ("string", "binary")
        if not found.min_known or (not found.max_known and not cut):
            raise MismatchError(f"{where} is unknown without need, values {real}")
        if real and not cut and (comparable(found.min), comparable(found.max)) != (min(real), max(real)):
            raise MismatchError(f"{where} is wider than {min(real)!r} to {max(real)!r}")

    def gone(self, changes: ChangeSet, others: Sequence[Commit]) -> None:
        """Rows that overwrites and deletes took away lie inside ranges and predicates too: a target is recomputed there."""
        h = self.history
        by_name = {c.name: c for c in h.columns}
        rows: list[Row] = []
        for commit in others:
            before = h.commits[commit.parent].live if commit.parent is not None else {}
            rows += [row for rid, row in before.items() if commit.live.get(rid) != row]
        for name, found in changes.ranges.items():
            column = by_name[name]
            values = [comparable(row.get(column.key)) for row in rows]
            self.contains(column, found, values, [v for v in values if v is not None and v != "NaN"])
        filters = [text for text in (changes.range_filter, changes.partition_filter) if text not in (None, "TRUE")]
        if rows and filters:
            outside = " OR ".join(f"NOT (({text}) <=> TRUE)" for text in filters)
            lost = h.spark.sql(f"SELECT {h.rid.sql} FROM ({h.values(rows)}) WHERE {outside}").collect()
            if lost:
                raise MismatchError(
                    f"{filters} leave out {[row[0] for row in lost]}, which were taken away [{self._asked()}]"
                )
            self.tally.reads["predicates over rows taken away"] += 1

    def source(self, changes: ChangeSet, to: int, ref: str, until: int | None) -> None:
        """At ``to``, every row that lies in a changed partition satisfies the partition filter."""
        h = self.history
        if until is not None or not changes.partition_filter:
            return
        if ref != "main" and h.commits[to].columns != tuple(h.columns):
            # Iceberg 1.12 shows a branch in the current schema, but binds filters to the schema of the branch's snapshot.
            return
        relation = h.name if ref == "main" else f"{h.name}.branch_{ref}" if ref not in h.tags else None
        if relation is None:
            return
        columns = (
            "_spec_id AS spec, _partition AS part" if h.fields or h.past_fields else "_spec_id AS spec, NULL AS part"
        )
        rid = h.rid.sql
        rows = h.spark.sql(
            f"SELECT 'all' AS via, {rid} AS rid, {columns} FROM {relation}"
            f" UNION ALL SELECT 'filtered', {rid}, NULL, NULL FROM {relation} WHERE {changes.partition_filter}"
        ).collect()
        kept = {row.rid for row in rows if row.via == "filtered"}
        changed = {(p.spec_id, _key(p.values)) for p in changes.partitions or ()}
        lost = [
            row.rid
            for row in rows
            if row.via == "all"
            and (row.spec, _key(row.part.asDict() if row.part else {})) in changed
            and row.rid not in kept
        ]
        if lost:
            raise MismatchError(f"partition_filter {changes.partition_filter} loses rows {lost} of {relation}")

    def lineage(self, table: ChangeTable, to: int) -> None:
        """On v3, rows keep the row ids and sequence numbers that they have in the source."""
        h = self.history
        if h.version < 3:
            return
        columns = f"{h.rid.sql} AS rid, _file AS path, _pos AS pos, _row_id AS row_id, _last_updated_sequence_number AS updated"
        older = {rid for c in h.commits.values() if c.version < 3 for rid in c.live}
        at_to = columns.replace(h.rid.sql, quoted(h.commits[to].rid_name), 1)
        source = h.spark.sql(f"SELECT {at_to} FROM {h.name} VERSION AS OF {to}").collect()
        known = {(r.path, r.pos): (r.row_id, r.updated) for r in source}
        for row in h.spark.sql(f"SELECT {columns} FROM {table.name}").collect():
            expected = known.get((row.path, row.pos))
            if expected is not None:
                if row.row_id is None and row.rid in older:
                    # Manifests from before the upgrade to v3 have no row ids; only lists written after it give them some.
                    continue
                self.same(f"row lineage of {row.path}:{row.pos}", (row.row_id, row.updated), expected)
                self.tally.reads["row lineage"] += 1

    def same(self, what: str, found: Any, expected: Any) -> None:
        if found != expected:
            if isinstance(found, dict) and isinstance(expected, dict):
                found, expected = _difference(found, expected)
            raise MismatchError(f"{what}: the lake says {found!r}, brute force {expected!r} [{self._asked()}]")

    def same_rows(self, what: str, found: Counter[tuple[Any, ...]], expected: Counter[tuple[Any, ...]]) -> None:
        if found != expected:
            raise MismatchError(
                f"{what}: missing {list((expected - found).elements())[:5]}, too many {list((found - expected).elements())[:5]} [{self._asked()}]"
            )

    def _asked(self) -> str:
        return ", ".join(f"{key}={value!r}" for key, value in self.request.items())


def unreadable_by_pyiceberg(history: History) -> str | None:
    """What PyIceberg 0.12 cannot read of a change table, declared rather than tried."""
    if history.properties["write.format.default"] == "avro":
        return "Avro data files"
    if history.properties["write.format.default"] == "orc":
        return "ORC data files"
    if "variant" in history.kinds_ever:
        return "variant columns"
    return None


def _key(values: Mapping[str, Any]) -> frozenset[tuple[str, Any]]:
    return frozenset((name, comparable(value)) for name, value in values.items() if value is not None)


def _difference(found: dict[Any, Any], expected: dict[Any, Any]) -> tuple[dict[Any, Any], dict[Any, Any]]:
    return (
        {k: v for k, v in found.items() if expected.get(k) != v},
        {k: v for k, v in expected.items() if found.get(k) != v},
    )
