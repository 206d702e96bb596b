"""The comparison: what ``icefloe.lake`` says of a range of a table's history, against brute force.

Each check takes one range and looks at everything the lake tells of it: the change set's numbers, ranges, partitions and
predicates, and the rows of its change table as Spark and PyIceberg read them. The capture itself runs while the table's
data folder is moved away, and must leave every file of the source as it was.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any

from icefloe.errors import IcefloeError
from icefloe.lake import ChangeSet, ChangeTable, Lake
from icefloe.lake.errors import DiffImpossibleError, SnapshotNotFoundError
from icefloe.lake.history import Checkpoint
from tests.histories.history import Commit, History, Row
from tests.oracle import expectations
from tests.oracle.brute_force import BruteForce, File, plain
from tests.oracle.comparison import Comparison, MismatchError
from tests.oracle.keeping import Keeper
from tests.oracle.source_files import SourceFiles
from tests.oracle.tally import Tally

OPERATION_SETS = [("append",), ("append",), ("append", "overwrite"), ("append", "overwrite", "delete"), ("overwrite",)]


class Checker:
    """Checks one history against one lake."""

    def __init__(self, history: History, lake: Lake, *, warehouse: Path, rng: Random, tally: Tally) -> None:
        self.history = history
        self.lake = lake
        self.rng = rng
        self.tally = tally
        folder = warehouse.joinpath(*history.namespace.split("."), history.table)
        self.files = SourceFiles(lake, history.name, folder)
        self.keeper = Keeper(history, lake, self.files, rng, tally)
        self.checkpoints: dict[int, Checkpoint] = {}
        self.compare = Comparison(history, tally)

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
            self.keeper.keep(truth)

    def finish(self) -> None:
        self.keeper.finish()

    def _first(self, truth: BruteForce) -> None:
        """The first capture: the table as it is, at the head or earlier."""
        h = self.history
        ref = self._ref()
        if h.refs.get(ref) is None:
            changes = self.lake.changes(h.name)
            self.compare.same(
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
        if truth.between(since, h.head) is not None:
            self._log(truth, since, None, "main", ("append",))
            self.tally.ranges["start expired, nothing lost"] += 1
            return
        answers = expectations.lost(truth, since, h.head, until_given=False, checkpoint=checkpoint)
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
        if SnapshotNotFoundError in answers:
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
        with self._capture(since=since, until=until, ref=ref, on_gap=on_gap) as (changes, table):
            live = truth.live(to)
            data = [f for f in live.values() if f.content == 0]
            expected = h.commits[to].live
            self.compare.same("to_snapshot", changes.to_snapshot, to)
            self.compare.same("kind", changes.kind, "full")
            self.compare.counts(changes, data, [])
            self.compare.same("delete_files", changes.delete_files, len(live) - len(data))
            # After a gap the table as it is holds again what was captured before.
            first = since is None
            self.compare.same("append_only, exact", (changes.append_only, changes.exact), (first, first))
            self.compare.partitions(changes, data, [], [f for f in live.values() if f.content != 0])
            self.compare.rows(changes, table, expected, tight=len(live) == len(data))
            self.compare.source(changes, to, ref, until)

    def _log(self, truth: BruteForce, since: int, until: int | None, ref: str, wanted: Sequence[str]) -> None:
        h = self.history
        to = until or h.refs[ref]
        chain = truth.between(since, to)
        assert chain is not None
        asked: int | Checkpoint = self.checkpoints.get(since, since) if self.rng.random() < 0.5 else since
        with self._capture(since=asked, until=until, ref=ref, operations=wanted) as (changes, table):
            included = [c for c in chain if c.operation in wanted]
            skipped = [c for c in chain if c.operation not in (*wanted, "replace") and truth.touched(c.id)]
            added, rows = self._added(truth, included)
            others = [c for c in included if c.operation != "append"]
            removed = [f for c in others for f in truth.removed(c.id).values()]
            deletes = [f for c in others for f in truth.added(c.id, content=None).values()]
            self.compare.same("kind", changes.kind, "log")
            self.compare.same("from_snapshot, to_snapshot", (changes.from_snapshot, changes.to_snapshot), (since, to))
            self.compare.same("operations", dict(changes.operations), dict(Counter(c.operation for c in included)))
            self.compare.same(
                "skipped_operations", dict(changes.skipped_operations), dict(Counter(c.operation for c in skipped))
            )
            self.compare.same("append_only", changes.append_only, not others)
            self.compare.counts(changes, added, removed)
            self.compare.same("delete_files", changes.delete_files, len(deletes))
            self.compare.partitions(changes, added, removed, deletes)
            carried = [c.id for c in included if set(rows[c.id]) - c.written]
            if changes.exact and carried:
                raise MismatchError(f"said to be exact, but {carried} carried rows over")
            if not others and not changes.exact:
                raise MismatchError("nothing but appends, and yet not exact")
            every = [row for found in rows.values() for row in found.values()]
            self.compare.rows(changes, table, every, tight=not removed and not deletes)
            self.compare.gone(changes, others)
            if self.rng.random() < 0.5:
                self.compare.source(changes, to, ref, until)
                self.compare.lineage(table, to)
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
        with self._capture(since=asked, on_gap="diff") as (changes, table):
            before, after = truth.live(since), truth.live(h.head)
            added = [f for p, f in after.items() if p not in before and f.content == 0]
            removed = [f for p, f in before.items() if p not in after and f.content == 0]
            # A delete file that is gone touches its rows as one that has come does.
            undeleted = [f for p, f in before.items() if p not in after and f.content != 0]
            deletes = [*(f for p, f in after.items() if p not in before and f.content != 0), *undeleted]
            self.compare.same("kind", changes.kind, "diff")
            self.compare.counts(changes, added, removed)
            self.compare.partitions(changes, added, removed, deletes)
            rows = truth.rows_in(h.head, [f.path for f in added])
            if changes.exact and set(rows) & set(h.commits[since].live):
                raise MismatchError("said to be exact, but the difference holds rows that were there before")
            if changes.append_only and not set(h.commits[since].live) <= set(h.commits[h.head].live):
                raise MismatchError("said to be append-only, but rows went away")
            self.compare.same("exact", changes.exact, not removed and not undeleted)
            self.compare.rows(changes, table, rows.values(), tight=False)
        self.tally.ranges["gap: diff"] += 1

    @contextmanager
    def _capture(self, **request: Any) -> Iterator[tuple[ChangeSet, ChangeTable]]:
        """A change set and its change table, made with the data folder away; dropped again afterwards."""
        h = self.history
        columns = [c.name for c in h.columns if c.kind.name not in ("struct", "array", "map", "variant")]
        self.rng.shuffle(columns)
        request["columns"] = columns[: self.rng.choice([1, 2, 9])]
        self.compare = Comparison(h, self.tally, request)
        before = self.files.inventory()
        with self.files.data_away():
            table = self.lake.table(h.name)
            changes = self.lake.changes_of(table, **request)
            brief = self.lake.changes_of(table, **{**request, "columns": (), "details": False})
            made = self.lake.create_change_table(changes)
        self.compare.same("the source after a capture", self.files.inventory(), before)
        for name in ("operations", "skipped_operations", "append_only", "exact", "delete_files", "has_changes"):
            self.compare.same(f"{name} without details", getattr(brief, name), getattr(changes, name))
        for side in ("added", "removed"):
            ours, theirs = getattr(brief, side), getattr(changes, side)
            self.compare.same(f"{side} without details", (ours.files, ours.rows), (theirs.files, theirs.rows))
        yield changes, made
        own = Path(plain(made.location))
        if not own.is_dir():
            raise MismatchError(f"the change table's folder {own} is not there")
        self.lake.drop_change_table(made.name)
        if own.exists():
            raise MismatchError(f"dropping {made.name} left {own} behind")
        self.compare.same("the source after a drop", self.files.inventory(), before)
