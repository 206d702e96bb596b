"""The parameters of a workflow as the fields of a form, and what somebody typed into it as the values of a run."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from typing import Any

from icefloe.workflow.default_params import DEFAULTS
from icefloe.workflow.model import Param, ParamMode, Workflow
from icefloe.workflow.resolution import ParamError
from icefloe.workflow.values import Mismatch, ParamType, clip, parse_text, plain

_DATE = re.compile(r"\d{4}-\d{2}-\d{2}\Z")
_COMPACT_DATE = re.compile(r"(?:19|20)\d{6}\Z")
_GIVEN_AT_START = frozenset(
    {ParamMode.MUTABLE, ParamMode.MUTABLE_ON_START, ParamMode.MUTABLE_ON_START_RESTART, ParamMode.PROVIDED}
)
_GIVEN_AT_RESTART = frozenset({ParamMode.MUTABLE, ParamMode.MUTABLE_ON_START_RESTART, ParamMode.PROVIDED})


EVERY_RUN_HAS = frozenset(param.name for param in DEFAULTS)
"""Parameters that no definition has to name."""


@dataclass(frozen=True, slots=True)
class ParameterField:
    """``kind`` is what a form shows: text, number, whole, boolean, date, list, json. ``default`` is the text it begins with.

    ``computed``: the expression that gives the value when nothing is typed.
    """

    name: str
    type: ParamType
    kind: str
    default: str
    required: bool = False
    computed: str | None = None
    hint: str = ""

    def to_dict(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.__slots__}


def fields_of(workflow: Workflow, *, restart: bool = False) -> tuple[ParameterField, ...]:
    """Those that whoever starts (or restarts) a run may give."""
    given = _GIVEN_AT_RESTART if restart else _GIVEN_AT_START
    return tuple(_field(param) for param in workflow.params if param.mode in given)


def fixed_of(workflow: Workflow) -> tuple[Param, ...]:
    """Those that nobody may give."""
    return tuple(param for param in workflow.params if param.mode not in _GIVEN_AT_START)


def values_of(
    fields: tuple[ParameterField, ...], typed: Mapping[str, str], *, unchanged_counts: bool = False
) -> dict[str, Any]:
    """What differs from the defaults, as values. An empty field is the default. Raises :class:`ParamError`.

    ``unchanged_counts``: what equals the default is given too, because the run has another value by now.
    """
    found = {}
    for field in fields:
        text = typed.get(field.name, "").replace("\r\n", "\n")
        if not text.strip() or (text == field.default and not unchanged_counts):
            continue
        try:
            found[field.name] = _value(field, text)
        except (Mismatch, ValueError, RecursionError) as error:
            hint = f"{field.name} is a {field.type.notation}" + (f": {field.hint}" if field.hint else "")
            raise ParamError(f"{field.name}: {error}", hint=hint) from None
    missing = [field.name for field in fields if field.required and field.name not in found and not unchanged_counts]
    if missing:
        raise ParamError(f"{', '.join(missing)}: no value", hint="whoever starts a run gives a value for it")
    return found


def _value(field: ParameterField, text: str) -> Any:
    if field.kind == "json":
        value = json.loads(text)
        if not isinstance(value, dict):
            raise Mismatch("this is not a map")
        return value
    if field.kind == "list":
        parts = [part for part in text.split("\n") if part.strip()]
        return [plain(parse_text(field.type.element, part)) for part in parts]
    return plain(parse_text(field.type, text if field.type is ParamType.STRING else text.strip()))


def _field(param: Param) -> ParameterField:
    kind, hint = _kind(param.type)
    default = _text(param)
    if param.type is ParamType.STRING and isinstance(param.value, str) and _is_date(param.value):
        kind = "date"
    elif isinstance(param.value, str | int) and _COMPACT_DATE.match(str(param.value)):
        hint = "a day, as in 20260131"
    return ParameterField(
        param.name, param.type, kind, default, param.mode is ParamMode.PROVIDED, param.expression, hint
    )


def _kind(kind: ParamType) -> tuple[str, str]:
    match kind:
        case ParamType.BOOLEAN:
            return "boolean", ""
        case ParamType.LONG:
            return "whole", ""
        case ParamType.DOUBLE:
            return "number", ""
        case ParamType.MAP | ParamType.STRING_MAP:
            return "json", "JSON"
    return ("list", "one on each line") if kind.is_array else ("text", "")


def _text(param: Param) -> str:
    if param.members is not None:
        if any(member.value is None for member in param.members):
            return ""  # some of it is computed
        return json.dumps({member.name: plain(member.value) for member in param.members if member.value is not None})
    value = param.value
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple):
        return "\n".join(str(item).lower() if isinstance(item, bool) else str(item) for item in value)
    if isinstance(value, Mapping):
        return json.dumps(plain(value), ensure_ascii=False)
    return str(value)


def _is_date(text: str) -> bool:
    if not _DATE.match(text):
        return False
    try:
        date.fromisoformat(text)
    except ValueError:
        return False
    return True


def shown_default(param: Param) -> str:
    """A parameter that nobody may give, in one line."""
    return clip(param.expression if param.expression is not None else _text(param), 200)
