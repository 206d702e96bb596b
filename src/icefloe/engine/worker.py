"""The worker: finds steps that may be done, claims them, and has them done by its executor.

One thread does everything that touches the store; it sleeps in the reactor until a supervisor speaks, a helper thread has a
result, the lease changed, or the database hints that there is something to do. User code never runs here at all.

A worker decides nothing about runs, and may die at any moment: what it held is taken over by the next one.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial

from sqlalchemy.engine import Connection

from icefloe import platforms, suppressed
from icefloe.config import Config
from icefloe.engine import signals, takeover
from icefloe.engine.conductor import Conductor
from icefloe.engine.evaluation import Evaluation
from icefloe.engine.events import HandedOver, Refused, SignalsArrived, TimeOut, WaitingInVain
from icefloe.engine.executor import Executor
from icefloe.engine.launchers import Launchers
from icefloe.engine.lease import Lease, LivenessMonitor
from icefloe.engine.preparation import Preparation
from icefloe.engine.reactor import Reactor
from icefloe.engine.spark_server import SparkServerStarter
from icefloe.engine.supervisor import become_subreaper
from icefloe.engine.transaction import Claimed
from icefloe.engine.work_queue import WorkQueue
from icefloe.errors import IcefloeError, UnreachableError
from icefloe.log_lines import about
from icefloe.steps.contract import Cause
from icefloe.steps.registry import Registry, installed
from icefloe.store import definitions as stored
from icefloe.store import runs, workers
from icefloe.store import signals as stored_signals
from icefloe.store.database import Database
from icefloe.store.runs import OwnedStep
from icefloe.table_names import format_identifier, parse_identifier

LOG = logging.getLogger("icefloe.worker")
POLL_SECONDS = 1.0
QUIET_POLL_SECONDS = 3.0
"""While no run is going on and no other worker is there to look after: what begins is told by a hint."""
LOG_SECONDS = 0.5
LOOK_SECONDS = 0.1
READY_LOOK = 200


class Worker:
    """``serves`` None works for every run; else only for the trees of these root runs (``icefloe run --wait`` in place).

    ``warm`` starts the local Spark server before the first step needs it. ``launchers`` are another's, who closes them; else it has its own.
    """

    def __init__(
        self,
        config: Config,
        database: Database,
        *,
        slots: int | None = None,
        serves: frozenset[str] | None = None,
        registry: Registry | None = None,
        conductor: Conductor | None = None,
        warm: bool = False,
        launchers: Launchers | None = None,
    ) -> None:
        platforms.require_linux()
        self.config = config
        self.database = database
        self.slots = slots or config.engine.slots
        self.serves = serves
        self.conductor = conductor or Conductor(database)
        registry = registry or installed()
        self._reactor = Reactor()
        self._lease = Lease(
            database,
            config.home / "workers",
            seconds=config.engine.lease_seconds,
            slots=self.slots,
            serves="*" if serves is None else ",".join(sorted(serves)),
            on_change=lambda: self._reactor.post(self.executor.extend_leases),
        )
        self.queue = WorkQueue(self.conductor, self.id, self.slots, serves, registry.instant, config.engine.limits)
        self.preparation = Preparation(config, database, self.conductor, registry)
        self.executor = Executor(
            config, database, registry, self.preparation, self.queue, self._lease, self._reactor, launchers
        )
        self.queue.in_hand = lambda: len(self.executor.attempts)
        self._spark_server = SparkServerStarter(
            config,
            database,
            warm=warm,
            warm_up=lambda imports: self._reactor.post(partial(self.executor.warm_up, imports)),
        )
        self._liveness = LivenessMonitor(config.engine.lease_seconds)
        self._first_seen: dict[tuple[str, str, int], float] = {}
        self._run_seen: dict[str, tuple[float, float]] = {}
        self._next_poll = 0.0
        self._next_log = 0.0
        self._next_look = 0.0
        self._drain_until: float | None = None
        self._stopping = False
        self.turned_at: float | None = None
        """When its loop last went round, on this process's monotonic clock."""

    @property
    def id(self) -> str:
        return self._lease.worker_id

    # -- life --------------------------------------------------------------------------------------------------------------

    def run(self, until: Callable[[], bool] = lambda: False) -> None:
        """Work until ``until`` says so, or until told to end. Leaves nothing running."""
        become_subreaper()
        self.queue.durably(self._lease.open, lambda: self._stopping)
        self.executor.open()
        self._spark_server.start()
        threading.Thread(target=self._listen_to_database, name="icefloe-watch", daemon=True).start()
        try:
            while not self._stopping and not until():
                self.turned_at = time.monotonic()
                try:
                    self._turn()
                except UnreachableError:
                    # The database is away. Steps go on as long as the lease holds; then their supervisors end them.
                    self._reactor.turn(time.monotonic() + 0.2)
                if self._lease.lost:
                    self.executor.abandon_all()
                    break
                if self._drain_until is not None and self._drained():
                    break
        finally:
            self._stopping = self.queue.closed = True
            self._spark_server.stop()
            self.executor.close()
            self._lease.close()
            self._reactor.close()

    def stop(self) -> None:
        """End soon, from any thread or a signal handler: no new claims, running steps are finished or handed over."""
        self._reactor.post(self._drain)

    def _drain(self) -> None:
        if self._drain_until is None:
            self._drain_until = time.monotonic() + self.config.engine.drain_seconds
            self.queue.closed = True
            with suppressed.errors("lease.drain", IcefloeError, where=self.id):  # others see it gone a little later
                self._lease.drain()
            while self.queue.todo:
                claimed = self.queue.todo.popleft()
                with suppress(Refused):
                    self.queue.record(claimed.snapshot, HandedOver(claimed.step.id, claimed.step.generation))

    def _drained(self) -> bool:
        assert self._drain_until is not None
        late = time.monotonic() >= self._drain_until
        for attempt in list(self.executor.attempts.values()):
            if late or (attempt.handle is not None and not attempt.busy):
                self.executor.hand_over(attempt)
        return not self.executor.attempts

    def _turn(self) -> None:
        while self.queue.todo and not self._stopping:
            self.executor.begin_some()
            if self._reactor.busy():
                break
        self._cancel_what_was_asked()
        self.executor.enforce()
        now = time.monotonic()
        if now >= self._next_poll:
            self._next_poll = now + POLL_SECONDS
            if self._look_around():
                self._next_poll = now + QUIET_POLL_SECONDS
        if self.queue.more_ready and not self.queue.closed:
            self._look_for_work()
        if now >= self._next_log:
            self._next_log = now + LOG_SECONDS
            self.executor.ship_logs()
        if not self.queue.todo:
            self.executor.tidy()
        until = (
            min(self._next_poll, self._next_log, self.executor.next_end())
            if self.executor.attempts
            else self._next_poll
        )
        self._reactor.turn(0.0 if self.queue.todo or self.queue.cancels else until)

    def _listen_to_database(self) -> None:
        watch = self.database.watch()
        try:
            while not self._stopping:
                if watch.wait(POLL_SECONDS):
                    self._reactor.post(self._hint)
        finally:
            watch.close()

    def _hint(self) -> None:
        """Somebody has changed something. A busy database hints all the time: a few looks a second are enough."""
        now = time.monotonic()
        if now < self._next_look:
            self._reactor.at(self._next_look, self._hint)
            return
        self._next_look = now + LOOK_SECONDS
        self.queue.more_ready = True
        with self.database.read() as connection:
            owned = runs.owned_by(connection, self.id)
        self._compare_claims(owned)
        self._look_for_signals()

    # -- finding work ------------------------------------------------------------------------------------------------------

    def _look_for_work(self) -> None:
        """Claim what is ready and due. A delay counts by this worker's own clock, from when it first saw the step."""
        self.queue.more_ready = False
        with self.database.read() as connection:
            ready = runs.ready_steps(connection, READY_LOOK, self.serves)
        now, wall = time.monotonic(), self.conductor.clock()
        first_seen: dict[tuple[str, str, int], float] = {}
        wanted: dict[str, list[tuple[str, str]]] = {}
        for step in ready:
            key = (step.run_id, step.step_id, step.generation)
            first_seen[key] = self._first_seen.get(key, now)
            due = min(first_seen[key] + step.delay, now + step.available_at - wall)
            if due <= now:
                wanted.setdefault(step.root_id, []).append((step.run_id, step.step_id))
            else:
                self._reactor.at(due, self._look_again)
        self._first_seen = first_seen
        for root_id, steps in wanted.items():
            claimer = self.queue.claimer()
            if claimer is not None:
                self.queue.follow(self.conductor.claim(root_id, steps, claimer))

    def _look_again(self) -> None:
        self.queue.more_ready = True

    def _look_around(self) -> bool:
        """What must hold even when no hint ever arrives. Returns whether there is nothing to look after."""
        self.queue.more_ready = True
        with self.database.read() as connection:
            living = workers.living(connection)
            waiting = runs.waiting_workflows(connection)
            orphans = runs.orphaned(connection)
            owned = runs.owned_by(connection, self.id)
            going_on = self._look_after_run_timeouts(connection)
        for worker, beat in self._liveness.dead_workers(living, self.id):
            with self.database.write() as connection:
                workers.declare_gone(connection, worker.id, beat)
                orphans = runs.orphaned(connection)
        for applied in takeover.take_over(self, orphans):
            self.queue.follow(applied)
        for workflow_id in waiting:
            self.queue.follow(self.conductor.admit(workflow_id, self.queue.claimer()))
        self._compare_claims(owned)
        self._look_for_signals()
        others = any(worker.id != self.id for worker in living)
        return not (going_on or others or waiting or orphans or owned)

    def _look_for_signals(self) -> None:
        """Let steps go on whose signals and watermarks have come."""
        with self.database.read() as connection:
            events: list[tuple[str, SignalsArrived | WaitingInVain]] = []
            for run_id, step_id, root_id in stored_signals.waiting_steps(connection):
                if self.serves is not None and root_id not in self.serves:
                    continue
                snapshot = self.conductor.snapshots.get(connection, run_id)
                evaluation = Evaluation(
                    partial(self.conductor.snapshots.get, connection), snapshot, partial(stored.file, connection)
                )
                try:
                    if signals.arrived(
                        connection, snapshot, evaluation, snapshot.definition.steps[step_id], self._canonical
                    ):
                        events.append((run_id, SignalsArrived(step_id)))
                except IcefloeError as error:
                    with about(run_id=run_id, step_id=step_id, worker=self.id, workflow=snapshot.record.workflow_id):
                        LOG.warning("run %s, step %s waits for what cannot be told: %s", run_id, step_id, error)
                    if error.fatal:
                        events.append((run_id, WaitingInVain(step_id, Cause.of(error))))
        for run_id, event in events:
            with suppress(Refused):  # another worker was quicker
                self.queue.follow(self.conductor.apply(run_id, event, claimer=self.queue.claimer()))

    def _canonical(self, table: str) -> str:
        return format_identifier(parse_identifier(table, catalog=self.config.catalog.name))

    def _compare_claims(self, rows: list[OwnedStep]) -> None:
        """Notice cancels and lost claims; take up claims whose commit's answer was lost on the way."""
        owned = {(step.run_id, step.step_id, step.generation): step for step in rows}
        running = {(key.run_id, key.step_id, key.generation): a for key, a in self.executor.attempts.items()}
        for name, attempt in running.items():
            if name not in owned:
                self.executor.cancel(attempt, lost=True)
            elif owned[name].request is not None:
                self.executor.cancel(attempt)
        queued = {(c.snapshot.record.id, c.step.id, c.step.generation) for c in self.queue.todo}
        for name in owned.keys() - running.keys() - queued:
            with self.database.read() as connection:
                snapshot = self.conductor.snapshots.get(connection, name[0])
            step = snapshot.state.steps[name[1]]
            if step.owner == self.id and step.generation == name[2]:
                self.queue.todo.append(Claimed(snapshot, step))

    def _cancel_what_was_asked(self) -> None:
        while self.queue.cancels:
            run_id, cancel = self.queue.cancels.popleft()
            for attempt in list(self.executor.attempts.values()):
                if (attempt.key.run_id, attempt.key.step_id) == (run_id, cancel.step):
                    self.executor.cancel(attempt, lost=cancel.lost)

    def _look_after_run_timeouts(self, connection: Connection) -> bool:
        """Find runs whose time is over. Time counts on this worker's own clock, from when it first saw the run. Returns whether
        any is going on."""
        now = time.monotonic()
        going_on = False
        first_seen: dict[str, tuple[float, float]] = {}
        for run_id, workflow_id, version, started in runs.in_progress(connection):
            going_on = True
            limit = self.conductor.definitions.get(connection, workflow_id, version).workflow.timeout
            if isinstance(limit, float | int) and (self.serves is None or run_id in self.serves):
                since, already = self._run_seen.get(run_id, (now, max(0.0, self.conductor.clock() - started)))
                first_seen[run_id] = since, already
                if already + now - since >= limit:
                    self._reactor.post(partial(self._time_out, run_id, float(limit)))
        self._run_seen = first_seen
        return going_on

    def _time_out(self, run_id: str, limit: float) -> None:
        with suppress(Refused):
            self.queue.follow(self.conductor.apply(run_id, TimeOut(limit), claimer=self.queue.claimer()))
