"""Jobs, subworkflows and foreach blocks of a YAML definition as steps of the model."""

from __future__ import annotations

import dataclasses
import re
from dataclasses import dataclass
from typing import Any

from icefloe.workflow.change_capture import SHORT_FORM, expand, short_form_settings
from icefloe.workflow.dag import DagReader
from icefloe.workflow.document import Entry, MapNode, Node, ScalarNode, as_map, describe
from icefloe.workflow.fields import Fields
from icefloe.workflow.identifiers import MAX_LENGTH, is_step_id
from icefloe.workflow.model import (
    ForeachStep,
    NoOpStep,
    Param,
    Step,
    StepBase,
    SubworkflowStep,
    Transition,
    TypedStep,
    in_order,
)
from icefloe.workflow.parameters import base_name, read_params
from icefloe.workflow.places import Places
from icefloe.workflow.problems import Findings, Position, did_you_mean, suggestion
from icefloe.workflow.reserved import fold
from icefloe.workflow.settings import misplaced, read_settings
from icefloe.workflow.step_types import NOOP_TYPES, StepType, StepTypes
from icefloe.workflow.values import ParamType, clip
from icefloe.workflow.yaml_policies import read_retry
from icefloe.workflow.yaml_signals import read_dependencies, read_outputs, read_watermark_dependencies

MAX_STEPS = 1000

_WRAPPERS = ("job", "subworkflow", "foreach", "while", "step")


