"""The worker: claims steps, has them done, and records what came of them.

One thread does everything that touches the store; it sleeps in a selector until a supervisor speaks, a helper thread has a
result, the lease changed, or the database hints that there is something to do. What may block (a step's ``start`` and
``poll``) runs in a pool of threads; user code never runs here at all.

A worker decides nothing about runs, and may die at any moment: what it held is taken over by the next one.
"""

from __future__ import annotations

import os
import queue
import selectors
import socket
import threading
import time
from collections import deque
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import Any

from sqlalchemy.engine import Connection

from icefloe.config import Config
from icefloe.engine import processes, takeover
from icefloe.engine.attempts import Attempt, InlineLog, attempt_folder
from icefloe.engine.conductor import Applied, Claimed, Claimer, Conductor
from icefloe.engine.evaluation import Evaluation
from icefloe.engine.events import Ended, HandedOver, Refused, Started, TimeOut
from icefloe.engine.graph import FOREACH, SUBWORKFLOW
from icefloe.engine.images import Image
from icefloe.engine.lease import Contender, Lease
from icefloe.engine.processes import Job, Launcher
from icefloe.engine.supervisor import become_subreaper
from icefloe.errors import IcefloeError, UnreachableError
from icefloe.faults import fault
from icefloe.steps.contract import (
    AttemptKey,
    Cause,
    Command,
    Done,
    Kind,
    Launch,
    Outcome,
    ProcessResult,
    Progress,
    StepContext,
    Waiting,
)
from icefloe.steps.registry import Registry, installed
from icefloe.store import definitions as stored
from icefloe.store import runs, workers
from icefloe.store.database import Database
from icefloe.store.runs import OwnedStep
from icefloe.workflow.interpolation import reveal
from icefloe.workflow.model import ForeachStep, TypedStep
from icefloe.workflow.values import TypedValue

POLL_SECONDS = 1.0
LOG_SECONDS = 0.5
LOOK_SECONDS = 0.1
READY_LOOK = 200
POOL_THREADS = 16


