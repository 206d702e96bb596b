"""Random workflows for property tests: everything the model can hold, in the form in which loaders keep it."""

from __future__ import annotations

import dataclasses
import string
from typing import Any

from hypothesis import strategies as st

from icefloe.workflow import model
from icefloe.workflow.model import Param, ParamMode, Transition
from icefloe.workflow.values import LONG_MAX, LONG_MIN, ParamType

# No lone surrogates (no text holds them) and nothing that asks for a parameter: those are other tests.
texts = st.text(st.characters(exclude_categories=("Cs",), exclude_characters="$"), max_size=30)
words = st.text(string.ascii_letters + string.digits + "_", min_size=1, max_size=12).map(lambda s: f"w{s}")
names = st.one_of(
    words, st.sampled_from(["timout", "owner", "id", "TARGET", "true", "null", "x.y", "a-b", "type", "Jobs"])
)
longs = st.integers(LONG_MIN, LONG_MAX)
doubles = st.floats(allow_nan=False, allow_infinity=False)
seconds = st.one_of(st.sampled_from([1.0, 60.0, 900.0, 3600.0, 86400.0, 0.5, 90.0]), st.floats(0.001, 1e8))
_scalars: dict[ParamType, st.SearchStrategy[Any]] = {
    ParamType.STRING: texts,
    ParamType.LONG: longs,
    ParamType.DOUBLE: doubles,
    ParamType.BOOLEAN: st.booleans(),
}
_expressions: dict[ParamType, list[str]] = {
    ParamType.STRING: ["'a' + 1", "new DateTime(0).toString('yyyyMMdd')", "1 > 2 ? 'x' : 'y'"],
    ParamType.LONG: ["1 + 2 * 3", "return -5;", "'abc'.length()"],
    ParamType.DOUBLE: ["1.5", "Math.pow(2, 3)"],
    ParamType.BOOLEAN: ["1 < 2 && !(3 > 4)", "'a' == 'b'"],
    ParamType.LONG_ARRAY: ["Util.intsBetween(0, 3, 1)"],
    ParamType.STRING_ARRAY: ["'a,b'.split(',')"],
}
modes = st.sampled_from([mode for mode in ParamMode if mode is not ParamMode.PROVIDED])


@st.composite
def params(draw: st.DrawFn, name: str | None = None, depth: int = 1, mode: bool = True) -> Param:
    name = name if name is not None else draw(names)
    how = draw(st.sampled_from(["scalar", "array", "expression", "map", "members", "provided"]))
    chosen = draw(modes) if mode else ParamMode.MUTABLE
    if how == "provided" and mode:
        return Param(name, draw(st.sampled_from(list(_scalars))), mode=ParamMode.PROVIDED)
    if how == "expression":
        kind = draw(st.sampled_from(list(_expressions)))
        return Param(name, kind, expression=draw(st.sampled_from(_expressions[kind])), mode=chosen)
    if how == "array":
        kind = draw(st.sampled_from(list(_scalars)))
        return Param(name, kind.array, value=tuple(draw(st.lists(_scalars[kind], max_size=3))), mode=chosen)
    if how == "map":
        keys = st.one_of(texts, words)
        return Param(name, ParamType.STRING_MAP, value=draw(st.dictionaries(keys, texts, max_size=3)), mode=chosen)
    if how == "members" and depth > 0:
        inner = draw(param_lists(depth - 1, mode=mode))
        return Param(name, ParamType.MAP, members=inner, mode=chosen)
    kind = draw(st.sampled_from(list(_scalars)))
    return Param(name, kind, value=draw(_scalars[kind]), mode=chosen)


@st.composite
def param_lists(draw: st.DrawFn, depth: int = 1, mode: bool = True) -> tuple[Param, ...]:
    chosen = draw(st.lists(names, max_size=3, unique=True))
    return tuple(draw(params(name, depth, mode)) for name in chosen)


def without_maps(listed: tuple[Param, ...]) -> tuple[Param, ...]:
    return tuple(param for param in listed if param.type not in (ParamType.MAP, ParamType.STRING_MAP))


retries = st.builds(
    model.RetryPolicy,
    error=st.integers(0, 100),
    platform=st.integers(0, 100),
    timeout=st.integers(0, 5),
    backoff=st.builds(model.Backoff, initial=seconds, factor=st.floats(1, 10), maximum=seconds),
)
operators = st.sampled_from(list(model.MatchOperator))
moments = st.sampled_from(
    [
        Param("reached", ParamType.LONG, value=20260301),
        Param("reached", ParamType.STRING, value="2026-03-01T06:00:00Z"),
        Param("reached", ParamType.STRING, value="${RUN_DATE}"),
        Param("reached", ParamType.STRING, expression="'a' + 1"),
    ]
)


