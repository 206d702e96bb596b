"""Parameters and conditions of a run, with everything the run knows at the moment.

What a definition can see from inside a foreach is what its surrounding runs can see, and the iteration's own values on top.
A subworkflow sees only what it was handed. Secrets stay references (``$ENV{…}``) in everything here.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from icefloe.engine.events import RunState, StepState
from icefloe.engine.images import Image
from icefloe.errors import NotFoundError
from icefloe.workflow.default_params import DEFAULTS, STEP_END_TIME, STEP_STATUS
from icefloe.workflow.expressions import evaluate_condition
from icefloe.workflow.model import (
    DEFAULT_TIMEOUT_SECONDS,
    ForeachStep,
    Param,
    Step,
    SubworkflowStep,
    TypedStep,
    Workflow,
)
from icefloe.workflow.resolution import (
    Layer,
    Loop,
    literal,
    may_change,
    merge,
    resolve_loop,
    resolve_params,
    resolve_settings,
    resolve_timeout,
)
from icefloe.workflow.scope import Scope
from icefloe.workflow.values import TypedValue, Value, plain

Values = Mapping[str, Value]


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
    given = [
        (layer, [value if isinstance(value, Param) else literal(name, value) for name, value in values.items()])
        for layer, values in layers.items()
    ]
    merged = merge([(Layer.DEFAULTS, DEFAULTS), (Layer.DEFINITION, workflow.params), *given])
    return resolve_params(merged, Scope(params=run, run=run, files=files, signals=signals or {}))


def handed_to(step: SubworkflowStep, child: Workflow, evaluated: Evaluated) -> dict[str, Any]:
    """What a subworkflow's run is given: the step's own parameters, and unless told otherwise all that is visible there."""
    given: dict[str, Any] = {}
    if not step.explicit_params:
        locked = {param.name for param in child.params if not may_change(param.mode, Layer.RUN)}
        given = {name: item for name, item in evaluated.visible.items() if name not in locked}
    given |= evaluated.params
    return {name: plain(item.value) for name, item in given.items()}


class Evaluation:
    """``images`` finds other runs of the tree as they are in the present transaction; ``read_file`` reads by digest;
    ``iterations`` gives the ids of the runs that a foreach step of a run has started, in order."""

    def __init__(
        self,
        images: Callable[[str], Image],
        image: Image,
        read_file: Callable[[str], bytes | None] | None = None,
        iterations: Callable[[str, str], list[str]] | None = None,
    ) -> None:
        self._images = images
        self._image = image
        self._read_file = read_file
        self._iterations = iterations

    def holds(self, condition: str, run: RunState) -> bool:
        """Whether a transition's condition holds, with the run in the state given."""
        return evaluate_condition(condition, self.scope(run))

    def step(self, step: Step) -> Evaluated:
        scope = self.scope(self._image.state)
        own: dict[str, Value] = {"step_id": step.id, "step_attempt_id": self._image.state.steps[step.id].attempt}
        scope = replace(scope, params={**scope.params, **own})
        params = resolve_params(step.params, scope)
        inner = replace(scope, params={**scope.params, **{name: item.value for name, item in params.items()}})
        inner = replace(inner, this_step={name: item.value for name, item in params.items()})
        settings = resolve_settings(step.settings, inner) if isinstance(step, TypedStep) else {}
        timeout = resolve_timeout(step.timeout, inner, DEFAULT_TIMEOUT_SECONDS)
        visible = {name: TypedValue.of(value) for name, value in inner.params.items()}
        return Evaluated(params, visible, settings, timeout)

    def loop(self, step: ForeachStep, params: Mapping[str, TypedValue]) -> Loop:
        """The iterations of a foreach whose own parameters have been evaluated. Stored with them, and computed once."""
        scope = self.scope(self._image.state)
        return resolve_loop(step, replace(scope, params={**scope.params, **_plain(params)}))

    def scope(self, run: RunState) -> Scope:
        image = self._image
        levels = list(self._levels(replace(image, state=run)))
        record = levels[-1].record
        run_level = run_values(record.id, record.workflow_id, record.number, image.definition.workflow.owner)
        params: dict[str, Value] = {**run_level, "workflow_version": record.version}
        for level in reversed(levels):
            if level.record.iteration is not None and level.record.parent_id is not None:
                around = self._around(level).steps[level.record.path]
                params |= _plain(around.params or {})
            params |= {name: TypedValue.from_dict(item).value for name, item in level.record.params.items()}
        return Scope(
            params=params,
            steps=_StepResults([level.state for level in levels]),
            foreach=_Foreach(levels, self._images, self._iterations),
            subworkflows=_Subworkflows(levels),
            signals=_signals(record.initiator.get("signals") or {}),
            run=run_level,
            files=_Files(image.definition.files, self._read_file),
        )

    def _levels(self, image: Image) -> Iterator[Image]:
        """The run, and outwards the runs whose foreach steps it is an iteration of."""
        yield image
        while image.record.iteration is not None and image.record.parent_id is not None:
            image = self._images(image.record.parent_id)
            yield image

    def _around(self, image: Image) -> RunState:
        assert image.record.parent_id is not None
        return self._images(image.record.parent_id).state


