"""One capture, from looking at the consumer to a built capture that is recorded.

The record in the state database is the truth, and each move of it is compare-and-set: the capture must still be in the state
this attempt last saw, under this attempt's own claim. An attempt that was thought dead and comes back finds its claim gone
and stops. Change tables get their names into the record before they are made, so that whoever comes next can take them away.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy.engine import Connection

from icefloe.capture import build, completeness, snapshot_ranges
from icefloe.capture.build import CaptureOptions
from icefloe.capture.errors import CaptureLostError, ConsumerRenamedError
from icefloe.capture.snapshot_ranges import Bounds
from icefloe.capture.sources import Source, change_summary
from icefloe.errors import IcefloeError
from icefloe.faults import fault
from icefloe.lake import ChangeSet, Lake
from icefloe.lake.change_table import unique_name
from icefloe.lake.metadata import TableMetadata
from icefloe.store import audits, captures, signals
from icefloe.store.captures import CaptureRecord
from icefloe.store.database import Database


@dataclass(frozen=True, slots=True)
class CaptureRequest:
    """Who captures what. ``claim`` names one attempt, for ever."""

    consumer: str
    workflow_id: str
    run_id: str
    step_path: str
    claim: str
    tables: tuple[str, ...]
    ref: str
    start: str | int | None
    bounds: Bounds
    options: CaptureOptions


@dataclass(frozen=True, slots=True)
class ConsumerBusy:
    """Another run owns the consumer's open capture and has not ended."""

    run_id: str


@dataclass(frozen=True, slots=True)
class BuiltCapture:
    """A built capture. ``adopted``: it was left open by an earlier run, and is the same micro-batch again."""

    capture: CaptureRecord
    adopted: bool

    @property
    def has_changes(self) -> bool:
        return any(source.has_changes for source in self.sources)

    @property
    def sources(self) -> tuple[Source, ...]:
        return tuple(Source.from_json(data) for data in self.capture.sources)


