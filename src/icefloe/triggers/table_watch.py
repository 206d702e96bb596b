"""Looks at tables for all triggers at once: one catalog read per tick, and a metadata file only when a table has moved.

Triggers ask :class:`Question` values; several that ask the same share one answer. Runs in a thread of its own, so that a
catalog that hangs holds up nothing else. While the catalog is away the last answers stand, and it is asked less and less often.

It starts nothing and writes nothing.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace

from icefloe.errors import IcefloeError
from icefloe.lake import Checkpoint, Lake
from icefloe.lake.catalog import LoadedTable
from icefloe.lake.changes import OPERATIONS
from icefloe.lake.errors import HistoryLostError
from icefloe.lake.metadata_poll import MetadataPoll
from icefloe.lake.partitions import PartitionChange
from icefloe.table_names import Identifier, parse_identifier
from icefloe.triggers.pending_changes import PendingChanges, pending_changes

_LONGEST_PAUSE = 60.0
_FEW = 50
"""So many tables are looked at again at once on a catalog that must be asked for each."""


@dataclass(frozen=True, slots=True)
class Question:
    """What has a consumer that has read up to ``position`` not seen of a table? ``partitions`` is JSON, to be hashable."""

    table: str
    ref: str
    position: Checkpoint | None
    operations: tuple[str, ...]
    partitions: str = "{}"


@dataclass(frozen=True, slots=True)
class _TableAnswer:
    location: str | None
    pending: PendingChanges
    properties: Mapping[str, str]


class TableWatch:
    """``on_news`` is called, in the watching thread, when an answer has changed."""

    def __init__(
        self, open_lake: Callable[[], Lake], *, tick: float, on_news: Callable[[], None] = lambda: None
    ) -> None:
        self._open_lake = open_lake
        self._tick = tick
        self._on_news = on_news
        self._lake: Lake | None = None
        self._poll: MetadataPoll | None = None
        self._questions: frozenset[Question] = frozenset()
        self._answers: dict[Question, _TableAnswer] = {}
        self._changed = threading.Condition()
        self._nudged: set[str] | None = set()
        """Tables to look at before the tick; None: all of them."""
        self._ended = False
        self._thread: threading.Thread | None = None
        self.trouble: str | None = None
        self.loads = 0
        """Metadata files opened so far."""

    # -- for the scheduler -------------------------------------------------------------------------------------------------

    def ask(self, questions: Iterable[Question]) -> None:
        """What is to be known from now on. New questions are answered at once."""
        wanted = frozenset(questions)
        with self._changed:
            if wanted == self._questions:
                return
            new = {question.table for question in wanted - self._questions}
            self._questions = wanted
            self._answers = {question: answer for question, answer in self._answers.items() if question in wanted}
            if new:
                self._wake(new)

    def answer(self, question: Question) -> PendingChanges | None:
        """None: not known yet."""
        answer = self._answers.get(question)
        return None if answer is None else answer.pending

    def table_property(self, table: str, name: str) -> str | None:
        """A table's property, as of the last look."""
        for question, answer in list(self._answers.items()):
            if question.table == table:
                return answer.properties.get(name)
        return None

    def has_looked_at(self, table: str) -> bool:
        """False also while the table cannot be read: what is known of it then is not what it says now."""
        return any(
            question.table == table and not answer.pending.problem for question, answer in list(self._answers.items())
        )

    @property
    def costly(self) -> bool:
        """Whether a look at all tables is to be left to the tick: there are many, and each has to be asked for."""
        asked_for_each = self._poll is not None and not self._poll.at_once
        return asked_for_each and len({question.table for question in self._questions}) > _FEW

    def nudge(self, tables: Iterable[str] | None = None) -> None:
        """Look before the tick: at these tables, or at all (None)."""
        with self._changed:
            self._wake(tables)

    def _wake(self, tables: Iterable[str] | None) -> None:
        if tables is None:
            self._nudged = None
        elif self._nudged is not None:
            self._nudged |= set(tables)
        self._changed.notify_all()

    # -- the thread --------------------------------------------------------------------------------------------------------

    def start(self) -> None:
        self._thread = threading.Thread(target=self._run, name="icefloe-tables", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        with self._changed:
            self._ended = True
            self._changed.notify_all()
        if self._thread is not None:
            # A catalog that hangs is not waited for: the thread only reads, and ends with the process.
            self._thread.join(timeout=2)

    def _run(self) -> None:
        pause, next_tick = self._tick, time.monotonic()
        while True:
            with self._changed:
                while not self._ended and time.monotonic() < next_tick and self._nudged == set():
                    self._changed.wait(max(0.0, next_tick - time.monotonic()))
                if self._ended:
                    return
                nudged, self._nudged = self._nudged, set()
            whole = time.monotonic() >= next_tick
            good = self.look(None if whole or nudged is None else nudged)
            pause = self._tick if good else min(_LONGEST_PAUSE, max(1.0, pause * 2))
            if whole or not good:
                next_tick = time.monotonic() + pause

    def look(self, only: set[str] | None = None) -> bool:
        """One look, at all tables or at some. False: the catalog is away."""
        questions = self._questions
        try:
            moved = self._look(questions, only)
        except IcefloeError as error:
            self.trouble = f"{error.code}: {error}"
            self._on_news()
            return False
        recovered, self.trouble = self.trouble is not None, None
        if moved or recovered:
            self._on_news()
        return True

    def _look(self, questions: frozenset[Question], only: set[str] | None) -> bool:
        if not questions:
            return False
        if self._lake is None or self._poll is None:
            self._lake = self._open_lake()
            self._poll = MetadataPoll(self._lake.tables)
        by_table: dict[str, list[Question]] = {}
        for question in questions:
            if only is None or question.table in only or self._poll.at_once:
                by_table.setdefault(question.table, []).append(question)
        names = {table: parse_identifier(table, catalog=self._lake.tables.name) for table in by_table}
        known: dict[Identifier, str | None] = {}
        for table, of_table in by_table.items():
            locations = {answer.location for question in of_table if (answer := self._answers.get(question))}
            known[names[table]] = locations.pop() if len(locations) == 1 else None
        looks = self._poll.look(list(names.values()), known)
        moved = False
        for table, of_table in by_table.items():
            look = looks[names[table]]
            todo = [q for q in of_table if q not in self._answers or self._answers[q].location != look.location]
            if not todo:
                continue
            answers = self._answered(table, names[table], look.location, look.table, todo)
            with self._changed:
                self._answers.update({q: answer for q, answer in answers.items() if q in self._questions})
            moved = True
        return moved

    def _answered(
        self, table: str, name: Identifier, location: str | None, loaded: LoadedTable | None, todo: list[Question]
    ) -> dict[Question, _TableAnswer]:
        assert self._lake is not None
        if location is None and loaded is None:
            missing = PendingChanges(table, problem="there is no such table in the catalog yet")
            return {question: _TableAnswer(None, missing, {}) for question in todo}
        try:
            if loaded is None:
                self.loads += 1
                loaded = self._lake.tables.load(name)
        except IcefloeError as error:
            # This table alone: its metadata is missing or broken. Looked at again when it has moved, or at the next tick.
            broken = PendingChanges(table, problem=f"{error.code}: {error.message}")
            return {question: _TableAnswer(f"broken:{time.monotonic()}", broken, {}) for question in todo}
        at = loaded.metadata.metadata_location
        return {
            question: _TableAnswer(at, self._pending(loaded, question), loaded.metadata.properties) for question in todo
        }

    def _pending(self, table: LoadedTable, question: Question) -> PendingChanges:
        assert self._lake is not None
        pending = pending_changes(
            table.metadata,
            question.table,
            ref=question.ref,
            position=question.position,
            operations=frozenset(question.operations),
        )
        wanted = json.loads(question.partitions)
        try:
            if wanted and pending.snapshots and not pending.lost:
                return self._in_partitions(table, question, pending, wanted)
            if pending.only_maintenance and self._changes_rows(table, question):
                return replace(pending, others=1)
        except HistoryLostError as error:
            return replace(pending, lost=f"{error.code}: {error.message}")
        except IcefloeError as error:
            return replace(pending, snapshots=0, problem=f"{error.code}: {error.message}")
        return pending

    def _in_partitions(
        self, table: LoadedTable, question: Question, pending: PendingChanges, wanted: Mapping[str, list[object]]
    ) -> PendingChanges:
        """Counted again, by partition; this opens the range's manifests."""
        assert self._lake is not None
        changes = self._lake.changes_of(
            table, since=question.position, ref=question.ref, operations=question.operations
        )
        inside = [change for change in changes.partitions or () if _is_in(change, wanted)]
        if not inside:
            return replace(pending, snapshots=0, others=pending.others + pending.snapshots, rows=0, files=0, bytes=0)
        return replace(
            pending, rows=sum(counts.rows for counts in inside), files=sum(counts.files for counts in inside)
        )

    def _changes_rows(self, table: LoadedTable, question: Question) -> bool:
        """By the manifest lists: a checkpoint is not moved on a summary's word alone."""
        assert self._lake is not None
        changes = self._lake.changes_of(
            table, since=question.position, ref=question.ref, operations=OPERATIONS, details=False
        )
        return changes.has_changes


def _is_in(change: PartitionChange, wanted: Mapping[str, list[object]]) -> bool:
    return all(
        column in change.values
        and any(change.values[column] == value or str(change.values[column]) == str(value) for value in values)
        for column, values in wanted.items()
    )
