"""Has claimed steps done: in a supervised process, elsewhere behind a handle, or in a thread; and records the result, once.

Everything here runs in the reactor's thread, but for the step types' own methods, which may block: those run in threads
(:mod:`icefloe.engine.threads`), one for each attempt at most. A thread whose attempt's time is over, or that was told to end and does
not, is left behind: the attempt is recorded as it is, and what the thread comes to later is thrown away. What follows a commit and what
cancels remote work have threads of their own, so that none of the three can starve another.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from dataclasses import replace
from functools import partial
from typing import Any

from sqlalchemy.engine import Connection

from icefloe import suppressed
from icefloe.config import Config
from icefloe.credentials import masked
from icefloe.engine import processes
from icefloe.engine.attempts import Attempt
from icefloe.engine.events import Ended, HandedOver, Refused, Started
from icefloe.engine.graph import FOREACH, SUBWORKFLOW
from icefloe.engine.launchers import Launchers
from icefloe.engine.lease import Lease
from icefloe.engine.preparation import Preparation
from icefloe.engine.processes import SupervisedJob
from icefloe.engine.reactor import Reactor
from icefloe.engine.threads import Call, Threads
from icefloe.engine.transaction import Claimed
from icefloe.engine.work_queue import WorkQueue
from icefloe.environment import for_user_code
from icefloe.errors import IcefloeError, UnreachableError
from icefloe.faults import fault
from icefloe.log_lines import about
from icefloe.spark import server
from icefloe.steps.contract import (
    AttemptKey,
    AttemptOverError,
    Cause,
    Command,
    Done,
    Launch,
    Outcome,
    OutcomeKind,
    ProcessResult,
    Progress,
    Waiting,
)
from icefloe.steps.registry import Registry
from icefloe.store import runs
from icefloe.store.database import Database
from icefloe.store.runs import EventRecord
from icefloe.workflow.model import ForeachStep

LOG = logging.getLogger("icefloe.worker")
AFTERWARDS_THREADS = 8
AFTERWARDS_SECONDS = 10.0
"""How long a worker that ends waits for what steps do after their commit."""
MOST_AFTERWARDS_SECONDS = 120.0
"""After that its place goes to another."""
CANCEL_THREADS = 4
MOST_CANCEL_SECONDS = 60.0
ENDED_SECONDS = 60.0
"""How long a step type may take to say what its process's end means, where the step has a timeout."""
NOTE_SECONDS = 15.0
"""What an attempt waits for is recorded at most so often."""
_TIMEOUT = Cause("it took longer than its timeout", "step.timeout")


