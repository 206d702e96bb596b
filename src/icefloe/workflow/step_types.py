"""The step types that definitions may name, and one settings schema for each.

A :class:`StepType` only describes: what the type is called, under which key its settings stand, their schema, which of
them name files. What a type *does* is code of the engine's side. The collection is a value that is passed to the loader;
types from outside are added with :meth:`StepTypes.extended` by whoever reads the entry points.

Schemas are strict about keys and kinds. A text with ``${…}`` is accepted anywhere at push, since its value is not known
yet; the same schema is applied again to the resolved settings when the step starts (:meth:`StepType.parse`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import pydantic
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, PlainSerializer, model_validator

from icefloe.errors import UsageError
from icefloe.workflow import durations, lookbacks, write_ranges
from icefloe.workflow.field_types import reason
from icefloe.workflow.reserved import fold
from icefloe.workflow.zone_names import is_zone


def _as_list(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


def _not_blank(value: str) -> str:
    if not value.strip():
        raise ValueError("must not be empty")
    return value


def _lower(value: Any) -> Any:
    return value.lower() if isinstance(value, str) else value


def _upper(value: Any) -> Any:
    return value.upper() if isinstance(value, str) else value


def _zone(value: str) -> str:
    if "$" not in value and not is_zone(value):
        raise ValueError("must be a time zone such as UTC or Europe/Berlin")
    return value


Text = Annotated[str, AfterValidator(_not_blank)]
Texts = Annotated[list[Text], BeforeValidator(_as_list)]
Seconds = Annotated[float, BeforeValidator(durations.parse), PlainSerializer(durations.text)]


def _lookback(value: str | int) -> str | int:
    lookbacks.parse(value)
    return value


Lookback = Annotated[int | Text, AfterValidator(_lookback)]


def _write_range(value: str) -> str:
    if "${" not in value:
        write_ranges.parse(value)
    return value


WriteRange = Annotated[Text, AfterValidator(_write_range)]
EnvValue = Annotated[str, BeforeValidator(lambda value: str(value) if isinstance(value, int | float) else value)]


class Settings(BaseModel):
    """Base of all settings: unknown keys are errors, values are never converted silently."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class CompletenessSettings(Settings):
    """Whose watermark moves with the commit, and what it is derived from."""

    table: Text | None = Field(default=None, description="default: what the steps behind the capture write")
    column: Text | dict[str, Text] | None = Field(
        default=None, description="a date or time column of the source; without it the sources' own watermarks count"
    )
    lateness: Seconds | None = Field(default=None, description="rows may come so late; taken off the column's maximum")
    timezone: Annotated[Text, AfterValidator(_zone)] | None = None

    @model_validator(mode="after")
    def _fits(self) -> CompletenessSettings:
        if self.column is None and (self.lateness is not None or self.timezone is not None):
            raise ValueError("lateness and timezone belong to a column, and none is named")
        return self


class IpCaptureSettings(Settings):
    """What changed in the sources since this consumer last committed."""

    source_tables: Annotated[Texts, Field(min_length=1, description="the Iceberg tables to watch")]
    capture_mode: Annotated[Literal["ICDC", "RANGE"], BeforeValidator(_upper)] = "ICDC"
    data_operations: Annotated[
        list[Annotated[Literal["append", "overwrite", "delete"], BeforeValidator(_lower)]], BeforeValidator(_as_list)
    ] = Field(default=["append"], min_length=1)
    on_other_operations: Annotated[Literal["fail", "ignore"], BeforeValidator(_lower)] = "fail"
    on_gap: Annotated[Literal["fail", "full", "diff"], BeforeValidator(_lower)] = "fail"
    on_empty: Annotated[Literal["skip", "run"], BeforeValidator(_lower)] = "skip"
    on_missing_source: Annotated[Literal["fail", "wait"], BeforeValidator(_lower)] = "fail"
    columns: Texts | dict[str, Texts] = Field(default=[], description="columns whose ranges are published")
    range_columns: dict[str, Text | dict[str, Text]] = Field(
        default={}, description="a common name -> each source's column; the union of the ranges is published"
    )
    consumer: Text | None = None
    start: Text | int | None = Field(default=None, description="earliest, latest, a snapshot id, or a time")
    pin: Annotated[Literal["auto", "require", "off"], BeforeValidator(_lower)] = "auto"
    ref: Text = "main"
    target_table: Text | None = Field(default=None, description="a stable name for the change table")
    keep: Seconds | None = Field(default=None, description="how long the change table stays after the commit")
    max_snapshots: int | None = Field(default=None, ge=1)
    max_files: int | None = Field(default=None, ge=1)
    max_rows: int | None = Field(default=None, ge=1)
    max_bytes: int | None = Field(default=None, ge=1)
    watermark: CompletenessSettings | None = Field(
        default=None, description="how far a target is complete, said with the commit"
    )


class IpCommitSettings(Settings):
    """Moves the checkpoints of the captures it names."""

    capture_step: Annotated[Texts, Field(min_length=1)]
    allow_ignored: bool = False


