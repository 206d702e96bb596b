"""What people do to consumers by hand: rename, rewind, fast-forward, remove, abandon.

Each verb first makes a :class:`Preview` of what it would do, and refuses there what must not be done. Doing it is one
transaction that holds the consumer, finds it as the preview saw it, and writes an audit record. Checkpoint tags on the
sources, pins and change tables follow the transaction; none of them is needed for exactness.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import Any

from sqlalchemy.engine import Connection

from icefloe import suppressed
from icefloe.capture import build
from icefloe.capture.snapshot_ranges import starting_point
from icefloe.capture.sources import Source
from icefloe.engine.conductor import Conductor
from icefloe.errors import ConflictError, IcefloeError, NotFoundError, UsageError
from icefloe.lake import Checkpoint, Lake, history
from icefloe.lake.catalog import LoadedTable
from icefloe.lake.metadata import Snapshot
from icefloe.lake.pins import checkpoint_tag
from icefloe.service.auditing import audit
from icefloe.service.consumer_positions import checkpoint_of, rows_in
from icefloe.service.published_marks import PublishedMarks
from icefloe.store import audits, captures, runs
from icefloe.store.captures import CaptureRecord, CheckpointRecord, ConsumerRecord
from icefloe.store.database import Database
from icefloe.workflow.consumers import consumers_of

_ENDED = ("SUCCEEDED", "FAILED", "STOPPED", "TIMED_OUT")


class InterventionRefusedError(IcefloeError):
    """It would lose rows or write them twice, or somebody is at work on it."""

    code = "consumer.refused"


class ConsumerMovedError(ConflictError):
    """The consumer changed between the preview and the deed; nothing was done."""

    code = "consumer.moved"


@dataclass(frozen=True, slots=True)
class Move:
    """A checkpoint's way on one source. ``None`` is the beginning: the next capture takes the table as it is."""

    table: str
    from_snapshot: int | None
    to_snapshot: int | None
    snapshots: int | None
    """How many lie between; unknown when history is lost."""
    rows: int | None


@dataclass(frozen=True, slots=True)
class Preview:
    """What a verb does. ``done``: it has done it."""

    verb: str
    consumer: str
    moves: tuple[Move, ...] = ()
    abandons: str | None = None
    renamed_to: str | None = None
    warnings: tuple[str, ...] = ()
    done: bool = False
    version: int = 0
    """The consumer's, as the preview has seen it."""

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @property
    def digest(self) -> str:
        """Two previews with the same digest would do the same to a consumer that stands at the same place."""
        seen = {key: value for key, value in self.to_dict().items() if key not in ("done", "warnings")}
        return hashlib.sha256(json.dumps(seen, sort_keys=True).encode()).hexdigest()[:32]


@dataclass(frozen=True, slots=True)
class _Seen:
    """A consumer at the moment of the preview."""

    consumer: ConsumerRecord
    checkpoints: dict[str, CheckpointRecord]
    held: CaptureRecord | None
    sources: dict[str, str]
    """Every source it is known to read -> its ref."""
    targets: list[str]


@dataclass(frozen=True, slots=True)
class Deed:
    """Who does it and why; without it a verb only shows what it would do. ``agreed``: the digest of the preview that was agreed to; if the
    verb would do anything else by now, nothing is done."""

    who: str
    why: str
    agreed: str | None = None


