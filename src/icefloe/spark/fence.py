"""The fence around one attempt's writes: a branch of its own on every target, published by fast-forward, exactly once.

A dead attempt's statement may still be running on the server when the next attempt starts, and an attempt that was stopped may
wake up hours later. So looking for a mark before writing is no fence. The fence is Iceberg's own compare-and-set:

1. :meth:`Fence.admit`, before a statement writes to a target for the first time: one look at the target's metadata gives its
   head, the *base*, and says whether the mark is in the base's history. If it is not, a branch is made at exactly that base.
2. The statements write to the branch (``spark.wap.branch``). Nobody reads it.
3. :meth:`Fence.publish` moves main to the branch's tip if main is still *at the base* and the branch still stands on it. Whoever
   published in between, another attempt at the same work included, has moved main, and so nothing is published twice.

What it does not protect: CREATE, DROP, ALTER and CALL, which act at once; tables outside the project's catalog and files; what
a script does elsewhere. For those, and under ``publish: direct``, the sessions of earlier attempts are ended first, so that at
least no two attempts write at one time (:mod:`icefloe.spark.predecessors`).
"""

from __future__ import annotations

import functools
import re
import threading
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from typing import Any, Protocol

from icefloe import suppressed
from icefloe.errors import ConflictError, UsageError
from icefloe.faults import fault
from icefloe.lake import Lake, history
from icefloe.lake.catalog import LoadedTable, RefChange
from icefloe.lake.errors import TableNotFoundError
from icefloe.lake.metadata import Snapshot
from icefloe.spark import marks
from icefloe.spark.marks import CREATED, MARK, PROPERTY, STATEMENT, Mark
from icefloe.spark.targets import Effect, Write
from icefloe.table_names import format_identifier, split_name

WAP_BRANCH = "spark.wap.branch"
ROUNDS = 5
"""How often a batch is computed again because its target moved, before the step gives up."""
_KEPT_DAYS = 7
"""Expiry takes a branch away that an attempt left behind, at the latest after this time."""


class Session(Protocol):
    """What of a Spark session is used here: the same over Connect and in a driver."""

    @property
    def conf(self) -> Any: ...

    def sql(self, sqlQuery: str) -> Any: ...  # noqa: N803 - PySpark's own name


class TargetMovedError(ConflictError):
    """Somebody else committed to the target meanwhile; the whole attempt is repeated on the new head."""

    code = "spark.target-moved"


@dataclass(frozen=True, slots=True)
class Fencing:
    """How an attempt is fenced. ``mark`` is the same for every attempt at the same work, ``branch`` is this one's own."""

    mark: Mark
    branch: str
    direct: bool = False
    """``publish: direct``: no branch."""
    ref: str = "main"
    """Where a batch is published: main, or a branch that main's readers do not see. A missing one is made off main."""
    known: Mapping[str, int] = field(default_factory=dict)
    """What the state database says is published, by target. Marks go when snapshots expire."""
    stale_branches: tuple[str, ...] = ()
    """The branches of earlier attempts, to be dropped."""


@dataclass(slots=True)
class _Target:
    name: str
    full: str
    uuid: str
    base: int | None
    root: int | None = None
    """Where the branch began: the base, or on a table without any snapshot the empty one that Iceberg made for it."""
    published: int | None = None
    """It carries this work's result already: what is written to it is not run again."""
    direct: bool = False
    branching: Future[None] | None = None
    """Under way, or done: the branch is being made."""


