"""Parameters and conditions of a run, with everything the run knows at the moment.

What a definition can see from inside a foreach is what its surrounding runs can see, and the iteration's own values on top.
A subworkflow sees only what it was handed. Secrets stay references (``$ENV{…}``) in everything here.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from icefloe.engine.definitions import Definition
from icefloe.engine.events import RunState, StepState
from icefloe.engine.run_snapshot import RunSnapshot
from icefloe.errors import NotFoundError, UsageError
from icefloe.workflow.default_params import DEFAULTS, STEP_END_TIME, STEP_STATUS, SYSTEM
from icefloe.workflow.expressions import evaluate_condition
from icefloe.workflow.model import (
    DEFAULT_TIMEOUT_SECONDS,
    ForeachStep,
    Param,
    SignalDependency,
    Step,
    SubworkflowStep,
    TypedStep,
    Workflow,
)
from icefloe.workflow.resolution import (
    Iterations,
    Layer,
    ParamError,
    literal,
    may_change,
    merge,
    resolve_loop,
    resolve_params,
    resolve_settings,
    resolve_timeout,
    scope_of_step,
)
from icefloe.workflow.scope import Scope
from icefloe.workflow.values import Mismatch, TypedValue, Value, clip, plain

Values = Mapping[str, Value]


class EvaluationError(UsageError):
    """Something cannot be evaluated, for a reason that evaluation itself has no words for. The same definition and the same
    values give it again, so it is never tried again."""

    code = "evaluation.failed"
    fatal = True


@contextmanager
def evaluation_errors(subject: str) -> Iterator[None]:
    """No raw exception of ours reaches a run: its owner could do nothing with it, and a retry neither."""
    try:
        yield
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, RecursionError) as error:
        raise EvaluationError(
            f"{subject} cannot be evaluated: {type(error).__name__}: {error}",
            hint="this should have been refused by icefloe validate; please report it with the definition",
        ) from error


@dataclass(frozen=True, slots=True)
class Evaluated:
    """A step's parameters, everything visible at it, and its settings, with every reference but secrets filled in."""

    params: Mapping[str, TypedValue]
    visible: Mapping[str, TypedValue]
    settings: Mapping[str, Any]
    timeout: float


def run_params(
    workflow: Workflow,
    layers: Mapping[Layer, Mapping[str, Any]],
    run: Values,
    files: Mapping[str, str],
    signals: Mapping[str, Values] | None = None,
) -> dict[str, TypedValue]:
    """The values of a run's parameters: the definition's, overridden layer by layer. Computed once, when a run is made.

    A layer holds values, or parameters whose expressions are still to be evaluated. ``signals`` are those that started it.
    """
    written = [(layer, [_as_param(name, value) for name, value in values.items()]) for layer, values in layers.items()]
    merged = merge([(Layer.DEFAULTS, DEFAULTS), (Layer.DEFINITION, workflow.params), *written])
    visible = {name: value for name, value in run.items() if name in SYSTEM}
    with evaluation_errors("the run's parameters"):
        return resolve_params(merged, Scope(params=visible, run=run, files=files, signals=signals or {}))


def _as_param(name: str, value: Any) -> Param:
    try:
        return value if isinstance(value, Param) else literal(name, value)
    except Mismatch as error:
        raise ParamError(f"the parameter '{clip(name)}': {error}") from None


def child_params(step: SubworkflowStep, child: Workflow, evaluated: Evaluated) -> dict[str, Any]:
    """What a subworkflow's run is given: the step's own parameters, and unless told otherwise all that is visible there."""
    params: dict[str, Any] = {}
    if not step.explicit_params:
        locked = {param.name for param in child.params if not may_change(param.mode, Layer.RUN)}
        # What the engine itself says of a run and a step is said anew in each.
        params = {name: item for name, item in evaluated.visible.items() if name not in locked and name not in SYSTEM}
    params |= evaluated.params
    return {name: plain(item.value) for name, item in params.items()}


