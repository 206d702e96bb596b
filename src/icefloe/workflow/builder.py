"""Workflows written in Python, with an editor's completion and a type checker's eye.

::

    from icefloe.workflow.builder import Pipeline, incremental

    flow = Pipeline("playback.agg", owner="playback-team", triggers=[incremental("db.playback_daily", at_most_every="15m")])
    changes = flow.capture("capture_change", "db.playback_daily", columns=["event_day"])
    totals = flow.spark("aggregate", "aggregate.sql", table="db.playback_agg", keys=["account_id", "event_day"])
    done = flow.commit("commit_checkpoint", changes)
    changes >> totals >> done

The result is the same model, checked by the same rules, as from YAML; errors point at the Python line. A pipeline file is
run once, in a process of its own, when it is pushed; nothing of it runs later.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias, TypeVar

from pydantic import BaseModel

from icefloe.errors import UsageError
from icefloe.workflow import model
from icefloe.workflow.change_capture import SHORT_FORM, expand
from icefloe.workflow.dag import normal_condition
from icefloe.workflow.declarations import declared
from icefloe.workflow.identifiers import is_step_id, is_workflow_id
from icefloe.workflow.loading import Loaded
from icefloe.workflow.model import Param, ParamMode, Transition
from icefloe.workflow.options import checked
from icefloe.workflow.places import Places
from icefloe.workflow.problems import Findings, Position, suggestion
from icefloe.workflow.resolution import literal
from icefloe.workflow.serialization import canonical
from icefloe.workflow.settings import check
from icefloe.workflow.step_types import BUILTIN, StepTypes, WriteSettings
from icefloe.workflow.validation import validate
from icefloe.workflow.values import Mismatch, ParamType, clip

Duration: TypeAlias = str | float
Literals: TypeAlias = "str | int | float | bool | Sequence[str] | Sequence[int] | Sequence[float] | Mapping[str, Any]"
Pattern: TypeAlias = Literal["auto", "append", "merge", "key_filter", "range_overwrite", "full"]


@dataclass(frozen=True, slots=True)
class Expression:
    """A parameter that is computed: ``total=expr("a + b", "long")``."""

    text: str
    type: str = "string"
    mode: str = "mutable"


def expr(text: str, type: str = "string", mode: str = "mutable") -> Expression:
    """A computed parameter; ``type`` as in YAML's ``<…>``, ``mode`` as in ``(…)``."""
    return Expression(text, type, mode)


@dataclass(frozen=True, slots=True)
class Provided:
    """A parameter that whoever starts the run must give."""

    type: str = "string"


def provided(type: str = "string") -> Provided:
    return Provided(type)


@dataclass(frozen=True, slots=True)
class Constant:
    """A parameter that nobody may change."""

    value: Any


def constant(value: Literals) -> Constant:
    return Constant(value)


ParamInput: TypeAlias = "Literals | Expression | Provided | Constant"


_STEP_OPTIONS = [item.name for item in declared(model.StepBase) if item.name not in ("id", "params")]
_OTHERWISE_GIVEN = ("id", "run_strategy", "params", "steps", "transitions", "triggers")
_WORKFLOW_OPTIONS = [item.name for item in declared(model.Workflow) if item.name not in _OTHERWISE_GIVEN]


class Node:
    """A step of a pipeline that is being built. ``a >> b`` orders steps; ``node["name"]`` refers to a result."""

    def __init__(self, body: _Body, step_id: str) -> None:
        self._body = body
        self.id = step_id

    def __getitem__(self, param: str) -> str:
        """``capture["icdc_table"]`` is the text ``${capture__icdc_table}``."""
        return f"${{{self.id}__{param}}}"

    def __rshift__(self, other: Target) -> Chain:
        return Chain((self,), (self,)) >> other

    def __rrshift__(self, other: Sequence[Node]) -> Chain:
        return Chain(tuple(other), tuple(other)) >> self

    def when(self, condition: str, then: Target, otherwise: Target | None = None) -> Node:
        """Goes on to ``then`` where the condition holds, else to ``otherwise``; may be said several times."""
        self._body.branch(self, condition, then, otherwise)
        return self


@dataclass(frozen=True, slots=True)
class Chain:
    """Steps in a row: what comes before it leads to ``first``, what comes behind it follows ``last``."""

    first: tuple[Node, ...]
    last: tuple[Node, ...]

    def __rshift__(self, other: Target) -> Chain:
        right = _chain(other)
        for source in self.last:
            for target in right.first:
                source._body.connect(source, target)
        return Chain(self.first, right.last)


Target: TypeAlias = "Node | Chain | Sequence[Node]"