class Interventions:
    def __init__(self, database: Database, lake: Lake, conductor: Conductor) -> None:
        self._database = database
        self._lake = lake
        self._conductor = conductor
        self._marks = PublishedMarks(database, lake, conductor)

    # -- moving checkpoints ------------------------------------------------------------------------------------------------

    def rewind(self, name: str, to: str | int, table: str | None = None, deed: Deed | None = None) -> Preview:
        """Back to an earlier place: what lies between is captured again."""
        return self._shift("rewind", name, to, table, deed)

    def fast_forward(self, name: str, to: str | int, table: str | None = None, deed: Deed | None = None) -> Preview:
        """On to a later place: what lies between is never captured."""
        return self._shift("fast-forward", name, to, table, deed)

    def _shift(self, verb: str, name: str, to: str | int, table: str | None, deed: Deed | None) -> Preview:
        seen = self._see(name)
        self._refuse_half_done(seen.held, verb)
        loaded = {source: self._lake.table(source) for source in self._chosen(seen, table, to)}
        aims = {
            source: _aim(verb, one, seen.checkpoints.get(source), seen.sources[source], to)
            for source, one in loaded.items()
        }
        moves = tuple(_move(loaded[source], seen, source, aim) for source, aim in aims.items())
        moves = tuple(move for move in moves if move.from_snapshot != move.to_snapshot)
        if not moves:
            raise UsageError(f"{name} is there already", hint=f"icefloe consumers show {name}")
        preview = Preview(
            verb,
            name,
            moves,
            seen.held.id if seen.held else None,
            warnings=_consequences(verb, seen, moves),
            version=seen.consumer.version,
        )
        if deed is None:
            return preview
        self._refuse_other(preview, deed)
        tagged = [move for move in moves if checkpoint_tag(name) in loaded[move.table].metadata.refs]
        for move in tagged:
            if move.to_snapshot is not None:
                # First, so that the place it is moved to cannot expire before the checkpoint is there.
                self._lake.set_checkpoint_tag(move.table, consumer=name, snapshot_id=move.to_snapshot)

        def act(connection: Connection, now: float) -> None:
            captures.raise_version(connection, name, seen.consumer.version)
            for move in moves:
                _place(connection, name, move.table, seen.sources[move.table], aims[move.table], now)

        try:
            self._do(seen, preview, deed, act)
        except IcefloeError:
            for move in tagged:
                self._tag(name, move.table, move.from_snapshot)
            raise
        for move in tagged:
            if move.to_snapshot is None:
                self._tag(name, move.table, None)
        return replace(preview, done=True)

    def remove(self, name: str, deed: Deed | None = None) -> Preview:
        """Forget how far it has read. Its captures stay on record."""
        seen = self._see(name)
        self._refuse_half_done(seen.held, "remove")
        moves = tuple(Move(one.source, one.snapshot_id, None, None, None) for one in seen.checkpoints.values())
        again = f"if a workflow names {name} again, it begins anew, by its start:"
        preview = Preview(
            "remove", name, moves, seen.held.id if seen.held else None, warnings=(again,), version=seen.consumer.version
        )
        if deed is None:
            return preview
        self._refuse_other(preview, deed)

        def act(connection: Connection, now: float) -> None:
            captures.raise_version(connection, name, seen.consumer.version)
            for source in seen.checkpoints:
                captures.remove_checkpoint(connection, name, source)

        self._do(seen, preview, deed, act)
        for source in seen.checkpoints:
            self._tag(name, source, None)
        return replace(preview, done=True)

    # -- names -------------------------------------------------------------------------------------------------------------

    def rename(self, name: str, new: str, deed: Deed | None = None) -> Preview:
        """The checkpoint goes on under another name."""
        seen = self._see(name)
        if not new.strip() or new == name:
            raise UsageError("the new name must be another one")
        if seen.held is not None:
            raise InterventionRefusedError(
                f"capture {seen.held.id} of {name} is open",
                hint=f"let it be committed: icefloe restart {seen.held.run_id} --wait; or give it up: icefloe captures abandon {seen.held.id}",
            )
        with self._database.read() as connection:
            if captures.consumer(connection, new) is not None:
                raise UsageError(f"there is a consumer {new} already", hint=f"icefloe consumers show {new}")
            named = self._named_by(connection, seen.consumer.workflow_id, name)
        warnings: tuple[str, ...] = ()
        if named is not None:
            warnings = (
                f"version {named} of {seen.consumer.workflow_id} names {name}: its runs are refused until a version that names {new} is pushed",
            )
        preview = Preview("rename", name, renamed_to=new, warnings=warnings, version=seen.consumer.version)
        if deed is None:
            return preview
        self._refuse_other(preview, deed)
        self._do(seen, preview, deed, lambda connection, now: captures.rename_consumer(connection, seen.consumer, new))
        for source, one in seen.checkpoints.items():
            with suppressed.errors("consumer.checkpoint_tag", IcefloeError, where=source):  # the next commit sets it
                if checkpoint_tag(name) in self._lake.table(source).metadata.refs:
                    self._lake.set_checkpoint_tag(source, consumer=new, snapshot_id=one.snapshot_id)
                    self._lake.remove_checkpoint_tag(source, consumer=name)
        return replace(preview, done=True)

    def _named_by(self, connection: Connection, workflow_id: str, name: str) -> int | None:
        """The workflow's latest version, if it names this consumer."""
        try:
            latest = self._conductor.definitions.latest(connection, workflow_id)
        except NotFoundError:
            return None
        return latest.version if any(one.covers(name) for one in consumers_of(latest.workflow)) else None

    # -- captures ----------------------------------------------------------------------------------------------------------

    def abandon(self, capture_id: str, deed: Deed | None = None) -> Preview:
        """Give up an open capture. The checkpoint stays: the next capture begins at the same place."""
        with self._database.read() as connection:
            held = captures.capture(connection, capture_id)
        if held is None:
            raise NotFoundError(f"there is no capture {capture_id!r}", hint="icefloe captures")
        if not held.is_open:
            raise UsageError(f"capture {capture_id} is {held.state}: there is nothing to give up")
        self._refuse_half_done(held, "abandon")
        seen = self._see(held.consumer)
        warning = "the next run captures anew, from the same checkpoint to the head of that moment"
        preview = Preview(
            "abandon", held.consumer, abandons=capture_id, warnings=(warning,), version=seen.consumer.version
        )
        if deed is None:
            return preview
        self._refuse_other(preview, deed)
        self._do(seen, preview, deed, lambda connection, now: None)
        return replace(preview, done=True)

    # -- shared ------------------------------------------------------------------------------------------------------------

    def _see(self, name: str) -> _Seen:
        with self._database.read() as connection:
            consumer = captures.consumer(connection, name)
            if consumer is None:
                known = ", ".join(one.name for one in captures.all_consumers(connection)[:10])
                raise NotFoundError(f"there is no consumer {name!r}", hint=f"the consumers are: {known or 'none yet'}")
            checkpoints = captures.checkpoints_of(connection, name)
            recent = captures.recent_captures(connection, consumer_name=name, most=1)
            held = captures.open_capture(connection, name)
            targets = captures.targets_of(connection, name)
        sources = {one["table"]: one["ref"] for record in recent for one in record.sources}
        sources |= {one.source: one.ref for one in checkpoints.values()}
        return _Seen(consumer, checkpoints, held, sources, targets)

    def _chosen(self, seen: _Seen, table: str | None, to: str | int) -> list[str]:
        if table is not None:
            name = self._lake.canonical_name(table)
            if name not in seen.sources:
                known = ", ".join(sorted(seen.sources))
                raise UsageError(f"{seen.consumer.name} does not read {name}", hint=f"it reads: {known}")
            return [name]
        if len(seen.sources) > 1 and (isinstance(to, int) or to.lstrip("-").isdigit()):
            raise UsageError(
                "a snapshot is one table's, and this consumer reads several",
                hint=f"name the table with --table: {', '.join(sorted(seen.sources))}",
            )
        return sorted(seen.sources)

    def _refuse_half_done(self, held: CaptureRecord | None, verb: str) -> None:
        """While a run holds the capture, or part of its batch is in a target, moving on would lose or double rows."""
        if held is None:
            return
        with self._database.read() as connection:
            run = runs.load(connection, held.run_id)
        if run is not None and run.status not in _ENDED:
            raise InterventionRefusedError(
                f"run {held.run_id} holds capture {held.id} and has not ended",
                hint=f"wait for it, or type: icefloe stop {held.run_id}",
            )
        found = self._marks.of(held)
        if found:
            named = ", ".join(str(one) for one in found)
            raise InterventionRefusedError(
                f"the batch of capture {held.id} is published already in {named}: to {verb} now would write it twice",
                hint=f"let it be committed: icefloe restart {held.run_id} --wait",
            )

    def _refuse_other(self, preview: Preview, deed: Deed) -> None:
        """What was agreed to must be what would be done now."""
        if deed.agreed is None or deed.agreed == preview.digest:
            return
        with self._database.read() as connection:
            by_hand = audits.listing(connection, subject=preview.consumer, most=1)
        last = f"; the last who did something by hand was {by_hand[0].who} ({by_hand[0].verb})" if by_hand else ""
        raise ConsumerMovedError(
            f"{preview.consumer} is not any more as the preview showed it: a run or somebody else has moved it{last}",
            hint="nothing was done: look at a new preview, and decide again",
        )

    def _do(self, seen: _Seen, preview: Preview, deed: Deed, act: Callable[[Connection, float], None]) -> None:
        name = seen.consumer.name
        if not deed.why.strip():
            raise UsageError("why is not said", hint='add --why "…": it stays in the record')
        now = time.time()
        with self._database.write() as connection:
            current = captures.lock_consumer(connection, name)
            held = captures.open_capture(connection, name)
            if current != seen.consumer or held != seen.held:
                raise ConsumerMovedError(f"{name} was moved by somebody else", hint="look again and repeat")
            if held is not None and preview.verb != "rename":
                moved = captures.move_capture(connection, held, state="abandoned", ended_at=now)
                assert moved is not None, "it was found open in this transaction"
            act(connection, now)
            details: dict[str, Any] = {"why": deed.why}
            details |= {key: value for key, value in preview.to_dict().items() if value and key in _RECORDED}
            audit(connection, now, preview.verb, name, details, deed.who)
            self._database.announce(connection, "consumer")
        if seen.held is not None and preview.verb != "rename":
            self._discard(seen.held)

    def _discard(self, held: CaptureRecord) -> None:
        if build.discard(self._lake, [Source.from_json(one) for one in held.sources], capture_id=held.id):
            with self._database.write() as connection:
                captures.set_released(connection, held.id)

    def _tag(self, name: str, table: str, snapshot_id: int | None) -> None:
        with suppressed.errors("consumer.checkpoint_tag", IcefloeError, where=table):
            if snapshot_id is None:
                self._lake.remove_checkpoint_tag(table, consumer=name)
            else:
                self._lake.set_checkpoint_tag(table, consumer=name, snapshot_id=snapshot_id)