@st.composite
def matches(draw: st.DrawFn) -> tuple[model.SignalMatch, ...]:
    return tuple(
        model.SignalMatch(draw(params(name, 0, mode=False)), draw(operators))
        for name in draw(st.lists(words, max_size=2, unique=True))
    )


@st.composite
def bases(draw: st.DrawFn, step_id: str) -> dict[str, Any]:
    reached = draw(moments)
    return {
        "id": step_id,
        "name": draw(st.none() | texts),
        "description": draw(st.none() | texts),
        "tags": tuple(draw(st.lists(texts, max_size=2))),
        "params": draw(param_lists()),
        "failure_mode": draw(st.sampled_from(list(model.FailureMode))),
        "retry": draw(st.none() | retries),
        "timeout": draw(st.none() | seconds | st.just("${RUN_HOUR}h")),
        "signal_dependencies": tuple(
            model.SignalDependency(name, draw(matches())) for name in draw(st.lists(texts, max_size=1))
        ),
        "watermark_dependencies": (model.WatermarkDependency("db.t", reached),) if draw(st.booleans()) else (),
        "signal_outputs": tuple(
            model.SignalOutput(name, without_maps(draw(param_lists(0)))) for name in draw(st.lists(texts, max_size=1))
        ),
    }


_json = st.recursive(
    st.none() | st.booleans() | longs | doubles | texts,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(words, inner, max_size=2),
    max_leaves=4,
)


@st.composite
def settings(draw: st.DrawFn, kind: str) -> dict[str, Any]:
    filled = texts.filter(lambda text: text.strip() != "")
    if kind == "Spark":
        found: dict[str, Any] = {"script": draw(filled)}
        if draw(st.booleans()):
            found["write"] = {"table": "db.t", "keys": draw(st.lists(filled, max_size=2)), "pattern": "merge"}
        if draw(st.booleans()):
            found["conf"] = draw(st.dictionaries(texts, texts, max_size=2))
        return found
    if kind == "Http":
        return {"url": draw(filled), "method": "POST", "body": draw(st.dictionaries(words, _json, max_size=2))}
    return {"script": draw(filled), "env": draw(st.dictionaries(texts, texts, max_size=2))}


@st.composite
def steps(draw: st.DrawFn, step_id: str, ids: list[str], depth: int) -> model.Step:
    base = draw(bases(step_id))
    kind = draw(st.sampled_from(["noop", "job", "subworkflow", "foreach"]))
    if kind == "job":
        step_type = draw(st.sampled_from(["Spark", "Http", "Shell", "Python"]))
        version = draw(st.none() | texts)
        return model.TypedStep(**base, type=step_type, type_version=version, settings=draw(settings(step_type)))
    if kind == "subworkflow":
        return model.SubworkflowStep(
            **base,
            workflow_id=draw(words),
            version=draw(st.sampled_from(["default", "latest", "3"])),
            sync=draw(st.booleans()),
            explicit_params=draw(st.booleans()),
        )
    if kind == "foreach" and depth > 0:
        inner, edges = draw(bodies(ids, depth - 1))
        loop = (Param("hour", ParamType.LONG_ARRAY, value=(1, 2)), Param("day", ParamType.STRING_ARRAY, value=("x",)))
        return model.ForeachStep(
            **base, loop_params=loop, concurrency=draw(st.none() | st.integers(1, 500)), steps=inner, transitions=edges
        )
    return model.NoOpStep(**base)


@st.composite
def bodies(draw: st.DrawFn, ids: list[str], depth: int) -> tuple[tuple[model.Step, ...], tuple[Transition, ...]]:
    """Steps and forward transitions between them; conditions with and without OTHERWISE."""
    found = []
    for _ in range(draw(st.integers(1, 4))):
        step_id = draw(st.sampled_from(["s", "job.", "IF", "otherwise", "then-", "1_"])) + str(len(ids))
        ids.append(step_id)
        found.append(draw(steps(step_id, ids, depth)))
    edges: list[Transition] = []
    for at, step in enumerate(found):
        targets = (
            draw(st.lists(st.sampled_from(found[at + 1 :]), max_size=3, unique_by=lambda s: s.id))
            if found[at + 1 :]
            else []
        )
        conditions: list[str] = []
        for target in targets:
            how = draw(st.sampled_from(["plain", "if", "otherwise"]))
            if how == "otherwise" and conditions:
                negated = "!(" + " || ".join(f"({condition})" for condition in conditions) + ")"
                edges.append(Transition(step.id, target.id, negated, otherwise=True))
            elif how == "if":
                condition = f"params.get('RUN_HOUR') == 'x THEN {len(conditions)}'"
                conditions.append(condition)
                edges.append(Transition(step.id, target.id, condition))
            else:
                edges.append(Transition(step.id, target.id))
    return tuple(found), model.in_order(edges, found)


