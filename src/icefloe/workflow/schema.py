"""A JSON Schema of the YAML notation, for editors: completion, hover texts and red lines while typing.

It is derived from the model, as the loader is. It cannot say everything the loader does (a near miss of a reserved
key is an error there, a parameter here); ``icefloe validate`` has the last word.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Any

from pydantic import TypeAdapter

from icefloe.workflow import model
from icefloe.workflow.declarations import FieldDeclaration, declaration
from icefloe.workflow.field_types import spellings
from icefloe.workflow.reserved import LEVELS
from icefloe.workflow.step_types import BUILTIN, NOOP_TYPES, StepTypes

_TEXT = {"type": "string"}
_PLAIN = {"type": ["string", "number", "boolean", "array"]}
_DURATION = "30s, 15m, 2h, 1d, or seconds"
_PARAMETER = "name, 'name<type>(mode)' or '!name' for an expression"
_DAG = {
    "anyOf": [{"enum": ["sequential", "parallel"]}, _TEXT, {"type": "array"}, {"type": "object"}],
    "description": "sequential, parallel, chains 'a -> b', or a map with 'IF …' and 'OTHERWISE'",
}


def json_schema(types: StepTypes = BUILTIN) -> dict[str, Any]:
    """The schema of a definition file."""
    document = _object("document")
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Icefloe workflow definition",
        **document,
        "properties": {**document["properties"], **{key.capitalize(): s for key, s in document["properties"].items()}},
        "$defs": {
            "workflow": {
                **_object("workflow"),
                "anyOf": [{"required": ["id"]}, {"required": ["name"]}],
                "description": "every key that is not reserved is a parameter",
            },
            "jobs": {"type": "array", "items": {"$ref": "#/$defs/item"}},
            "item": _item(),
            "job": _job(types),
            "subworkflow": {**_object("subworkflow"), "required": ["id"]},
            "foreach": {**_object("foreach"), "required": ["id", "jobs"]},
            "dag": _DAG,
            "triggers": {
                "oneOf": [{"$ref": "#/$defs/trigger"}, {"type": "array", "items": {"$ref": "#/$defs/trigger"}}]
            },
            "trigger": {"anyOf": [_TEXT, {**_object("trigger"), "additionalProperties": True}]},
        },
    }


def _object(level_name: str) -> dict[str, Any]:
    """A map with the reserved keys of a level: each under its name, its other names, and in camelCase."""
    level = LEVELS[level_name]
    properties: dict[str, Any] = {}
    for item in level.fields:
        schema = _field(item)
        for word in (item.key, *item.others):
            properties[word] = properties[_camel(word)] = schema
    return {"type": "object", "properties": properties, **({} if level.open else {"additionalProperties": False})}


_REFERENCES: dict[Any, dict[str, Any]] = {
    model.Workflow: {"$ref": "#/$defs/workflow"},
    model.Step: {"$ref": "#/$defs/jobs"},
    model.Transition: {"$ref": "#/$defs/dag"},
    model.Trigger: {"$ref": "#/$defs/triggers"},
    model.Param: {"type": "object"},
}


def _field(item: FieldDeclaration) -> dict[str, Any]:
    """What may stand under a key, by the field's type."""
    kind = item.element or item.type
    schema: dict[str, Any]
    if kind in _REFERENCES and item.type is not model.Param:
        schema = _REFERENCES[kind]
    elif kind is model.SignalMatch:
        schema = {"type": "object", "additionalProperties": {"anyOf": [_PLAIN, _object("match")]}}
    elif kind in _PARTS:
        schema = _part(kind) if item.element is None else _several(_part(kind))
    elif isinstance(kind, type) and issubclass(kind, StrEnum):
        choice = spellings(option.value for option in kind)
        schema = choice if item.element is None else _several(choice)
    elif item.is_simple:
        schema = TypeAdapter(item.annotation).json_schema()
        schema = _several(schema["items"]) if schema.get("type") == "array" else schema
    else:
        schema = {}
    form = _DURATION if item.is_duration else _PARAMETER if item.element is model.Param else None
    return {**schema, "description": f"{item.doc}: {form}" if form else item.doc}


