"""The kinds of value that expressions compute with, as names; shared by the checker and the interpreter."""

from __future__ import annotations

from collections.abc import Mapping

from icefloe.workflow.expressions.dates import Formatter, Moment, Zone
from icefloe.workflow.values import ParamType

ANY = "ANY"  # known only when it runs
NULL = "NULL"
STRING, LONG, DOUBLE, BOOLEAN = "STRING", "LONG", "DOUBLE", "BOOLEAN"
ARRAYS = {STRING: "STRING_ARRAY", LONG: "LONG_ARRAY", DOUBLE: "DOUBLE_ARRAY", BOOLEAN: "BOOLEAN_ARRAY"}
EMPTY_ARRAY = "ARRAY"
MAP = "MAP"
# Kinds are upper case, the classes of the language are not: DATETIME is a value, DateTime the class.
DATETIME, FORMATTER, ZONE, DAYS, PROPERTY = "DATETIME", "FORMATTER", "ZONE", "DAYS", "PROPERTY"
IDENTIFIER = "IDENTIFIER"
PARAMS = "params"

# What a parameter of a function may be given, beyond a kind's own name.
NUMBER = "NUMBER"  # LONG or DOUBLE
DIGITS = "DIGITS"  # a date int: LONG or STRING
_ACCEPTS = {
    NUMBER: {LONG, DOUBLE},
    DIGITS: {LONG, STRING},
    DOUBLE: {LONG, DOUBLE},
    ARRAYS[STRING]: {ARRAYS[STRING], EMPTY_ARRAY},
}


class Days:
    """Joda's Days: a count."""

    __slots__ = ("count",)

    def __init__(self, count: int) -> None:
        self.count = count


class Property:
    """Joda's Property: one calendar field of a moment."""

    __slots__ = ("field", "moment")

    def __init__(self, moment: Moment, field: str) -> None:
        self.moment = moment
        self.field = field


class Identifier:
    """A UUID."""

    __slots__ = ("text",)

    def __init__(self, text: str) -> None:
        self.text = text


class ParamsObject:
    """The word ``params``."""


PARAMS_OBJECT = ParamsObject()

_CLASSES: tuple[tuple[type, str], ...] = (
    (bool, BOOLEAN),
    (int, LONG),
    (float, DOUBLE),
    (str, STRING),
    (Moment, DATETIME),
    (Formatter, FORMATTER),
    (Zone, ZONE),
    (Days, DAYS),
    (Property, PROPERTY),
    (Identifier, IDENTIFIER),
    (ParamsObject, PARAMS),
)


def kind_of(value: object) -> str:
    """The kind of a value."""
    if value is None:
        return NULL
    for cls, kind in _CLASSES:
        if isinstance(value, cls):
            return kind
    if isinstance(value, tuple):
        return ARRAYS[kind_of(value[0])] if value else EMPTY_ARRAY
    if isinstance(value, Mapping):
        return MAP
    raise TypeError(f"no expression value: {type(value).__name__}")


def of_param(kind: ParamType) -> str:
    return MAP if kind in (ParamType.MAP, ParamType.STRING_MAP) else kind.value


def element_of(kind: str) -> str:
    """The kind of an array's elements."""
    return next((element for element, array in ARRAYS.items() if array == kind), ANY)


def is_array(kind: str) -> bool:
    return kind == EMPTY_ARRAY or kind in ARRAYS.values()


def fits(kind: str, wanted: str) -> bool:
    """May a value of ``kind`` be given where ``wanted`` is asked for?"""
    return wanted == ANY or kind in (ANY, wanted) or kind in _ACCEPTS.get(wanted, ())


def is_plain(kind: str) -> bool:
    """May a value of this kind be a parameter's value?"""
    return kind in (STRING, LONG, DOUBLE, BOOLEAN, MAP) or is_array(kind)