class Evaluation:
    """``snapshot_of`` finds other runs of the tree as they are in the present transaction; ``read_file`` reads by digest;
    ``iterations`` gives the ids of the runs that a foreach step of a run has started, in order; ``signal`` the parameters of
    the signal that satisfies a step's dependency."""

    def __init__(
        self,
        snapshot_of: Callable[[str], RunSnapshot],
        snapshot: RunSnapshot,
        read_file: Callable[[str], bytes | None] | None = None,
        iterations: Callable[[str, str], list[str]] | None = None,
        signal: Callable[[SignalDependency, Scope], Mapping[str, Any] | None] | None = None,
    ) -> None:
        self._snapshot_of = snapshot_of
        self._snapshot = snapshot
        self._read_file = read_file
        self._iterations = iterations
        self._signal = signal

    def holds(self, condition: str, source: str, run: RunState) -> bool:
        """Whether the condition of a transition that leads away from ``source`` holds, with the run in the state given."""
        with evaluation_errors("the condition"):
            return evaluate_condition(condition, self.after(self._snapshot.definition.steps[source], run))

    def step(self, step: Step) -> Evaluated:
        with evaluation_errors(f"step {step.id}"):
            scope = self._with_signals(step, self._at(step, self._snapshot.state))
            params = resolve_params(step.params, scope, own=True)
            inner = _inside(scope, params)
            settings = resolve_settings(step.settings, inner) if isinstance(step, TypedStep) else {}
            timeout = resolve_timeout(step.timeout, inner, DEFAULT_TIMEOUT_SECONDS)
            visible = {name: TypedValue.of(value) for name, value in inner.params.items()}
            return Evaluated(params, visible, settings, timeout)

    def loop(self, step: ForeachStep, params: Mapping[str, TypedValue]) -> Iterations:
        """The iterations of a foreach whose own parameters have been evaluated. Stored with them, and computed once."""
        with evaluation_errors(f"the loop of {step.id}"):
            return resolve_loop(step, _inside(self._with_signals(step, self._at(step, self._snapshot.state)), params))

    def before(self, step: Step) -> Scope:
        """What a step sees while it waits for signals and watermarks: its own parameters, as far as they can be told."""
        return scope_of_step(step.params, self._at(step, self._snapshot.state))

    def after(self, step: Step, run: RunState) -> Scope:
        """What is seen on leaving a step: its parameters and, on top, what it has published. One that was skipped before its
        parameters were evaluated has those of its definition."""
        scope = self._at(step, run)
        state = run.steps[step.id]
        results = _results(state)
        known = {name: value for name, value in results.items() if name not in (STEP_STATUS, STEP_END_TIME)}
        scope = replace(scope, params={**scope.params, **known}, this_step={**scope.this_step, **results})
        if state.params is not None:
            return scope
        return scope_of_step([param for param in step.params if param.name not in known], scope)

    def _at(self, step: Step, run: RunState) -> Scope:
        scope = self.scope(run)
        fields: dict[str, Value] = {"step_id": step.id, "step_attempt_id": run.steps[step.id].attempt}
        return replace(scope, params={**scope.params, **fields}, this_step=fields)

    def _with_signals(self, step: Step, scope: Scope) -> Scope:
        """With the parameters of the signals the step waited for, by their number in its list and by name."""
        if self._signal is None or not step.signal_dependencies:
            return scope
        waiting = scope_of_step(step.params, scope)
        signals_by_name = [
            (dependency.name, self._signal(dependency, waiting) or {}) for dependency in step.signal_dependencies
        ]
        by_number = {str(index): params for index, (_, params) in enumerate(signals_by_name)}
        return replace(scope, signal_dependencies=_signals({**by_number, **dict(reversed(signals_by_name))}))

    def scope(self, run: RunState) -> Scope:
        snapshot = self._snapshot
        levels = list(self._levels(replace(snapshot, state=run)))
        record = levels[-1].record
        run_level = run_values(
            record.id,
            record.workflow_id,
            self._number(levels[-1]),
            snapshot.definition.workflow.owner,
            version=record.version,
            initiator=record.initiator,
        )
        params: dict[str, Value] = {name: value for name, value in run_level.items() if name in SYSTEM}
        for level in reversed(levels):
            if level.record.iteration is not None and level.record.parent_id is not None:
                around = self._around(level).steps[level.record.path]
                params |= _plain(around.params or {})
            params |= {name: TypedValue.from_dict(item).value for name, item in level.record.params.items()}
        return Scope(
            params=params,
            steps=_StepResults([level.state for level in levels]),
            foreach=_Foreach(levels, self._snapshot_of, self._iterations),
            subworkflows=_Subworkflows(levels, self._snapshot_of),
            signals=stored_signals(record.initiator),
            run=run_level,
            files=_Files(snapshot.definition.files, self._read_file),
        )

    def _levels(self, snapshot: RunSnapshot) -> Iterator[RunSnapshot]:
        """The run, and outwards the runs whose foreach steps it is an iteration of."""
        yield snapshot
        while snapshot.record.iteration is not None and snapshot.record.parent_id is not None:
            snapshot = self._snapshot_of(snapshot.record.parent_id)
            yield snapshot

    def _number(self, snapshot: RunSnapshot) -> int | None:
        """A subworkflow's run has the number of the run that started it."""
        while snapshot.record.number is None and snapshot.record.parent_id is not None:
            snapshot = self._snapshot_of(snapshot.record.parent_id)
        return snapshot.record.number

    def _around(self, snapshot: RunSnapshot) -> RunState:
        assert snapshot.record.parent_id is not None
        return self._snapshot_of(snapshot.record.parent_id).state