schedule = {
    "fuzzy_max_delay": st.just(0.0) | seconds,
    "start": st.none() | st.just("2024-01-31T06:00:00+01:00"),
    "end": st.none() | st.just("2024-12-31"),
    "catch_up": st.sampled_from(list(model.CatchUp)),
}


@st.composite
def triggers(draw: st.DrawFn) -> model.Trigger:
    own = draw(param_lists())
    kind = draw(st.sampled_from(["cron", "interval", "signal", "watermark", "incremental"]))
    if kind == "cron":
        cron = draw(st.sampled_from(["@daily", "0 3 * * *", "0 0 12 1/1 * ? *", "*/5 * * * *"]))
        zone = draw(st.sampled_from(["UTC", "Europe/Berlin"]))
        return model.CronTrigger(cron=cron, timezone=zone, params=own, **{k: draw(v) for k, v in schedule.items()})
    if kind == "interval":
        every = draw(st.floats(1, 1e6))
        return model.IntervalTrigger(every=every, params=own, **{k: draw(v) for k, v in schedule.items()})
    if kind == "signal":
        signals = tuple(
            model.SignalCondition(name, draw(matches()))
            for name in draw(st.lists(texts, min_size=1, max_size=2, unique=True))
        )
        return model.SignalTrigger(signals=signals, condition=draw(st.none() | st.just("1 < 2")), params=own)
    if kind == "watermark":
        return model.WatermarkTrigger(table=draw(words), every=draw(seconds), params=own)
    counts = st.none() | st.integers(1, LONG_MAX)
    return model.IncrementalTrigger(
        tables=tuple(draw(st.lists(words, min_size=1, max_size=2))),
        consumer=draw(st.none() | texts),
        min_rows=draw(counts),
        min_bytes=draw(counts),
        max_age=draw(st.none() | seconds),
        at_most_every=draw(st.none() | seconds),
        operations=draw(st.sampled_from([("append",), ("append", "overwrite")])),
        partitions=draw(
            st.dictionaries(words, st.lists(st.integers(0, 9) | texts, min_size=1, max_size=2), max_size=1)
        ),
        require=draw(st.sampled_from(["any", "all"])),
        params=own,
    )


alertings = st.builds(
    model.Alerting,
    channels=st.lists(texts, max_size=2).map(tuple),
    events=st.lists(st.sampled_from(list(model.AlertEvent)), unique=True).map(tuple),
    templates=st.dictionaries(st.sampled_from([event.value for event in model.AlertEvent]), texts, max_size=2),
    max_lag=st.none() | st.builds(model.MaxLag, snapshots=st.none() | st.integers(1, 9), seconds=st.none() | seconds),
)
strategies = st.one_of(
    st.builds(model.RunStrategy, rule=st.sampled_from(list(model.RunRule))),
    st.builds(model.RunStrategy, rule=st.just(model.RunRule.PARALLEL), concurrency=st.none() | st.integers(1, 100)),
)


def acceptable(trigger: model.Trigger, own: tuple[Param, ...]) -> model.Trigger:
    """With parameters that go on top of the workflow's: of their types, and with values."""
    taken = {param.name for param in own}
    kept = [param for param in trigger.params if param.name not in taken and param.mode is not ParamMode.PROVIDED]
    return dataclasses.replace(trigger, params=tuple(kept))


@st.composite
def workflows(draw: st.DrawFn) -> model.Workflow:
    body, edges = draw(bodies([], 2))
    own = draw(param_lists())
    return model.Workflow(
        id=draw(words),
        name=draw(st.none() | texts),
        description=draw(st.none() | texts),
        owner=draw(st.none() | texts),
        tags=tuple(draw(st.lists(texts, max_size=2))),
        criticality=draw(st.none() | texts),
        run_strategy=draw(strategies),
        step_concurrency=draw(st.none() | st.integers(1, 100)),
        timeout=draw(st.none() | seconds),
        retry=draw(st.none() | retries),
        freshness=draw(st.none() | seconds),
        alerting=draw(st.none() | alertings),
        params=own,
        steps=body,
        transitions=edges,
        triggers=tuple(acceptable(trigger, own) for trigger in draw(st.lists(triggers(), max_size=2))),
    )
