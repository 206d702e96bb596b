"""What a planned write is told beyond what every Spark step is: the SELECT, its target, and the captured sources."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from icefloe.capture.sources import Source
from icefloe.errors import UsageError
from icefloe.planner import query, shadow
from icefloe.planner.inputs import WriteRequest
from icefloe.planner.shadow import Mode
from icefloe.steps.write.ranges import RangeOrder
from icefloe.steps.write.versions import LogicOrder
from icefloe.workflow.step_types import SparkSettings, WriteSettings

CARRIER = "icefloe.steps.write.execution:perform"
"""What carries such an order out."""


@dataclass(frozen=True)
class WriteJob:
    """The sources of the captures that the run holds are what the SELECT may read incrementally."""

    request: WriteRequest
    sources: tuple[Source, ...]
    properties: Mapping[str, str] = field(default_factory=dict)
    """Of a target that is made."""
    lookback: str | int | None = None
    """What this step replaces, for the savings ledger."""
    logic: LogicOrder | None = None
    """``None``: versions of the logic are not looked at."""
    shadow: Mode = "off"
    range: RangeOrder | None = None
    """What is written anew, whatever has changed."""

    def to_json(self) -> dict[str, Any]:
        return {
            "request": asdict(self.request),
            "sources": [source.to_json() for source in self.sources],
            "properties": dict(self.properties),
            "shadow": self.shadow,
            "lookback": self.lookback,
            "logic": self.logic.to_json() if self.logic is not None else None,
            "range": asdict(self.range) if self.range is not None else None,
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> WriteJob:
        request: dict[str, Any] = {
            key: tuple(value) if isinstance(value, list) else value for key, value in data["request"].items()
        }
        sources = tuple(Source.from_json(source) for source in data["sources"])
        logic = LogicOrder.from_json(data["logic"]) if data["logic"] is not None else None
        write_range = RangeOrder(**data["range"]) if data["range"] is not None else None
        own = (data["lookback"], logic, data["shadow"], write_range)
        return cls(WriteRequest(**request), sources, dict(data["properties"]), *own)


def work(
    settings: SparkSettings,
    text: str,
    sources: Sequence[Source],
    where: str,
    logic: LogicOrder | None = None,
    anew: RangeOrder | None = None,
) -> WriteJob:
    """Of a step's settings. What is no SELECT fails here, before a session is asked for."""
    assert settings.write is not None
    if settings.publish == "direct":
        raise UsageError(
            "write: is always published whole, publish: direct cannot be had with it",
            where=where,
            hint="leave publish out",
        )
    if settings.args or settings.targets:
        raise UsageError("args and targets are for PySpark scripts, not for write:", where=where, hint="leave them out")
    write_request = request(settings.write, text, where)
    parsed = query.read(write_request.text, where=where)
    if settings.shadow != "off":
        shadow.refuse_unrepeatable(parsed, where)
    own = (settings.write.lookback, logic, settings.shadow, anew)
    return WriteJob(write_request, tuple(sources), settings.write.properties, *own)


def request(write: WriteSettings, text: str, where: str) -> WriteRequest:
    return WriteRequest(
        text=text,
        target=write.table,
        keys=tuple(write.keys),
        pattern=write.pattern,
        partition_by=tuple(write.partition_by),
        lookup_tables=tuple(write.lookup_tables),
        where=where,
        compact=write.compact == "auto",
        search=write.search == "auto",
    )