@dataclass(slots=True)
class StepReader:
    """Reads the steps of one definition, nested ones included, and the transitions between them."""

    types: StepTypes
    findings: Findings
    places: Places

    def read_body(self, fields: Fields) -> tuple[tuple[Step, ...], tuple[Transition, ...]]:
        """The ``jobs`` (or ``steps``) and ``dag`` of a workflow or foreach."""
        name = "steps" if "steps" in fields and "jobs" not in fields else "jobs"
        if "steps" in fields and "jobs" in fields:
            self._error(
                "definition.duplicate-key", "'steps' and 'jobs' say the same", fields.at("steps"), "keep 'jobs'"
            )
        read: list[tuple[Step, Fields]] = []
        for item in fields.items(name):
            with_fields = self._item(item)
            if with_fields is not None:
                read.append(with_fields)
        if name not in fields:
            self._error("definition.missing-key", f"'{fields.level.name}' has no 'jobs'", fields.position, "add jobs:")
        steps = [step for step, _ in read]
        reader = DagReader([step.id for step in steps], self.findings)
        own = set()
        for step, inner in read:
            transition, depends = inner.get("transition"), inner.get("depends_on")
            if transition is not None:
                reader.read_transition(step.id, transition)
                own.add(step.id)
            if depends is not None:
                reader.read_depends_on(step.id, depends)
        dag = fields.get("dag")
        if dag is not None:
            reader.read_dag(dag, frozenset(own))
        self.places.edges.update(reader.edges)
        all_steps, edges = expand(tuple(steps), tuple(reader.edges))
        edges = in_order(edges, all_steps)
        for step in all_steps:
            self.places.steps.setdefault(step.id, fields.at("dag") if dag is not None else fields.at(name))
        return all_steps, edges

    def _error(self, code: str, message: str, position: Position, hint: str | None = None) -> None:
        self.findings.error(code, message, position, hint)

    def _item(self, item: Node) -> tuple[Step, Fields] | None:
        """One entry of ``jobs``: ``- job: {…}`` and the like, or the job's own keys."""
        if not isinstance(item, MapNode):
            self._error(
                "definition.wrong-type",
                f"a job must be a map, this is {describe(item)}",
                item.position,
                "write '- job:' and its keys below",
            )
            return None
        if len(item.entries) == 1:
            entry = next(iter(item.entries.values()))
            wrapper = next((word for word in _WRAPPERS if fold(word) == fold(entry.key)), None)
            if wrapper is not None:
                return self._wrapped(wrapper, entry)
            meant = did_you_mean(entry.key, _WRAPPERS)
            if meant or isinstance(entry.value, MapNode):
                self._error(
                    "definition.unknown-key",
                    f"'{clip(entry.key)}' is no kind of step",
                    entry.position,
                    suggestion(entry.key, ("job", "subworkflow", "foreach"), "kinds"),
                )
                return None
        return self._job(item, flat=True)

    def _wrapped(self, wrapper: str, entry: Entry) -> tuple[Step, Fields] | None:
        if wrapper == "while":
            self._error(
                "step.while",
                "'while' steps are not supported",
                entry.position,
                "use a foreach over a range, or a workflow that triggers itself",
            )
            return None
        node = as_map(entry.value)
        if node is None:
            self._error(
                "definition.wrong-type",
                f"'{wrapper}' must be a map, this is {describe(entry.value)}",
                entry.value.position,
            )
            return None
        if wrapper == "subworkflow":
            return self._subworkflow(node)
        if wrapper == "foreach":
            return self._foreach(node)
        return self._job(node, flat=False)

    def _base(self, fields: Fields, *, name_is_id: bool = False, params: bool = True) -> dict[str, Any] | None:
        """What every kind of step has; None when it has no usable id."""
        step_id = fields.text("id")
        if step_id is None and name_is_id and "id" not in fields:
            step_id = fields.text("name")
        if step_id is None:
            if "id" not in fields:
                self._error("definition.missing-key", "a step needs an id", fields.position, "add id:")
            return None
        position = fields.at("id") if "id" in fields else fields.at("name")
        if not self._valid_id(step_id, position):
            return None
        self.places.steps[step_id] = position
        own = read_params(fields.params, self.findings)
        for entry in fields.params:
            self.places.params[(step_id, base_name(entry.key))] = entry.position
        nested = fields.map("params" if params else "job_params")
        if nested is not None:
            own = self._joined(own, step_id, nested)
        return {
            **fields.values(StepBase),
            "id": step_id,
            "name": fields.text("name") if "id" in fields else None,
            "params": own,
            "retry": read_retry(fields),
            "signal_dependencies": read_dependencies(fields),
            "watermark_dependencies": read_watermark_dependencies(fields),
            "signal_outputs": read_outputs(fields),
        }

    def _joined(self, own: tuple[Param, ...], step_id: str, nested: MapNode) -> tuple[Param, ...]:
        for entry in nested.entries.values():
            self.places.params[(step_id, base_name(entry.key))] = entry.position
        taken = {param.name for param in own}
        more = read_params(nested.entries.values(), self.findings)
        for param in more:
            if param.name in taken:
                self._error(
                    "param.duplicate",
                    f"the parameter '{clip(param.name)}' is given twice",
                    self.places.params[(step_id, param.name)],
                )
        return (*own, *(param for param in more if param.name not in taken))

    def _valid_id(self, step_id: str, position: Position) -> bool:
        if "__" in step_id:
            message = f"'{clip(step_id)}': '__' separates a step from its parameter"
            self._error("step.id", message, position, "use a single _")
            return False
        if not is_step_id(step_id):
            hint = f"letters, digits, _ . - (at most {MAX_LENGTH})"
            self._error("step.id", f"'{clip(step_id)}' cannot be a step's id", position, hint)
            return False
        if step_id in self.places.steps:
            first = self.places.steps[step_id].line
            self._error(
                "step.duplicate-id",
                f"the step id '{clip(step_id)}' is already used in line {first}",
                position,
                "give each step its own id",
            )
            return False
        if len(self.places.steps) >= MAX_STEPS:
            self._error(
                "step.too-many", f"a workflow may have {MAX_STEPS} steps", position, "use a foreach, or subworkflows"
            )
            return False
        return True

    def _subworkflow(self, node: MapNode) -> tuple[Step, Fields] | None:
        fields = Fields(node, "subworkflow", self.findings)
        base = self._base(fields)
        if base is None:
            return None
        said = {name: value for name, value in fields.values(SubworkflowStep).items() if value != ""}
        return SubworkflowStep(**{"workflow_id": base["id"], **said, **base}), fields

    def _foreach(self, node: MapNode) -> tuple[Step, Fields] | None:
        fields = Fields(node, "foreach", self.findings)
        base = self._base(fields, params=False)
        if base is None:
            return None
        loop: list[Param] = []
        for name in ("params", "loop_params"):
            entries = fields.map(name)
            if entries is not None:
                loop.extend(read_params(entries.entries.values(), self.findings))
                for entry in entries.entries.values():
                    self.places.params[(base["id"], base_name(entry.key))] = entry.position
        loop.extend(self._ranges(fields, base["id"]))
        if not loop:
            self._error(
                "foreach.params",
                "a foreach needs something to walk over",
                fields.position,
                "params: {date: [20240101, 20240102]} or ranges: {i: {from: 0, to: 10}}",
            )
        for param in loop:
            self._check_loop(param, base["id"])
        steps, transitions = self.read_body(fields)
        step = ForeachStep(
            **{**fields.values(ForeachStep), **base}, loop_params=tuple(loop), steps=steps, transitions=transitions
        )
        return step, fields

    def _check_loop(self, param: Param, step_id: str) -> None:
        reference = param.type is ParamType.STRING and isinstance(param.value, str) and "${" in param.value
        if not param.type.is_array and not reference:
            self._error(
                "foreach.params",
                f"the loop parameter '{param.name}' must be a list",
                self.places.params.get((step_id, param.name)) or self.places.steps[step_id],
                f"'!{param.name}<array<long>>' for an expression, or \"${{step__param}}\" for another parameter's list",
            )

    def _ranges(self, fields: Fields, step_id: str) -> list[Param]:
        node = fields.map("ranges")
        params = []
        for entry in node.entries.values() if node else ():
            if not isinstance(entry.value, MapNode):
                self._error(
                    "definition.wrong-type",
                    f"a range must be a map, this is {describe(entry.value)}",
                    entry.value.position,
                    "hour: {from: 0, to: 24, increment: 1}",
                )
                continue
            self.places.params[(step_id, entry.key)] = entry.position
            bounds = Fields(entry.value, "range", self.findings)
            words = [
                self._bound(bounds, name, default)
                for name, default in (("from", "0"), ("to", None), ("increment", "1"))
            ]
            if all(word is not None for word in words):
                expression = f"Util.intsBetween({', '.join(str(word) for word in words)})"
                params.append(Param(entry.key, ParamType.LONG_ARRAY, expression=expression))
        return params

    def _bound(self, bounds: Fields, name: str, default: str | None) -> str | None:
        """A bound of a range: a number, or ``${x}`` / the name of a parameter."""
        node = bounds.get(name)
        if node is None:
            if default is None:
                self._error("definition.missing-key", f"a range needs '{name}'", bounds.position)
            return default
        if isinstance(node, ScalarNode) and isinstance(node.value, int) and not isinstance(node.value, bool):
            if name == "increment" and node.value == 0:
                self._error("definition.out-of-range", "'increment' must not be 0", node.position)
            return node.text
        if isinstance(node, ScalarNode) and isinstance(node.value, str):
            reference = re.fullmatch(r"\$\{\s*([A-Za-z_][\w.\-]*)\s*\}", node.value.strip())
            if reference:
                return f"params.get('{reference.group(1)}')"
        bounds.wrong(name, "a whole number or ${parameter}")
        return None

    def _job(self, node: MapNode, *, flat: bool) -> tuple[Step, Fields] | None:
        type_name = _type_of(node)
        short = type_name is not None and fold(type_name) == fold(SHORT_FORM)
        step_type = self.types.find("IpCapture" if short else type_name) if type_name else None
        more: list[str] = []
        if step_type is not None:
            more.append(step_type.key)
        if (flat or short) and step_type is not None and step_type.settings is not None:
            more.extend(step_type.settings.model_fields)
        if short:
            more.extend(("icdc", "source_table"))
        stripped = _without_notation(node, step_type)
        fields = Fields(stripped, "job", self.findings, more)
        base = self._base(fields, name_is_id=flat)
        if base is None:
            return None
        if type_name is None or fold(type_name) in {fold(name) for name in NOOP_TYPES}:
            return self._noop(base, fields, type_name), fields
        if step_type is None:
            known = [SHORT_FORM, *NOOP_TYPES, *(known_type.name for known_type in self.types)]
            self._error(
                "step.unknown-type",
                f"there is no step type '{clip(type_name)}'",
                fields.at("type"),
                suggestion(type_name, known, "types"),
            )
            return NoOpStep(**base), fields
        settings = short_form_settings(fields, step_type) if short else self._settings_node(fields, step_type, flat)
        if settings is None:
            return NoOpStep(**base), fields
        canonical = read_settings(settings, base["id"], step_type, self.findings, self.places)
        step = TypedStep(
            **base,
            type=SHORT_FORM if short else step_type.name,
            type_version=fields.text("type_version"),
            settings=canonical,
        )
        return step, fields

    def _noop(self, base: dict[str, Any], fields: Fields, type_name: str | None) -> NoOpStep:
        if type_name is None and "type" not in fields:
            bare = not fields.params and set(fields.reserved) <= {
                "id",
                "name",
                "description",
                "transition",
                "depends_on",
            }
            report = self.findings.warning if bare else self.findings.error
            report(
                "definition.missing-key",
                f"the step '{base['id']}' has no type",
                fields.position,
                "add type: NoOp if it is to do nothing",
            )
        return NoOpStep(**base)

    def _settings_node(self, fields: Fields, step_type: StepType, flat: bool) -> MapNode | None:
        """Where the settings stand: under the type's key, or (flat form) among the step's own keys."""
        under = fields.get(step_type.key)
        if under is not None:
            return fields.map(step_type.key)
        if flat and step_type.settings is not None:
            names = step_type.settings.model_fields
            return MapNode(fields.position, {name: entry for name, entry in fields.reserved.items() if name in names})
        stray = misplaced([entry.key for entry in fields.params], step_type)
        if stray is not None:
            self._error(
                "step.settings",
                f"'{clip(stray)}' is a setting of {step_type.name}",
                fields.position,
                f"write it under {step_type.key}:",
            )
            return None
        return MapNode(fields.position)


def _type_of(node: MapNode) -> str | None:
    for entry in node.entries.values():
        if fold(entry.key) == "type" and isinstance(entry.value, ScalarNode) and isinstance(entry.value.value, str):
            return entry.value.value.strip()
    return None


def _without_notation(node: MapNode, step_type: StepType | None) -> MapNode:
    """Maestro writes a job's settings as a map parameter (``'http<pmap>':``): the same thing as ``http:`` here."""
    if step_type is None:
        return node
    entries = {}
    for entry in node.entries.values():
        if "<" in entry.key and fold(base_name(entry.key)) == fold(step_type.key):
            entry = dataclasses.replace(entry, key=step_type.key)
        entries[entry.key] = entry
    return MapNode(node.position, entries)
