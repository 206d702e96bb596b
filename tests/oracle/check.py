"""The comparison: what ``icefloe.lake`` says of a range of a table's history, against brute force.

Each check takes one range and looks at everything the lake tells of it: the change set's numbers, ranges, partitions and
predicates, and the rows of its change table as Spark and PyIceberg read them. The capture itself runs while the table's
data folder is moved away, and must leave every file of the source as it was.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

from icefloe.errors import IcefloeError
from icefloe.lake import ChangeSet, ChangeTable, Lake, Range
from icefloe.lake.errors import DiffImpossibleError
from icefloe.lake.history import Checkpoint
from tests.histories.history import Column, Commit, History, Row, quoted
from tests.histories.kinds import comparable, from_arrow
from tests.oracle import expectations
from tests.oracle.brute_force import BruteForce, File, plain, totals

OPERATION_SETS = [("append",), ("append",), ("append", "overwrite"), ("append", "overwrite", "delete"), ("overwrite",)]


class MismatchError(AssertionError):
    """The lake and brute force disagree."""


@dataclass
class Tally:
    """What was exercised, for the report."""

    histories: int = 0
    ranges: Counter[str] = field(default_factory=Counter)
    operations: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    reads: Counter[str] = field(default_factory=Counter)
    rows: int = 0


@dataclass(frozen=True)
class Kept:
    """A change table that must outlive compaction and expiry of its source, and what it must show."""

    table: ChangeTable
    columns: tuple[Column, ...]
    rows: Counter[tuple[Any, ...]]


class Checker:
    """Checks one history against one lake."""

    def __init__(self, history: History, lake: Lake, *, warehouse: Path, rng: Random, tally: Tally) -> None:
        self.history = history
        self.lake = lake
        self.rng = rng
        self.tally = tally
        self.folder = warehouse.joinpath(*history.namespace.split("."), history.table)
        self.checkpoints: dict[int, Checkpoint] = {}
        self.kept: list[Kept] = []

    # -- what to ask -----------------------------------------------------------------------------------------------------

    def remember_checkpoint(self) -> None:
        """Take a checkpoint at the head, as a consumer would, to ask with it later."""
        checkpoint = self.lake.checkpoint(self.history.name)
        if checkpoint is not None:
            self.checkpoints[checkpoint.snapshot_id] = checkpoint

    def check(self, ranges: int, *, keep: bool = False) -> None:
        truth = BruteForce(self.history)
        self._first(truth)
        for _ in range(ranges):
            self._random_range(truth)
        self._lost_range(truth)
        if keep:
            self._keep_one(truth)

    def _first(self, truth: BruteForce) -> None:
        """The first capture: the table as it is, at the head or earlier."""
        h = self.history
        ref = self._ref()
        if h.refs.get(ref) is None:
            changes = self.lake.changes(h.name)
            self._same(
                "an empty table", (changes.to_snapshot, changes.added.files, changes.has_changes), (None, 0, False)
            )
            self.tally.ranges["first, no snapshot"] += 1
            return
        chain = h.chain(h.refs[ref])
        until = self.rng.choice([None, None, *chain])
        self._full(truth, since=None, until=until, ref=ref, on_gap="fail")
        self.tally.ranges["first"] += 1

    def _random_range(self, truth: BruteForce) -> None:
        h = self.history
        ref = self._ref()
        chain = h.chain(h.refs.get(ref))
        if len(chain) < 2:
            return
        newer = self.rng.randrange(len(chain) - 1)
        until = chain[newer] if self.rng.random() < 0.7 else None
        since = self.rng.choice(chain[newer + 1 :] if until else chain)
        self._log(truth, since, until, ref, self.rng.choice(OPERATION_SETS))

    def _lost_range(self, truth: BruteForce) -> None:
        """Ask from a snapshot that is not in the chain any more: the reason must be right, and so must the ways out."""
        h = self.history
        if h.head is None:
            return
        chain = set(h.chain(h.head))
        strangers = [s for s in h.commits if s not in chain]
        if not strangers:
            return
        since = self.rng.choice(strangers)
        checkpoint = self.checkpoints.get(since)
        asked: int | Checkpoint = checkpoint or since
        answers = expectations.lost(truth, since, h.head, until_given=False, known=checkpoint is not None)
        try:
            self.lake.changes(h.name, since=asked)
        except IcefloeError as error:
            if type(error) not in answers:
                raise MismatchError(
                    f"since {since}: {error!r}, right would be {sorted(a.__name__ for a in answers)}"
                ) from error
            self.tally.ranges[f"lost: {error.code}"] += 1
        else:
            raise MismatchError(f"since {since}, which is no ancestor of {h.head}, was answered without an error")
        if any(issubclass(a, expectations.SnapshotNotFoundError) for a in answers):
            return
        if self.rng.random() < 0.3:
            self._full(truth, since=asked, until=None, ref="main", on_gap="full")
            self.tally.ranges["gap: full"] += 1
        else:
            self._diff(truth, asked, since)

    def _ref(self) -> str:
        branches = [*self.history.branches, *sorted(self.history.tags - set(self._pins()))]
        return self.rng.choice(branches) if branches and self.rng.random() < 0.3 else "main"

    def _pins(self) -> list[str]:
        return [name for name in self.history.refs if name.startswith("icefloe_")]

    # -- the three kinds ---------------------------------------------------------------------------------------------------

    def _full(
        self, truth: BruteForce, *, since: int | Checkpoint | None, until: int | None, ref: str, on_gap: Any
    ) -> None:
        h = self.history
        to = until or h.refs[ref]
        with self._capture(truth, since=since, until=until, ref=ref, on_gap=on_gap) as (changes, table):
            live = truth.live(to)
            data = [f for f in live.values() if f.content == 0]
            expected = h.commits[to].live
            self._same("to_snapshot", changes.to_snapshot, to)
            self._same("kind", changes.kind, "full")
            self._counts(changes, data, [])
            self._same("delete_files", changes.delete_files, len(live) - len(data))
            self._same("append_only, exact", (changes.append_only, changes.exact), (True, True))
            self._partitions(changes, data, [], [f for f in live.values() if f.content != 0])
            self._rows(changes, table, expected, tight=len(live) == len(data))
            self._source(changes, to, ref, until)

    def _log(self, truth: BruteForce, since: int, until: int | None, ref: str, wanted: Sequence[str]) -> None:
        h = self.history
        to = until or h.refs[ref]
        chain = truth.between(since, to)
        assert chain is not None
        asked: int | Checkpoint = self.checkpoints.get(since, since) if self.rng.random() < 0.5 else since
        with self._capture(truth, since=asked, until=until, ref=ref, operations=wanted) as (changes, table):
            included = [c for c in chain if c.operation in wanted]
            skipped = [c for c in chain if c.operation not in (*wanted, "replace") and truth.touched(c.id)]
            added, rows = self._added(truth, included)
            others = [c for c in included if c.operation != "append"]
            removed = [f for c in others for f in truth.removed(c.id).values()]
            deletes = [f for c in others for f in truth.added(c.id, content=None).values()]
            self._same("kind", changes.kind, "log")
            self._same("from_snapshot, to_snapshot", (changes.from_snapshot, changes.to_snapshot), (since, to))
            self._same("operations", dict(changes.operations), dict(Counter(c.operation for c in included)))
            self._same(
                "skipped_operations", dict(changes.skipped_operations), dict(Counter(c.operation for c in skipped))
            )
            self._same("append_only", changes.append_only, not others)
            self._counts(changes, added, removed)
            self._same("delete_files", changes.delete_files, len(deletes))
            self._partitions(changes, added, removed, deletes)
            carried = [c.id for c in included if set(rows[c.id]) - c.written]
            if changes.exact and carried:
                raise MismatchError(f"said to be exact, but {carried} carried rows over")
            if not others and not changes.exact:
                raise MismatchError("nothing but appends, and yet not exact")
            every = [row for found in rows.values() for row in found.values()]
            self._rows(changes, table, every, tight=not removed and not deletes)
            self._removed_within(changes, truth, others)
            self._source(changes, to, ref, until)
            self._lineage(table, to)
        self.tally.ranges["log " + "+".join(wanted)] += 1

    def _added(self, truth: BruteForce, included: Iterable[Commit]) -> tuple[list[File], dict[int, dict[int, Row]]]:
        """Files the commits added, each once, and the rows in them as they were written."""
        seen: set[str] = set()
        files: list[File] = []
        rows: dict[int, dict[int, Row]] = {}
        for commit in included:
            fresh = {p: f for p, f in truth.added(commit.id).items() if p not in seen}
            seen |= set(fresh)
            files += fresh.values()
            # An append's rows are the shadow's; what an overwrite wrote is told by the files the rows lie in.
            rows[commit.id] = commit.appended if commit.operation == "append" else truth.rows_in(commit.id, fresh)
        return files, rows

    def _diff(self, truth: BruteForce, asked: int | Checkpoint, since: int) -> None:
        h = self.history
        assert h.head is not None
        if since not in h.present:
            try:
                self.lake.changes(h.name, since=asked, on_gap="diff")
            except DiffImpossibleError:
                self.tally.ranges["gap: diff impossible"] += 1
                return
            raise MismatchError(f"a difference with {since}, which is expired, was answered")
        with self._capture(truth, since=asked, on_gap="diff") as (changes, table):
            before, after = truth.live(since), truth.live(h.head)
            added = [f for p, f in after.items() if p not in before and f.content == 0]
            removed = [f for p, f in before.items() if p not in after and f.content == 0]
            deletes = [f for p, f in after.items() if p not in before and f.content != 0]
            self._same("kind", changes.kind, "diff")
            self._counts(changes, added, removed)
            self._partitions(changes, added, removed, deletes)
            rows = truth.rows_in(h.head, [f.path for f in added])
            if changes.exact and set(rows) & set(h.commits[since].live):
                raise MismatchError("said to be exact, but the difference holds rows that were there before")
            if changes.append_only and not set(h.commits[since].live) <= set(h.commits[h.head].live):
                raise MismatchError("said to be append-only, but rows went away")
            self._same("exact", changes.exact, not removed)
            self._rows(changes, table, rows.values(), tight=False)
        self.tally.ranges["gap: diff"] += 1

    # -- the comparisons ---------------------------------------------------------------------------------------------------

    @contextmanager
    def _capture(self, truth: BruteForce, **request: Any) -> Iterator[tuple[ChangeSet, ChangeTable]]:
        """A change set and its change table, made with the data folder away; dropped again afterwards."""
        h = self.history
        columns = [c.name for c in h.columns if c.kind.name not in ("struct", "array", "map", "variant")]
        self.rng.shuffle(columns)
        self.request = {**request, "columns": columns[: self.rng.choice([1, 2, 9])]}
        before = self._inventory()
        with self._data_away():
            table = self.lake.table(h.name)
            changes = self.lake.changes_of(table, **self.request)
            brief = self.lake.changes_of(table, **{**self.request, "columns": (), "details": False})
            made = self.lake.create_change_table(changes)
        self._same("the source after a capture", self._inventory(), before)
        for name in ("operations", "skipped_operations", "append_only", "exact", "delete_files", "has_changes"):
            self._same(f"{name} without details", getattr(brief, name), getattr(changes, name))
        for side in ("added", "removed"):
            ours, theirs = getattr(brief, side), getattr(changes, side)
            self._same(f"{side} without details", (ours.files, ours.rows), (theirs.files, theirs.rows))
        yield changes, made
        own = Path(plain(made.location))
        if not own.is_dir():
            raise MismatchError(f"the change table's folder {own} is not there")
        self.lake.drop_change_table(made.name)
        if own.exists():
            raise MismatchError(f"dropping {made.name} left {own} behind")
        self._same("the source after a drop", self._inventory(), before)

    @contextmanager
    def _data_away(self) -> Iterator[None]:
        data, away = self.folder / "data", self.folder.with_name(self.folder.name + ".away")
        data.rename(away)
        try:
            yield
        finally:
            away.rename(data)

    def _inventory(self) -> dict[str, tuple[int, int]]:
        """Every file of the source with size and time, and where the catalog says its metadata is."""
        found = {
            str(p.relative_to(self.folder)): (p.stat().st_size, p.stat().st_mtime_ns)
            for p in self.folder.rglob("*")
            if p.is_file()
        }
        return {**found, self.lake.table(self.history.name).metadata.metadata_location: (0, 0)}

    def _counts(self, changes: ChangeSet, added: Iterable[File], removed: Iterable[File]) -> None:
        expected = totals(added)
        self._same(
            "added",
            (changes.added.files, changes.added.rows, changes.added.bytes),
            (expected.files, expected.rows, expected.bytes),
        )
        expected = totals(removed)
        self._same("removed", (changes.removed.files, changes.removed.rows), (expected.files, expected.rows))

    def _partitions(
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
        self._same("partitions", found, expected)

    def _rows(
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
        self._same_rows("the change table by Spark", found["all"], expected)
        for name, text in filters.items():
            if text:
                self._same_rows(f"the change table under {name} {text}", found.get(name, Counter()), expected)
        names = [c.name for c in h.spark.sql(f"SELECT * FROM {relation} LIMIT 0").schema]
        self._same("columns", names, [c.name for c in h.columns])
        self.tally.reads["Spark"] += 1
        self._second_engine(table, expected)
        self._ranges(changes, rows, tight=tight)

    def _second_engine(self, table: ChangeTable, expected: Counter[tuple[Any, ...]]) -> None:
        h = self.history
        reason = unreadable_by_pyiceberg(h)
        if reason:
            self.tally.reads[f"PyIceberg cannot: {reason}"] += 1
            return
        arrow = h.catalog.load_table(table.name).scan().to_arrow()
        found: Counter[tuple[Any, ...]] = Counter()
        for record in arrow.to_pylist():
            found[tuple(from_arrow(c.kind, record[c.name]) for c in h.columns)] += 1
        self._same_rows("the change table by PyIceberg", found, expected)
        self.tally.reads["PyIceberg"] += 1

    def _ranges(self, changes: ChangeSet, rows: Sequence[Row], *, tight: bool) -> None:
        h = self.history
        by_name = {c.name: c for c in h.columns}
        self._same("columns with ranges", set(changes.ranges), set(self.request["columns"]))
        for name, found in changes.ranges.items():
            column = by_name[name]
            values = [comparable(row.get(column.key)) for row in rows]
            real = [v for v in values if v is not None and v != "NaN"]
            self._contains(column, found, values, real)
            well_kept = h.properties["write.format.default"] == "parquet" and "change_metrics" not in h.done
            # The snapshot that added a file tells whether it is older than a column; a cherry-pick or expiry hides it.
            age_hidden = column.key not in h.first_columns and (h.done["expire"] or h.done["cherry_pick"])
            if tight and well_kept and not age_hidden:
                self._tight(column, found, real, nulls=values.count(None))

    def _contains(self, column: Column, found: Range, values: Sequence[Any], real: Sequence[Any]) -> None:
        where = f"the range of {column.name} ({column.kind.name}): {found}"
        low, high = comparable(found.min), comparable(found.max)
        outside = [v for v in real if (low is not None and v < low) or (high is not None and v > high)]
        if outside:
            raise MismatchError(f"{where} leaves out {outside}")
        if real and found.empty:
            raise MismatchError(f"{where} is said to be empty, but there is {real}")
        if (None in values and found.nulls == 0) or ("NaN" in values and found.nans == 0):
            raise MismatchError(f"{where} denies NULL or NaN in {values}")

    def _tight(self, column: Column, found: Range, real: Sequence[Any], *, nulls: int) -> None:
        """With full metrics of plain appends nothing needs to be unknown, and numbers and times are exact."""
        where = f"the range of {column.name} ({column.kind.name}): {found}"
        cut = column.kind.name in ("string", "binary")
        if not found.min_known or (not found.max_known and not cut):
            raise MismatchError(f"{where} is unknown without need, values {real}")
        if real and not cut and (comparable(found.min), comparable(found.max)) != (min(real), max(real)):
            raise MismatchError(f"{where} is wider than {min(real)!r} to {max(real)!r}")

    def _removed_within(self, changes: ChangeSet, truth: BruteForce, others: Sequence[Commit]) -> None:
        """Rows that overwrites and deletes took away lie inside the ranges too: a target must be recomputed there."""
        h = self.history
        by_name = {c.name: c for c in h.columns}
        for commit in others:
            before = h.commits[commit.parent].live if commit.parent is not None else {}
            gone = [row for rid, row in before.items() if commit.live.get(rid) != row]
            for name, found in changes.ranges.items():
                column = by_name[name]
                values = [comparable(row.get(column.key)) for row in gone]
                self._contains(column, found, values, [v for v in values if v is not None and v != "NaN"])
            if gone and changes.partition_filter == "FALSE":
                raise MismatchError(f"{commit.id} took rows away, but the partition filter lets nothing through")

    def _source(self, changes: ChangeSet, to: int, ref: str, until: int | None) -> None:
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

    def _lineage(self, table: ChangeTable, to: int) -> None:
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
                self._same(f"row lineage of {row.path}:{row.pos}", (row.row_id, row.updated), expected)
                self.tally.reads["row lineage"] += 1

    # -- keeping -----------------------------------------------------------------------------------------------------------

    def _keep_one(self, truth: BruteForce) -> None:
        """A pinned change table, to be read again when the source was compacted and expired."""
        h = self.history
        chain = h.chain(h.head)
        if len(chain) < 2:
            return
        since = self.rng.choice(chain[1:])
        commits = truth.between(since, chain[0]) or []
        changes = self.lake.changes(h.name, since=since)
        table = self.lake.create_change_table(changes)
        report = self.lake.pin(changes, owner="oracle", capture=f"{h.table}_{len(self.kept)}", mode="require")
        assert report.branch is not None
        h.observe()
        rows = [row for c in commits for row in c.appended.values()]
        self.kept.append(Kept(table, tuple(h.columns), h.spelled(rows)))
        self._same_rows(
            "the source at the pin",
            h.read(f"{h.name}.branch_{report.branch}"),
            h.spelled(h.commits[chain[0]].live.values()),
        )

    def finish(self) -> None:
        """Compact and expire the source, try to do harm through the change tables, and read them again."""
        h = self.history
        if h.head is not None and self.kept:
            h.sql(f"CALL system.rewrite_data_files(table => '{h.name}', options => map('rewrite-all', 'true'))")
            h.sql(
                f"CALL system.expire_snapshots(table => '{h.name}', older_than => TIMESTAMP'2100-01-01 00:00:00', retain_last => 1)"
            )
            h.observe()
        before = self._inventory()
        for kept in self.kept:
            found = self._read_as(kept)
            self._same_rows("a pinned change table after compaction and expiry", found, kept.rows)
            self.tally.reads["pinned, after compaction and expiry"] += 1
            self._try_to_harm(kept.table)
            self._same("the source after attempts on its change table", self._inventory(), before)
        self.lake.clean_change_tables(older_than_seconds=0)
        self._same("the source after cleaning up", self._inventory(), before)

    def _read_as(self, kept: Kept) -> Counter[tuple[Any, ...]]:
        columns = ", ".join(f"{c.kind.read.format(c.sql)} AS c{i}" for i, c in enumerate(kept.columns))
        rows = self.history.spark.sql(f"SELECT {columns} FROM {kept.table.name}").collect()
        return Counter(tuple(comparable(v) for v in row) for row in rows)

    def _try_to_harm(self, table: ChangeTable) -> None:
        spark = self.history.spark
        attempts = [
            f"CALL system.expire_snapshots(table => '{table.name}', older_than => TIMESTAMP'2100-01-01 00:00:00', retain_last => 1)",
            f"CALL system.remove_orphan_files(table => '{table.name}', older_than => TIMESTAMP'2020-01-01 00:00:00')",
            f"DROP TABLE {table.name} PURGE",
        ]
        for statement in attempts:
            try:
                spark.sql(statement).collect()
            except Exception as error:
                if "GC is disabled" not in str(error):
                    raise
                self.tally.reads["harm refused"] += 1
            else:
                self.tally.reads["harm tried in vain"] += 1

    # -- telling -----------------------------------------------------------------------------------------------------------

    def _same(self, what: str, found: Any, expected: Any) -> None:
        if found != expected:
            if isinstance(found, dict) and isinstance(expected, dict):
                found, expected = _difference(found, expected)
            raise MismatchError(f"{what}: the lake says {found!r}, brute force {expected!r} [{self._asked()}]")

    def _same_rows(self, what: str, found: Counter[tuple[Any, ...]], expected: Counter[tuple[Any, ...]]) -> None:
        if found != expected:
            raise MismatchError(
                f"{what}: missing {list((expected - found).elements())[:5]}, too many {list((found - expected).elements())[:5]} [{self._asked()}]"
            )

    def _asked(self) -> str:
        request = getattr(self, "request", {})
        return ", ".join(f"{k}={v!r}" for k, v in request.items())


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
