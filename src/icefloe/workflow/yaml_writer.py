"""A workflow as YAML in the canonical form. Reading it back gives an equal workflow."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import is_dataclass
from enum import StrEnum
from itertools import pairwise
from typing import Any

import yaml

from icefloe.workflow import durations, model
from icefloe.workflow.declarations import FieldDeclaration, declared
from icefloe.workflow.document import BOOLS, FLOAT, INT, NULLS
from icefloe.workflow.model import Container, Param, Transition, Workflow
from icefloe.workflow.parameters import has_definition_keys
from icefloe.workflow.reserved import LEVELS
from icefloe.workflow.step_types import BUILTIN, StepTypes
from icefloe.workflow.values import ParamType, plain


def to_yaml(workflow: Workflow, types: StepTypes = BUILTIN) -> str:
    """The workflow's definition. ``types`` says under which key each job's settings stand."""
    document: dict[str, Any] = {}
    if workflow.description is not None:
        document["Description"] = workflow.description
    if workflow.triggers:
        triggers = [_trigger(trigger) for trigger in workflow.triggers]
        document["Trigger"] = triggers[0] if len(triggers) == 1 else triggers
    document["Workflow"] = _workflow(workflow, types)
    return yaml.dump(document, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=120, default_flow_style=False)


class _Dumper(yaml.SafeDumper):
    """Quotes exactly what ``document.py`` would not read as text; repeats instead of aliases."""

    yaml_implicit_resolvers: dict[str, Any] = {}  # noqa: RUF012 - PyYAML reads it from the class

    def ignore_aliases(self, data: Any) -> bool:
        return True

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:
        super().increase_indent(flow, False)


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    special = text in NULLS or text in BOOLS or INT.match(text) or FLOAT.match(text) or _is_special_elsewhere(text)
    block = "\n" in text and text.isprintable() is False and _fits_block(text)
    # Readers of YAML 1.1 and 1.2 disagree on whether these break a line; escaped, they are only themselves.
    odd_break = any(letter in text for letter in "\x85\u2028\u2029")
    style = '"' if odd_break else "|" if block else "'" if special else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


def _is_special_elsewhere(text: str) -> bool:
    """Would a reader of YAML 1.1 take it for something else than text (``yes``, ``1_000``, ``2024-01-01``, ``=``)?"""
    found = yaml.SafeLoader.yaml_implicit_resolvers.get(text[:1], ())
    return any(pattern.match(text) for _, pattern in found)


def _fits_block(text: str) -> bool:
    lines = text.split("\n")
    return all(line.isprintable() and line == line.rstrip() for line in lines) and not text.startswith((" ", "\n"))


def _number(dumper: yaml.SafeDumper, value: float) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:float", repr(value))


_Dumper.add_representer(str, _text)
_Dumper.add_representer(float, _number)
_Dumper.add_implicit_resolver("tag:yaml.org,2002:int", INT, list("-+0123456789."))
_Dumper.add_implicit_resolver("tag:yaml.org,2002:float", FLOAT, list("-+0123456789."))
_Dumper.add_implicit_resolver("tag:yaml.org,2002:bool", re.compile(f"(?:{'|'.join(BOOLS)})\\Z"), list("tTfF"))
_Dumper.add_implicit_resolver("tag:yaml.org,2002:null", re.compile(f"(?:{'|'.join(NULLS)})\\Z"), [*"nN~", ""])


_IN_FULL = (model.RetryPolicy, model.Backoff, model.RunStrategy, model.WatermarkTrigger)
"""Written with their defaults, which nobody knows by heart."""


def _written(part: Any, *without: str) -> dict[str, Any]:
    """The fields of a part of the model by their keys, in the model's order; defaults are left out."""
    written: dict[str, Any] = {}
    for item in declared(type(part)):
        value = getattr(part, item.name)
        implied = item.is_default(value) and (value == () or not isinstance(part, _IN_FULL))
        if item.name in without or value is None or implied:
            continue
        if isinstance(value, Param):
            written |= [_param(value)]
        else:
            written[item.key] = _value(item, value)
    return written


def _value(item: FieldDeclaration, value: Any) -> Any:
    if item.is_duration:
        return _duration(value)
    if isinstance(value, StrEnum):
        return value.value
    if is_dataclass(value):
        return _written(value)
    if item.element is Param:
        return dict(_param(param) for param in value)
    if item.element is model.SignalMatch:
        return dict(_match(match) for match in value)
    if isinstance(value, tuple):
        return [_value(item, each) for each in value]
    return dict(value) if isinstance(value, Mapping) else value