def _chain(target: Target) -> Chain:
    if isinstance(target, Chain):
        return target
    nodes = (target,) if isinstance(target, Node) else tuple(target)
    return Chain(nodes, nodes)


class _Body:
    """The steps and transitions of a pipeline or of a loop in it."""

    def __init__(self, findings: Findings, places: Places, types: StepTypes) -> None:
        self._findings = findings
        self._places = places
        self._types = types
        self._steps: list[model.Step | Loop] = []
        self._edges: list[Transition] = []
        self._conditions: dict[str, list[str]] = {}

    # --- steps -----------------------------------------------------------------------------------------------------

    def capture(
        self,
        id: str,
        *source_tables: str,
        columns: Sequence[str] | Mapping[str, Sequence[str]] = (),
        capture_mode: Literal["ICDC", "RANGE"] | None = None,
        data_operations: Sequence[Literal["append", "overwrite", "delete"]] = (),
        on_other_operations: Literal["fail", "ignore"] | None = None,
        on_gap: Literal["fail", "full", "diff"] | None = None,
        on_empty: Literal["skip", "run"] | None = None,
        range_columns: Mapping[str, Any] | None = None,
        consumer: str | None = None,
        start: str | int | None = None,
        pin: Literal["auto", "require", "off"] | None = None,
        settings: Mapping[str, Any] | None = None,
        **common: Any,
    ) -> Node:
        """An IpCapture step: what changed in the sources since this consumer last committed."""
        return self._typed("IpCapture", locals())

    def commit(self, id: str, *captures: Node | str, allow_ignored: bool = False, **common: Any) -> Node:
        """An IpCommit step: moves the checkpoints of the captures."""
        names = [capture.id if isinstance(capture, Node) else capture for capture in captures]
        settings: dict[str, Any] = {"capture_step": names[0] if len(names) == 1 else names}
        if allow_ignored:
            settings["allow_ignored"] = True
        return self.job(id, "IpCommit", settings, **common)

    def icdc(self, id: str, source_table: str, target_table: str | None = None, **common: Any) -> Node:
        """The short form: a capture, and a commit that is added behind everything that follows it."""
        settings = _given({"source_tables": [source_table], "target_table": target_table})
        return self.job(id, SHORT_FORM, settings, **common)

    def spark(
        self,
        id: str,
        script: str,
        *,
        table: str | None = None,
        keys: Sequence[str] = (),
        pattern: Pattern | None = None,
        partition_by: Sequence[str] = (),
        write: Mapping[str, Any] | None = None,
        conf: Mapping[str, str] | None = None,
        settings: Mapping[str, Any] | None = None,
        **common: Any,
    ) -> Node:
        """SQL text, a ``.sql`` or ``.py`` file, or ``module:function``; ``table`` makes Icefloe write the result, and ``write`` says more of
        how (``lookback``, ``range``, ``compact``, ``search``, ``lookup_tables``, ``properties``)."""
        named = _among(WriteSettings, locals()) | dict(write or {})
        if named and "table" not in named:
            self._error(id, "keys, pattern, partition_by and write need a table to write to", hint="table='db.target'")
        return self._typed("Spark", {**locals(), "write": named})

    def shell(
        self, id: str, script: str, *, env: Mapping[str, str] | None = None, files: Sequence[str] = (), **common: Any
    ) -> Node:
        """A shell script, or the name of a ``.sh`` file."""
        return self._typed("Shell", locals())

    def python(
        self,
        id: str,
        script: str,
        *,
        args: Sequence[Any] = (),
        env: Mapping[str, str] | None = None,
        files: Sequence[str] = (),
        **common: Any,
    ) -> Node:
        """Python text, a ``.py`` file, or ``module:function``, in a process of its own."""
        return self._typed("Python", locals())

    def http(
        self,
        id: str,
        url: str,
        *,
        method: Literal["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"] | None = None,
        headers: Mapping[str, str] | None = None,
        query: Mapping[str, str] | None = None,
        body: str | Mapping[str, Any] | Sequence[Any] | None = None,
        expect: Sequence[int] = (),
        **common: Any,
    ) -> Node:
        """One HTTP request."""
        return self._typed("Http", locals())

    def _typed(self, type: str, given: Mapping[str, Any]) -> Node:
        """A job with those of a method's arguments that are settings of its type."""
        step_type = BUILTIN.find(type)
        assert step_type is not None and step_type.settings is not None
        settings = _among(step_type.settings, given) | dict(given.get("settings") or {})
        return self.job(given["id"], type, settings, **given["common"])

    def noop(self, id: str, **common: Any) -> Node:
        """A place to branch and join."""
        return self._add(model.NoOpStep(**self._base(id, common)))

    def subworkflow(
        self,
        id: str,
        workflow_id: str | None = None,
        *,
        version: str = "default",
        sync: bool = True,
        explicit_params: bool = False,
        **common: Any,
    ) -> Node:
        """Another workflow, with this step's parameters."""
        base = self._base(id, common)
        called = {
            "workflow_id": workflow_id or id,
            "version": version,
            "sync": sync,
            "explicit_params": explicit_params,
        }
        return self._add(model.SubworkflowStep(**base, **self._checked(model.SubworkflowStep, called, id)))

    def job(
        self,
        id: str,
        type: str,
        settings: Mapping[str, Any] | None = None,
        *,
        type_version: str | None = None,
        **common: Any,
    ) -> Node:
        """A job of any registered type."""
        base = {**self._base(id, common), **self._checked(model.TypedStep, {"type_version": type_version}, id)}
        short = type == SHORT_FORM
        known = self._types.find("IpCapture" if short else type)
        data = _plain(settings or {})
        if known is None:
            names = [step_type.name for step_type in self._types]
            self._error(id, f"there is no step type '{clip(type)}'", hint=suggestion(type, names, "types"))
            return self._add(model.NoOpStep(**base))
        check(data, id, known, self._findings, self._places)
        return self._add(model.TypedStep(**base, type=SHORT_FORM if short else known.name, settings=data))

    def foreach(
        self, id: str, *, concurrency: int | None = None, common: Mapping[str, Any] | None = None, **loop: Any
    ) -> Loop:
        """A loop: ``with flow.foreach("per_day", day=[…]) as each: each.spark(…)``. A loop value may be a list, an
        expression, or a reference to another step's list."""
        base = self._base(id, dict(common or {}))
        params = [self._param(name, value, id) for name, value in loop.items()]
        loop_params = tuple(param for param in params if param is not None)
        inner = Loop(self, base | self._checked(model.ForeachStep, {"concurrency": concurrency}, id), loop_params)
        self._steps.append(inner)
        return inner

    # --- order -----------------------------------------------------------------------------------------------------

    def sequential(self, *nodes: Node) -> Chain:
        """Puts steps one after the other."""
        chain = _chain(nodes[0])
        for node in nodes[1:]:
            chain = chain >> node
        return chain

    def connect(self, source: Node, target: Node, condition: str | None = None, otherwise: bool = False) -> None:
        if source._body is not self or target._body is not self:
            self._error(source.id, f"'{source.id}' and '{target.id}' are not on the same level")
        self._edges.append(Transition(source.id, target.id, condition, otherwise))

    def branch(self, source: Node, condition: str, then: Target, otherwise: Target | None) -> None:
        said = self._conditions.setdefault(source.id, [])
        normal = normal_condition(condition)
        if normal not in said:
            said.append(normal)
        for target in _chain(then).first:
            self.connect(source, target, normal)
        if otherwise is not None:
            negated = "!(" + " || ".join(f"({each})" for each in said) + ")"
            for target in _chain(otherwise).first:
                self.connect(source, target, negated, otherwise=True)

    # --- what it becomes ---------------------------------------------------------------------------------------------

    def _finish(self) -> tuple[tuple[model.Step, ...], tuple[Transition, ...]]:
        steps = tuple(step.finish() if isinstance(step, Loop) else step for step in self._steps)
        steps, edges = expand(steps, tuple(self._edges))
        return steps, model.in_order(edges, steps)

    def _add(self, step: model.Step) -> Node:
        self._steps.append(step)
        return Node(self, step.id)

    def _base(self, step_id: str, common: dict[str, Any]) -> dict[str, Any]:
        """The options every step takes; every other keyword is a parameter."""
        place = _caller()
        if not is_step_id(step_id):
            self._findings.error(
                "step.id", f"'{clip(str(step_id))}' cannot be a step's id", place, "letters, digits, _ . -"
            )
        if step_id in self._places.steps:
            self._findings.error("step.duplicate-id", f"the step id '{clip(step_id)}' is used twice", place)
        self._places.steps.setdefault(step_id, place)
        given = dict(common)
        options = {name: given.pop(name) for name in _STEP_OPTIONS if name in given}
        base = {"id": step_id, **self._checked(model.StepBase, options, step_id)}
        named = {**given.pop("params", {}), **given}
        params = [self._param(name, value, step_id) for name, value in named.items()]
        return {**base, "params": tuple(param for param in params if param is not None)}

    def _checked(self, cls: type, options: Mapping[str, Any], step_id: str | None) -> dict[str, Any]:
        """The options as the model holds them; what it does not take is told, and left out."""
        values: dict[str, Any] = {}
        for name, value in options.items():
            try:
                values |= checked(cls, {name: value})
            except ValueError as error:
                self._error(step_id, str(error), hint=getattr(error, "hint", None))
        return values

    def _param(self, name: str, value: Any, step_id: str | None) -> Param | None:
        try:
            return _param(name, value)
        except (Mismatch, ValueError) as error:
            self._error(step_id, f"the parameter '{clip(name)}': {error}")
            return None

    def _error(self, step_id: str | None, message: str, hint: str | None = None) -> None:
        place = self._places.step(step_id) if step_id is not None else self._places.workflow
        self._findings.error("definition.invalid", message, place, hint)