class Worker:
    """``serves`` None works for every run; else only for the trees of these root runs (``icefloe run --wait`` in place)."""

    def __init__(
        self,
        config: Config,
        database: Database,
        *,
        slots: int | None = None,
        serves: frozenset[str] | None = None,
        registry: Registry | None = None,
        conductor: Conductor | None = None,
    ) -> None:
        self.config = config
        self.database = database
        self.conductor = conductor or Conductor(database)
        self.registry = registry or installed()
        self.slots = slots or config.engine.slots
        self.serves = serves
        self._selector = selectors.DefaultSelector()
        self._mail: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._bell_read, self._bell_write = socket.socketpair()
        self._bell_read.setblocking(False)
        self._bell_write.setblocking(False)
        self._selector.register(self._bell_read, selectors.EVENT_READ)
        self._lease = Lease(
            database,
            config.home / "workers",
            seconds=config.engine.lease_seconds,
            slots=self.slots,
            serves="*" if serves is None else ",".join(sorted(serves)),
            on_change=lambda: self._post(self._lease_changed),
        )
        self._contender = Contender(config.engine.lease_seconds)
        self._launcher = Launcher()
        self._pool = ThreadPoolExecutor(POOL_THREADS, thread_name_prefix="icefloe-step")
        self._attempts: dict[AttemptKey, Attempt] = {}
        self._todo: deque[Claimed] = deque()
        self._litter: list[Attempt] = []
        self._first_seen: dict[tuple[str, str, int], float] = {}
        self._run_seen: dict[str, tuple[float, float]] = {}
        self._timers: list[tuple[float, Callable[[], None]]] = []
        self._more_ready = True
        self._next_poll = 0.0
        self._next_log = 0.0
        self._next_look = 0.0
        self._draining: float | None = None
        self._stopping = False

    @property
    def id(self) -> str:
        return self._lease.worker_id

    # -- life --------------------------------------------------------------------------------------------------------------

    def run(self, until: Callable[[], bool] = lambda: False) -> None:
        """Work until ``until`` says so, or until told to end. Leaves nothing running."""
        become_subreaper()
        self._durably(self._lease.open)
        self._launcher.start()
        watcher = threading.Thread(target=self._listen_to_database, name="icefloe-watch", daemon=True)
        watcher.start()
        try:
            while not self._stopping and not until():
                try:
                    self._turn()
                except UnreachableError:
                    # The database is away. Steps go on as long as the lease holds; then their supervisors end them.
                    self._sleep(0.2)
                if self._lease.lost:
                    self._abandon_all()
                    break
                if self._draining is not None and self._drained():
                    break
        finally:
            self._stopping = True
            self._close()

    def stop(self) -> None:
        """End soon, from any thread or a signal handler: no new claims, running steps are finished or handed over."""
        self._post(self._drain)

    def _drain(self) -> None:
        if self._draining is None:
            self._draining = time.monotonic() + self.config.engine.drain_seconds
            with suppress(IcefloeError):
                self._lease.drain()
            while self._todo:
                self._give_back(self._todo.popleft())

    def _drained(self) -> bool:
        assert self._draining is not None
        if time.monotonic() >= self._draining:
            for attempt in list(self._attempts.values()):
                self._hand_over(attempt)
        for attempt in list(self._attempts.values()):
            if attempt.handle is not None and not attempt.busy:
                self._hand_over(attempt)
        return not self._attempts

    def _hand_over(self, attempt: Attempt) -> None:
        if attempt.link is not None:
            self._end_process(attempt)
        with suppress(Refused):
            self._apply(attempt.key.run_id, HandedOver(attempt.key.step_id, attempt.key.generation), root=attempt.image)
        self._forget(attempt)

    def _give_back(self, claimed: Claimed) -> None:
        with suppress(Refused):
            self._apply(
                claimed.image.record.id, HandedOver(claimed.step.id, claimed.step.generation), root=claimed.image
            )

    def _abandon_all(self) -> None:
        """The lease is lost: end everything, record nothing."""
        for attempt in list(self._attempts.values()):
            self._end_process(attempt)
            self._forget(attempt)

    def _end_process(self, attempt: Attempt) -> None:
        """Kill, and wait until the supervisor says that all is over."""
        if attempt.link is None:
            return
        self._selector.unregister(attempt.link)
        attempt.link.cancel(at_once=True)
        attempt.link.socket.settimeout(10)
        gone = False
        with suppress(TimeoutError):
            while not gone:
                messages, gone = attempt.link.messages()
                gone = gone or any("ended" in message for message in messages)
        attempt.link.close()
        attempt.link = None

    def _close(self) -> None:
        self._abandon_all()
        self._pool.shutdown(wait=False, cancel_futures=True)
        self._launcher.close()
        self._lease.close()
        for attempt in self._litter:
            attempt.clean_up()
        self._selector.close()
        self._bell_read.close()
        self._bell_write.close()

    # -- the loop ----------------------------------------------------------------------------------------------------------

    def _turn(self) -> None:
        while self._todo and not self._stopping:
            self._begin_some()
            if self._selector.select(0):
                break
        now = time.monotonic()
        if now >= self._next_poll:
            self._next_poll = now + POLL_SECONDS
            self._look_around()
        if self._more_ready and self._draining is None:
            self._look_for_work()
        if now >= self._next_log:
            self._next_log = now + LOG_SECONDS
            self._ship_logs()
        while self._litter and not self._todo:
            self._litter.pop().clean_up()
        for at, action in [timer for timer in self._timers if timer[0] <= now]:
            self._timers.remove((at, action))
            action()
        if not self._todo:
            self._sleep(self._patience())

    def _patience(self) -> float:
        now = time.monotonic()
        times = [self._next_poll, *(at for at, _ in self._timers)]
        if self._attempts:
            times.append(self._next_log)
        return max(0.0, min(times) - now)

    def _sleep(self, seconds: float) -> None:
        for key, _ in self._selector.select(seconds):
            if key.fileobj is self._bell_read:
                with suppress(BlockingIOError):
                    self._bell_read.recv(4096)
            else:
                self._heard(key.data)
        while True:
            try:
                letter = self._mail.get_nowait()
            except queue.Empty:
                return
            letter()

    def _post(self, letter: Callable[[], None]) -> None:
        """Have the loop do something, from any thread."""
        self._mail.put(letter)
        with suppress(BlockingIOError, OSError):
            self._bell_write.send(b"!")

    def _listen_to_database(self) -> None:
        watch = self.database.watch()
        try:
            while not self._stopping:
                if watch.wait(POLL_SECONDS):
                    self._post(self._hint)
        finally:
            watch.close()

    def _hint(self) -> None:
        """Somebody has changed something. A busy database hints all the time: a few looks a second are enough."""
        now = time.monotonic()
        if now >= self._next_look:
            self._next_look = now + LOOK_SECONDS
            self._more_ready = True
            self._look_after_claims()
        else:
            self._at(self._next_look, self._hint)

    def _durably(self, action: Callable[[], Any]) -> Any:
        """Repeat until the database answers."""
        while True:
            try:
                return action()
            except UnreachableError:
                if self._stopping or self._lease.lost:
                    raise
                time.sleep(0.2)

    def _apply(self, run_id: str, *events: Any, root: Image, also: Callable[[Connection], None] | None = None) -> None:
        applied = self.conductor.apply(run_id, *events, root_id=root.record.root_id, claimer=self.claimer(), also=also)
        self._follow(applied)

    def _follow(self, applied: Applied) -> None:
        self._todo.extend(applied.claimed)
        self._more_ready |= applied.left_ready
        for run_id, cancel in applied.cancels:
            if cancel.owner == self.id:
                for attempt in list(self._attempts.values()):
                    if attempt.key.run_id == run_id and attempt.key.step_id == cancel.step:
                        self._cancel(attempt, lost=cancel.lost)

    def claimer(self) -> Claimer | None:
        if self._draining is not None or self._stopping or self._lease.lost:
            return None
        free = self.slots - len(self._attempts) - len(self._todo)
        # The step whose end is being recorded still counts among the attempts.
        return Claimer(self.id, free, self.serves, self.registry.instant(), self.config.engine.limits)

    # -- finding work ------------------------------------------------------------------------------------------------------

    def _look_for_work(self) -> None:
        """Claim what is ready and due. A delay counts by this worker's own clock, from when it first saw the step."""
        self._more_ready = False
        with self.database.read() as connection:
            ready = runs.ready_steps(connection, READY_LOOK, self.serves)
        now, wall = time.monotonic(), self.conductor.clock()
        seen: dict[tuple[str, str, int], float] = {}
        wanted: dict[str, list[tuple[str, str]]] = {}
        for step in ready:
            key = (step.run_id, step.step_id, step.generation)
            seen[key] = self._first_seen.get(key, now)
            due = min(seen[key] + step.delay, now + step.available_at - wall)
            if due <= now:
                wanted.setdefault(step.root_id, []).append((step.run_id, step.step_id))
            else:
                self._at(due, self._look_for_work_again)
        self._first_seen = seen
        for root_id, steps in wanted.items():
            claimer = self.claimer()
            if claimer is None:
                return
            self._follow(self.conductor.claim(root_id, steps, claimer))

    def _look_for_work_again(self) -> None:
        self._more_ready = True

    def _at(self, moment: float, action: Callable[[], None]) -> None:
        if not any(existing is action or existing == action for at, existing in self._timers if at <= moment):
            self._timers.append((moment, action))

    def _look_around(self) -> None:
        """What must hold even when no hint ever arrives."""
        self._more_ready = True
        with self.database.read() as connection:
            living = workers.living(connection)
            waiting = runs.waiting_workflows(connection)
            orphans = runs.orphaned(connection)
            owned = runs.owned_by(connection, self.id)
            self._look_after_run_timeouts(connection)
        for worker, beat in self._contender.gone(living, self.id):
            with self.database.write() as connection:
                workers.declare_gone(connection, worker.id, beat)
                orphans = runs.orphaned(connection)
        for applied in takeover.take_over(self, orphans):
            self._follow(applied)
        for workflow_id in waiting:
            self._follow(self.conductor.admit(workflow_id, self.claimer()))
        self._compare_claims(owned)

    def _look_after_claims(self) -> None:
        with self.database.read() as connection:
            owned = runs.owned_by(connection, self.id)
        self._compare_claims(owned)

    def _compare_claims(self, rows: list[OwnedStep]) -> None:
        """Notice cancels and lost claims; take up claims whose commit's answer was lost on the way."""
        owned = {(step.run_id, step.step_id, step.generation): step for step in rows}
        held = {(key.run_id, key.step_id, key.generation): attempt for key, attempt in self._attempts.items()}
        for name, attempt in held.items():
            if name not in owned:
                self._cancel(attempt, lost=True)
            elif owned[name].request is not None:
                self._cancel(attempt)
        queued = {(c.image.record.id, c.step.id, c.step.generation) for c in self._todo}
        for name in owned.keys() - held.keys() - queued:
            with self.database.read() as connection:
                image = self.conductor.images.get(connection, name[0])
            step = image.state.steps[name[1]]
            if step.owner == self.id and step.generation == name[2]:
                self._todo.append(Claimed(image, step))

    def _look_after_run_timeouts(self, connection: Connection) -> None:
        """Find runs whose time is over. Time counts on this worker's own clock, from when it first saw the run."""
        now = time.monotonic()
        seen: dict[str, tuple[float, float]] = {}
        for run_id, workflow_id, version, started in runs.in_progress(connection):
            limit = self.conductor.definitions.get(connection, workflow_id, version).workflow.timeout
            if isinstance(limit, float | int) and (self.serves is None or run_id in self.serves):
                since, already = self._run_seen.get(run_id, (now, max(0.0, self.conductor.clock() - started)))
                seen[run_id] = since, already
                if already + now - since >= limit:
                    self._post(partial(self._time_out, run_id, float(limit)))
        self._run_seen = seen

    def _time_out(self, run_id: str, limit: float) -> None:
        with suppress(Refused):
            self._follow(self.conductor.apply(run_id, TimeOut(limit), claimer=self.claimer()))

    # -- doing steps -------------------------------------------------------------------------------------------------------

    def _begin_some(self) -> None:
        """Take the next claimed step; instant ones of the same run are done together, in one transaction."""
        first = self._todo.popleft()
        if first.image.graph.nodes[first.step.id].type not in self.registry.instant():
            self._begin(first)
            return
        batch = [first]
        while (
            self._todo
            and self._todo[0].image.record.id == first.image.record.id
            and self._todo[0].image.graph.nodes[self._todo[0].step.id].type in self.registry.instant()
        ):
            batch.append(self._todo.popleft())
        events = [self._instant(claimed) for claimed in batch]
        try:
            self._apply(first.image.record.id, *events, root=first.image)
        except Refused:
            for event in events:
                with suppress(Refused):
                    self._apply(first.image.record.id, event, root=first.image)

    def _instant(self, claimed: Claimed) -> Ended:
        try:
            attempt = self.prepare(claimed)
            progress = attempt.runtime.start(attempt.context)
            assert isinstance(progress, Done)
            return Ended(claimed.step.id, claimed.step.generation, progress.outcome, attempt.params)
        except Exception as error:
            return Ended(claimed.step.id, claimed.step.generation, _failure(error))

    def _begin(self, claimed: Claimed) -> None:
        image, state = claimed.image, claimed.step
        fault("worker.claimed")
        key = AttemptKey(image.record.id, state.id, state.attempt, state.generation)
        try:
            kind = image.graph.nodes[state.id].type
            if kind in (FOREACH, SUBWORKFLOW):
                self._begin_runs(claimed, key)
                return
            attempt = self.prepare(claimed)
        except UnreachableError:
            self._todo.appendleft(claimed)
            raise
        except Refused:
            return
        except Exception as error:
            self._fail_early(claimed, error)
            return
        self._attempts[key] = attempt
        if state.request is not None:
            attempt.cancelled = True
        attempt.deadline = None if attempt.timeout is None else time.monotonic() + attempt.timeout
        call = (
            partial(attempt.runtime.poll, attempt.context, state.handle)
            if state.handle is not None
            else partial(attempt.runtime.start, attempt.context)
        )
        attempt.handle = state.handle
        if attempt.runtime.blocking:
            self._in_thread(attempt, call)
        else:
            try:
                progress: Progress = call()
            except Exception as error:
                progress = Done(_failure(error))
            self._proceed(attempt, progress)

    def _begin_runs(self, claimed: Claimed, key: AttemptKey) -> None:
        image = claimed.image
        evaluation = self._evaluation(image)
        step = image.definition.steps[key.step_id]
        evaluated = evaluation.step(step)
        loop = evaluation.loop(step, evaluated.params) if isinstance(step, ForeachStep) else None
        root, claimer = image.record.root_id, self.claimer()
        if loop is not None:
            params = {**evaluated.params, **loop.arrays}
            self._follow(self.conductor.start_iterations(key, root, params, loop.length, claimer))
        else:
            self._follow(self.conductor.start_subworkflow(key, root, evaluated, claimer))

    def _evaluation(self, image: Image) -> Evaluation:
        """Asks the database only for what the run itself does not know: the runs around it, and files."""

        def around(run_id: str) -> Image:
            with self.database.read() as connection:
                return self.conductor.images.get(connection, run_id)

        def file(digest: str) -> bytes | None:
            with self.database.read() as connection:
                return stored.file(connection, digest)

        return Evaluation(around, image, file)

    def _fail_early(self, claimed: Claimed, error: Exception) -> None:
        with suppress(Refused):
            event = Ended(claimed.step.id, claimed.step.generation, _failure(error))
            self._apply(claimed.image.record.id, event, root=claimed.image)

    def prepare(self, claimed: Claimed) -> Attempt:
        """Evaluate parameters and settings, and lay out the attempt's folder."""
        image, state = claimed.image, claimed.step
        record, definition = image.record, image.definition
        step = definition.steps[state.id]
        key = AttemptKey(record.id, state.id, state.attempt, state.generation)
        kind = step.type if isinstance(step, TypedStep) else "noop"
        runtime = self.registry.find(kind)
        evaluated = self._evaluation(image).step(step)
        folder = attempt_folder(self.config.home, key)
        if not runtime.instant:
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        secrets = tuple(os.environ[name] for name in sorted(definition.secrets) if os.environ.get(name))
        engine = self.config.engine
        context = StepContext(
            key=key,
            root_run_id=record.root_id,
            workflow_id=record.workflow_id,
            version=record.version,
            step_path=definition.paths[state.id],
            iteration=record.iteration,
            settings=reveal(evaluated.settings, os.environ, definition.secrets),
            params=_revealed(evaluated.visible, definition.secrets),
            secrets=secrets,
            folder=folder,
            config=self.config,
            database=self.database,
            read_file=partial(self._read_file, definition.files),
            log=InlineLog(folder, secrets, engine.log_head_kib * 1024, engine.log_tail_kib * 1024),
            steps=partial(self._statuses, record.id),
        )
        return Attempt(key, image, runtime, context, evaluated.params, evaluated.timeout)

    def _read_file(self, files: dict[str, str], name: str) -> bytes:
        with self.database.read() as connection:
            content = stored.file(connection, files.get(name, name))
        if content is None:
            raise FileNotFoundError(f"{name} is not part of this version of the workflow")
        return content

    def _statuses(self, run_id: str) -> dict[str, str]:
        with self.database.read() as connection:
            return {row.step_id: row.status for row in runs.load_steps(connection, run_id)}

    def _in_thread(self, attempt: Attempt, call: Callable[[], Progress]) -> None:
        attempt.busy = True

        def work() -> None:
            try:
                progress: Progress = call()
            except Exception as error:
                progress = Done(_failure(error))
            self._post(partial(self._returned, attempt, progress))

        self._pool.submit(work)

    def _returned(self, attempt: Attempt, progress: Progress) -> None:
        attempt.busy = False
        if attempt.key in self._attempts:
            self._proceed(attempt, progress)

    def _proceed(self, attempt: Attempt, progress: Progress) -> None:
        match progress:
            case Done():
                self._finish(attempt, progress)
            case Launch(command):
                self._launch(attempt, command)
            case Waiting():
                self._wait(attempt, progress)

    def _launch(self, attempt: Attempt, command: Command) -> None:
        engine = self.config.engine
        context = attempt.context
        job = Job(
            argv=command.argv,
            env={**os.environ, **command.env},
            cwd=str(command.cwd or self.config.root),
            folder=str(context.folder),
            lease_until=self._lease.valid_until,
            timeout=attempt.timeout,
            grace=engine.grace_seconds,
            log_head=engine.log_head_kib * 1024,
            log_tail=engine.log_tail_kib * 1024,
            secrets=context.secrets,
        )
        attempt.link = self._launcher.launch(job)
        self._selector.register(attempt.link, selectors.EVENT_READ, attempt)
        fault("worker.launched")
        if attempt.cancelled or attempt.lost:
            attempt.link.cancel(at_once=attempt.lost)

    def _heard(self, attempt: Attempt) -> None:
        """A supervisor has spoken, or has gone."""
        assert attempt.link is not None
        messages, gone = attempt.link.messages()
        ended = next((m["ended"] for m in messages if "ended" in m), None)
        if ended is not None:
            self._process_ended(attempt, processes.result_of(ended))
        elif any("broken" in message for message in messages) or gone:
            # The supervisor was killed. Its command went with it; whatever else it forked is found by its environment.
            result = processes.read_result(attempt.context.folder)
            processes.end_leftovers(str(attempt.key))
            self._process_ended(attempt, result or ProcessResult(None))
        elif any("started" in message for message in messages) and not attempt.started:
            self._record_start(attempt)

    def _record_start(self, attempt: Attempt, handle: Any = None) -> None:
        event = Started(attempt.key.step_id, attempt.key.generation, attempt.params, handle)
        try:
            self._durably(lambda: self._apply(attempt.key.run_id, event, root=attempt.image))
        except Refused:
            self._cancel(attempt, lost=True)
        attempt.started = True
        fault("worker.started")

    def _process_ended(self, attempt: Attempt, result: ProcessResult) -> None:
        assert attempt.link is not None
        self._selector.unregister(attempt.link)
        attempt.link.close()
        attempt.link = None
        fault("worker.process_ended")
        try:
            done = attempt.runtime.ended(attempt.context, result)
        except Exception as error:
            done = Done(_failure(error))
        self._finish(attempt, done)

    def _wait(self, attempt: Attempt, waiting: Waiting) -> None:
        if not attempt.started or attempt.handle != waiting.handle:
            attempt.handle = waiting.handle
            self._record_start(attempt, waiting.handle)
        if attempt.lost:
            self._forget(attempt)
            return
        if attempt.deadline is not None and time.monotonic() >= attempt.deadline:
            self._cancel_remote(attempt)
            self._finish(
                attempt, Done(Outcome(Kind.TIMEOUT, cause=Cause("it took longer than its timeout", "step.timeout")))
            )
            return
        poll = partial(attempt.runtime.poll, attempt.context, waiting.handle)
        self._timers.append((time.monotonic() + waiting.poll_after, partial(self._poll, attempt, poll)))

    def _poll(self, attempt: Attempt, poll: Callable[[], Progress]) -> None:
        if attempt.key in self._attempts and not attempt.busy:
            self._in_thread(attempt, poll)

    def _finish(self, attempt: Attempt, done: Done) -> None:
        """Record the result, once: with its log, and with what the step itself wants in the same transaction."""
        if attempt.lost:
            self._forget(attempt)
            return
        outcome = done.outcome
        if attempt.cancelled and outcome.kind is not Kind.SUCCEEDED:
            outcome = Outcome(Kind.STOPPED, outcome.outputs, outcome.cause)

        def also(connection: Connection) -> None:
            attempt.ship_log(connection)
            if done.in_transaction is not None:
                done.in_transaction(connection)

        event = Ended(attempt.key.step_id, attempt.key.generation, outcome, attempt.params)
        self._attempts.pop(attempt.key, None)
        fault("worker.before_result")
        try:
            self._durably(lambda: self._apply(attempt.key.run_id, event, root=attempt.image, also=also))
        except Refused:
            pass  # the claim was lost meanwhile: somebody else has recorded, or will
        except UnreachableError:
            self._attempts[attempt.key] = attempt
            raise
        except Exception as error:
            event = Ended(attempt.key.step_id, attempt.key.generation, _failure(error), attempt.params)
            attempt.shipped.clear()
            with suppress(Refused):
                self._durably(lambda: self._apply(attempt.key.run_id, event, root=attempt.image, also=attempt.ship_log))
        fault("worker.after_result")
        self._litter.append(attempt)
        self._more_ready = True

    # -- ending steps ------------------------------------------------------------------------------------------------------

    def _cancel(self, attempt: Attempt, *, lost: bool = False) -> None:
        if attempt.lost or (attempt.cancelled and not lost):
            return
        attempt.cancelled = True
        attempt.lost = lost
        if attempt.link is not None:
            attempt.link.cancel(at_once=lost)
        elif attempt.handle is not None:
            self._cancel_remote(attempt)
            if not attempt.busy:
                poll = partial(attempt.runtime.poll, attempt.context, attempt.handle)
                self._in_thread(attempt, poll)

    def _cancel_remote(self, attempt: Attempt) -> None:
        def work() -> None:
            with suppress(Exception):
                attempt.runtime.cancel(attempt.context, attempt.handle)

        self._pool.submit(work)

    def _forget(self, attempt: Attempt) -> None:
        self._attempts.pop(attempt.key, None)
        self._litter.append(attempt)

    def _lease_changed(self) -> None:
        for attempt in self._attempts.values():
            if attempt.link is not None:
                attempt.link.extend(self._lease.valid_until)

    def _ship_logs(self) -> None:
        growing = [a for a in self._attempts.values() if a.started and not a.lost and any(a.new_log())]
        if growing:
            with self.database.write() as connection:
                for attempt in growing:
                    attempt.ship_log(connection)


def _revealed(values: Mapping[str, TypedValue], allowed: Collection[str]) -> dict[str, TypedValue]:
    """With secrets filled in: for the step's process only, never for the store."""
    if not allowed:
        return dict(values)
    return {
        name: TypedValue.from_dict({"type": item.type.value, "value": reveal(item.value, os.environ, allowed)})
        for name, item in values.items()
    }


def _failure(error: Exception) -> Outcome:
    """An exception in a step's own code or in the evaluation of its parameters."""
    cause = Cause.of(error)
    if isinstance(error, IcefloeError):
        return Outcome(Kind.PLATFORM if error.retryable else Kind.FATAL, cause=cause)
    return Outcome(Kind.PLATFORM if isinstance(error, OSError) else Kind.ERROR, cause=cause)
