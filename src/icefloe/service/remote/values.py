"""Values out of JSON: the same frozen dataclasses that a local client gives."""

from __future__ import annotations

import types
from collections.abc import Hashable, Mapping
from dataclasses import fields, is_dataclass
from functools import cache
from typing import Any, TypeVar, Union, cast, get_args, get_origin, get_type_hints

Value = TypeVar("Value")


def value(kind: type[Value], data: Mapping[str, Any], **given: Any) -> Value:
    """A dataclass of its fields in ``data``. What a newer server adds is left out; ``given``: what is not sent."""
    hints = _hints(cast("Hashable", kind))
    known = {name: _converted(hints[name], data[name]) for name in hints if name in data}
    return kind(**{**given, **known})


@cache
def _hints(kind: Any) -> dict[str, Any]:
    hints = get_type_hints(kind)
    return {field.name: hints[field.name] for field in fields(kind) if field.init}


def _converted(hint: Any, data: Any) -> Any:
    if data is None:
        return None
    origin, inner = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        present = [each for each in inner if each is not type(None)]
        return _converted(present[0], data) if len(present) == 1 else data
    if origin is tuple and isinstance(data, list):
        return tuple(_converted(inner[0], each) for each in data)
    if origin is list and isinstance(data, list):
        return [_converted(inner[0], each) for each in data]
    if is_dataclass(hint) and isinstance(hint, type) and isinstance(data, Mapping):
        return value(hint, data)
    return data
