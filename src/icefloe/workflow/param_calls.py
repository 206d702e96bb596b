"""Calls of ``params.getFrom…`` in expressions: is there anything to get, where the expression stands?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from icefloe.workflow.default_params import RUN_FIELDS, STEP_END_TIME, STEP_FIELDS, STEP_STATUS
from icefloe.workflow.expressions.checker import ParamsCall
from icefloe.workflow.model import ForeachStep, NoOpStep, Step, SubworkflowStep
from icefloe.workflow.problems import suggestion
from icefloe.workflow.values import clip

Finding = tuple[str, str, str | None]
"""A code, what is wrong, and a hint."""


@dataclass(frozen=True, slots=True)
class Surroundings:
    """Where an expression stands. ``step``: the present one, if any; ``leaving``: it has ended. ``waits_for``: the signals
    whose parameters can be read there. ``signals``: those that may start the run. ``of_run``: there is a run at all."""

    signals: frozenset[str] = frozenset()
    has_owner: bool = True
    step: Step | None = None
    leaving: bool = False
    waits_for: tuple[str, ...] | None = None
    of_run: bool = True


NOWHERE = Surroundings()


def check_calls(calls: Sequence[ParamsCall], around: Surroundings, steps: Mapping[str, Step]) -> Iterator[Finding]:
    for call in calls:
        # A name that is computed is looked up when it runs.
        words = [word for word in call.words if word is not None]
        if call.method.startswith("getFrom") and not call.method.startswith("getFromSignal") and not around.of_run:
            yield ("expression.value", f"params.{call.method}: a trigger is evaluated before there is a run", None)
        elif len(words) != len(call.words) and not call.method.startswith("getFromSignal"):
            continue
        elif call.method == "getFromStep" and len(words) == 1:
            yield from _present_step(words[0], around)
        elif call.method == "getFromSignal":
            yield from _signal(call.words, around)
        elif call.method == "getFromSignalDependency":
            yield from _dependency(call.words, around)
        elif call.method == "getFromForeach" and len(words) == 3:
            yield from _foreach(words[0], words[1], steps)
        elif call.method == "getFromSubworkflow" and len(words) == 3:
            yield from _subworkflow(words[0], steps)
        elif call.method == "getFromInstance" and len(words) == 1:
            yield from _run(words[0], around)


def published(step_id: str, name: str, steps: Mapping[str, Step]) -> Iterator[Finding]:
    """A NoOp publishes nothing but its own parameters; what other steps publish is known when they run."""
    step = steps.get(step_id)
    if isinstance(step, NoOpStep):
        known = [*(param.name for param in step.params), STEP_STATUS, STEP_END_TIME]
        if name not in known:
            message = f"the step '{clip(step_id)}' has no '{clip(name)}', and a NoOp publishes nothing else"
            yield ("param.unknown", message, suggestion(name, known, "it has"))


def _present_step(name: str, around: Surroundings) -> Iterator[Finding]:
    step = around.step
    if step is None:
        hint = "params.getFromStep('step', 'name')"
        yield ("expression.value", f"params.getFromStep('{clip(name)}'): there is no present step here", hint)
        return
    known = [*STEP_FIELDS, *(param.name for param in step.params)]
    if around.leaving:
        known += [STEP_STATUS, STEP_END_TIME]
    publishes = around.leaving and not isinstance(step, NoOpStep)
    if name not in known and not publishes:
        message = f"the step '{clip(step.id)}' has no '{clip(name)}' of its own"
        yield ("param.unknown", message, suggestion(name, known, "it has"))


def _signal(words: Sequence[str | None], around: Surroundings) -> Iterator[Finding]:
    default = "params.getFromSignalOrDefault('signal', 'name', 'default')"
    if not around.signals:
        yield ("expression.value", "no signal starts this workflow", f"add a signal trigger, or use {default}")
    elif len(words) == 2 and words[0] is not None and words[0] not in around.signals:
        message = f"no trigger waits for the signal '{clip(words[0])}'"
        yield ("expression.value", message, suggestion(words[0], sorted(around.signals), "signals"))


def _dependency(words: Sequence[str | None], around: Surroundings) -> Iterator[Finding]:
    if around.waits_for is None:
        message = (
            "params.getFromSignalDependency: only a step's parameters and settings can read the signals it waited for"
        )
        yield ("expression.value", message, "read it into a parameter of the step that waits, and use that here")
    elif not around.waits_for:
        yield ("expression.value", "the step waits for no signal", "add signal_dependencies: to it")
    elif words and words[0] is not None:
        known = [*(str(index) for index in range(len(around.waits_for))), *around.waits_for]
        if words[0] not in known:
            message = f"the step does not wait for a signal '{clip(words[0])}'"
            yield ("expression.value", message, suggestion(words[0], known, "by number or name"))


def _foreach(step_id: str, inner: str, steps: Mapping[str, Step]) -> Iterator[Finding]:
    step = steps.get(step_id)
    if step is None:
        return  # said elsewhere
    if not isinstance(step, ForeachStep):
        yield ("expression.value", f"the step '{clip(step_id)}' is not a foreach", "params.getFromStep('step', 'name')")
    elif inner not in [one.id for one in step.steps]:
        known = [one.id for one in step.steps]
        message = f"the foreach '{clip(step_id)}' has no step '{clip(inner)}' directly in it"
        yield ("param.unknown-step", message, suggestion(inner, known, "steps"))


def _subworkflow(step_id: str, steps: Mapping[str, Step]) -> Iterator[Finding]:
    step = steps.get(step_id)
    if step is None:
        return
    if not isinstance(step, SubworkflowStep):
        message = f"the step '{clip(step_id)}' is not a subworkflow"
        yield ("expression.value", message, "params.getFromStep('step', 'name')")
    elif not step.sync:
        message = f"nobody waits for the subworkflow '{clip(step_id)}': its results are not known"
        yield ("expression.value", message, "leave out sync: false")


def _run(name: str, around: Surroundings) -> Iterator[Finding]:
    if name == "owner" and not around.has_owner:
        yield ("param.unknown", "the workflow has no owner", "add owner: to it")
    elif name not in RUN_FIELDS:
        yield ("param.unknown", f"a run has no '{clip(name)}'", suggestion(name, RUN_FIELDS, "it has"))