class CaptureAttempt:
    """Takes captures for one attempt of one capture step."""

    def __init__(
        self,
        lake: Lake,
        database: Database,
        request: CaptureRequest,
        *,
        run_has_ended: Callable[[str], bool],
        log: Callable[[str], None],
        before_first: Callable[[], None] = lambda: None,
        check: Callable[[], None] = lambda: None,
    ) -> None:
        """``before_first`` may refuse a consumer's very first capture when nobody has said where it begins. ``check`` is called between
        phases, and raises when the attempt is over."""
        self._lake = lake
        self._database = database
        self._request = request
        self._run_has_ended = run_has_ended
        self._log = log
        self._before_first = before_first
        self._check = check

    def take(self) -> BuiltCapture | ConsumerBusy:
        """Adopt what is open, or capture anew."""
        request = self._request
        with self._database.read() as connection:
            capture = captures.open_capture(connection, request.consumer)
        self._check()  # a late attempt takes nothing from the one that followed it
        if capture is None:
            return self._built(self._planned())
        if capture.run_id != request.run_id and not self._run_has_ended(capture.run_id):
            return ConsumerBusy(capture.run_id)
        if capture.state == "built":
            mine = self._move(capture, run_id=request.run_id, step_path=request.step_path, claim=request.claim)
            adopted = capture.run_id != request.run_id
            if adopted:
                self._log(f"capture {capture.id}, left open by run {capture.run_id}, is taken over as it is")
                sources = [Source.from_json(data) for data in mine.sources]
                build.extend_pins(
                    self._lake, sources, request.options, consumer=mine.consumer, capture_id=mine.id, log=self._log
                )
            return BuiltCapture(self._in_current_schema(mine), adopted)
        if capture.run_id == request.run_id:
            # An earlier attempt of this step died while it built: same range, new change tables.
            again = self._move(capture, claim=request.claim)
            return self._built(self._for_new_tables(again))
        abandoned = self._move(capture, state="abandoned", ended_at=time.time())
        self._log(f"capture {capture.id} of run {capture.run_id} was never built, and is dropped")
        self._release(abandoned)
        return self._built(self._planned())

    def _in_current_schema(self, record: CaptureRecord) -> CaptureRecord:
        """A change table has the schema of its making. Where the source's changed since, the same files get new tables.

        Who changed the schema changed the statements too, and those fail on the old tables for ever.
        """
        sources = [Source.from_json(data) for data in record.sources]
        if all(
            not source.made_tables or source.schema_id == self._metadata(source.table).schema.id for source in sources
        ):
            return record
        try:
            for source in sources:
                build.find_changes(self._lake, source, self._request.options)
        except IcefloeError as error:
            self._log(f"the source's schema changed, but the change tables stay as they are: {error}")
            return record
        self._log("the source's schema changed: the change tables are made again, of the same files")
        return self._built(self._for_new_tables(record)).capture

    def _planned(self) -> CaptureRecord:
        """Fix the ranges and record them, with the names that the change tables will have."""
        request = self._request
        now = time.time()
        if self._is_new() and request.start is None:
            self._before_first()
        with self._database.write() as connection:
            consumer = captures.ensure_consumer(connection, request.consumer, request.workflow_id, now)
            known = captures.checkpoints_of(connection, request.consumer)
            complete = self._source_watermarks(connection)
        planned = [
            snapshot_ranges.plan(
                self._lake,
                table,
                ref=request.ref,
                checkpoint=known.get(self._canonical(table)),
                start=request.start,
                bounds=request.bounds,
                watermark=complete.get(self._canonical(table)),
            )
            for table in request.tables
        ]
        record = CaptureRecord(
            id=f"c{int(now):x}{secrets.token_hex(4)}",
            consumer=request.consumer,
            run_id=request.run_id,
            step_path=request.step_path,
            claim=request.claim,
            state="planned",
            base_version=consumer.version,
            sources=[self._with_table_names(self._with_goal(source)).to_json() for source in planned],
            released=False,
            keep_seconds=request.options.keep_seconds,
            created_at=now,
            pinned_batches=request.options.pinned_batches,
        )
        self._check()
        fault("capture.before_plan")
        with self._database.write() as connection:
            # Holds the consumer's row, so that what is looked at here is still true when the capture is added.
            now_at = captures.ensure_consumer(connection, request.consumer, request.workflow_id, now)
            if now_at.version != consumer.version or captures.open_capture(connection, request.consumer):
                raise CaptureLostError(f"another run captures for {request.consumer!r} at this moment")
            captures.add_capture(connection, record)
        fault("capture.after_plan")
        return record

    def _is_new(self) -> bool:
        """Whether this consumer has never read anything, or was told to forget it. Refuses a name that was given up."""
        name = self._request.consumer
        with self._database.read() as connection:
            consumer = captures.consumer(connection, name)
            if consumer is None:
                renamed = audits.last(connection, subject=name, verb="rename")
                new = renamed.details.get("renamed_to") if renamed else None
                if new and captures.consumer(connection, new) is not None:
                    raise ConsumerRenamedError(
                        f"the consumer {name} was renamed to {new}, and this version still names {name}",
                        hint=f"push the version that names {new}",
                    )
                return True
            if captures.checkpoints_of(connection, name):
                return False
            last = audits.listing(connection, subject=name, most=1)
            return consumer.version == 0 or (bool(last) and last[0].verb == "remove")

    def _built(self, record: CaptureRecord) -> BuiltCapture:
        """Pin, build, record."""
        request = self._request
        planned = [Source.from_json(data) for data in record.sources]
        change_sets = [build.find_changes(self._lake, source, request.options) for source in planned]
        planned = self._with_watermark(record, planned, change_sets)
        self._check()
        if request.options.skip_empty and not any(changes.has_changes for changes in change_sets):
            bare = [
                replace(source, change_table=None, at_end=None, found=change_summary(changes))
                for source, changes in zip(planned, change_sets, strict=True)
            ]
            return BuiltCapture(
                self._move(record, state="built", sources=[source.to_json() for source in bare], built_at=time.time()),
                False,
            )
        pinned = [
            build.pin(
                self._lake,
                source,
                changes,
                request.options,
                consumer=record.consumer,
                capture_id=record.id,
                log=self._log,
            )
            for source, changes in zip(planned, change_sets, strict=True)
        ]
        fault("capture.after_pin")
        record = self._move(record, state="pinned", sources=[source.to_json() for source in pinned])
        self._check()
        built = [build.build(self._lake, source, changes) for source, changes in zip(pinned, change_sets, strict=True)]
        fault("capture.after_build")
        record = self._move(record, state="built", sources=[source.to_json() for source in built], built_at=time.time())
        fault("capture.after_built")
        return BuiltCapture(record, adopted=False)

    def _source_watermarks(self, connection: Connection) -> Mapping[str, float]:
        """How far the sources are complete. Read before their heads are: what was said before is about what will be seen."""
        goal = self._request.options.completes
        if goal is None or goal.columns is not None:
            return {}
        tables = {self._canonical(table) for table in self._request.tables}
        return {
            watermark.source: watermark.valid_through
            for watermark in signals.all_watermarks(connection)
            if watermark.source in tables
        }

    def _with_goal(self, source: Source) -> Source:
        goal = self._request.options.completes
        by_sources = goal is not None and goal.columns is None
        return replace(source, completes=goal.target if goal else None, through=source.through if by_sources else None)

    def _with_watermark(
        self, record: CaptureRecord, sources: list[Source], change_sets: Sequence[ChangeSet]
    ) -> list[Source]:
        goal = self._request.options.completes
        if goal is None or goal.columns is None:
            return sources
        with self._database.read() as connection:
            last = captures.last_committed(connection, record.consumer)
        before = [Source.from_json(data) for data in last.sources] if last else []
        known = {
            source.table: source.through
            for source in before
            if source.through is not None and source.completes == goal.target
        }
        return completeness.by_column(goal, sources, change_sets, before=known, now=record.created_at)

    def _for_new_tables(self, record: CaptureRecord) -> CaptureRecord:
        """Take away what an earlier attempt made or may have made, and give new names, under the schema of today."""
        sources = [Source.from_json(data) for data in record.sources]
        build.discard(self._lake, sources, capture_id=record.id)
        fresh = [self._with_table_names(source.under(self._metadata(source.table))) for source in sources]
        return self._move(record, state="planned", sources=[source.to_json() for source in fresh])

    def _with_table_names(self, source: Source) -> Source:
        """The tables to be made get their names before they are made."""
        change_table = self._new_name(source) if self._request.options.change_tables else None
        at_end = self._new_name(source) if source.behind_schema else None
        alias = self._request.options.alias if change_table is not None else None
        return replace(source, change_table=change_table, at_end=at_end, alias=alias)

    def _new_name(self, source: Source) -> str:
        return ".".join((*self._lake.change_table_namespace, unique_name(source.table)))

    def _metadata(self, table: str) -> TableMetadata:
        return self._lake.table(table).metadata

    def _release(self, record: CaptureRecord) -> None:
        sources: Sequence[Source] = [Source.from_json(data) for data in record.sources]
        if build.discard(self._lake, sources, capture_id=record.id):  # otherwise the next sweep takes it up
            with self._database.write() as connection:
                captures.set_released(connection, record.id)

    def _move(self, record: CaptureRecord, **changes: Any) -> CaptureRecord:
        with self._database.write() as connection:
            moved = captures.move_capture(connection, record, **changes)
        if moved is None:
            raise CaptureLostError(f"capture {record.id} was taken over by another attempt")
        return moved

    def _canonical(self, table: str) -> str:
        return self._lake.canonical_name(table)


def checkpoints_after(record: CaptureRecord, now: float) -> Mapping[str, captures.CheckpointRecord]:
    """Where the consumer stands when this capture is committed. A source without any snapshot keeps none."""
    moved = {}
    for source in (Source.from_json(data) for data in record.sources):
        if source.end is not None:
            moved[source.table] = captures.CheckpointRecord(
                consumer=record.consumer,
                source=source.table,
                ref=source.ref,
                table_uuid=source.end.table_uuid,
                snapshot_id=source.end.snapshot_id,
                sequence_number=source.end.sequence_number,
                schema_id=source.end.schema_id,
                capture_id=record.id,
                moved_at=now,
            )
    return moved
