"""What must be known when a workflow is pushed: which workflows, signals and tables it names, and what its triggers need.

A text with ``${…}`` in one of these places would be taken as it stands by whoever looks for the name, and never be found.
"""

from __future__ import annotations

from collections.abc import Iterator

from icefloe.workflow.default_params import DEFAULTS, RUN_FIELDS
from icefloe.workflow.identifiers import MAX_LENGTH, is_workflow_id
from icefloe.workflow.interpolation import names_in
from icefloe.workflow.model import (
    IncrementalTrigger,
    Param,
    ParamMode,
    SignalTrigger,
    Step,
    SubworkflowStep,
    Trigger,
    WatermarkTrigger,
    Workflow,
    walk,
)
from icefloe.workflow.places import Places
from icefloe.workflow.problems import Findings, Position, suggestion
from icefloe.workflow.resolution import Layer, ParamError, find_cycle, merge, references
from icefloe.workflow.values import ParamType, clip

_MAPS = (ParamType.MAP, ParamType.STRING_MAP)


def check_fixed_names(workflow: Workflow, findings: Findings, places: Places) -> None:
    """All findings about names that cannot depend on a run."""
    for _, step in walk(workflow):
        _check_step(step, findings, places.step(step.id))
    for index, trigger in enumerate(workflow.triggers):
        place = places.triggers[index] if index < len(places.triggers) else places.workflow
        _check_trigger(workflow, trigger, findings, place)


def _fixed(text: str | None, what: str, findings: Findings, place: Position | None, hint: str) -> bool:
    """Whether a name holds no reference."""
    if text is None or not any(names_in(text)):
        return True
    findings.error("definition.fixed-name", f"{what} '{clip(text)}' cannot depend on a parameter", place, hint)
    return False


def _check_step(step: Step, findings: Findings, place: Position | None) -> None:
    if isinstance(step, SubworkflowStep):
        _check_subworkflow(step, findings, place)
    hint = "tell signals of one name apart by their parameters: match_params"
    for dependency in step.signal_dependencies:
        _fixed(dependency.name, "the signal", findings, place, hint)
    for output in step.signal_outputs:
        _fixed(output.name, "the signal", findings, place, hint)
        for param in output.params:
            if param.type in _MAPS:
                message = f"the parameter '{clip(param.name)}' of the signal '{clip(output.name)}' is a map"
                findings.error(
                    "signal.invalid", message, place, "a signal has texts, numbers, true, false, and lists of these"
                )
    for watermark in step.watermark_dependencies:
        _fixed(watermark.table, "the table", findings, place, "one watermark dependency for each table")


def _check_subworkflow(step: SubworkflowStep, findings: Findings, place: Position | None) -> None:
    hint = "one subworkflow step for each, and a condition that chooses between them"
    if _fixed(step.workflow_id, "the workflow", findings, place, hint) and not is_workflow_id(step.workflow_id):
        message = f"'{clip(step.workflow_id)}' cannot be a workflow's id"
        findings.error("workflow.id", message, place, f"letters, digits, _ . - (at most {MAX_LENGTH})")
    if not _fixed(step.version, "the version", findings, place, "default, latest or a number"):
        return
    if step.version.lower() not in _VERSIONS and not (step.version.isdecimal() and int(step.version) > 0):
        hint = suggestion(step.version, _VERSIONS, "a number, or") or ""
        findings.error("definition.unknown-value", f"'{clip(step.version)}' is no version", place, hint)


_VERSIONS = ("default", "active", "latest")


def _check_trigger(workflow: Workflow, trigger: Trigger, findings: Findings, place: Position | None) -> None:
    for param in trigger.params:
        if param.mode is ParamMode.PROVIDED:
            message = (
                f"the parameter '{clip(param.name)}' has no value, and a run that the trigger starts is given none"
            )
            findings.error("trigger.params", message, place, f"params: {{{param.name}: …}}, below the trigger")
    try:
        merged = merge(
            [(Layer.DEFAULTS, DEFAULTS), (Layer.DEFINITION, workflow.params), (Layer.TRIGGER, trigger.params)]
        )
    except ParamError as error:
        findings.error(error.code, f"the trigger's parameters: {error.message}", place, error.hint)
        merged = ()
    cycle = find_cycle(merged)
    if cycle is not None and find_cycle(workflow.params) is None:
        circle = " -> ".join(clip(name) for name in cycle)
        findings.error("param.cycle", f"the trigger's parameters make a circle: {circle}", place)
    match trigger:
        case SignalTrigger():
            _check_signals(workflow, trigger, findings, place)
        case WatermarkTrigger():
            _fixed(trigger.table, "the table", findings, place, "one trigger for each table")
        case IncrementalTrigger():
            _fixed(trigger.consumer, "the consumer", findings, place, "consumer: as `icefloe consumers` lists it")
            for table in trigger.tables:
                _before_a_run(workflow, names_in(table), findings, place)
            for values in trigger.partitions.values():
                for value in values:
                    if isinstance(value, str):
                        _fixed(value, "the partition", findings, place, "the partition's value as it is in the table")
        case _:
            pass


def _check_signals(workflow: Workflow, trigger: SignalTrigger, findings: Findings, place: Position | None) -> None:
    seen: set[str] = set()
    for signal in trigger.signals:
        _fixed(signal.name, "the signal", findings, place, "tell signals apart by their parameters: match_params")
        if signal.join_keys:
            findings.error(
                "trigger.join-keys",
                "join_keys are not supported: a trigger takes the oldest unused signal of each name",
                place,
                "match_params with fixed values, or a condition: params.getFromSignal('a', 'day') == params.getFromSignal('b', 'day')",
            )
        if signal.name in seen:
            message = f"the trigger waits for the signal '{clip(signal.name)}' twice"
            findings.error("trigger.signal", message, place, "one signal of each name is what it can wait for")
        seen.add(signal.name)
        for match in signal.match:
            _before_a_run(workflow, references(match.param), findings, place)


def _before_a_run(
    workflow: Workflow, names: Iterator[str] | frozenset[str], findings: Findings, place: Position | None
) -> None:
    """Names that a trigger looks up to find out whether there is to be a run: those that have a value without one."""
    known: dict[str, Param] = {param.name: param for param in (*DEFAULTS, *workflow.params)}
    seen: set[str] = set()
    stack = [(name, name) for name in names]
    while stack:
        asked, name = stack.pop()
        param = known.get(name)
        if name in seen or name == "workflow_id":
            continue
        seen.add(name)
        by_run = param is not None and param.expression is not None and "params.getFrom" in param.expression
        if param is None or param.mode is ParamMode.PROVIDED or by_run:
            why = f"'{clip(name)}' has none" if name != asked else "it has none"
            if param is None and name not in RUN_FIELDS:
                why = f"there is no parameter '{clip(name)}'"
            message = f"a trigger needs the value of '{clip(asked)}' before there is a run, and {why}"
            findings.error("trigger.params", message, place, "define it in the workflow, with a value")
            continue
        stack.extend((asked, target) for target in references(param) if target != name)