_RECORDED = ("moves", "abandons", "renamed_to")


def _place(connection: Connection, name: str, table: str, ref: str, aim: Checkpoint | None, now: float) -> None:
    if aim is None:
        captures.remove_checkpoint(connection, name, table)
        return
    record = CheckpointRecord(
        name, table, ref, aim.table_uuid, aim.snapshot_id, aim.sequence_number, aim.schema_id, None, now
    )
    captures.set_checkpoint(connection, record)


def _aim(verb: str, table: LoadedTable, held: CheckpointRecord | None, ref: str, to: str | int) -> Checkpoint | None:
    """Where the checkpoint goes. Refuses the wrong direction, where the direction can be told."""
    head = history.head(table.metadata, ref, table=table.name)
    aim = starting_point(table, head, to, word="to")
    if verb == "fast-forward" and aim is None:
        raise UsageError("the beginning is not ahead of anything", where=table.name, hint="icefloe consumers rewind …")
    chain = [snapshot.id for snapshot in history.ancestors(table.metadata, head)] if head is not None else []
    here = chain.index(held.snapshot_id) if held is not None and held.snapshot_id in chain else None
    there = chain.index(aim.snapshot_id) if aim is not None else len(chain)
    if verb == "rewind" and (held is None or (here is not None and there < here)):
        raise UsageError(
            f"{to} is ahead of the checkpoint" if held else "there is no checkpoint to rewind",
            where=table.name,
            hint="icefloe consumers fast-forward … moves on without capturing",
        )
    if verb == "fast-forward" and here is not None and there > here:
        raise UsageError(f"{to} is behind the checkpoint", where=table.name, hint="icefloe consumers rewind …")
    return aim