class Fence:
    """One attempt's fence. Not to be used again after :meth:`publish` or :meth:`discard`."""

    def __init__(
        self,
        session: Session,
        lake: Lake,
        fencing: Fencing,
        log: Callable[[str], None],
        *,
        alone: Callable[[], None] = lambda: None,
        published: dict[str, int] | None = None,
        at_home: bool = False,
        named: bool = False,
    ) -> None:
        """``named``: the statements name the branch they write to themselves; it is made beside, and they wait for it (:meth:`branched`). ``at_home``: nothing in the script leaves the project's catalog (USE), so that the session need not be asked where
        it is. ``alone`` is asked before the first write that cannot be fenced. ``published`` is filled as targets are published,
        so that a failure between two of them can tell which."""
        self._published_so_far = {} if published is None else published
        self._at_home = at_home
        self._named = named
        self._session = session
        self._lake = lake
        self._fencing = fencing
        self._log = log
        self._alone = alone
        self._targets: dict[str, _Target] = {}
        self._by_name: dict[str, _Target] = {}
        self._logged: set[str] = set()
        self._lock = threading.RLock()
        self._statements = 0
        self._operations: dict[str, int] = {}

    def open(self) -> None:
        """Have the session mark what it commits, and write to this attempt's branch."""
        settings = {PROPERTY + key: value for key, value in self._fencing.mark.properties().items()}
        if not self._fencing.direct and not self._named:
            settings[WAP_BRANCH] = self._fencing.branch
        at_once = getattr(self._session.conf, "_set_all", None)  # over Connect: one request instead of ten
        if at_once is not None:
            at_once(configs=settings, silent=False)
            return
        for key, value in settings.items():
            self._session.conf.set(key, value)

    # -- before and after a statement ----------------------------------------------------------------------------------------

    def admit(self, write: Write, operation: str | None = None) -> bool:
        """Protect the target of a statement that is about to run. False: its result is published, do not run it.

        ``operation`` is the statement's id where it may be sent more than once: sent again it keeps its number. Without one each call is
        another statement.
        """
        if write.target is None or write.effect in (Effect.NONE, Effect.DEFINITION):
            return True
        with self._lock:
            number = self._number(operation)
            if write.effect is Effect.TABLE:
                return self._admit_creation(write.target)
            target = self.protect(write.target)
            if target is None:
                return True
            if target.published is not None:
                self._tell(f"{target.name}: this batch is published already, its statements are not run again")
                return False
            return not target.direct or self._admit_direct(target, number)

    def _number(self, operation: str | None) -> int:
        """The statement's place among the writes of this attempt, which is the same in every attempt of a script that does the same."""
        known = self._operations.get(operation) if operation is not None else None
        if known is not None:
            return known
        self._statements += 1
        if operation is not None:
            self._operations[operation] = self._statements
        return self._statements

    def protect(self, name: str) -> _Target | None:
        """Make the branch on a target when it is first named; None: no table of this catalog."""
        with self._lock:
            target = self._by_name.get(name)
            if target is None:
                target = self._protected(name)
                # A name without its catalog may mean another table after the next USE.
                if target is not None and (self._at_home or name.startswith(f"{self._lake.tables.name}.")):
                    self._by_name[name] = target
            return target

    @property
    def branch(self) -> str:
        return self._fencing.branch

    def base(self, name: str) -> int | None:
        """The snapshot that this attempt's branch on a target stands on; None: the target has none."""
        target = self.protect(name)
        assert target is not None
        return target.base

    def branched(self, name: str) -> None:
        """Wait until this attempt's branch on a target is there."""
        target = self.protect(name)
        if target is not None and target.branching is not None:
            target.branching.result()

    def is_published(self, name: str) -> bool:
        return self.published_as(name) is not None

    def published_as(self, name: str) -> int | None:
        """The snapshot that this work was published as; None: it is not, yet."""
        target = self.protect(name)
        return target.published if target is not None else None

    def ended(self, write: Write) -> None:
        """A statement that was admitted has ended."""
        if write.effect is Effect.TABLE:
            self._session.conf.set(PROPERTY + MARK, self._fencing.mark.text)
            self._session.conf.unset(PROPERTY + CREATED)
            if not self._fencing.direct:
                self._session.conf.set(WAP_BRANCH, self._fencing.branch)
            if write.target is not None:
                self._by_name.pop(write.target, None)

    def _protected(self, name: str) -> _Target | None:
        table = self._resolved(name)
        if table is None:
            self._alone()
            self._tell(f"{name} is no Iceberg table of this catalog: what is written to it is not published as a whole")
            return None
        uuid = table.metadata.uuid
        if uuid in self._targets:
            return self._targets[uuid]
        base = self._head(table)
        past = history.ancestors(table.metadata, base) if base is not None else ()
        full = f"{self._lake.tables.name}.{format_identifier(table.identifier)}"
        target = _Target(table.name, full, uuid, base, direct=self._fencing.direct)
        if target.direct:
            self._alone()
            self._tell(f"{target.name}: publish: direct, batches are written to main statement by statement")
        else:
            target.published = self._published(past, table.name)
            if target.published is None:
                target.published = self._fencing.known.get(table.name)
            if self._named:
                # Spark takes as long for a branch as the planner for its look at the tables.
                with_it = ThreadPoolExecutor(1, thread_name_prefix="branch")
                target.branching = with_it.submit(self._begin, target, table)
                with_it.shutdown(wait=False)
            else:
                self._begin(target, table)
        self._targets[uuid] = target
        return target

    def _begin(self, target: _Target, table: LoadedTable) -> None:
        if target.published is None:
            self._make_branch(target, table)
        if self._fencing.stale_branches:
            self._drop(target.name, self._fencing.stale_branches)

    def _make_branch(self, target: _Target, table: LoadedTable) -> None:
        branch = self._fencing.branch
        if not self._named and table.metadata.properties.get("write.wap.enabled") != "true":
            # Without it Spark ignores spark.wap.branch without a word and writes to main (Iceberg 1.12).
            self._session.sql(f"ALTER TABLE {target.full} SET TBLPROPERTIES ('write.wap.enabled'='true')")
            self._log(f"{target.name}: set write.wap.enabled=true, so that batches are written to a branch")
        at = f" AS OF VERSION {target.base}" if target.base is not None else ""
        self._session.sql(f"ALTER TABLE {target.full} CREATE OR REPLACE BRANCH `{branch}`{at} RETAIN {_KEPT_DAYS} DAYS")
        target.root = target.base
        if target.base is None:
            # On a table without a snapshot that makes an empty one, on the branch only (Iceberg 1.12).
            target.root = self._lake.table(table.name).metadata.refs[branch].snapshot_id
        fault("spark.branched")

    def _admit_creation(self, name: str) -> bool:
        """CREATE TABLE AS: no branch can hold it. A table that this work has made already is not made again."""
        table = self._resolved(name)
        if table is not None:
            head = history.head(table.metadata, "main", table=table.name)
            if head is not None and marks.created(history.ancestors(table.metadata, head), self._fencing.mark):
                self._tell(f"{table.name}: this batch has made it already, it is not made again")
                return False
        self._alone()
        if not self._fencing.direct:
            self._session.conf.unset(WAP_BRANCH)  # a table that is being made has no main for the branch to leave
        self._session.conf.unset(PROPERTY + MARK)
        self._session.conf.set(PROPERTY + CREATED, self._fencing.mark.text)
        return True

    def _admit_direct(self, target: _Target, number: int) -> bool:
        past = self._past(target.name)
        done = self._published(past, target.name, number)
        if done is not None:
            self._log(f"{target.name}: this statement's result is there already (snapshot {done}), it is not run again")
            return False
        self._session.conf.set(PROPERTY + STATEMENT, str(number))
        return True

    # -- the end -----------------------------------------------------------------------------------------------------------

    def publish(self) -> dict[str, int]:
        """Publish every target on its own, in the order of their first writes. Returns the published snapshots."""
        self._settle()
        published = self._published_so_far
        published |= {
            target.name: target.published for target in self._targets.values() if target.published is not None
        }
        pending = [target for target in self._targets.values() if target.published is None]
        for target in pending:
            if target.direct:
                snapshot_id = self._published(self._past(target.name), target.name)
                published |= {target.name: snapshot_id} if snapshot_id is not None else {}
        branched = [(target, tip) for target in pending if not target.direct and (tip := self._tip(target)) is not None]
        with suppressed.errors("spark.unset_branch", Exception):
            self._session.conf.unset(WAP_BRANCH)
        for target, tip in branched:
            fault("spark.before_publish")
            target.published = self._forward(target, tip)
            published[target.name] = target.published
            fault("spark.after_publish")
        for target in pending:
            if target.published is not None:
                published[target.name] = target.published
            self._drop_branch(target)
        return dict(published)

    def discard(self) -> None:
        """Take the unpublished branches away."""
        self._settle()
        for target in self._targets.values():
            if target.published is None:
                self._drop_branch(target)

    def _settle(self) -> None:
        """Nothing is under way any more, whether it went well or not."""
        wait([target.branching for target in self._targets.values() if target.branching is not None])

    def _tip(self, target: _Target) -> int | None:
        """The branch's tip, which carries the mark; None when nothing was written."""
        table = self._lake.table(target.name)
        tip = self._tip_in(target, table)
        if tip is None:
            return None
        own = self._own(target, table, tip)
        if any(snapshot.summary.get(MARK) == self._fencing.mark.text for snapshot in own):
            return tip
        # A DELETE that only drops files, and TRUNCATE, commit without the session's properties (Iceberg 1.12). An empty
        # append carries the mark in their stead.
        written = f"{target.full}.branch_{self._fencing.branch}" if self._named else target.full
        self._session.sql(f"INSERT INTO {written} SELECT * FROM {target.full} WHERE false")
        return self._tip_in(target, self._lake.table(target.name))

    def _tip_in(self, target: _Target, table: LoadedTable) -> int | None:
        ref = table.metadata.refs.get(self._fencing.branch)
        if ref is None or ref.max_ref_age_ms is None:
            # Spark makes a branch that is gone anew, off main, without a word and without an age of its own. What was
            # written before that is not on it.
            why = "the branch of this attempt was taken away: another attempt has followed it"
            target.published = self._published_elsewhere(target, table, why)
            return None
        if ref.snapshot_id == target.root:
            self._log(f"{target.name}: nothing was written")
            return None
        return ref.snapshot_id

    def _own(self, target: _Target, table: LoadedTable, tip: int) -> list[Snapshot]:
        """The branch's own snapshots: from the tip down to the base. Raises when the branch stands on something else."""
        own: list[Snapshot] = []
        for snapshot in history.ancestors(table.metadata, tip):
            if snapshot.id == target.root:
                return own
            own.append(snapshot)
        raise self._moved(target, "the branch does not stand on the head it was made at")

    def _forward(self, target: _Target, tip: int) -> int:
        table = self._lake.table(target.name)
        main = self._head(table)
        if main != target.base:
            return self._published_elsewhere(target, table, "another writer committed while this batch was computed")
        self._own(target, table, tip)
        try:
            self._move(target, table, tip)
        except Exception as error:
            table = self._lake.table(target.name)
            main = self._head(table)
            if main == target.base:
                raise  # it is not about another writer
            if main != tip:
                return self._published_elsewhere(target, table, str(error).strip().splitlines()[0])
        self._log(f"{target.name}: published as snapshot {tip}")
        return tip

    def _move(self, target: _Target, table: LoadedTable, tip: int) -> None:
        """The fast-forward. By a commit of our own, which also takes the branch away and holds the ref to exactly the base; Spark's
        procedure, two commits with the branch, where the catalog takes none from here or the ref is yet to be made."""
        ref, branch = self._fencing.ref, self._fencing.branch
        if (ref == "main" or ref in table.metadata.refs) and self._lake.tables.forward(
            table.identifier, ref, branch, base=target.base, tip=tip
        ):
            return
        name = format_identifier(table.identifier).replace("'", "\\'")
        self._session.sql(f"CALL {self._lake.tables.name}.system.fast_forward('{name}', '{ref}', '{branch}')")

    def _published_elsewhere(self, target: _Target, table: LoadedTable, why: str) -> int:
        head = self._head(table)
        past = history.ancestors(table.metadata, head) if head is not None else ()
        snapshot_id = self._published(past, target.name)
        if snapshot_id is None:
            raise self._moved(target, why)
        self._log(f"{target.name}: another attempt has published this batch, as snapshot {snapshot_id}")
        return snapshot_id

    def _moved(self, target: _Target, why: str) -> TargetMovedError:
        return TargetMovedError(why, where=target.name, hint="the step is repeated on the new head")

    def _drop_branch(self, target: _Target) -> None:
        if not target.direct:
            self._drop(target.name, (self._fencing.branch,))

    def _drop(self, name: str, attempts: tuple[str, ...]) -> None:
        """Without Spark: also when its server is gone. What cannot be dropped now, expiry takes away in the end."""
        with suppressed.errors("spark.drop_branch", Exception, where=name):
            table = self._lake.table(name)
            stale = branches_of(table.metadata.refs, attempts)
            if stale:
                self._lake.tables.set_refs(table.identifier, [RefChange(ref, None) for ref in stale])

    # -- names -------------------------------------------------------------------------------------------------------------

    def _resolved(self, name: str) -> LoadedTable | None:
        """The table that Spark would take a name for, if it is one of the project's catalog."""
        try:
            parts = split_name(name)
        except UsageError:
            return None  # a path, or what only another catalog takes for a name
        catalog = self._lake.tables.name
        if parts[0] == catalog and len(parts) > 2:
            parts = parts[1:]
        elif len(parts) == 1 or not self._at_home:
            current = self._session.sql("SELECT current_catalog(), current_database()").collect()[0]
            if current[0] != catalog or (len(parts) == 1 and not current[1]):
                return None  # without a current namespace a single name is a file's, or Spark refuses it
            if len(parts) == 1:
                parts = (*split_name(current[1]), *parts)
        try:
            return self._lake.table(parts)
        except TableNotFoundError:
            return None

    def _head(self, table: LoadedTable) -> int | None:
        """Where the next batch goes on from."""
        ref = self._fencing.ref if self._fencing.ref in table.metadata.refs else "main"
        return history.head(table.metadata, ref, table=table.name)

    def _past(self, name: str) -> list[Snapshot]:
        table = self._lake.table(name)
        head = self._head(table)
        return list(history.ancestors(table.metadata, head)) if head is not None else []

    def _published(self, past: Iterable[Snapshot], table: str, statement: int | None = None) -> int | None:
        return marks.published(
            past,
            self._fencing.mark,
            table=table,
            statement=statement,
            is_before=functools.partial(_is_before_in_source, self._lake),
        )

    def _tell(self, line: str) -> None:
        if line not in self._logged:
            self._logged.add(line)
            self._log(line)


