"""The scheduler: looks at every workflow's triggers, and starts runs for their occasions.

It sleeps until a fire is due, a table has moved, the state database hints at a change, or the tick has passed. Several may run
on one PostgreSQL, without a leader: each looks at everything, and ``firing`` makes sure that an occasion starts one run. One
that dies leaves nothing behind that another would have to take over.

It runs no user code, imports no Spark, and decides nothing itself: what is due is told by pure functions
(``time_events``, ``incremental``, ``signals``) over rows. A trigger that cannot be looked at is said so in ``icefloe why``,
and holds up no other.
"""

from __future__ import annotations

import logging
import os
import secrets
import socket
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from sqlalchemy.engine import Connection

from icefloe.capture.checkpoint_advance import advance
from icefloe.capture.completeness import VALID_THROUGH
from icefloe.config import AlertSettings, SchedulerSettings
from icefloe.errors import IcefloeError, UnreachableError
from icefloe.faults import fault
from icefloe.lake import Lake
from icefloe.store import definitions, signals, triggers
from icefloe.store.database import Database
from icefloe.store.definitions import WorkflowRecord
from icefloe.store.signals import WatermarkRecord
from icefloe.store.triggers import SchedulerRecord, TriggerRecord
from icefloe.triggers import table_watermarks, workflow_snapshots
from icefloe.triggers.alerts import Alerts
from icefloe.triggers.clocks import AgeTracker, Clock
from icefloe.triggers.cycles import ParsedDefinition, targets_of
from icefloe.triggers.judgement import Judgement, SignalReader, first_state, judge
from icefloe.triggers.lags import GoalState, Lag, goal_state, lags
from icefloe.triggers.messages import Check, Messenger
from icefloe.triggers.pending_changes import PendingChanges
from icefloe.triggers.plans import ArmedTrigger, TriggerPlan
from icefloe.triggers.run_start import CursorClaim, Starter, TriggerEvent
from icefloe.triggers.sources import WatchedTable
from icefloe.triggers.table_watch import Question, TableWatch
from icefloe.triggers.workflow_snapshots import WorkflowSnapshot
from icefloe.workflow.model import Workflow

LOG = logging.getLogger("icefloe.scheduler")
HINT_SECONDS = 0.1
SHOW_SECONDS = 5.0
ARMED_AT_ONCE = 100
_SIGNALS = {"signal", "watermark"}


@dataclass(slots=True)
class _WatchedWorkflow:
    """A workflow as the scheduler keeps it in mind. ``due``: when it is worth a look by itself, on the wall clock."""

    record: WorkflowRecord
    plan: TriggerPlan
    snapshot: WorkflowSnapshot | None = None
    stale: bool = True
    due: float = 0.0
    targets: frozenset[str] | None = None
    judgements: dict[str, Judgement] = field(default_factory=dict)


