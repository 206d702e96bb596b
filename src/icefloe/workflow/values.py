"""The values that parameters hold: their types, their 64-bit bounds, and how a value is recognised and converted.

A value is a ``str``, ``int``, ``float``, ``bool``, a tuple of one of these, or a mapping of names to values. Nothing else
is ever a parameter's value: no ``None``, no date, no object.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

LONG_MIN = -(2**63)
LONG_MAX = 2**63 - 1

Scalar: TypeAlias = str | int | float | bool
Value: TypeAlias = Scalar | tuple[Scalar, ...] | Mapping[str, "Value"]


class ParamType(StrEnum):
    STRING = "STRING"
    LONG = "LONG"
    DOUBLE = "DOUBLE"
    BOOLEAN = "BOOLEAN"
    STRING_ARRAY = "STRING_ARRAY"
    LONG_ARRAY = "LONG_ARRAY"
    DOUBLE_ARRAY = "DOUBLE_ARRAY"
    BOOLEAN_ARRAY = "BOOLEAN_ARRAY"
    STRING_MAP = "STRING_MAP"
    MAP = "MAP"

    @property
    def is_array(self) -> bool:
        return self.value.endswith("_ARRAY")

    @property
    def element(self) -> ParamType:
        """The type of one element of an array type."""
        return ParamType(self.value.removesuffix("_ARRAY"))

    @property
    def array(self) -> ParamType:
        """The array type whose elements have this scalar type."""
        return ParamType(f"{self.value}_ARRAY")

    @property
    def notation(self) -> str:
        """As written between ``<`` and ``>`` in a parameter's key."""
        if self.is_array:
            return f"array<{self.element.value.lower()}>"
        return {ParamType.STRING_MAP: "map", ParamType.MAP: "pmap"}.get(self, self.value.lower())


@dataclass(frozen=True, slots=True)
class TypedValue:
    """A parameter's value after resolution."""

    type: ParamType
    value: Value

    def to_dict(self) -> dict[str, object]:
        return {"type": self.type.value, "value": plain(self.value)}

    @classmethod
    def from_dict(cls, data: Mapping[str, object]) -> TypedValue:
        kind = ParamType(str(data["type"]))
        return cls(kind, conform(kind, data["value"]))

    @classmethod
    def of(cls, value: Value) -> TypedValue:
        """The value with the type it evidently has."""
        return cls(type_of(value), value)


class Mismatch(ValueError):  # noqa: N818 - a private signal between this module and those that know the place
    """A value does not have the type asked for. Callers turn it into an error with a place."""


def type_of(value: object) -> ParamType:
    """The parameter type that a Python value evidently has."""
    if isinstance(value, bool):
        return ParamType.BOOLEAN
    if isinstance(value, int):
        return ParamType.LONG
    if isinstance(value, float):
        return ParamType.DOUBLE
    if isinstance(value, str):
        return ParamType.STRING
    if isinstance(value, Mapping):
        strings = bool(value) and all(isinstance(item, str) for item in value.values())
        return ParamType.STRING_MAP if strings else ParamType.MAP
    if isinstance(value, list | tuple):
        return _array_type(value)
    raise Mismatch(f"{_name(value)} cannot be a parameter's value")


def _array_type(items: list[object] | tuple[object, ...]) -> ParamType:
    kinds = {type_of(item) for item in items}
    if not kinds:
        return ParamType.STRING_ARRAY
    if kinds == {ParamType.LONG, ParamType.DOUBLE}:
        return ParamType.DOUBLE_ARRAY
    if len(kinds) > 1:
        mixed = ", ".join(sorted(kind.value.lower() for kind in kinds))
        raise Mismatch(f"a list must hold values of one type, this one mixes {mixed}")
    kind = kinds.pop()
    if kind.is_array or kind in (ParamType.MAP, ParamType.STRING_MAP):
        raise Mismatch("a list may hold strings, numbers or booleans only")
    return kind.array


def conform(kind: ParamType, value: object) -> Value:
    """The value as one of ``kind``, checked to the bounds; never changes what it means. Raises :class:`Mismatch`."""
    if kind.is_array:
        if not isinstance(value, list | tuple):
            raise Mismatch(f"{_name(value)} is not a list")
        return tuple(_scalar(kind.element, item) for item in value)
    if kind is ParamType.STRING_MAP:
        if not isinstance(value, Mapping) or not all(isinstance(item, str) for item in value.values()):
            raise Mismatch(f"{_name(value)} is not a map of strings")
        return {str(key): str(item) for key, item in value.items()}
    if kind is ParamType.MAP:
        if not isinstance(value, Mapping):
            raise Mismatch(f"{_name(value)} is not a map")
        return {str(key): conform(type_of(item), item) for key, item in value.items()}
    return _scalar(kind, value)


def _scalar(kind: ParamType, value: object) -> Scalar:
    if kind is ParamType.STRING and isinstance(value, str):
        return value
    if kind is ParamType.BOOLEAN and isinstance(value, bool):
        return value
    if kind is ParamType.LONG and isinstance(value, int) and not isinstance(value, bool):
        if not LONG_MIN <= value <= LONG_MAX:
            raise Mismatch("the number does not fit into 64 bits")
        return value
    if kind is ParamType.DOUBLE and isinstance(value, int | float) and not isinstance(value, bool):
        return _finite(value)
    raise Mismatch(f"{_name(value)} is not a {kind.value}")


def _finite(value: int | float) -> float:
    try:
        number = float(value)
    except OverflowError:
        raise Mismatch("the number is too large for a DOUBLE") from None
    if not math.isfinite(number):
        raise Mismatch("infinity and NaN are no parameter values")
    return number


def parse_text(kind: ParamType, text: str) -> Value:
    """A value typed on a command line (``name=value``) as one of ``kind``. Raises :class:`Mismatch`."""
    if kind is ParamType.STRING:
        return text
    if kind is ParamType.BOOLEAN:
        if text.lower() not in ("true", "false"):
            raise Mismatch(f"'{clip(text)}' is neither true nor false")
        return text.lower() == "true"
    if kind is ParamType.LONG:
        return conform(kind, _number(int, text, "a whole number"))
    if kind is ParamType.DOUBLE:
        return conform(kind, _number(float, text, "a number"))
    if kind.is_array:
        parts = [part.strip() for part in text.strip().strip("[]").split(",")] if text.strip(" []") else []
        return conform(kind, [parse_text(kind.element, part) for part in parts])
    raise Mismatch(f"a {kind.value} cannot be given as text")


def _number(convert: type[int] | type[float], text: str, what: str) -> int | float:
    # 40 digits hold every number in bounds; a megabyte of digits is quadratic work in int().
    if len(text) > 400:
        raise Mismatch(f"'{clip(text)}' is not {what}")
    try:
        return convert(text.strip())
    except ValueError:
        raise Mismatch(f"'{clip(text)}' is not {what}") from None


def plain(value: Value) -> object:
    """The value as JSON types: lists for tuples, dicts for mappings."""
    if isinstance(value, tuple):
        return list(value)
    if isinstance(value, Mapping):
        return {key: plain(item) for key, item in value.items()}
    return value


def clip(text: str, limit: int = 60) -> str:
    """A user's text, short enough for an error message."""
    return text if len(text) <= limit else f"{text[: limit - 1]}…"


def _name(value: object) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int) and value.bit_length() > 200:
        return "a giant number"
    if isinstance(value, int | float):
        return f"the number {value}"
    if isinstance(value, str):
        return f"the text '{clip(value)}'"
    if isinstance(value, list | tuple):
        return "a list"
    return "a map" if isinstance(value, Mapping) else f"a {type(value).__name__}"
