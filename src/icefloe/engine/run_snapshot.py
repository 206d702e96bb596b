"""Runs in memory: what the rows say, as the state machine wants it; and back."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy.engine import Connection

from icefloe.engine.definitions import Definition, Definitions
from icefloe.engine.events import ForeachProgress, RunRequest, RunState, StepState, Tries
from icefloe.engine.graph import Graph
from icefloe.engine.states import RunStatus, StepStatus
from icefloe.errors import NotFoundError
from icefloe.steps.contract import Cause
from icefloe.store import runs
from icefloe.store.runs import RunRecord, StepRecord
from icefloe.workflow.values import TypedValue


@dataclass(frozen=True, slots=True)
class RunSnapshot:
    """One run as of one revision."""

    record: RunRecord
    state: RunState
    definition: Definition

    @property
    def graph(self) -> Graph:
        return self.definition.graph(self.record.path)


class RunSnapshots:
    """A cache of runs. A look at a run that nobody else has changed costs one small query, else only what changed is read."""

    MOST = 2000

    def __init__(self, definitions: Definitions) -> None:
        self._definitions = definitions
        self._cache: OrderedDict[str, RunSnapshot] = OrderedDict()

    def get(self, connection: Connection, run_id: str) -> RunSnapshot:
        known = self._cache.get(run_id)
        if known is not None and runs.revision(connection, run_id) == known.record.revision:
            self._cache.move_to_end(run_id)
            return known
        record = runs.load(connection, run_id)
        if record is None:
            raise NotFoundError(f"there is no run {run_id!r}", hint="icefloe runs")
        definition = self._definitions.get(connection, record.workflow_id, record.version)
        if known is not None and (known.record.version, known.record.restarts) == (record.version, record.restarts):
            steps = dict(known.state.steps)
            steps.update(
                (row.step_id, step_state(row)) for row in runs.load_steps(connection, run_id, known.record.revision)
            )
        else:
            steps = {row.step_id: step_state(row) for row in runs.load_steps(connection, run_id)}
        snapshot = RunSnapshot(record, run_state(record, steps), definition)
        self.put(snapshot)
        return snapshot

    def put(self, snapshot: RunSnapshot) -> None:
        """Remember a run as it is now committed. Ended iterations are not looked at again."""
        if snapshot.record.iteration is not None and snapshot.state.status.ended:
            self._cache.pop(snapshot.record.id, None)
            return
        self._cache[snapshot.record.id] = snapshot
        self._cache.move_to_end(snapshot.record.id)
        if len(self._cache) > self.MOST:
            self._cache.popitem(last=False)

    def forget(self, run_id: str) -> None:
        self._cache.pop(run_id, None)


def run_state(record: RunRecord, steps: dict[str, StepState]) -> RunState:
    return RunState(
        record.id,
        RunStatus(record.status),
        steps,
        RunRequest(record.request) if record.request else None,
        Cause.from_json(record.cause),
        record.restarts,
        record.started_at,
        record.ended_at,
    )


def run_record(record: RunRecord, state: RunState, revision: int) -> RunRecord:
    return replace(
        record,
        status=state.status.value,
        request=state.request.value if state.request else None,
        cause=state.cause.to_json() if state.cause else None,
        restarts=state.restarts,
        revision=revision,
        started_at=state.started_at,
        ended_at=state.ended_at,
    )


def step_state(row: StepRecord) -> StepState:
    return StepState(
        row.step_id,
        StepStatus(row.status),
        row.attempt,
        row.generation,
        row.owner,
        RunRequest(row.request) if row.request else None,
        row.delay,
        Tries(**row.tries),
        _values(row.params),
        _values(row.outputs),
        row.handle,
        ForeachProgress(**row.loop) if row.loop else None,
        row.resumes,
        Cause.from_json(row.cause),
        row.available_at,
        row.started_at,
        row.ended_at,
        row.era,
    )


def step_record(run: RunRecord, position: int, type_: str, state: StepState, revision: int) -> StepRecord:
    loop, tries = state.loop, state.tries
    return StepRecord(
        run.id,
        state.id,
        run.root_id,
        position,
        type_,
        state.status.value,
        state.attempt,
        state.generation,
        state.owner,
        state.request.value if state.request else None,
        state.delay,
        state.available_at,
        {name: count for name in ("error", "platform", "timeout") if (count := getattr(tries, name))},
        plain_values(state.params),
        plain_values(state.outputs),
        state.handle,
        {name: getattr(loop, name) for name in ForeachProgress.__slots__} if loop else None,
        state.resumes,
        state.cause.to_json() if state.cause else None,
        state.started_at,
        state.ended_at,
        revision,
        state.era,
    )


def _values(data: dict[str, Any] | None) -> dict[str, TypedValue] | None:
    return None if data is None else {name: TypedValue.from_dict(item) for name, item in data.items()}


def plain_values(values: Any) -> dict[str, Any] | None:
    return None if values is None else {name: item.to_dict() for name, item in values.items()}
