"""Verbs on runs: start, show, list, logs, restart, stop, kill, pause, resume, skip, unblock."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, TypeAlias

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from icefloe.acting import via, who
from icefloe.config import Config
from icefloe.engine.conductor import Conductor
from icefloe.engine.definitions import Definition
from icefloe.engine.evaluation import run_params, run_values, stored_signals
from icefloe.engine.events import Kill, Pause, Restart, RestartFrom, Resume, Skip, Stop
from icefloe.engine.graph import SUBWORKFLOW
from icefloe.engine.run_snapshot import plain_values
from icefloe.engine.states import RunStatus
from icefloe.errors import ConflictError, NotFoundError, UsageError
from icefloe.service.auditing import audit
from icefloe.service.preconditions import refuse_if_changed
from icefloe.service.views import AttemptView, EventView, LogPart, RunView, Started, StepView
from icefloe.store import definitions as stored
from icefloe.store import logs, run_history, runs, workers
from icefloe.store.database import Database
from icefloe.store.definitions import WorkflowRecord
from icefloe.store.logs import LogKey
from icefloe.store.runs import RunRecord, StepRecord
from icefloe.workflow.model import Workflow
from icefloe.workflow.resolution import Layer, param_from_text
from icefloe.workflow.values import plain

Claim: TypeAlias = Callable[[Connection, WorkflowRecord, str], bool]
"""Given the transaction, the workflow's row and the id of the run to be: whether to make it."""


class NotClaimedError(ConflictError):
    """What led to starting a run is no longer so. Nothing was made."""

    code = "run.not-claimed"


class DeactivatedError(UsageError):
    """The workflow is switched off."""

    code = "workflow.deactivated"


class RunDeletedError(NotFoundError):
    """The run was there; its keep time is over."""

    code = "run.deleted"
    fatal = True


