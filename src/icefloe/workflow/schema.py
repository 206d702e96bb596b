"""A JSON Schema of the YAML notation, for editors: completion, hover texts and red lines while typing.

It is generated from the same tables the loader reads. It cannot say everything the loader does (a near miss of a reserved
key is an error there, a parameter here); ``icefloe validate`` has the last word.
"""

from __future__ import annotations

from typing import Any

from icefloe.workflow import model
from icefloe.workflow.reserved import LEVELS
from icefloe.workflow.step_types import BUILTIN, NOOP_TYPES, StepTypes

_TEXT = {"type": "string"}
_TEXTS = {"oneOf": [_TEXT, {"type": "array", "items": _TEXT}]}
_DURATION = {"type": ["string", "number"], "description": "a duration: 30s, 15m, 2h, 1d, or seconds"}
_COUNT = {"type": "integer", "minimum": 1}
_ANY: dict[str, Any] = {}
_PARAMS = {"type": "object", "description": "parameters: name, 'name<type>(mode)' or '!name' for an expression"}


def json_schema(types: StepTypes = BUILTIN) -> dict[str, Any]:
    """The schema of a definition file."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Icefloe workflow definition",
        "type": "object",
        "properties": _spellings(
            "document",
            {
                "workflow": {"$ref": "#/$defs/workflow"},
                "description": _TEXT,
                "trigger": {"$ref": "#/$defs/triggers"},
                "properties": {"type": "object"},
            },
        ),
        "additionalProperties": False,
        "$defs": {
            "workflow": _workflow(),
            "jobs": {"type": "array", "items": {"$ref": "#/$defs/item"}},
            "item": _item(),
            "job": _job(types),
            "subworkflow": _subworkflow(),
            "foreach": _foreach(),
            "dag": _dag(),
            "retry": _retry(),
            "alerting": _alerting(),
            "triggers": {
                "oneOf": [{"$ref": "#/$defs/trigger"}, {"type": "array", "items": {"$ref": "#/$defs/trigger"}}]
            },
            "trigger": _trigger(),
        },
    }


def _spellings(level: str, properties: dict[str, Any]) -> dict[str, Any]:
    """Each key under its canonical name, its other names, and as the slides write it (Workflow, Trigger)."""
    written: dict[str, Any] = {}
    for name, schema in properties.items():
        for word in (name, *LEVELS[level].keys.get(name, ())):
            written[word] = schema
            written[_camel(word)] = schema
            if level == "document":
                written[word.capitalize()] = schema
    return written


def _camel(word: str) -> str:
    first, *rest = word.split("_")
    return first + "".join(part.capitalize() for part in rest)


def _choice(values: list[str]) -> dict[str, Any]:
    spelled = [word for value in values for word in dict.fromkeys((value, value.lower(), value.upper()))]
    return {"enum": spelled}


def _workflow() -> dict[str, Any]:
    properties = {
        "id": _TEXT,
        "name": _TEXT,
        "description": _TEXT,
        "owner": _TEXT,
        "tags": _TEXTS,
        "criticality": _TEXT,
        "run_strategy": {"anyOf": [_choice([rule.value for rule in model.RunRule]), {"type": "object"}]},
        "workflow_concurrency": _COUNT,
        "step_concurrency": _COUNT,
        "timeout": _DURATION,
        "retry": {"$ref": "#/$defs/retry"},
        "freshness": _DURATION,
        "alerting": {"$ref": "#/$defs/alerting"},
        "params": _PARAMS,
        "trigger": {"$ref": "#/$defs/triggers"},
        "jobs": {"$ref": "#/$defs/jobs"},
        "steps": {"$ref": "#/$defs/jobs"},
        "dag": {"$ref": "#/$defs/dag"},
    }
    return {
        "type": "object",
        "properties": _spellings("workflow", properties),
        "anyOf": [{"required": ["id"]}, {"required": ["name"]}],
        "description": "every key that is not reserved is a parameter",
    }


def _step_properties() -> dict[str, Any]:
    return {
        "id": _TEXT,
        "name": _TEXT,
        "description": _TEXT,
        "tags": _TEXTS,
        "failure_mode": _choice([mode.value for mode in model.FailureMode]),
        "retry": {"$ref": "#/$defs/retry"},
        "timeout": _DURATION,
        "transition": _ANY,
        "depends_on": _TEXTS,
        "params": _PARAMS,
        "signal_dependencies": _ANY,
        "watermark_dependencies": _ANY,
        "signal_outputs": _ANY,
    }


def _item() -> dict[str, Any]:
    wrapped = {kind: {"$ref": f"#/$defs/{kind}"} for kind in ("job", "subworkflow", "foreach")}
    return {
        "type": "object",
        "properties": {**wrapped, "step": {"$ref": "#/$defs/job"}},
        "description": "- job:, - subworkflow:, - foreach:, or a step's own keys",
    }


def _job(types: StepTypes) -> dict[str, Any]:
    names = [name for step_type in types for name in step_type.names()]
    properties = {
        **_step_properties(),
        "type": {"type": "string", "examples": [*NOOP_TYPES, "ICDC", *names]},
        "type_version": _TEXT,
    }
    written = _spellings("job", properties)
    for step_type in types:
        schema: dict[str, Any] = {"type": "object"}
        if step_type.settings is not None:
            schema = _loose(step_type.settings.model_json_schema(ref_template="#/$defs/{model}"))
        written[step_type.key] = schema
    return {"type": "object", "properties": written, "required": ["id"]}


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
        found = {key: put(value) for key, value in part.items() if key != "title"}
        kind = found.get("type")
        if kind in ("integer", "number", "boolean"):
            found["type"] = [kind, "string"]
        if "enum" in found or "const" in found:
            known = found.pop("enum", None) or [found.pop("const")]
            spelled = [
                word for value in known for word in dict.fromkeys((value, str(value).lower(), str(value).upper()))
            ]
            return {
                **{k: v for k, v in found.items() if k != "type"},
                "anyOf": [{"enum": spelled}, {"pattern": "\\$\\{"}],
            }
        if kind == "array":
            return {"anyOf": [found, {"type": "string"}]}
        return found

    loose = put(schema)
    # Keys may be written in camelCase too.
    for name in list(loose.get("properties", {})):
        loose["properties"].setdefault(_camel(name), loose["properties"][name])
    loose.pop("required", None)
    assert isinstance(loose, dict)
    return loose


def _subworkflow() -> dict[str, Any]:
    flag = {"type": "boolean"}
    version = {"type": ["string", "integer"]}
    own = {"workflow_id": _TEXT, "version": version, "sync": flag, "explicit_params": flag}
    properties = _spellings("subworkflow", {**_step_properties(), **own})
    return {"type": "object", "properties": properties, "required": ["id"]}


def _foreach() -> dict[str, Any]:
    own = {
        "loop_params": _PARAMS,
        "ranges": {"type": "object"},
        "concurrency": _COUNT,
        "jobs": {"$ref": "#/$defs/jobs"},
        "dag": {"$ref": "#/$defs/dag"},
    }
    properties = _spellings("foreach", {**_step_properties(), **own})
    return {"type": "object", "properties": properties, "required": ["id", "jobs"]}


def _dag() -> dict[str, Any]:
    return {
        "anyOf": [{"enum": ["sequential", "parallel"]}, _TEXT, {"type": "array"}, {"type": "object"}],
        "description": "sequential, parallel, chains 'a -> b', or a map with 'IF …' and 'OTHERWISE'",
    }


def _retry() -> dict[str, Any]:
    limit = {"type": "integer", "minimum": 0}
    properties = {"error": limit, "platform": limit, "timeout": limit, "backoff": _ANY}
    full = {"type": "object", "properties": _spellings("retry", properties), "additionalProperties": False}
    return {"anyOf": [limit, full]}


def _alerting() -> dict[str, Any]:
    events = {"type": "array", "items": _choice([event.value for event in model.AlertEvent])}
    properties = {"channels": _TEXTS, "events": events, "templates": {"type": "object"}, "max_lag": {"type": "object"}}
    full = {"type": "object", "properties": _spellings("alerting", properties), "additionalProperties": False}
    return {"anyOf": [_TEXT, {"type": "array", "items": _TEXT}, full]}


def _trigger() -> dict[str, Any]:
    properties = {
        "cron": {"anyOf": [_TEXT, {"type": "object"}], "description": "5, 6 or 7 fields, or @daily"},
        "interval": {"anyOf": [_DURATION, {"type": "object"}]},
        "signal": _ANY,
        "watermark": _ANY,
        "incremental": {
            "anyOf": [
                {"type": ["null", "boolean"]},
                _TEXTS,
                {"type": "object", "properties": dict.fromkeys(LEVELS["incremental trigger"].keys, _ANY)},
            ]
        },
    }
    return {"anyOf": [_TEXT, {"type": "object", "properties": _spellings("trigger", properties)}]}