def in_rounds(
    make: Callable[[int], Fence], write: Callable[[Fence], None], log: Callable[[str], None]
) -> dict[str, int]:
    """Write behind a fence and publish; again on the new head, behind another fence, when another writer was faster."""
    for number in range(1, ROUNDS + 1):
        fence = make(number)
        fence.open()
        try:
            write(fence)
            fault("spark.before_first_publish")
            return fence.publish()
        except TargetMovedError as error:
            fence.discard()
            if number == ROUNDS:
                raise
            log(f"{error}: computed again on the new head ({number + 1} of at most {ROUNDS} times)")
        except BaseException:
            fence.discard()
            raise
    raise AssertionError("unreachable")


def _is_before_in_source(lake: Lake, point: str, other: str) -> bool:
    """Whether a place in a source's history is another one, or one of its ancestors, or long expired."""
    table, _, snapshot = point.rpartition("@")
    other_table, _, later = other.rpartition("@")
    if table != other_table or not snapshot.isdigit() or not later.isdigit():
        return point == other
    metadata = lake.table(table).metadata
    if int(snapshot) not in metadata.snapshots:
        return True
    return any(ancestor.id == int(snapshot) for ancestor in history.ancestors(metadata, int(later)))


def branch_of_round(branch: str, number: int) -> str:
    """An attempt that computes a batch again, since the target moved, does so on another branch."""
    return branch if number == 1 else f"{branch}_r{number}"


def branches_of(refs: Iterable[str], attempts: Iterable[str]) -> list[str]:
    """The branches among ``refs`` that belong to these attempts, of all their rounds."""
    wanted = set(attempts)
    return [ref for ref in refs if re.sub(r"_r\d+$", "", ref) in wanted or ref in wanted]
