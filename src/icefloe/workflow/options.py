"""Options given in Python, as the model holds them: the rules that YAML's readers apply, without a text to point at."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import is_dataclass
from typing import Any

from icefloe.workflow.declarations import FieldDeclaration, declared
from icefloe.workflow.field_types import InvalidValueError
from icefloe.workflow.problems import suggestion
from icefloe.workflow.reserved import choose
from icefloe.workflow.values import clip


def checked(cls: type, options: Mapping[str, Any]) -> dict[str, Any]:
    """The options of a class of the model as its arguments: durations in seconds, words as choices, maps as parts of
    their own. None says nothing. Raises ValueError with a reason."""
    fields = {word: item for item in declared(cls) for word in (item.name, item.key, *item.others)}
    values = {}
    for name, value in options.items():
        if name not in fields:
            hint = suggestion(name, [item.name for item in declared(cls)], "options")
            raise InvalidValueError("definition.unknown-key", f"there is no option '{clip(str(name))}'", hint)
        if value is not None:
            values[fields[name].name] = _value(fields[name], value)
    return values


def _value(item: FieldDeclaration, value: Any) -> Any:
    try:
        if is_dataclass(item.type):
            return _part(item.type, value)
        if item.is_choice:
            return choose(item.type, value, item.name)
        if item.element is not None and item.element is not str:
            return tuple(_element(item, each) for each in ((value,) if isinstance(value, str) else value))
        return item.checked(value)
    except InvalidValueError:
        raise
    except (TypeError, ValueError) as error:
        raise InvalidValueError("definition.invalid", f"'{item.name}': {error}") from error


def _element(item: FieldDeclaration, value: Any) -> Any:
    return _part(item.element, value) if is_dataclass(item.element) else choose(item.element, value, item.name)


def _part(cls: Any, value: Any) -> Any:
    """An instance as it is; a map with its fields; or the bare value that stands for one."""
    if isinstance(value, cls):
        return value
    if not isinstance(value, Mapping):
        if not hasattr(cls, "bare"):
            raise ValueError(f"must be a {cls.__name__}")
        value = {cls.bare: value}
    return cls(**checked(cls, value))