class Runs:
    def __init__(self, config: Config, database: Database, conductor: Conductor) -> None:
        self._config = config
        self._database = database
        self._conductor = conductor

    # -- starting ----------------------------------------------------------------------------------------------------------

    def start(
        self,
        workflow_id: str,
        params: Mapping[str, Any] | None = None,
        *,
        texts: Mapping[str, str] | None = None,
        version: int | None = None,
        occasion: str | None = None,
        initiator: Mapping[str, Any] | None = None,
        trigger_params: Mapping[str, Any] | None = None,
        signals: Mapping[str, Mapping[str, Any]] | None = None,
        claim: Claim | None = None,
        by: str | None = None,
    ) -> Started:
        """Make a run and let it begin when its turn has come.

        ``params`` are values, ``texts`` are as typed on a command line. ``occasion`` names what started it (a trigger's
        moment): the same occasion starts one run, however often and by however many schedulers it is asked for.
        ``claim`` is asked inside the transaction that makes the run, with the workflow's row held; when it says no,
        :class:`NotClaimedError` is raised and nothing was made. ``trigger_params`` may be parameters with expressions.
        """
        with self._database.write() as connection:
            workflow = stored.lock(connection, workflow_id)
            if workflow is None:
                raise NotFoundError(
                    f"there is no workflow {workflow_id!r}", hint="icefloe workflows, or: icefloe push FILE"
                )
            if occasion is not None:
                known = runs.by_occasion(connection, workflow_id, occasion)
                before = known.id if known else runs.past_occasion(connection, workflow_id, occasion)
                if before is not None:
                    if claim is not None:
                        claim(connection, workflow, before)
                    return self._started(connection, before, created=False)
            if not workflow.active:
                raise DeactivatedError(f"workflow {workflow_id} is deactivated", hint=f"icefloe activate {workflow_id}")
            if claim is not None and not claim(connection, workflow, f"{workflow_id}-{workflow.next_number}"):
                raise NotClaimedError(f"occasion {occasion} of {workflow_id} was decided on rows that have changed")
            definition = self._conductor.definitions.get(connection, workflow_id, version or workflow.latest_version)
            number = stored.take_number(connection, workflow)
            run_id = f"{workflow_id}-{number}"
            given = {**(params or {}), **typed(definition.workflow, texts or {})}
            layers = {Layer.TRIGGER: dict(trigger_params or {}), Layer.RUN: given}
            started_by = {"kind": "user", "by": who(by), "via": via(), **(initiator or {})}
            if started_by["kind"] != "user":
                del started_by["via"]
            values = run_params(
                definition.workflow,
                layers,
                run_values(
                    run_id,
                    workflow_id,
                    number,
                    definition.workflow.owner,
                    version=definition.version,
                    initiator=started_by,
                ),
                self._files(connection, definition),
                stored_signals({"signals": signals}),
            )
            record = RunRecord(
                run_id,
                workflow_id,
                definition.version,
                run_id,
                RunStatus.CREATED.value,
                time.time(),
                number=number,
                occasion=occasion,
                params=plain_values(values) or {},
                initiator={
                    **started_by,
                    "given": given,
                    **({"signals": {name: dict(found) for name, found in signals.items()}} if signals else {}),
                    "trigger": {name: plain(values[name].value) for name in trigger_params or {}},
                },
            )
            self._conductor.create(connection, record)
            if started_by["kind"] == "user":
                audit(connection, record.created_at, "run", run_id, {"params": sorted(given), "version": version}, by)
            self._database.announce(connection)
            started = self._started(connection, run_id, created=True)
        self._conductor.admit(workflow_id)
        return started

    def _started(self, connection: Connection, run_id: str, *, created: bool) -> Started:
        alive = any(worker.serves == "*" and worker.status == workers.ALIVE for worker in workers.living(connection))
        return Started(run_id, self.url(run_id), created, alive)

    def url(self, run_id: str) -> str | None:
        """The run's page; None where nothing serves one."""
        return f"{self._config.server_url}/runs/{run_id}" if self._config.server_url else None

    def _files(self, connection: Connection, definition: Definition) -> Mapping[str, str]:
        found = {}
        for name, digest in definition.files.items():
            content = stored.file(connection, digest)
            if content is not None:
                found[name] = content.decode("utf-8", "replace")
        return found

    # -- changing ----------------------------------------------------------------------------------------------------------

    def stop(self, run_id: str, by: str | None = None, *, seen: int | None = None) -> RunView:
        """End gently: what runs is told to end, the run ends as STOPPED and can be restarted. ``seen``, here and below: only
        while the run has this revision."""
        return self._send(run_id, Stop(who(by)), "stop", seen)

    def kill(self, run_id: str, by: str | None = None, *, seen: int | None = None) -> RunView:
        """End at once, as FAILED."""
        return self._send(run_id, Kill(who(by)), "kill", seen)

    def pause(self, run_id: str, by: str | None = None, *, seen: int | None = None) -> RunView:
        return self._send(run_id, Pause(who(by)), "pause", seen)

    def resume(self, run_id: str, by: str | None = None, *, seen: int | None = None) -> RunView:
        return self._send(run_id, Resume(who(by)), "resume", seen)

    def skip(self, run_id: str, step_id: str, by: str | None = None, *, seen: int | None = None) -> RunView:
        """Let the run go on as if the step had succeeded; a step that runs is ended first."""
        return self._send(run_id, Skip(step_id, who(by)), "skip", seen, step=step_id)

    def restart(
        self,
        run_id: str,
        *,
        step: str | None = None,
        from_beginning: bool = False,
        texts: Mapping[str, str] | None = None,
        params: Mapping[str, Any] | None = None,
        version: str | None = None,
        by: str | None = None,
        seen: int | None = None,
    ) -> RunView:
        """Do again what is incomplete, everything, or a step and what follows; with other parameters or a newer version."""
        if step is not None and from_beginning:
            raise UsageError("from a step and from the beginning contradict each other")
        scope = RestartFrom.STEP if step else RestartFrom.BEGINNING if from_beginning else RestartFrom.INCOMPLETE
        event = Restart(who(by), scope, step)
        root = self._must_exist(run_id)
        if root.parent_id is not None and root.root_id != root.id:
            raise UsageError(
                f"run {run_id} belongs to run {root.root_id}",
                hint=f"icefloe restart {root.root_id} --from {root.parent_step}",
            )

        def redefine(connection: Connection, record: RunRecord) -> tuple[int, dict[str, Any]] | None:
            refuse_if_changed(f"run {run_id}", runs.revision(connection, run_id), seen)
            asked: dict[str, Any] = {"step": step, "from_beginning": from_beginning, "version": version}
            asked["params"] = {**(params or {}), **(texts or {})}
            audit(connection, time.time(), "restart", run_id, {key: value for key, value in asked.items() if value}, by)
            if version is None and not params and not texts:
                return None
            number = record.version
            if version is not None:
                latest = self._conductor.definitions.latest(connection, record.workflow_id).version
                number = latest if version == "latest" else _number(version)
            definition = self._conductor.definitions.get(connection, record.workflow_id, number)
            again = {**(params or {}), **typed(definition.workflow, texts or {})}
            given = dict(record.initiator.get("given", {}))
            layers = {Layer.TRIGGER: record.initiator.get("trigger", {}), Layer.RUN: given, Layer.RESTART: again}
            run = run_values(
                record.id,
                record.workflow_id,
                record.number,
                definition.workflow.owner,
                version=number,
                initiator=record.initiator,
            )
            files = self._files(connection, definition)
            values = run_params(definition.workflow, layers, run, files, stored_signals(record.initiator))
            return number, plain_values(values) or {}

        self._conductor.restart(run_id, event, redefine)
        return self.show(run_id)

    def unblock(self, workflow_id: str, *, by: str | None = None) -> None:
        """Let a STRICT_SEQUENTIAL workflow go on although its last run ended badly."""
        with self._database.write() as connection:
            if stored.lock(connection, workflow_id) is None:
                raise NotFoundError(f"there is no workflow {workflow_id!r}", hint="icefloe workflows")
            last = runs.latest(connection, workflow_id, ended=True)
            stored.unblock(connection, workflow_id, last.seq or 0 if last else 0)
            audit(connection, time.time(), "unblock", workflow_id, {}, by)
            self._database.announce(connection)
        self._conductor.admit(workflow_id)

    def _send(
        self, run_id: str, event: Stop | Kill | Pause | Resume | Skip, verb: str, seen: int | None, **details: Any
    ) -> RunView:
        self._must_exist(run_id)

        def also(connection: Connection) -> None:
            refuse_if_changed(f"run {run_id}", runs.revision(connection, run_id), seen)
            audit(connection, time.time(), verb, run_id, details, event.by)

        self._conductor.apply(run_id, event, also=also)
        return self.show(run_id)

    def _must_exist(self, run_id: str) -> RunRecord:
        with self._database.read() as connection:
            found = runs.load(connection, run_id)
            if found is None:
                raise self._absent(connection, run_id)
        return found

    def _absent(self, connection: Connection, run_id: str) -> NotFoundError:
        """Whether there never was such a run, or it is deleted."""
        workflow_id, _, number = run_id.partition(":")[0].rpartition("-")
        workflow = stored.load(connection, workflow_id) if number.isdigit() else None
        if workflow is not None and 0 < int(number) < workflow.next_number:
            return RunDeletedError(
                f"run {run_id} ended longer ago than runs are kept, and is deleted: it can be neither shown nor restarted",
                hint=f"how long they are kept is set by [keep] runs; start a new one: icefloe run {workflow_id}",
            )
        return NotFoundError(f"there is no run {run_id!r}", hint="icefloe runs")

    # -- looking -----------------------------------------------------------------------------------------------------------

    def listing(
        self,
        workflow_id: str | None = None,
        status: str | None = None,
        most: int = 50,
        before: str | None = None,
        *,
        since: float | None = None,
        until: float | None = None,
        below: int | None = None,
    ) -> list[RunView]:
        """Newest first. ``before`` is a run, ``below`` a ``seq``: older ones than that. ``since`` and ``until``: created then."""
        if status is not None and status not in set(RunStatus):
            raise UsageError(f"{status!r} is no status of a run", hint=f"one of {', '.join(RunStatus)}")
        with self._database.read() as connection:
            after = runs.load(connection, before) if before else None
            if before and after is None:
                raise NotFoundError(f"there is no run {before!r}", hint="icefloe runs")
            if workflow_id is not None and stored.load(connection, workflow_id) is None:
                raise NotFoundError(f"there is no workflow {workflow_id!r}", hint="icefloe workflows")
            first = run_history.seq_at(connection, since) if since is not None else None
            end = run_history.seq_at(connection, until) if until is not None else None
            below = after.seq if after else below
            found = runs.listing(
                connection, workflow_id=workflow_id, status=status, most=most, before=below, since=first, until=end
            )
        return [_run_view(record) for record in found]

    def count(self, workflow_id: str | None = None, status: str | None = None, most: int = 1000) -> int:
        """How many there are; ``most`` and one more stand for more than ``most``."""
        with self._database.read() as connection:
            return runs.count(connection, workflow_id=workflow_id, status=status, most=most + 1)

    def show(self, run_id: str, *, events: bool = True) -> RunView:
        with self._database.read() as connection:
            record = runs.load(connection, run_id)
            if record is None:
                raise self._absent(connection, run_id)
            steps = runs.load_steps(connection, run_id)
            attempts = runs.load_attempts(connection, run_id)
            moves = runs.load_events(connection, run_id) if events else []
        history: dict[str, list[AttemptView]] = {}
        for item in attempts:
            view = AttemptView(item.attempt, item.status, item.cause, item.worker, item.started_at, item.ended_at)
            history.setdefault(item.step_id, []).append(view)
        # The last move into RUNNING says what a step waits for.
        notes = {(e.step_id, e.attempt): e.cause for e in moves if e.status == "RUNNING"}
        views = tuple(
            replace(
                _step_view(step, tuple(history.get(step.step_id, ()))),
                note=notes.get((step.step_id, step.attempt)) or None if step.status == "RUNNING" else None,
            )
            for step in steps
        )
        told = tuple(EventView(e.at, e.step_id, e.attempt, e.previous, e.status, e.cause) for e in moves)
        warnings = tuple(
            f"step {e.step_id}: {e.cause}" for e in moves if e.step_id and e.previous == e.status != "RUNNING"
        )
        return replace(_run_view(record, views, told), warnings=warnings)

    def status(self, run_id: str) -> str:
        with self._database.read() as connection:
            found = connection.execute(sa.text("SELECT status FROM runs WHERE id = :id"), {"id": run_id}).scalar()
        if found is None:
            raise NotFoundError(f"there is no run {run_id!r}", hint="icefloe runs")
        return str(found)

    def ahead_of(self, run_id: str) -> list[str]:
        """Runs of the same workflow that began or wait before this one: it cannot begin before them."""
        with self._database.read() as connection:
            record = runs.load(connection, run_id)
            assert record is not None
            active = runs.active_of_workflow(connection, record.workflow_id)
        return [other.root_id for other in active if (other.seq or 0) < (record.seq or 0)]

    # -- logs --------------------------------------------------------------------------------------------------------------

    def log_attempts(self, run_id: str, step_id: str | None = None) -> list[tuple[str, int]]:
        """The attempts there may be logs of, oldest first: (step, attempt)."""
        view = self.show(run_id, events=False)
        steps = [step for step in view.steps if step_id is None or step.id == step_id]
        if step_id is not None and not steps:
            raise NotFoundError(f"run {run_id} has no step {step_id!r}", hint=f"icefloe show {run_id}")
        return [(step.id, number) for step in steps for number in range(1, step.attempts + 1)]

    def log(self, run_id: str, step_id: str, attempt: int, number: int = 0, offset: int = 0) -> LogPart:
        """What the log has from a place on."""
        with self._database.read() as connection:
            chunks = logs.read(connection, LogKey(run_id, step_id, attempt), number)
        content, gap, expected, size = b"", False, number, offset
        for chunk in chunks:
            skip = offset if chunk.number == number else 0
            if chunk.number > expected:
                gap = True
                content += b"\n[... left out: the log was longer than what is kept ...]\n"
            content += chunk.content[skip:]
            expected, size = chunk.number + 1, len(chunk.content)
        last = chunks[-1].number if chunks else number
        return LogPart(content, last, size, gap)

    def log_tail(self, run_id: str, step_id: str, attempt: int, lines: int = 20) -> str:
        with self._database.read() as connection:
            chunks = logs.tail(connection, LogKey(run_id, step_id, attempt))
        text = b"".join(chunk.content for chunk in chunks).decode("utf-8", "replace")
        return "\n".join(text.splitlines()[-lines:])