def _move(table: LoadedTable, seen: _Seen, source: str, aim: Checkpoint | None) -> Move:
    held = checkpoint_of(seen.checkpoints.get(source))
    between = _between(table, held, aim)
    return Move(
        source,
        held.snapshot_id if held else None,
        aim.snapshot_id if aim else None,
        None if between is None else len(between),
        None if between is None else rows_in(between),
    )


def _between(table: LoadedTable, held: Checkpoint | None, aim: Checkpoint | None) -> list[Snapshot] | None:
    """The snapshots between two places, whichever comes first; ``None``: their history is lost."""
    known = table.metadata.snapshots
    if held is not None and held.snapshot_id not in known:
        return None
    chains = [
        list(history.ancestors(table.metadata, one.snapshot_id)) if one is not None else [] for one in (held, aim)
    ]
    longer, shorter = sorted(chains, key=len, reverse=True)
    if shorter and shorter[0] not in longer:
        return None
    return longer[: len(longer) - len(shorter)]


def _consequences(verb: str, seen: _Seen, moves: tuple[Move, ...]) -> tuple[str, ...]:
    said = []
    for move in moves:
        amount = (
            "what lies between cannot be counted: history is lost"
            if move.snapshots is None
            else f"{move.snapshots} snapshots with {move.rows:,} rows"
        )
        if verb == "fast-forward":
            said.append(f"{move.table}: {amount} are passed over and never captured")
        elif move.to_snapshot is None:
            said.append(f"{move.table}: the next capture takes the table as it is, {amount} again")
        else:
            said.append(f"{move.table}: {amount} are captured again")
    if verb == "rewind" and seen.targets:
        said.append(f"steps that append will write them a second time to: {', '.join(seen.targets)}")
    if seen.held is not None:
        said.append(f"the open capture {seen.held.id} is given up")
    return tuple(said)