def iterations(step: ForeachStep, params: Mapping[str, TypedValue]) -> Loop:
    """The iterations of a foreach, from what was stored when it began."""
    arrays = {param.name: params[param.name] for param in step.loop_params}
    return Loop(arrays, math.prod(len(array.value) for array in arrays.values() if isinstance(array.value, tuple)))


def run_values(run_id: str, workflow_id: str, number: int | None, owner: str | None) -> Values:
    """What ``params.getFromInstance('…')`` knows of the run itself."""
    values: dict[str, Value] = {"run_id": run_id, "workflow_id": workflow_id}
    if number is not None:
        values["run_number"] = number
    if owner is not None:
        values["owner"] = owner
    return values


def _signals(found: Mapping[str, Mapping[str, Any]]) -> dict[str, Values]:
    """The signals that started a run, as they were stored with it."""
    return {name: {key: literal_value(item) for key, item in params.items()} for name, params in found.items()}


def literal_value(item: Any) -> Value:
    """JSON's lists are arrays here."""
    return tuple(item) if isinstance(item, list) else item


def _plain(values: Mapping[str, TypedValue]) -> dict[str, Value]:
    return {name: item.value for name, item in values.items()}


class _StepResults(Mapping[str, Values]):
    """What steps have published, computed when asked for: a run may have thousands."""

    def __init__(self, runs: list[RunState]) -> None:
        self._runs = runs

    def _find(self, step_id: str) -> StepState | None:
        for run in self._runs:
            found = run.steps.get(step_id)
            if found is not None:
                return found if found.status.ended or found.params is not None else None
        return None

    def __getitem__(self, step_id: str) -> Values:
        found = self._find(step_id)
        if found is None:
            raise KeyError(step_id)
        values = {**_plain(found.params or {}), **_plain(found.outputs or {}), STEP_STATUS: found.status.value}
        if found.ended_at is not None:
            values[STEP_END_TIME] = int(found.ended_at * 1000)
        return values

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
        levels: list[Image],
        images: Callable[[str], Image],
        iterations: Callable[[str, str], list[str]] | None,
    ) -> None:
        self._levels = levels
        self._images = images
        self._iterations = iterations

    def __getitem__(self, step_id: str) -> Mapping[str, Values]:
        for level in self._levels:
            if isinstance(level.definition.steps.get(step_id), ForeachStep) and step_id in level.state.steps:
                if self._iterations is None:
                    break
                runs = [self._images(run_id).state for run_id in self._iterations(level.record.id, step_id)]
                results = [_StepResults([run]) for run in runs]
                inner = dict.fromkeys(name for one in results for name in one)
                return {name: _across([one.get(name, {}) for one in results]) for name in inner}
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
    names = [name for name in first if all(name in other for other in others)]
    return {name: tuple(one[name] for one in iterations) for name in names}  # type: ignore[misc]


class _Subworkflows(Mapping[str, Mapping[str, Values]]):
    """The results of a subworkflow's steps, which its step published under ``step__name``."""

    def __init__(self, levels: list[Image]) -> None:
        self._levels = levels

    def __getitem__(self, step_id: str) -> Mapping[str, Values]:
        for level in self._levels:
            if isinstance(level.definition.steps.get(step_id), SubworkflowStep) and step_id in level.state.steps:
                found: dict[str, dict[str, Value]] = {}
                for key, item in (level.state.steps[step_id].outputs or {}).items():
                    step, _, name = key.partition("__")
                    found.setdefault(step, {})[name] = item.value
                return found
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