class Loop(_Body, Node):
    """A foreach that is being built; a step like any other outside, a body inside."""

    def __init__(self, outer: _Body, base: dict[str, Any], loop_params: tuple[Param, ...]) -> None:
        _Body.__init__(self, outer._findings, outer._places, outer._types)
        Node.__init__(self, outer, base["id"])
        self._base_fields = base
        self._loop_params = loop_params

    def __enter__(self) -> Loop:
        return self

    def __exit__(self, *_: object) -> None:
        return None

    def finish(self) -> model.ForeachStep:
        steps, edges = self._finish()
        return model.ForeachStep(
            **self._base_fields,
            loop_params=self._loop_params,
            steps=steps,
            transitions=edges,
        )


class Pipeline(_Body):
    """A workflow that is being built. Every keyword that is no option is a parameter of the workflow."""

    def __init__(
        self,
        id: str,
        *,
        name: str | None = None,
        description: str | None = None,
        owner: str | None = None,
        tags: Sequence[str] = (),
        criticality: str | None = None,
        run_strategy: Literal["SEQUENTIAL", "STRICT_SEQUENTIAL", "FIRST_ONLY", "LAST_ONLY", "PARALLEL"] = "SEQUENTIAL",
        concurrency: int | None = None,
        step_concurrency: int | None = None,
        timeout: Duration | None = None,
        retry: model.RetryPolicy | Mapping[str, Any] | int | None = None,
        freshness: Duration | None = None,
        alerting: model.Alerting | Mapping[str, Any] | Sequence[str] | None = None,
        triggers: Sequence[model.Trigger] = (),
        types: StepTypes = BUILTIN,
        params: Mapping[str, ParamInput] | None = None,
        **more_params: ParamInput,
    ) -> None:
        given = locals()
        options = {name: given[name] for name in _WORKFLOW_OPTIONS}
        strategy = {"rule": run_strategy, "concurrency": concurrency}
        super().__init__(Findings(), Places(workflow=_caller()), types)
        if not is_workflow_id(id):
            self._findings.error("workflow.id", f"'{clip(str(id))}' cannot be a workflow's id", self._places.workflow)
        self.id = id
        named = [self._param(key, value, None) for key, value in {**(params or {}), **more_params}.items()]
        self._fields: dict[str, Any] = {
            **self._checked(model.Workflow, options | {"run_strategy": strategy}, None),
            "id": id,
            "triggers": tuple(triggers),
            "params": tuple(param for param in named if param is not None),
        }

    def build(self) -> Loaded:
        """The workflow, checked. Raises :class:`DefinitionError` with everything that is wrong."""
        findings = Findings(list(self._findings.problems))
        steps, edges = self._finish()
        workflow = model.Workflow(**self._fields, steps=steps, transitions=edges)
        for step in steps:
            self._places.steps.setdefault(step.id, self._places.workflow or Position("", 0, 0))
        if not findings.has_errors:
            self._check_storable(workflow, findings)
        if not findings.has_errors:
            validate(workflow, findings, self._places)
        findings.raise_errors()
        return Loaded(workflow, findings.ordered(), self._places)

    def _check_storable(self, workflow: model.Workflow, findings: Findings) -> None:
        """What cannot be stored and read back must not be pushed: a number for a name, a set among the settings."""
        try:
            same = model.Workflow.from_dict(json.loads(canonical(workflow.to_dict()))) == workflow
            reason = "it changes when it is stored"
        except (UsageError, TypeError, ValueError, RecursionError) as error:
            same, reason = False, str(error)
        if not same:
            findings.error(
                "definition.invalid", f"the pipeline cannot be stored: {clip(reason, 200)}", self._places.workflow
            )

    @property
    def places(self) -> Places:
        """Where in the Python file each step was made."""
        return self._places

    def workflow(self) -> model.Workflow:
        """The workflow alone."""
        return self.build().workflow


