"""The canonical JSON form of the model: stored with a version, hashed for its digest, compared by ``diff``.

Fields that have their default are left out; sums of classes (steps, triggers) are told apart by ``kind``.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import types
from collections.abc import Mapping
from enum import StrEnum
from functools import cache
from typing import Any, Union, get_args, get_origin, get_type_hints

from icefloe.errors import UsageError
from icefloe.workflow import model
from icefloe.workflow.values import Mismatch, ParamType, conform, plain

FORMAT = 1

_KINDS: dict[str, type] = {**model.STEP_KINDS, **model.TRIGGER_KINDS}
_KIND_OF = {cls: kind for kind, cls in _KINDS.items()}


class MalformedModelError(UsageError):
    """A stored definition is not one of ours, or was written by a newer Icefloe."""

    code = "definition.malformed"


def encode_workflow(workflow: model.Workflow) -> dict[str, Any]:
    return {"format": FORMAT, **_encode_fields(workflow)}


def decode_workflow(data: Mapping[str, Any]) -> model.Workflow:
    if not isinstance(data, Mapping):
        raise MalformedModelError("a stored definition must be an object")
    if data.get("format") != FORMAT:
        raise MalformedModelError(
            f"definition format {data.get('format')!r} is not known here",
            hint="upgrade icefloe to the version that wrote it",
        )
    try:
        decoded = _decode(model.Workflow, {key: value for key, value in data.items() if key != "format"})
    except (KeyError, TypeError, ValueError, RecursionError) as error:
        raise MalformedModelError(f"a stored definition cannot be read: {error}") from error
    assert isinstance(decoded, model.Workflow)
    return decoded


def canonical(data: Any) -> str:
    """JSON text that depends on the data alone."""
    return json.dumps(data, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def digest(data: Any) -> str:
    # surrogatepass: a lone surrogate can stand in no YAML file, but may in a Python-built definition.
    return hashlib.sha256(canonical(data).encode("utf-8", "surrogatepass")).hexdigest()


def encode_value(value: Any) -> Any:
    """Any part of a workflow as plain JSON values."""
    return _encode(value)


def _encode(value: Any) -> Any:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        kind = _KIND_OF.get(type(value))
        return {**({"kind": kind} if kind else {}), **_encode_fields(value)}
    if isinstance(value, StrEnum):
        return value.value
    if isinstance(value, tuple | list):
        return [_encode(item) for item in value]
    if isinstance(value, Mapping):
        return {str(key): _encode(item) for key, item in value.items()}
    return value


def _encode_fields(value: Any) -> dict[str, Any]:
    if isinstance(value, model.Param):
        return _encode_param(value)
    encoded = {}
    for item in dataclasses.fields(value):
        content = getattr(value, item.name)
        if not _is_default(item, content):
            encoded[item.name] = _encode(content)
    return encoded


def _is_default(item: dataclasses.Field[Any], content: Any) -> bool:
    if item.default_factory is not dataclasses.MISSING:
        return bool(content == item.default_factory())
    return item.default is not dataclasses.MISSING and type(content) is type(item.default) and content == item.default


def _encode_param(param: model.Param) -> dict[str, Any]:
    encoded: dict[str, Any] = {"name": param.name, "type": param.type.value}
    if param.value is not None:
        encoded["value"] = plain(param.value)
    if param.expression is not None:
        encoded["expression"] = param.expression
    if param.members is not None:
        encoded["members"] = [_encode_param(member) for member in param.members]
    if param.mode is not model.ParamMode.MUTABLE:
        encoded["mode"] = param.mode.value
    return encoded


@cache
def _hints(cls: type) -> dict[str, Any]:
    return get_type_hints(cls)


def _decode(kind: Any, data: Any) -> Any:
    if kind is Any:
        return data
    origin = get_origin(kind)
    if origin in (Union, types.UnionType):
        return _decode_union(get_args(kind), data)
    if origin is tuple:
        return tuple(_decode(get_args(kind)[0], item) for item in data)
    if origin is not None:  # Mapping[str, …]
        return dict(data)
    if dataclasses.is_dataclass(kind):
        return _decode_class(kind, data)
    if isinstance(kind, type) and issubclass(kind, StrEnum):
        return kind(data)
    if kind is float and isinstance(data, int) and not isinstance(data, bool):
        return float(data)
    if not isinstance(data, kind):
        raise TypeError(f"{data!r} is not a {kind.__name__}")
    return data


def _decode_union(options: tuple[Any, ...], data: Any) -> Any:
    if data is None:
        return None
    options = tuple(option for option in options if option is not types.NoneType)
    if len(options) == 1:
        return _decode(options[0], data)
    if isinstance(data, Mapping) and "kind" in data:
        chosen = _KINDS[data["kind"]]
        if chosen not in options:
            raise ValueError(f"{data['kind']!r} does not belong here")
        return _decode(chosen, {key: value for key, value in data.items() if key != "kind"})
    # The only other sum in the model is Timeout: seconds or text.
    return data if isinstance(data, str) else _decode(float, data)


def _decode_class(kind: Any, data: Mapping[str, Any]) -> Any:
    if kind is model.Param:
        return _decode_param(data)
    hints = _hints(kind)
    unknown = set(data) - {item.name for item in dataclasses.fields(kind)}
    if unknown:
        raise ValueError(f"{kind.__name__} has no field {sorted(unknown)[0]!r}")
    return kind(**{name: _decode(hints[name], value) for name, value in data.items()})


def _decode_param(data: Mapping[str, Any]) -> model.Param:
    kind = ParamType(data["type"])
    try:
        value = conform(kind, data["value"]) if "value" in data else None
    except Mismatch as error:
        raise ValueError(f"parameter {data['name']!r}: {error}") from error
    return model.Param(
        name=data["name"],
        type=kind,
        value=value,
        expression=data.get("expression"),
        members=tuple(_decode_param(member) for member in data["members"]) if "members" in data else None,
        mode=model.ParamMode(data.get("mode", model.ParamMode.MUTABLE)),
    )