def typed(workflow: Workflow, texts: Mapping[str, str]) -> dict[str, Any]:
    """Values typed as text, by the types of the parameters they override."""
    known = {param.name: param for param in workflow.params}
    found = {}
    for name, text in texts.items():
        param = param_from_text(name, text, known.get(name))
        found[name] = plain(param.value) if param.value is not None else {m.name: m.value for m in param.members or ()}
    return found


def _number(text: str) -> int:
    if not text.isdigit():
        raise UsageError(f"{text!r} is no version", hint="a number, or: --version latest")
    return int(text)


def _plain_values(data: Mapping[str, Any] | None) -> dict[str, Any]:
    return {name: item["value"] for name, item in (data or {}).items()}


def _run_view(record: RunRecord, steps: tuple[StepView, ...] = (), events: tuple[EventView, ...] = ()) -> RunView:
    initiator = {key: value for key, value in record.initiator.items() if key != "trigger"}
    return RunView(
        record.id, record.workflow_id, record.version, record.status, record.request, record.created_at,
        record.started_at, record.ended_at, record.restarts, initiator, record.cause, _plain_values(record.params),
        record.parent_id, record.parent_step, record.iteration, steps, events, revision=record.revision, seq=record.seq,
    )  # fmt: skip


def _step_view(row: StepRecord, history: tuple[AttemptView, ...]) -> StepView:
    retry_in = max(0.0, (row.available_at or 0) - time.time()) if row.status == "INITIALIZED" and row.delay else None
    child = f"{row.run_id}:{row.step_id}" if row.type == SUBWORKFLOW and row.attempt else None
    return StepView(
        row.step_id, row.type, row.status, row.attempt, row.started_at, row.ended_at, row.owner, row.cause, retry_in,
        _plain_values(row.params) if row.loop is None else {}, _plain_values(row.outputs), row.loop, child, history,
    )  # fmt: skip