# --- triggers ------------------------------------------------------------------------------------------------------------


def cron(
    expression: str,
    timezone: str = "UTC",
    *,
    jitter: Duration = 0,
    start: str | None = None,
    end: str | None = None,
    catch_up: Literal["none", "last", "all"] = "last",
    params: Mapping[str, ParamInput] | None = None,
) -> model.CronTrigger:
    """``cron("@daily")``, ``cron("0 3 * * *", "Europe/Berlin")``."""
    return _trigger(model.CronTrigger, locals())


def every(
    interval: Duration,
    *,
    jitter: Duration = 0,
    start: str | None = None,
    end: str | None = None,
    catch_up: Literal["none", "last", "all"] = "last",
    params: Mapping[str, ParamInput] | None = None,
) -> model.IntervalTrigger:
    """``every("15m")``."""
    return _trigger(model.IntervalTrigger, locals())


def incremental(
    *tables: str,
    at_most_every: Duration | None = None,
    max_age: Duration | None = None,
    quiet_period: Duration | None = None,
    min_rows: int | None = None,
    min_files: int | None = None,
    min_bytes: int | None = None,
    operations: Sequence[Literal["append", "overwrite", "delete"]] = ("append",),
    partitions: Mapping[str, Any] | None = None,
    require: Literal["any", "all"] = "any",
    consumer: str | None = None,
    allow_cycle: int | None = None,
    params: Mapping[str, ParamInput] | None = None,
) -> model.IncrementalTrigger:
    """A run when a source has changes that this workflow has not seen."""
    return _trigger(model.IncrementalTrigger, locals())