def iterations(step: ForeachStep, params: Mapping[str, TypedValue]) -> Iterations:
    """The iterations of a foreach, from what was stored when it began."""
    arrays = {param.name: params[param.name] for param in step.loop_params}
    return Iterations(
        arrays, math.prod(len(array.value) for array in arrays.values() if isinstance(array.value, tuple))
    )


_INITIATORS = {"user": "MANUAL", "cron": "TIME", "interval": "TIME"}


def run_values(
    run_id: str,
    workflow_id: str,
    number: int | None,
    owner: str | None,
    *,
    version: int = 0,
    initiator: Mapping[str, Any] | None = None,
) -> Values:
    """What ``params.getFromInstance('…')`` knows of the run itself: the names of ``default_params.RUN_FIELDS``."""
    started = initiator or {}
    by = str(started.get("by") or started.get("run") or "")
    kind = str(started.get("kind") or "user")
    if kind == "trigger":
        kind = by.partition(":")[0]
    values: dict[str, Value] = {
        "run_id": run_id,
        "workflow_id": workflow_id,
        "workflow_version": version,
        "run_number": number or 0,
        "INITIATOR_TYPE": _INITIATORS.get(kind, kind.upper()),
        "INITIATOR_RUNNER_NAME": by,
    }
    if owner is not None:
        values["owner"] = owner
    return values


def _inside(scope: Scope, params: Mapping[str, TypedValue]) -> Scope:
    """With a step's parameters on top, once they have been evaluated."""
    own = _plain(params)
    return replace(scope, params={**scope.params, **own}, this_step={**scope.this_step, **own})


def child_id(run_id: str, step_id: str, iteration: int | None = None) -> str:
    """The id of the run that a subworkflow step, or one iteration of a foreach, starts."""
    return f"{run_id}:{step_id}" + ("" if iteration is None else f":{iteration}")


def stored_signals(initiator: Mapping[str, Any]) -> dict[str, Values]:
    """The signals that started a run, from what is stored of its start."""
    return _signals(initiator.get("signals") or {})


def _signals(by_key: Mapping[str, Mapping[str, Any]]) -> dict[str, Values]:
    return {name: {key: literal_value(item) for key, item in params.items()} for name, params in by_key.items()}


def literal_value(item: Any) -> Value:
    """JSON's lists are arrays here."""
    return tuple(item) if isinstance(item, list) else item


def _plain(values: Mapping[str, TypedValue]) -> dict[str, Value]:
    return {name: item.value for name, item in values.items()}


def _results(step: StepState) -> dict[str, Value]:
    values = {**_plain(step.params or {}), **_plain(step.outputs or {}), STEP_STATUS: step.status.value}
    if step.ended_at is not None:
        values[STEP_END_TIME] = int(step.ended_at * 1000)
    return values


class _StepResults(Mapping[str, Values]):
    """What steps have published, computed when asked for: a run may have thousands."""

    def __init__(self, runs: list[RunState]) -> None:
        self._runs = runs

    def _find(self, step_id: str) -> StepState | None:
        for run in self._runs:
            state = run.steps.get(step_id)
            if state is not None:
                return state if state.status.ended or state.params is not None else None
        return None

    def __getitem__(self, step_id: str) -> Values:
        state = self._find(step_id)
        if state is None:
            raise KeyError(step_id)
        return _results(state)

    def __iter__(self) -> Iterator[str]:
        return (step for run in self._runs for step in run.steps if self._find(step) is not None)

    def __len__(self) -> int:
        return sum(1 for _ in self)