class Executor:
    """The attempts of one worker. ``attempts`` are under way, ``ended`` are folders of those that have ended."""

    def __init__(
        self,
        config: Config,
        database: Database,
        registry: Registry,
        preparation: Preparation,
        queue: WorkQueue,
        lease: Lease,
        reactor: Reactor,
        launchers: Launchers | None = None,
    ) -> None:
        self._config = config
        self._database = database
        self._registry = registry
        self._preparation = preparation
        self._queue = queue
        self._lease = lease
        self._reactor = reactor
        self._launchers = launchers or Launchers(config)
        self._owns_launchers = launchers is None
        self._steps = Threads("step", queue.slots)
        self._cancels = Threads("cancel", CANCEL_THREADS)
        self._afterwards = Threads("after_commit", AFTERWARDS_THREADS)
        self._judging: dict[AttemptKey, Call] = {}
        self._closing = False
        self.attempts: dict[AttemptKey, Attempt] = {}
        self.ended: list[Attempt] = []

    def open(self) -> None:
        """Have the launcher ready before the first step needs it."""
        self._launchers.get().start_if_down()

    def warm_up(self, imports: tuple[str, ...]) -> None:
        """Have the launcher ready whose forks have imported these modules."""
        if not self._closing:
            self._launchers.get(imports).start_if_down()

    def close(self) -> None:
        self._closing = True
        self.abandon_all()
        for label in self._afterwards.close(AFTERWARDS_SECONDS):
            suppressed.count("after_commit", "not done when the worker ended; the next commit does it", where=label)
        self._steps.close(0)
        self._cancels.close(0)
        if self._owns_launchers:
            self._launchers.close()
        self.tidy()

    def tidy(self) -> None:
        while self.ended:
            self.ended.pop().clean_up()

    # -- beginning ---------------------------------------------------------------------------------------------------------

    def begin_some(self) -> None:
        """Take the next claimed step; instant ones of the same run are done together, in one transaction."""
        first = self._queue.todo.popleft()
        if first.snapshot.graph.nodes[first.step.id].type not in self._registry.instant:
            self._begin(first)
            return
        batch = [first]
        while (
            self._queue.todo
            and self._queue.todo[0].snapshot.record.id == first.snapshot.record.id
            and self._queue.todo[0].snapshot.graph.nodes[self._queue.todo[0].step.id].type in self._registry.instant
        ):
            batch.append(self._queue.todo.popleft())
        events = [self._instant(claimed) for claimed in batch]
        try:
            self._queue.record(first.snapshot, *events)
        except Refused:
            for event in events:
                with suppress(Refused):
                    self._queue.record(first.snapshot, event)

    def _instant(self, claimed: Claimed) -> Ended:
        try:
            attempt = self._preparation.attempt(claimed)
            progress = attempt.runtime.start(attempt.context)
            assert isinstance(progress, Done)
            return Ended(claimed.step.id, claimed.step.generation, progress.outcome, attempt.params)
        except Exception as error:
            return Ended(claimed.step.id, claimed.step.generation, failure_of(error))

    def _begin(self, claimed: Claimed) -> None:
        snapshot, state = claimed.snapshot, claimed.step
        fault("worker.claimed")
        key = AttemptKey(snapshot.record.id, state.id, state.attempt, state.generation)
        try:
            kind = snapshot.graph.nodes[state.id].type
            if kind in (FOREACH, SUBWORKFLOW):
                self._begin_runs(claimed, key)
                return
            attempt = self._preparation.attempt(claimed)
        except UnreachableError:
            self._queue.todo.appendleft(claimed)
            raise
        except Refused:
            return
        except Exception as error:
            self._fail_early(claimed, error)
            return
        self.attempts[key] = attempt
        if state.request is not None:
            attempt.cancelled = True
            attempt.over.set()
            attempt.patience_ends = time.monotonic() + self._config.engine.grace_seconds
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
                progress = Done(failure_of(error))
            self._proceed(attempt, progress)

    def _begin_runs(self, claimed: Claimed, key: AttemptKey) -> None:
        snapshot = claimed.snapshot
        evaluation = self._preparation.evaluation(snapshot)
        step = snapshot.definition.steps[key.step_id]
        evaluated = evaluation.step(step)
        loop = evaluation.loop(step, evaluated.params) if isinstance(step, ForeachStep) else None
        root, claimer = snapshot.record.root_id, self._queue.claimer()
        if loop is not None:
            params = {**evaluated.params, **loop.arrays}
            self._queue.follow(self._queue.conductor.start_iterations(key, root, params, loop.length, claimer))
        else:
            self._queue.follow(self._queue.conductor.start_subworkflow(key, root, evaluated, claimer))

    def _fail_early(self, claimed: Claimed, error: Exception) -> None:
        with suppress(Refused):
            event = Ended(claimed.step.id, claimed.step.generation, failure_of(error))
            self._queue.record(claimed.snapshot, event)

    # -- doing -------------------------------------------------------------------------------------------------------------

    def _in_thread(self, attempt: Attempt, call: Callable[[], Progress]) -> None:
        if self._steps.exhausted:
            self._proceed(attempt, Done(_too_many_hang(self._steps.left_behind)))
            return

        def work(this: Call) -> None:
            with self._about(attempt):
                try:
                    progress: Progress = call()
                except Exception as error:
                    progress = Done(failure_of(error))
            self._reactor.post(partial(self._returned, attempt, this, progress))

        attempt.call = self._steps.submit(work, attempt.label)

    def _returned(self, attempt: Attempt, call: Call, progress: Progress) -> None:
        if attempt.call is not call:
            self._too_late(attempt, progress)
            return
        attempt.call = None
        if attempt.key in self.attempts:
            if isinstance(progress, Done) and (cause := progress.outcome.cause) and cause.code == AttemptOverError.code:
                progress = Done(Outcome(OutcomeKind.TIMEOUT, cause=_TIMEOUT))  # the thread has seen it before we did
            self._proceed(attempt, progress)

    def _too_late(self, attempt: Attempt, progress: Progress) -> None:
        """A thread that was left behind has come to an end. Nothing of it counts; what it began elsewhere is ended."""
        with self._about(attempt):
            LOG.info("%s: a thread that was left behind has ended; its result is thrown away", attempt.label)
        if isinstance(progress, Waiting) and progress.handle != attempt.handle:
            self._cancel_remote(attempt, progress.handle)

    def enforce(self) -> None:
        """End what is over its time, or was told to end and does not. A process is its supervisor's to end."""
        now = time.monotonic()
        for attempt in [expiring for expiring in self.attempts.values() if expiring.ends_at <= now]:
            if attempt.patience_ends is not None and attempt.patience_ends <= now:
                cause = Cause("it was told to end, and its thread did not", "step.left-behind")
                done = Done(Outcome(OutcomeKind.STOPPED, cause=cause))
            else:
                cause = _TIMEOUT
                done = Done(Outcome(OutcomeKind.TIMEOUT, cause=cause))
                if attempt.handle is not None:
                    self._cancel_remote(attempt, attempt.handle)
            self._leave_behind(attempt, cause.message)
            self._finish(attempt, done)
        for threads, most in ((self._afterwards, MOST_AFTERWARDS_SECONDS), (self._cancels, MOST_CANCEL_SECONDS)):
            for call in threads.overdue(most):
                threads.leave_behind(call, f"it takes longer than {most:.0f} s")
        for key, call in list(self._judging.items()):
            if call.began is not None and now - call.began > ENDED_SECONDS:
                self._steps.leave_behind(call, "what the end of its process means takes too long to tell")
                del self._judging[key]

    def next_end(self) -> float:
        """When :meth:`enforce` has something to do, as far as it is known now."""
        return min((attempt.ends_at for attempt in self.attempts.values()), default=math.inf)

    def _leave_behind(self, attempt: Attempt, reason: str) -> None:
        attempt.over.set()
        if attempt.call is not None:
            self._steps.leave_behind(attempt.call, reason)
            attempt.call = None

    def _proceed(self, attempt: Attempt, progress: Progress) -> None:
        match progress:
            case Done():
                self._finish(attempt, progress)
            case Launch(command):
                self._launch(attempt, command)
            case Waiting():
                self._wait(attempt, progress)

    def _launch(self, attempt: Attempt, command: Command) -> None:
        engine = self._config.engine
        context = attempt.context
        job = SupervisedJob(
            argv=command.argv,
            env={**for_user_code(self._config), **command.env},
            cwd=str(command.cwd or self._config.root),
            folder=str(context.folder),
            lease_until=self._lease.valid_until,
            timeout=attempt.timeout,
            grace=engine.grace_seconds,
            log_head=engine.log_head_kib * 1024,
            log_tail=engine.log_tail_kib * 1024,
            secrets=(*context.secrets, *_spark_tokens(self._config)),
            module=command.module if command.imports else None,
        )
        attempt.deadline = attempt.patience_ends = None
        attempt.link = self._launchers.get(command.imports).launch(job)
        self._reactor.watch(attempt.link, partial(self._heard, attempt))
        fault("worker.launched")
        if attempt.cancelled or attempt.lost:
            attempt.link.cancel(at_once=attempt.lost)

    def _heard(self, attempt: Attempt) -> None:
        """A supervisor has spoken, or has gone."""
        assert attempt.link is not None
        messages, closed = attempt.link.messages()
        ended = next((m["ended"] for m in messages if "ended" in m), None)
        if ended is not None:
            self._process_ended(attempt, processes.result_of(ended))
        elif any("broken" in message for message in messages) or closed:
            # The supervisor was killed. Its command went with it; whatever else it forked is found by its environment.
            result = processes.read_result(attempt.context.folder)
            processes.end_leftovers(str(attempt.key))
            self._process_ended(attempt, result or ProcessResult(None))
        elif any("started" in message for message in messages) and not attempt.started:
            self._record_start(attempt)

    def _record_start(self, attempt: Attempt, handle: Any = None, note: str | None = None) -> None:
        event = Started(attempt.key.step_id, attempt.key.generation, attempt.params, handle, note=note)
        try:
            self._durably(lambda: self._queue.record(attempt.snapshot, event))
        except Refused:
            self.cancel(attempt, lost=True)
        attempt.started = True
        fault("worker.started")

    def _process_ended(self, attempt: Attempt, result: ProcessResult) -> None:
        assert attempt.link is not None
        self._reactor.unwatch(attempt.link)
        attempt.link.close()
        attempt.link = None
        fault("worker.process_ended")
        if attempt.timeout is not None:
            attempt.deadline = time.monotonic() + ENDED_SECONDS
        if attempt.cancelled:
            attempt.patience_ends = time.monotonic() + self._config.engine.grace_seconds
        call = partial(attempt.runtime.ended, attempt.context, result)
        if attempt.runtime.blocking:
            self._in_thread(attempt, call)
        else:
            self._finish(attempt, _judged(call))

    def judge(self, attempt: Attempt, result: ProcessResult, then: Callable[[Done], None]) -> None:
        """What the end of a dead worker's process means: for ``then``, which is called in the reactor's thread."""
        if attempt.key in self._judging or self._steps.exhausted:
            return

        def work(this: Call) -> None:
            done = _judged(partial(attempt.runtime.ended, attempt.context, result))
            self._reactor.post(partial(judged, this, done))

        def judged(this: Call, done: Done) -> None:
            if self._judging.get(attempt.key) is this:
                del self._judging[attempt.key]
                then(done)

        self._judging[attempt.key] = self._steps.submit(work, attempt.label)

    def _wait(self, attempt: Attempt, waiting: Waiting) -> None:
        note = attempt.without_secrets_in(waiting.note or "")
        news = note != attempt.note and time.monotonic() >= attempt.noted_at + NOTE_SECONDS
        if not attempt.started or attempt.handle != waiting.handle or news:
            if news and note:
                attempt.context.log(note)
            attempt.handle = waiting.handle
            self._record_start(attempt, waiting.handle, note if news else None)
            if news:
                attempt.note, attempt.noted_at = note, time.monotonic() if note else -math.inf
        if attempt.lost:
            self._forget(attempt)
            return
        poll = partial(attempt.runtime.poll, attempt.context, waiting.handle)
        self._reactor.at(time.monotonic() + waiting.poll_after, partial(self._poll, attempt, poll))

    def _poll(self, attempt: Attempt, poll: Callable[[], Progress]) -> None:
        if attempt.key in self.attempts and not attempt.busy:
            self._in_thread(attempt, poll)

    def _finish(self, attempt: Attempt, done: Done) -> None:
        """Record the result, once: with its log, and with what the step itself wants in the same transaction."""
        if attempt.lost:
            self._forget(attempt)
            return
        outcome = attempt.without_secrets(done.outcome)
        if attempt.cancelled and outcome.kind is not OutcomeKind.SUCCEEDED:
            outcome = Outcome(OutcomeKind.STOPPED, outcome.outputs, outcome.cause)

        def also(connection: Connection) -> None:
            attempt.ship_log(connection)
            if done.in_transaction is not None:
                done.in_transaction(connection)

        # A quick step's start and end are recorded together.
        start = () if attempt.started else (Started(attempt.key.step_id, attempt.key.generation, attempt.params),)
        end = Ended(attempt.key.step_id, attempt.key.generation, outcome, attempt.params)
        self.attempts.pop(attempt.key, None)
        fault("worker.before_result")
        try:
            self._durably(lambda: self._queue.record(attempt.snapshot, *start, end, also=also))
            self.do_afterwards(attempt, done)
        except Refused:
            pass  # the claim was lost meanwhile: somebody else has recorded, or will
        except UnreachableError:
            self.attempts[attempt.key] = attempt
            raise
        except Exception as error:
            end = Ended(attempt.key.step_id, attempt.key.generation, failure_of(error), attempt.params)
            with suppress(Refused):
                self._durably(lambda: self._queue.record(attempt.snapshot, *start, end, also=attempt.ship_log))
        fault("worker.after_result")
        if outcome.kind is not OutcomeKind.SUCCEEDED and LOG.isEnabledFor(logging.INFO):
            with self._about(attempt):
                LOG.info(
                    "%s ended as %s: %s",
                    attempt.label,
                    outcome.kind.value,
                    outcome.cause.message if outcome.cause else "",
                )
        self.ended.append(attempt)
        self._queue.more_ready = True

    def do_afterwards(self, attempt: Attempt, done: Done) -> None:
        """What follows the transaction that recorded the result. It fails alone, but not in silence."""
        if done.after_commit is None:
            return
        action = done.after_commit

        def work(_: Call) -> None:
            with self._about(attempt):
                try:
                    action()
                except Exception as error:
                    suppressed.count("after_commit", error, where=attempt.label)
                    with suppressed.errors("after_commit.telling", IcefloeError, where=attempt.label):
                        self._tell_afterwards(attempt, error)

        self._afterwards.submit(work, attempt.label)

    def _tell_afterwards(self, attempt: Attempt, error: Exception) -> None:
        """As an event that changes no status: ``icefloe show`` has it as a warning."""
        message = attempt.without_secrets_in(f"what follows its commit failed: {Cause.of(error).message}")
        key = attempt.key
        with self._database.write() as connection:
            status = {step.step_id: step.status for step in runs.load_steps(connection, key.run_id)}[key.step_id]
            event = EventRecord(key.run_id, key.step_id, key.attempt, time.time(), status, status, message)
            runs.add_events(connection, [event])

    # -- ending ------------------------------------------------------------------------------------------------------------

    def hand_over(self, attempt: Attempt) -> None:
        """End it here, so that another worker does it; what goes on elsewhere is left alone."""
        self._end_process(attempt)
        self._leave_behind(attempt, "it was not done when its worker ended")
        with suppress(Refused):
            self._queue.record(attempt.snapshot, HandedOver(attempt.key.step_id, attempt.key.generation))
        self._forget(attempt)

    def abandon_all(self) -> None:
        """End everything, record nothing."""
        for attempt in list(self.attempts.values()):
            self._end_process(attempt)
            self._leave_behind(attempt, "its worker ends")
            self._forget(attempt)

    def _end_process(self, attempt: Attempt) -> None:
        """Kill, and wait until the supervisor says that all is over."""
        if attempt.link is None:
            return
        self._reactor.unwatch(attempt.link)
        attempt.link.cancel(at_once=True)
        attempt.link.socket.settimeout(10)
        closed = False
        with suppress(TimeoutError):
            while not closed:
                messages, closed = attempt.link.messages()
                closed = closed or any("ended" in message for message in messages)
        attempt.link.close()
        attempt.link = None

    def cancel(self, attempt: Attempt, *, lost: bool = False) -> None:
        if attempt.lost or (attempt.cancelled and not lost):
            return
        attempt.cancelled = True
        attempt.lost = lost
        attempt.over.set()
        if attempt.link is not None:
            attempt.link.cancel(at_once=lost)
            return
        if attempt.handle is not None:
            self._cancel_remote(attempt, attempt.handle)
        if lost:
            self._leave_behind(attempt, "its claim is gone")
            self._forget(attempt)
        elif attempt.busy:
            attempt.patience_ends = time.monotonic() + self._config.engine.grace_seconds
        elif attempt.handle is not None:
            attempt.patience_ends = time.monotonic() + self._config.engine.grace_seconds
            poll = partial(attempt.runtime.poll, attempt.context, attempt.handle)
            self._in_thread(attempt, poll)

    def _cancel_remote(self, attempt: Attempt, handle: Any) -> None:
        def work(_: Call) -> None:
            with self._about(attempt), suppressed.errors("step.cancel", Exception, where=attempt.label):
                attempt.runtime.cancel(attempt.context, handle)

        self._cancels.submit(work, attempt.label)

    def _about(self, attempt: Attempt) -> AbstractContextManager[None]:
        """What is logged inside is about this attempt."""
        key = attempt.key
        return about(
            run_id=key.run_id,
            step_id=key.step_id,
            attempt=key.attempt,
            worker=self._lease.worker_id,
            workflow=attempt.context.workflow_id,
        )

    def _durably(self, action: Callable[[], None]) -> None:
        self._queue.durably(action, lambda: self._closing or self._lease.lost)

    def _forget(self, attempt: Attempt) -> None:
        if self.attempts.pop(attempt.key, None) is not None:
            self.ended.append(attempt)

    def extend_leases(self) -> None:
        for attempt in self.attempts.values():
            if attempt.link is not None:
                attempt.link.extend(self._lease.valid_until)

    def ship_logs(self) -> None:
        growing = [a for a in self.attempts.values() if a.started and not a.lost and any(a.new_log())]
        if growing:
            with self._database.write() as connection:
                for attempt in growing:
                    attempt.ship_log(connection)
            for attempt in growing:
                attempt.log_shipped()


def _spark_tokens(config: Config) -> tuple[str, ...]:
    """The local Spark server's: PySpark steps find it in their environment."""
    record = server.folder_of(config).read()
    return (record.token,) if record is not None else ()


def failure_of(error: Exception) -> Outcome:
    """An exception in a step's own code or in the evaluation of its parameters."""
    cause = Cause.of(error)
    cause = replace(cause, message=masked(cause.message))
    if isinstance(error, IcefloeError):
        return Outcome(OutcomeKind.PLATFORM if error.retryable else OutcomeKind.FATAL, cause=cause)
    return Outcome(OutcomeKind.PLATFORM if isinstance(error, OSError) else OutcomeKind.ERROR, cause=cause)


def _judged(call: Callable[[], Done]) -> Done:
    try:
        return call()
    except Exception as error:
        return Done(failure_of(error))


def _too_many_hang(labels: tuple[str, ...]) -> Outcome:
    return Outcome(
        OutcomeKind.PLATFORM,
        cause=Cause(
            f"{len(labels)} calls hang in this worker ({', '.join(labels[:3])} …): no more is begun in it",
            "worker.hanging",
            "see what they wait for, then restart the worker",
        ),
    )