def _several(item: dict[str, Any]) -> dict[str, Any]:
    return {"anyOf": [item, {"type": "array", "items": item}]}


_PARTS: dict[Any, str] = {
    model.RunStrategy: "run strategy",
    model.RetryPolicy: "retry",
    model.Backoff: "backoff",
    model.Alerting: "alerting",
    model.MaxLag: "max lag",
    model.SignalDependency: "signal",
    model.SignalCondition: "signal",
    model.SignalOutput: "signal",
    model.WatermarkDependency: "watermark dependency",
    **{cls: f"{kind} trigger" for kind, cls in model.TRIGGER_KINDS.items()},
}


def _part(cls: Any) -> dict[str, Any]:
    """A class of the model: a map, or the bare value that stands for one."""
    forms = [_object(_PARTS[cls])]
    if hasattr(cls, "bare"):
        forms.append(_field(declaration(cls, cls.bare)))
    if cls is model.WatermarkDependency:  # its moment is written as a parameter: 'reached<long>', '!reached'
        forms[0]["additionalProperties"] = True
    if cls is model.SignalCondition:  # or the signals by their names
        forms.append({"type": "object", "additionalProperties": {"type": ["object", "null"]}})
    if issubclass(cls, model.TriggerBase):
        forms.append({"type": ["null", "boolean"]})
    return {"anyOf": forms}


def _camel(word: str) -> str:
    first, *rest = word.split("_")
    return first + "".join(part.capitalize() for part in rest)


def _item() -> dict[str, Any]:
    wrapped = {kind: {"$ref": f"#/$defs/{kind}"} for kind in ("job", "subworkflow", "foreach")}
    return {
        "type": "object",
        "properties": {**wrapped, "step": {"$ref": "#/$defs/job"}},
        "description": "- job:, - subworkflow:, - foreach:, or a step's own keys",
    }


def _job(types: StepTypes) -> dict[str, Any]:
    job = _object("job")
    written = job["properties"]
    names = [name for step_type in types for name in step_type.names()]
    written["type"] = {**written["type"], "examples": [*NOOP_TYPES, "ICDC", *names]}
    for step_type in types:
        schema: dict[str, Any] = {"type": "object"}
        if step_type.settings is not None:
            schema = _loose(step_type.settings.model_json_schema(ref_template="#/$defs/{model}"))
        written[step_type.key] = schema
    return {**job, "required": ["id"]}


def _loose(schema: dict[str, Any]) -> dict[str, Any]:
    """Pydantic's schema with its definitions put in place, and texts allowed everywhere (``${…}``)."""
    definitions = schema.pop("$defs", {})

    def put(part: Any) -> Any:
        if isinstance(part, list):
            return [put(item) for item in part]
        if not isinstance(part, dict):
            return part
        if "$ref" in part:
            return put(definitions[part["$ref"].rsplit("/", 1)[1]])
        loosened = {key: put(value) for key, value in part.items() if key != "title"}
        kind = loosened.get("type")
        if kind in ("integer", "number", "boolean"):
            loosened["type"] = [kind, "string"]
        if "enum" in loosened or "const" in loosened:
            known = loosened.pop("enum", None) or [loosened.pop("const")]
            spelled = [
                word for value in known for word in dict.fromkeys((value, str(value).lower(), str(value).upper()))
            ]
            return {
                **{k: v for k, v in loosened.items() if k != "type"},
                "anyOf": [{"enum": spelled}, {"pattern": "\\$\\{"}],
            }
        if kind == "array":
            return {"anyOf": [loosened, {"type": "string"}]}
        return loosened

    loose = put(schema)
    # Keys may be written in camelCase too.
    for name in list(loose.get("properties", {})):
        loose["properties"].setdefault(_camel(name), loose["properties"][name])
    loose.pop("required", None)
    assert isinstance(loose, dict)
    return loose
