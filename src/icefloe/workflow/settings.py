"""A typed job's settings: keys brought to their canonical names, values checked by the type's schema."""

from __future__ import annotations

import math
import re
import types as python_types
from collections.abc import Mapping
from typing import Annotated, Any, Union, get_args, get_origin

import pydantic
from pydantic import BaseModel

from icefloe.workflow.document import Entry, ListNode, MapNode, Node, ScalarNode
from icefloe.workflow.field_types import reason
from icefloe.workflow.places import Places
from icefloe.workflow.problems import Findings, Position, did_you_mean, suggestion
from icefloe.workflow.reserved import fold, is_near
from icefloe.workflow.step_types import StepType
from icefloe.workflow.values import LONG_MAX, LONG_MIN, clip


def read_settings(
    node: MapNode, step_id: str, step_type: StepType, findings: Findings, places: Places
) -> dict[str, Any]:
    """The settings as JSON under canonical names; problems go to the findings."""
    places.settings[(step_id,)] = node.position
    canonical = _canonical(node, step_type.settings, (step_id,), findings, places)
    assert isinstance(canonical, dict)
    if step_type.settings is not None:
        check(canonical, step_id, step_type, findings, places)
    return canonical


def check(settings: Mapping[str, Any], step_id: str, step_type: StepType, findings: Findings, places: Places) -> None:
    """The schema's findings. A text that still has ``${…}`` in it may become anything and is not judged."""
    schema = step_type.settings
    if schema is None:
        return
    try:
        schema.model_validate(dict(settings))
        return
    except pydantic.ValidationError as error:
        found = error.errors(include_url=False)
    told: set[tuple[str, ...]] = set()
    for item in found:
        if isinstance(item["input"], str) and "${" in item["input"]:
            continue
        path = _written_path(item["loc"], settings)
        if item["type"] == "missing":
            path = (*path, str(item["loc"][-1]))
        if path in told:  # the arms of a union each complain
            continue
        told.add(path)
        name = ".".join((step_type.key, *path))
        hint = None
        if item["type"] == "extra_forbidden":
            hint = suggestion(str(item["loc"][-1]), _names(schema, path[:-1]), "settings")
        elif item["type"] == "literal_error":
            meant = did_you_mean(str(item["input"]), re.findall(r"'([^']*)'", item["ctx"]["expected"]))
            hint = f"did you mean '{meant}'?" if meant else None
        findings.error("step.settings", f"'{clip(name, 100)}' {reason(item)}", places.setting(step_id, path), hint)


def _names(schema: type[BaseModel] | None, path: tuple[str, ...]) -> list[str]:
    for part in path:
        field = schema.model_fields.get(part) if schema else None
        schema = _model_in(field.annotation) if field else None
    return list(schema.model_fields) if schema else []


def _written_path(location: tuple[int | str, ...], settings: Any) -> tuple[str, ...]:
    """The part of a schema's location that exists in what the user wrote (the rest names arms of unions)."""
    path: list[str] = []
    at: Any = settings
    for part in location:
        in_list = isinstance(at, list) and isinstance(part, int) and part < len(at)
        if in_list or (isinstance(at, Mapping) and part in at):
            at = at[part]
            path.append(str(part))
    return tuple(path)


def _canonical(
    node: Node, schema: type[BaseModel] | None, path: tuple[str, ...], findings: Findings, places: Places
) -> Any:
    if isinstance(node, ScalarNode):
        _check_number(node, findings)
        return node.value
    if isinstance(node, ListNode):
        for index, item in enumerate(node.items):
            places.settings[(*path, str(index))] = item.position
        return [_canonical(item, None, (*path, str(index)), findings, places) for index, item in enumerate(node.items)]
    result: dict[str, Any] = {}
    by_fold = {fold(name): name for name in schema.model_fields} if schema else {}
    for entry in node.entries.values():
        name = by_fold.get(fold(entry.key), entry.key)
        if name in result:
            findings.error("definition.duplicate-key", f"'{clip(entry.key)}' is given twice", entry.position)
            continue
        inner = _model_in(schema.model_fields[name].annotation) if schema and name in schema.model_fields else None
        known = schema is None or name in schema.model_fields
        places.settings[(*path, name)] = _value_position(entry) if known else entry.position
        result[name] = _canonical(entry.value, inner, (*path, name), findings, places)
    return result


def _value_position(entry: Entry) -> Position:
    is_text = isinstance(entry.value, ScalarNode) and entry.value.value is not None
    return entry.value.position if is_text else entry.position


def _check_number(node: ScalarNode, findings: Findings) -> None:
    value = node.value
    if isinstance(value, bool) or not isinstance(value, int | float):
        return
    if isinstance(value, int) and not LONG_MIN <= value <= LONG_MAX:
        findings.error("definition.out-of-range", "the number does not fit into 64 bits", node.position)
    elif isinstance(value, float) and not math.isfinite(value):
        findings.error("definition.out-of-range", "infinity and NaN are no settings", node.position)


def _model_in(annotation: Any) -> type[BaseModel] | None:
    """The model that an annotation holds, through Optional and Annotated."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    if get_origin(annotation) in (Union, python_types.UnionType, Annotated):
        for part in get_args(annotation):
            found = _model_in(part)
            if found is not None:
                return found
    return None


def misplaced(names: list[str], step_type: StepType) -> str | None:
    """A required setting that stands among the job's parameters instead of under the type's key."""
    for name in names:
        for required in step_type.required():
            if fold(name) == fold(required) or is_near(fold(name), fold(required)):
                return name
    return None
