"""A workflow as YAML in the canonical form. Reading it back gives an equal workflow."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import yaml

from icefloe.workflow import durations, model
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


def _workflow(workflow: Workflow, types: StepTypes) -> dict[str, Any]:
    strategy = workflow.run_strategy
    written = _present(
        id=workflow.id,
        name=workflow.name,
        owner=workflow.owner,
        tags=list(workflow.tags),
        criticality=workflow.criticality,
        run_strategy=strategy.rule.value if strategy != model.RunStrategy() else None,
        workflow_concurrency=strategy.concurrency,
        step_concurrency=workflow.step_concurrency,
        timeout=_duration(workflow.timeout),
        retry=_retry(workflow.retry),
        freshness=_duration(workflow.freshness),
        alerting=_alerting(workflow.alerting),
    )
    written |= _params(workflow.params, "workflow", "params")
    return written | _body(workflow, types)


def _present(**values: Any) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None and value != []}


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


def _retry(policy: model.RetryPolicy | None) -> Any:
    if policy is None:
        return None
    backoff = policy.backoff
    return {
        "error": policy.error,
        "platform": policy.platform,
        "timeout": policy.timeout,
        "backoff": {
            "initial": _duration(backoff.initial),
            "factor": backoff.factor,
            "maximum": _duration(backoff.maximum),
        },
    }


def _alerting(alerting: model.Alerting | None) -> Any:
    if alerting is None:
        return None
    written: dict[str, Any] = {"channels": list(alerting.channels)}
    if alerting.events != tuple(model.AlertEvent):
        written["events"] = [event.value for event in alerting.events]
    if alerting.templates:
        written["templates"] = dict(alerting.templates)
    if alerting.max_lag is not None:
        lag = alerting.max_lag
        written["max_lag"] = _present(snapshots=lag.snapshots, rows=lag.rows, time=_duration(lag.seconds))
    return written


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
    base = _present(
        id=step.id,
        name=step.name,
        description=step.description,
        tags=list(step.tags),
        failure_mode=step.failure_mode.value if step.failure_mode is not model.FailureMode.FAIL_AFTER_RUNNING else None,
        retry=_retry(step.retry),
        timeout=_duration(step.timeout),
        signal_dependencies=[{"name": item.name, **_match(item.match)} for item in step.signal_dependencies],
        watermark_dependencies=[_watermark(item) for item in step.watermark_dependencies],
        signal_outputs=[_output(item) for item in step.signal_outputs],
    )
    match step:
        case model.NoOpStep():
            return {"job": {**base, "type": "NoOp", **_params(step.params, "job", "params")}}
        case model.TypedStep():
            known = types.find(step.type)
            settings = {known.key if known is not None else step.type: dict(step.settings)} if step.settings else {}
            kind = _present(type=step.type, type_version=step.type_version)
            return {"job": {**base, **kind, **settings, **_params(step.params, "job", "params")}}
        case model.SubworkflowStep():
            called = {"workflow_id": step.workflow_id}
            if step.version != "default":
                called["version"] = step.version
            flags = _present(sync=None if step.sync else False, explicit_params=step.explicit_params or None)
            return {"subworkflow": {**base, **called, **flags, **_params(step.params, "subworkflow", "params")}}
        case model.ForeachStep():
            loop = {"params": dict(_param(param) for param in step.loop_params)} if step.loop_params else {}
            concurrency = _present(concurrency=step.concurrency)
            own = _params(step.params, "foreach", "job_params")
            return {"foreach": {**base, **concurrency, **loop, **own, **_body(step, types)}}


def _match(match: tuple[model.SignalMatch, ...]) -> dict[str, Any]:
    written = {}
    for item in match:
        _, value = _param(item.param)
        how = "expression" if item.param.expression is not None else "value"
        written[item.param.name] = {how: value, "type": item.param.type.notation, "operator": item.operator.value}
    return {"match_params": written} if written else {}


def _watermark(item: model.WatermarkDependency) -> dict[str, Any]:
    key, value = _param(item.reached)
    return {"table": item.table, key: value}


def _output(item: model.SignalOutput) -> dict[str, Any]:
    params = {"params": dict(_param(param) for param in item.params)} if item.params else {}
    return {"name": item.name, **params}


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
    params = {"params": dict(_param(param) for param in trigger.params)} if trigger.params else {}
    match trigger:
        case model.CronTrigger():
            zone = {"timezone": trigger.timezone} if trigger.timezone != "UTC" else {}
            return {"cron": trigger.cron, **zone, **_schedule(trigger), **params}
        case model.IntervalTrigger():
            return {"every": _duration(trigger.every), **_schedule(trigger), **params}
        case model.SignalTrigger():
            signals = [_present(name=s.name, **_match(s.match), join_keys=list(s.join_keys)) for s in trigger.signals]
            more = _present(condition=trigger.condition, dedup=trigger.dedup)
            return {"signal": {"signals": signals, **more, **params}}
        case model.WatermarkTrigger():
            written = {"table": trigger.table, "every": _duration(trigger.every), "timezone": trigger.timezone}
            return {"watermark": {**written, **params}}
        case model.IncrementalTrigger():
            return {"incremental": {**_incremental(trigger), **params} or None}


def _schedule(trigger: model.CronTrigger | model.IntervalTrigger) -> dict[str, Any]:
    return _present(
        fuzzy_max_delay=_duration(trigger.fuzzy_max_delay) if trigger.fuzzy_max_delay else None,
        start=trigger.start,
        end=trigger.end,
        catch_up=trigger.catch_up.value if trigger.catch_up is not model.CatchUp.LAST else None,
    )


def _incremental(trigger: model.IncrementalTrigger) -> dict[str, Any]:
    return _present(
        tables=list(trigger.tables),
        consumer=trigger.consumer,
        min_rows=trigger.min_rows,
        min_files=trigger.min_files,
        min_bytes=trigger.min_bytes,
        max_age=_duration(trigger.max_age),
        at_most_every=_duration(trigger.at_most_every),
        quiet_period=_duration(trigger.quiet_period),
        operations=list(trigger.operations) if trigger.operations != ("append",) else None,
        partitions=dict(trigger.partitions) or None,
        require=trigger.require if trigger.require != "any" else None,
        allow_cycle=trigger.allow_cycle,
    )
