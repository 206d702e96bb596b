"""The types of a definition's fields: what may stand there, how it is checked, what an editor is told about it.

The annotations are pydantic's. Limits, durations and choices are stated here and in ``model.py`` only; the YAML readers,
the Python builder and the JSON Schema take them from there. A value that was stored is not judged again: a version that
was pushed yesterday loads today, so the model's classes check nothing when they are made.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Annotated, Any, TypeAlias

from pydantic import AfterValidator, AliasChoices, BeforeValidator, Field, WithJsonSchema

from icefloe.workflow import cron, durations
from icefloe.workflow.problems import suggestion
from icefloe.workflow.values import LONG_MAX, clip
from icefloe.workflow.zone_names import is_zone


def key(doc: str, *others: str, name: str | None = None) -> Any:
    """What a field means, in words for hover texts; ``others`` are further names of its key, and ``name`` is the key if
    that is not the attribute's name."""
    return Field(description=doc, alias=name, validation_alias=AliasChoices(*others) if others else None)


class InvalidValueError(ValueError):
    """A value that its field cannot take. Readers turn it into a finding with its place."""

    def __init__(self, code: str, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.hint = hint


def reason(error: Mapping[str, Any]) -> str:
    """A pydantic finding in our words."""
    kind, context = error["type"], error.get("ctx", {})
    if kind == "missing":
        return "is required"
    if kind == "extra_forbidden":
        return "is no setting of this type"
    if kind == "literal_error":
        return f"must be {context.get('expected')}"
    if kind == "value_error":
        return str(context.get("error", error["msg"]))
    words = {
        "string_type": "must be a text",
        "int_type": "must be a whole number",
        "float_type": "must be a number",
        "bool_type": "must be true or false",
        "list_type": "must be a list",
        "tuple_type": "must be a list",
        "dict_type": "must be a map",
        "model_type": "must be a map",
    }
    return words.get(kind, str(error["msg"]).lower())


# --- numbers -------------------------------------------------------------------------------------------------------------

Count: TypeAlias = Annotated[int, Field(strict=True, ge=1, le=LONG_MAX)]
Retries: TypeAlias = Annotated[int, Field(strict=True, ge=0, le=1000)]
Concurrency: TypeAlias = Annotated[int, Field(strict=True, ge=1, le=100_000)]
LoopConcurrency: TypeAlias = Annotated[int, Field(strict=True, ge=1, le=500)]
Rounds: TypeAlias = Annotated[int, Field(strict=True, ge=1, le=1000)]
Factor: TypeAlias = Annotated[float, Field(strict=True, ge=1, le=1000)]
Flag: TypeAlias = Annotated[bool, Field(strict=True)]

# --- durations, in seconds -----------------------------------------------------------------------------------------------


def _timeout(value: object) -> object:
    if isinstance(value, str) and "${" in value:
        return value
    seconds = durations.parse(value)
    if seconds == 0:
        raise ValueError("must be longer than 0")
    return seconds


def _at_least_a_second(seconds: float) -> float:
    if seconds < 1:
        raise InvalidValueError("trigger.interval", "an interval must be at least one second")
    return seconds


DURATION = WithJsonSchema({"type": ["string", "number"]})
"""Marks seconds that people write as a duration."""

Delay: TypeAlias = Annotated[float, BeforeValidator(durations.parse), DURATION]
Duration: TypeAlias = Annotated[float, BeforeValidator(durations.parse), Field(gt=0), DURATION]
Interval: TypeAlias = Annotated[Duration, AfterValidator(_at_least_a_second)]
Timeout: TypeAlias = Annotated[float | str, BeforeValidator(_timeout), DURATION]
"""Seconds; or a text with ``${…}`` that ``resolution.resolve_timeout`` turns into seconds when the step starts."""

# --- texts ---------------------------------------------------------------------------------------------------------------


def as_tuple(value: Any) -> Any:
    """A text alone is a list of one."""
    return (value,) if isinstance(value, str) else tuple(value) if isinstance(value, list) else value


def spellings(words: Iterable[str]) -> dict[str, Any]:
    """The JSON Schema of a choice, which may be written in capitals or without."""
    return {"enum": [spelled for word in words for spelled in dict.fromkeys((word, word.lower(), word.upper()))]}


def _cron(text: str) -> str:
    reason = cron.problem(text)
    if reason is not None:
        hint = "5 fields (minute hour day month weekday), 6 or 7 with seconds first, or @daily"
        raise InvalidValueError("trigger.cron", reason, hint)
    return text.strip()


def _zone(name: str) -> str:
    if not name:
        return "UTC"
    if not is_zone(name):
        message = f"there is no time zone '{clip(name)}'"
        raise InvalidValueError("trigger.timezone", message, "a name such as UTC or Europe/Berlin")
    return name


def _moment(text: str) -> str:
    try:
        datetime.fromisoformat(text.strip())
    except ValueError:
        hint = "2024-01-31 or 2024-01-31T06:00:00+01:00"
        raise InvalidValueError("trigger.date", f"'{clip(text)}' is no date", hint) from None
    return text.strip()


OPERATIONS = ("append", "overwrite", "delete")


def _operation(word: str) -> str:
    if word.lower() not in OPERATIONS:
        hint = suggestion(word, OPERATIONS, "operations")
        raise InvalidValueError("definition.unknown-value", f"'{clip(word)}' is no data operation", hint)
    return word.lower()


def _requirement(word: str) -> str:
    if not word:
        return "any"
    if word.lower() not in ("any", "all"):
        raise InvalidValueError("definition.unknown-value", f"'{clip(word)}' is neither any nor all")
    return word.lower()


def partition_values(column: object, value: Any) -> list[str | int | bool]:
    """One column's values: a value alone is a list of one."""
    values = value if isinstance(value, list) else list(value) if isinstance(value, tuple) else [value]
    if not values or not all(isinstance(item, str | int) for item in values):
        message = f"'{clip(str(column))}' must be a value or a list of values"
        raise InvalidValueError("definition.wrong-type", message)
    if any(abs(item) > LONG_MAX for item in values if isinstance(item, int)):
        raise InvalidValueError("definition.out-of-range", "the number does not fit into 64 bits")
    return values


def _partitions(columns: Any) -> Any:
    if not isinstance(columns, Mapping):
        return columns
    return {str(column): partition_values(column, value) for column, value in columns.items()}


Text: TypeAlias = Annotated[str, Field(strict=True)]
VersionText: TypeAlias = Annotated[Text, WithJsonSchema({"type": ["string", "integer"]})]
Texts: TypeAlias = Annotated[
    tuple[str, ...],
    BeforeValidator(as_tuple),
    WithJsonSchema({"oneOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]}),
]
Cron: TypeAlias = Annotated[str, AfterValidator(_cron), Field(examples=["0 3 * * *", "@daily"])]
Zone: TypeAlias = Annotated[str, AfterValidator(_zone), Field(examples=["UTC", "Europe/Berlin"])]
Moment: TypeAlias = Annotated[str, AfterValidator(_moment), Field(examples=["2024-01-31"])]
Operation: TypeAlias = Annotated[str, AfterValidator(_operation), WithJsonSchema(spellings(OPERATIONS))]
Partitions: TypeAlias = Annotated[Mapping[str, Any], BeforeValidator(_partitions)]
Operations: TypeAlias = Annotated[tuple[Operation, ...], BeforeValidator(as_tuple)]
Requirement: TypeAlias = Annotated[str, AfterValidator(_requirement), WithJsonSchema(spellings(("any", "all")))]