class Scheduler:
    """``look`` does everything once; ``run`` repeats it in time."""

    def __init__(
        self,
        database: Database,
        open_lake: Callable[[], Lake],
        start: Starter,
        settings: SchedulerSettings,
        *,
        catalog: str,
        alerts: AlertSettings | None = None,
        server_url: Callable[[], str | None] = lambda: None,
        clock: Clock | None = None,
        check_secrets: Check = lambda names, where: None,
    ) -> None:
        self.id = f"{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(3)}"
        self._database = database
        self._open_lake = open_lake
        self._start = start
        self._settings = settings
        self._catalog = catalog
        self._clock = clock or Clock()
        self._tracker = AgeTracker(self._clock)
        self._entries: dict[str, _WatchedWorkflow] = {}
        self._last_event = -1
        self._consumers: dict[str, int] = {}
        self._shown = float("-inf")
        self.looked_at: float | None = None
        """When the last look ended, on this process's monotonic clock."""
        self._started_at = self._clock.wall()
        self._wake = threading.Event()
        self._news = False
        self._stopping = False
        self.tables = TableWatch(open_lake, tick=settings.tick_seconds, on_news=self._tables_moved)
        self._lake: Lake | None = None
        self.messenger = Messenger(
            database,
            alerts or AlertSettings(),
            self._workflow,
            server_url=server_url,
            clock=self._clock,
            check=check_secrets,
        )
        self._alerts = Alerts(database, self.messenger, alerts or AlertSettings(), settings, self._tracker, self._clock)
        self._signals = SignalReader(database, self.tables.table_property)
        self._last_signal = -1
        self._watermarks: list[WatermarkRecord] = []

    # -- life --------------------------------------------------------------------------------------------------------------

    def run(self) -> None:
        """Until :meth:`stop`."""
        self.tables.start()
        self.messenger.start()
        hints = threading.Thread(target=self._listen, name="icefloe-scheduler-watch", daemon=True)
        hints.start()
        try:
            while not self._stopping:
                try:
                    pause = self.look()
                    self.looked_at = time.monotonic()
                except UnreachableError as error:
                    LOG.warning("%s", error)
                    pause = 1.0
                except Exception:
                    LOG.exception("a look at the triggers failed; the next follows")
                    pause = self._settings.tick_seconds
                self._wake.wait(pause)
                self._wake.clear()
        finally:
            self.tables.stop()
            self.messenger.stop()
            self._leave()

    def stop(self) -> None:
        """From any thread or a signal handler."""
        self._stopping = True
        self._wake.set()

    def _listen(self) -> None:
        watch = self._database.watch()
        try:
            while not self._stopping:
                if watch.wait(1.0):
                    self._wake.set()
                    threading.Event().wait(HINT_SECONDS)
        finally:
            watch.close()

    def _tables_moved(self) -> None:
        self._news = True
        self._wake.set()

    def _leave(self) -> None:
        try:
            with self._database.write() as connection:
                triggers.leave(connection, self.id)
        except IcefloeError as error:
            LOG.warning("%s", error)

    # -- one look ------------------------------------------------------------------------------------------------------------

    def look(self) -> float:
        """Bring everything up to date and start what is due. Returns how long nothing is expected to happen, in seconds."""
        self._show_up()
        self._refresh()
        self._arm()
        self._alerts.refresh()
        news, self._news = self._news, False
        now = self._clock.wall()
        for entry in list(self._entries.values()):
            if entry.stale or now >= entry.due or (news and _watches(entry.plan)):
                try:
                    self._look_at(entry, now)
                except UnreachableError:
                    raise
                except IcefloeError as error:
                    # This workflow alone: it is looked at again at the next tick, and the others go on.
                    LOG.warning("workflow %s: %s", entry.record.id, error, extra={"workflow": entry.record.id})
                    entry.due, entry.stale = now + self._settings.tick_seconds, False
        self.tables.ask(self._questions())
        if news:
            self._take_watermarks()
        next_due = min((entry.due for entry in self._entries.values()), default=now + self._settings.tick_seconds)
        return max(0.0, min(self._settings.tick_seconds, next_due - self._clock.wall()))

    def judgements(self, workflow_id: str) -> dict[str, Judgement]:
        """What the last look came to, by trigger."""
        entry = self._entries.get(workflow_id)
        return dict(entry.judgements) if entry else {}

    def lags(self) -> list[Lag]:
        """How far consumers are behind, by the last look at their tables: as old as the tick at most, and free. From any thread."""
        now = self._clock.wall()
        found = [lag for snapshot in self._snapshots() for lag in lags(snapshot, self.tables.answer, now)]
        return list({(lag.consumer, lag.table): lag for lag in reversed(found)}.values())

    def goals(self) -> list[GoalState]:
        """How far workflows with a goal are behind, likewise."""
        now = self._clock.wall()
        found = (goal_state(snapshot, self.tables.answer, now) for snapshot in self._snapshots())
        return [goal for goal in found if goal is not None]

    def _snapshots(self) -> list[WorkflowSnapshot]:
        return [entry.snapshot for entry in list(self._entries.values()) if entry.snapshot is not None]

    def _show_up(self) -> None:
        now = self._clock.monotonic()
        if now - self._shown < SHOW_SECONDS:
            return
        self._shown = now
        record = SchedulerRecord(
            self.id, socket.gethostname(), os.getpid(), self._started_at, self._clock.wall(), self.tables.trouble
        )
        with self._database.write() as connection:
            triggers.show_up(connection, record)

    def _refresh(self) -> None:
        """Find out which workflows have changed since the last look, and read those again."""
        with self._database.read() as connection:
            last = triggers.last_event(connection)
            first = self._last_event < 0
            moved = set() if first else triggers.workflows_moved(connection, self._last_event)
            consumers = triggers.consumer_versions(connection)
            records = {record.id: record for record in definitions.listing(connection) if record.latest_version}
            if moved:
                # Runs have done something: their targets may have moved.
                self.tables.nudge(self._evident_targets(moved) if self.tables.costly else None)
            self._last_event = last
            called = self._called(connection)
            changed = {name for name, version in consumers.items() if self._consumers.get(name) != version}
            self._consumers = consumers
            for workflow_id in self._entries.keys() - records.keys():
                del self._entries[workflow_id]
            for record in records.values():
                entry = self._entries.get(record.id)
                if entry is None or entry.plan.version != record.latest_version:
                    plan = workflow_snapshots.read_plan(connection, record, catalog=self._catalog)
                    if plan is None:
                        continue
                    entry = self._entries[record.id] = _WatchedWorkflow(record, plan)
                running = entry.snapshot is not None and entry.snapshot.running is not None
                entry.stale |= called and bool(_SIGNALS & {armed.kind for armed in entry.plan.triggers})
                entry.stale |= (
                    entry.record != record or record.id in moved or running or bool(changed & _consumers(entry.plan))
                )
                entry.record = record
                if entry.stale:
                    entry.snapshot = workflow_snapshots.read(connection, record, entry.plan)

    def _evident_targets(self, workflow_ids: Iterable[str]) -> set[str]:
        """What these workflows write, as far as their definitions tell."""
        targets: set[str] = set()
        for workflow_id in workflow_ids:
            entry = self._entries.get(workflow_id)
            if entry is not None and entry.targets is None:
                entry.targets = frozenset(targets_of(ParsedDefinition(entry.plan.workflow), self._catalog))
            targets.update(entry.targets or () if entry else ())
        return targets

    def _called(self, connection: Connection) -> bool:
        """Whether there are new signals or watermarks."""
        last, watermarks = signals.last(connection), signals.all_watermarks(connection)
        called = last != self._last_signal or watermarks != self._watermarks
        self._last_signal, self._watermarks = last, watermarks
        return called

    def _take_watermarks(self) -> None:
        """Tables may say themselves how far they are complete, in a property."""
        known = {watermark.source: watermark.valid_through for watermark in self._watermarks}
        tables = {table for entry in self._entries.values() for table in entry.plan.completeness}
        for table in sorted(tables):
            through = table_watermarks.stated_watermark(table, self.tables.table_property)
            if isinstance(through, float) and through > known.get(table, float("-inf")):
                with self._database.write() as connection:
                    record = WatermarkRecord(table, through, f"property {VALID_THROUGH}", self._clock.wall())
                    signals.raise_watermark(connection, record)
                    self._database.announce(connection)
                self._wake.set()

    def _questions(self) -> set[Question]:
        questions: set[Question] = set()
        for entry in self._entries.values():
            if entry.snapshot is not None and entry.record.active:
                reading = entry.plan.reading
                for armed in (*entry.plan.triggers, *([reading] if reading else ())):
                    questions.update(entry.snapshot.questions(armed))
            questions.update(Question(table, "main", None, ("append",)) for table in entry.plan.completeness)
        return questions

    def _look_at(self, entry: _WatchedWorkflow, now: float) -> None:
        entry.stale = False
        entry.due = now + 3600.0
        snapshot = entry.snapshot
        if snapshot is None:
            return
        again = self._alerts.look(snapshot, self.tables, now)
        if again is not None:
            entry.due = min(entry.due, again)
        for armed in entry.plan.triggers:
            judgement = judge(
                snapshot,
                armed,
                now=now,
                settings=self._settings,
                tracker=self._tracker,
                answer=self.tables.answer,
                lineage=self._lineage,
                signals=self._signals,
            )
            entry.judgements[armed.name] = judgement
            if judgement.again is not None:
                entry.due = min(entry.due, judgement.again)
            for watched, pending in judgement.maintenance:
                self._advance(snapshot, watched, pending)
                entry.stale = True
            if judgement.occasions or judgement.state is not None:
                self._fire(entry, snapshot, armed, judgement, now)
                # Whatever came of it, the rows have changed: read them again before the next decision.
                entry.stale, entry.due = True, now
                break

    def _arm(self) -> None:
        """Every trigger gets a row, and none that is gone from the definition keeps one; many workflows per transaction."""
        todo = sorted(
            entry.record.id
            for entry in self._entries.values()
            if entry.snapshot is not None
            and entry.record.active
            and {armed.name for armed in entry.plan.triggers} != entry.snapshot.rows.keys()
        )
        for start in range(0, len(todo), ARMED_AT_ONCE):
            # In the order of their ids, so that two schedulers do not wait for each other.
            with self._database.write() as connection:
                for workflow_id in todo[start : start + ARMED_AT_ONCE]:
                    self._arm_workflow(connection, self._entries[workflow_id])

    def _arm_workflow(self, connection: Connection, entry: _WatchedWorkflow) -> None:
        assert entry.snapshot is not None
        wanted = {armed.name: armed for armed in entry.plan.triggers}
        rows = entry.snapshot.rows
        workflow = definitions.lock(connection, entry.record.id)
        if workflow is None or workflow.latest_version != entry.plan.version or not workflow.active:
            return
        triggers.remove(connection, workflow.id, rows.keys() - wanted.keys())
        for armed in wanted.values():
            if armed.name not in rows:
                # A trigger counts from its push, not from when the first scheduler saw it.
                since = workflow.updated_at
                state = first_state(connection, armed, since)
                triggers.add(connection, TriggerRecord(workflow.id, armed.name, armed.kind, since, state))
        entry.snapshot = workflow_snapshots.read(connection, entry.record, entry.plan)

    def _fire(
        self, entry: _WatchedWorkflow, snapshot: WorkflowSnapshot, armed: ArmedTrigger, judgement: Judgement, now: float
    ) -> None:
        row = snapshot.rows[armed.name]
        for occasion in judgement.occasions:
            claim = CursorClaim(snapshot, row, occasion, now)
            fault("scheduler.before_claim")
            try:
                run_id = self._start(entry.record.id, occasion, armed.name, claim)
            except UnreachableError:
                raise
            except IcefloeError as error:
                # The run itself cannot be made: a parameter without a value, say. The occasion is over, and people are told.
                LOG.warning(
                    "workflow %s could not be started for %s: %s",
                    entry.record.id,
                    occasion.name,
                    error,
                    extra={"workflow": entry.record.id},
                )
                self._pass_over(row, occasion, str(error))
                return
            fault("scheduler.after_start")
            if run_id is None:
                return
            LOG.info(
                "run %s started for %s",
                run_id,
                occasion.name,
                extra={"run_id": run_id, "workflow": entry.record.id},
            )
            with self._database.read() as connection:
                latest = triggers.load(connection, row.workflow_id, row.name)
            if latest is None or latest.state != occasion.state:
                return
            row = latest
        if judgement.state is not None:
            with self._database.write() as connection:
                triggers.move(connection, row, judgement.state)

    def _pass_over(self, row: TriggerRecord, occasion: TriggerEvent, problem: str) -> None:
        with self._database.write() as connection:
            triggers.move(connection, row, {**occasion.state, "problem": f"{occasion.name}: {problem}"})

    def _advance(self, snapshot: WorkflowSnapshot, watched: WatchedTable, pending: PendingChanges) -> None:
        """Nothing but maintenance since the checkpoint: move it, so that what it holds may expire."""
        reading = snapshot.readings.get(watched.consumer or "")
        known = reading.checkpoints.get(watched.table) if reading else None
        if reading is None or known is None or pending.end is None:
            return
        if watched.pinned:
            try:
                self._lake = self._lake or self._open_lake()
                self._lake.set_checkpoint_tag(
                    watched.table, consumer=known.consumer, snapshot_id=pending.end.snapshot_id
                )
            except IcefloeError as error:
                LOG.warning("the checkpoint tag on %s was not moved: %s", watched.table, error)
        if advance(self._database, known, reading.version, pending.end, self._clock.wall()):
            LOG.info(
                "%s: only maintenance in %s; the checkpoint moved, nothing was started", known.consumer, pending.range
            )

    def _workflow(self, workflow_id: str) -> Workflow | None:
        entry = self._entries.get(workflow_id)
        return entry.plan.workflow if entry else None

    def _lineage(self, run_ids: Iterable[str]) -> dict[str, dict[str, int]]:
        with self._database.read() as connection:
            return triggers.lineages(connection, set(run_ids))


def _watches(plan: TriggerPlan) -> bool:
    return plan.reading is not None or bool(plan.completeness) or any(armed.watches for armed in plan.triggers)


def _consumers(plan: TriggerPlan) -> set[str | None]:
    watching = [*plan.triggers, *([plan.reading] if plan.reading else [])]
    return {watched.consumer for armed in watching for watched in armed.watches}