def _workflow(workflow: Workflow, types: StepTypes) -> dict[str, Any]:
    written: dict[str, Any] = {}
    for key, value in _written(workflow, "description", "params", "steps", "transitions", "triggers").items():
        written |= {key: value.pop("rule"), **value} if key == "run_strategy" else {key: value}
    return written | _params(workflow.params, "workflow", "params") | _body(workflow, types)


def _body(container: Container, types: StepTypes) -> dict[str, Any]:
    jobs = [_step(step, types) for step in container.steps]
    dag = _dag(container)
    return {"jobs": jobs, **({"dag": dag} if dag is not None else {})}


def _duration(seconds: float | str | None) -> float | str | None:
    if seconds is None or isinstance(seconds, str):
        return seconds
    words = durations.text(seconds)
    try:
        return words if durations.parse(words) == seconds else seconds
    except ValueError:
        return seconds


def _params(params: Sequence[Param], level: str, nested: str) -> dict[str, Any]:
    """Beside the reserved keys; under a key of their own when one of them could be taken for a reserved key."""
    written = dict(_param(param) for param in params)
    table = LEVELS[level]
    types = BUILTIN if level == "job" else ()
    keys = [step_type.key for step_type in types]
    if any(table.match(key, keys) or table.near_miss(key, keys) for key in written):
        return {nested: written}
    return written


def _param(param: Param) -> tuple[str, Any]:
    """The key with its notation, and the value."""
    key = f"!{param.name}" if param.expression is not None else param.name
    if _needs_type(param):
        key += f"<{param.type.notation}>"
    if param.mode is not model.ParamMode.MUTABLE:
        key += f"({param.mode.value.lower()})"
    if param.expression is not None:
        return key, param.expression
    if param.members is not None:
        return key, dict(_param(member) for member in param.members)
    return key, plain(param.value) if param.value is not None else None


def _needs_type(param: Param) -> bool:
    if param.expression is not None or param.value is None:
        plain_default = ParamType.STRING if param.members is None else ParamType.MAP
        if param.members is not None:
            names = [member.name for member in param.members]
            return param.type is not plain_default or _all_texts(param.members) or has_definition_keys(names)
        return param.type is not plain_default
    if param.type.is_array:
        return not param.value
    if isinstance(param.value, Mapping):
        notation = any(letter in key for key in param.value for letter in "!<>()")
        return not param.value or notation or has_definition_keys(param.value)
    return False


def _all_texts(members: tuple[Param, ...]) -> bool:
    """Would this map be read as one of strings?"""
    return bool(members) and all(member.type is ParamType.STRING and member.value is not None for member in members)


def _step(step: model.Step, types: StepTypes) -> dict[str, Any]:
    written = _written(step, "params", "settings", "steps", "transitions", "loop_params")
    match step:
        case model.NoOpStep():
            return {"job": {**written, "type": "NoOp", **_params(step.params, "job", "params")}}
        case model.TypedStep():
            known = types.find(step.type)
            settings = {known.key if known is not None else step.type: dict(step.settings)} if step.settings else {}
            return {"job": {**written, **settings, **_params(step.params, "job", "params")}}
        case model.SubworkflowStep():
            return {"subworkflow": {**written, **_params(step.params, "subworkflow", "params")}}
        case model.ForeachStep():
            loop = {"params": dict(_param(param) for param in step.loop_params)} if step.loop_params else {}
            own = _params(step.params, "foreach", "job_params")
            return {"foreach": {**written, **loop, **own, **_body(step, types)}}


def _match(match: model.SignalMatch) -> tuple[str, dict[str, Any]]:
    _, value = _param(match.param)
    how = "expression" if match.param.expression is not None else "value"
    return match.param.name, {how: value, "type": match.param.type.notation, "operator": match.operator.value}


def _dag(container: Container) -> Any:
    edges = container.transitions
    ids = [step.id for step in container.steps]
    if not edges:
        return None
    chain = [Transition(source, target) for source, target in pairwise(ids)]
    if list(edges) == chain:
        return "sequential"
    groups: dict[str, list[Transition]] = {}
    for edge in edges:
        groups.setdefault(edge.source, []).append(edge)
    written: list[Any] = []
    for source, group in groups.items():
        if len(group) == 1 and group[0].condition is None:
            written.append(f"{source} -> {group[0].target}")
        else:
            written.append({source: [_clause(edge) for edge in group]})
    return written


def _clause(edge: Transition) -> str:
    if edge.condition is None:
        return edge.target
    return f"OTHERWISE {edge.target}" if edge.otherwise else f"IF {edge.condition} THEN {edge.target}"


def _trigger(trigger: model.Trigger) -> dict[str, Any]:
    written = _written(trigger)
    match trigger:
        case model.CronTrigger() | model.IntervalTrigger():
            return written
        case _:
            kind = next(kind for kind, cls in model.TRIGGER_KINDS.items() if isinstance(trigger, cls))
            return {kind: written or None}