class _Foreach(Mapping[str, Mapping[str, Values]]):
    """The results of the steps inside a foreach: an array over its iterations for each name that all of them have.

    Read when asked for, and only then: a loop may have thousands of iterations.
    """

    def __init__(
        self,
        levels: list[RunSnapshot],
        snapshot_of: Callable[[str], RunSnapshot],
        iterations: Callable[[str, str], list[str]] | None,
    ) -> None:
        self._levels = levels
        self._snapshot_of = snapshot_of
        self._iterations = iterations

    def __getitem__(self, step_id: str) -> Mapping[str, Values]:
        for level in self._levels:
            if isinstance(level.definition.steps.get(step_id), ForeachStep) and step_id in level.state.steps:
                if self._iterations is None:
                    break
                runs = [self._snapshot_of(run_id).state for run_id in self._iterations(level.record.id, step_id)]
                if not runs:  # a loop over nothing: whatever is asked for is an empty array
                    return _NoIterations(level.definition, step_id)
                results = [_StepResults([run]) for run in runs]
                inner = dict.fromkeys(name for result in results for name in result)
                return {name: _across([result.get(name, {}) for result in results]) for name in inner}
        raise KeyError(step_id)

    def __iter__(self) -> Iterator[str]:
        for level in self._levels:
            yield from (s.id for s in level.definition.steps.values() if isinstance(s, ForeachStep))

    def __contains__(self, step_id: object) -> bool:
        return step_id in set(self)

    def __len__(self) -> int:
        return sum(1 for _ in self)


def _across(iterations: list[Values]) -> dict[str, Value]:
    """One array per name. A name that one iteration lacks would shift the others' places, so it is left out."""
    first, *others = iterations
    names = [name for name in first if all(name in result for result in others)]
    return {name: tuple(result[name] for result in iterations) for name in names}  # type: ignore[misc]


class _NoIterations(Mapping[str, Values]):
    """The results of a foreach that had no iteration."""

    def __init__(self, definition: Definition, step_id: str) -> None:
        self._steps = [step.id for step in definition.container(step_id).steps]

    def __getitem__(self, step_id: str) -> Values:
        if step_id not in self._steps:
            raise KeyError(step_id)
        return _EmptyArrays()

    def __iter__(self) -> Iterator[str]:
        return iter(self._steps)

    def __len__(self) -> int:
        return len(self._steps)


class _EmptyArrays(Mapping[str, Value]):
    """An empty array under every name."""

    def __getitem__(self, name: str) -> Value:
        return ()

    def __contains__(self, name: object) -> bool:
        return True

    def __iter__(self) -> Iterator[str]:
        return iter(())

    def __len__(self) -> int:
        return 0


class _Subworkflows(Mapping[str, Mapping[str, Values]]):
    """The results of a subworkflow's steps, read from its run when asked for."""

    def __init__(self, levels: list[RunSnapshot], snapshot_of: Callable[[str], RunSnapshot]) -> None:
        self._levels = levels
        self._snapshot_of = snapshot_of

    def __getitem__(self, step_id: str) -> Mapping[str, Values]:
        for level in self._levels:
            if isinstance(level.definition.steps.get(step_id), SubworkflowStep) and step_id in level.state.steps:
                try:
                    return _StepResults([self._snapshot_of(child_id(level.record.id, step_id)).state])
                except NotFoundError:  # it was skipped, or never came to start a run
                    return {}
        raise KeyError(step_id)

    def __iter__(self) -> Iterator[str]:
        for level in self._levels:
            yield from (s.id for s in level.definition.steps.values() if isinstance(s, SubworkflowStep))

    def __len__(self) -> int:
        return sum(1 for _ in self)


class _Files(Mapping[str, str]):
    """The contents of the version's files, read when asked for."""

    def __init__(self, digests: Mapping[str, str], read: Callable[[str], bytes | None] | None) -> None:
        self._digests = digests
        self._read = read

    def __getitem__(self, reference: str) -> str:
        content = self._read(self._digests[reference]) if self._read is not None else None
        if content is None:
            raise NotFoundError(f"the content of {reference} is missing from the state database")
        return content.decode("utf-8")

    def __contains__(self, reference: object) -> bool:
        return reference in self._digests

    def __iter__(self) -> Iterator[str]:
        return iter(self._digests)

    def __len__(self) -> int:
        return len(self._digests)