def watermark(
    table: str,
    every: Duration = "1d",
    timezone: str = "UTC",
    *,
    params: Mapping[str, ParamInput] | None = None,
) -> model.WatermarkTrigger:
    """A run each time a table is complete up to a further boundary: ``watermark("db.events", "1h")``."""
    return _trigger(model.WatermarkTrigger, locals())


def signal(name: str, **match: Literals) -> model.SignalTrigger:
    """A run when a signal of this name, with these parameters, is published."""
    matches = tuple(model.SignalMatch(literal(key, value)) for key, value in match.items())
    return signals(model.SignalCondition(name, matches))


def signals(
    *signals: str | model.SignalCondition,
    condition: str | None = None,
    dedup: str | None = None,
    params: Mapping[str, ParamInput] | None = None,
) -> model.SignalTrigger:
    """A run when all of these signals have been published: names, or ``SignalCondition`` with what they must say."""
    return _trigger(model.SignalTrigger, locals())


TriggerT = TypeVar("TriggerT", bound=model.TriggerBase)


def _trigger(cls: type[TriggerT], given: Mapping[str, Any]) -> TriggerT:
    """A trigger with a function's arguments, under any of the names that YAML knows for them."""
    options = {name: value for name, value in given.items() if name != "params"}
    params = tuple(_param(name, value) for name, value in (given["params"] or {}).items())
    return cls(**checked(cls, options), params=params)


# --- odds ----------------------------------------------------------------------------------------------------------------


def _param(name: str, value: Any) -> Param:
    if isinstance(value, Expression):
        return Param(name, _type(value.type), expression=value.text, mode=ParamMode(value.mode.upper()))
    if isinstance(value, Provided):
        return Param(name, _type(value.type), mode=ParamMode.PROVIDED)
    if isinstance(value, Constant):
        fixed = literal(name, value.value)
        return Param(name, fixed.type, fixed.value, members=fixed.members, mode=ParamMode.CONSTANT)
    return literal(name, value)


def _type(word: str) -> ParamType:
    for kind in ParamType:
        if word.lower() == kind.notation:
            return kind
    raise ValueError(
        f"'{clip(word)}' is no parameter type: {suggestion(word, [k.notation for k in ParamType], 'types')}"
    )


def _given(values: Mapping[str, Any]) -> dict[str, Any]:
    """Without what was left out; an empty list or map is the same as nothing said."""
    return {key: value for key, value in values.items() if value is not None and value not in ((), [], {})}


def _among(schema: type[BaseModel], given: Mapping[str, Any]) -> dict[str, Any]:
    """Those of some arguments that are settings of a schema."""
    return _given({name: value for name, value in given.items() if name in schema.model_fields})


def _plain(value: Any) -> Any:
    """Settings as JSON: tuples become lists."""
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, list | tuple) else value


def _caller() -> Position:
    """The line outside this module that is building the pipeline."""
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename == __file__:
        frame = frame.f_back
    return Position(Path(frame.f_code.co_filename).name, frame.f_lineno, 1)