class WriteSettings(Settings):
    """Where the SELECT's result goes, and how the target is kept exact."""

    table: Text
    keys: Texts = []
    pattern: Annotated[
        Literal["auto", "append", "merge", "key_filter", "range_overwrite", "full"], BeforeValidator(_lower)
    ] = "auto"
    partition_by: Texts = Field(
        default=[], description="for a target that is made: columns, or transforms such as days(ts)"
    )
    lookup_tables: Texts = Field(default=[], description="read as they are: their changes recompute nothing")
    properties: dict[str, EnvValue] = {}
    compact: Annotated[Literal["auto", "off"], BeforeValidator(_lower)] = Field(
        default="auto",
        description="auto: small files that late rows leave in the target's partitions are joined now and then",
    )
    search: Annotated[Literal["auto", "off"], BeforeValidator(_lower)] = Field(
        default="auto",
        description="auto: on a local Spark server the step itself looks changed keys up where that is cheaper; off: always Spark",
    )
    lookback: Lookback | None = Field(
        default=None, description="what this step replaces, for icefloe savings: 14d (days), or 14 (newest partitions)"
    )
    range: WriteRange | None = Field(
        default=None,
        description="computed anew in every run, whatever has changed: COLUMN FROM..TO, COLUMN last 14d, COLUMN last 14, or all",
    )


class SparkSettings(Settings):
    """SQL or PySpark on Spark."""

    script: Annotated[Text, Field(description="SQL text, a .sql or .py file, or module:function")]
    write: WriteSettings | None = None
    conf: dict[str, EnvValue | bool] = {}
    args: list[str | int | float | bool] = []
    files: Texts = Field(default=[], description="further files that the version is to contain")
    submit: Annotated[Literal["connect", "spark-submit"], BeforeValidator(_lower)] = "connect"
    master: Text | None = None
    remote: Text | None = Field(default=None, description="a Spark Connect address, sc://host:port")
    publish: Annotated[Literal["branch", "direct"], BeforeValidator(_lower)] = "branch"
    target_branch: Text | None = Field(
        default=None, description="publish to this branch of the targets, which main's readers do not see"
    )
    targets: Texts = Field(default=[], description="tables that a PySpark script writes, protected before it starts")
    shadow: Annotated[Literal["off", "sample", "full"], BeforeValidator(_lower)] = "off"
    on_logic_change: Annotated[Literal["ask", "from_now_on", "rebuild"], BeforeValidator(_lower)] = "ask"


class ShellSettings(Settings):
    """A shell script."""

    script: Text
    env: dict[str, EnvValue] = {}
    files: Texts = Field(default=[], description="further files that the version is to contain")


class PythonSettings(Settings):
    """A Python script or function, in a process of its own."""

    script: Annotated[Text, Field(description="Python text, a .py file, or module:function")]
    args: list[str | int | float | bool] = []
    env: dict[str, EnvValue] = {}
    files: Texts = Field(default=[], description="further files that the version is to contain")


class HttpSettings(Settings):
    """One HTTP request."""

    url: Text
    method: Annotated[Literal["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"], BeforeValidator(_upper)] = (
        "GET"
    )
    headers: dict[str, EnvValue] = {}
    query: dict[str, EnvValue] = {}
    body: str | dict[str, Any] | list[Any] | None = None
    expect: list[int] | None = Field(default=None, description="status codes that count as success (default: 2xx)")


class SettingsError(UsageError):
    """A step's settings, with their parameters filled in, do not fit its type."""

    code = "step.settings"


@dataclass(frozen=True, slots=True)
class StepType:
    """``settings`` None takes any map (a type from outside without a schema)."""

    name: str
    key: str
    settings: type[BaseModel] | None = None
    script: str | None = None  # the setting that may name a file
    aliases: tuple[str, ...] = ()

    def names(self) -> tuple[str, ...]:
        return (self.name, self.key, *self.aliases)

    def required(self) -> tuple[str, ...]:
        if self.settings is None:
            return ()
        return tuple(name for name, item in self.settings.model_fields.items() if item.is_required())

    def parse(self, resolved: Mapping[str, Any], where: str | None = None) -> BaseModel:
        """The settings as a typed value, after resolution. Raises :class:`SettingsError`."""
        assert self.settings is not None, "a type without a schema has nothing to parse with"
        try:
            return self.settings.model_validate(dict(resolved))
        except pydantic.ValidationError as error:
            first = error.errors()[0]
            place = ".".join(str(part) for part in first["loc"])
            raise SettingsError(f"{self.key}.{place}: {reason(first)}", where=where) from None


class StepTypes:
    """A set of step types, found by any of their names in any spelling."""

    def __init__(self, types: Iterable[StepType]) -> None:
        self._types: dict[str, StepType] = {}
        for step_type in types:
            for name in step_type.names():
                self._types.setdefault(fold(name), step_type)

    def extended(self, types: Iterable[StepType]) -> StepTypes:
        """These and more; a name that is taken stays with its first owner."""
        return StepTypes([*self, *types])

    def find(self, name: str) -> StepType | None:
        return self._types.get(fold(name))

    def __iter__(self) -> Iterator[StepType]:
        yield from dict.fromkeys(self._types.values())


NOOP_TYPES = ("NoOp", "Join")
"""These two are no jobs: the loader makes a NoOpStep of them."""

BUILTIN = StepTypes(
    (
        StepType("IpCapture", "ip_capture", IpCaptureSettings),
        StepType("IpCommit", "ip_commit", IpCommitSettings),
        StepType("Spark", "spark", SparkSettings, script="script", aliases=("SparkSQL", "PySpark")),
        StepType("Shell", "shell", ShellSettings, script="script", aliases=("Bash",)),
        StepType("Python", "python", PythonSettings, script="script"),
        StepType("Http", "http", HttpSettings),
    )
)
