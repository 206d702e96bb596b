"""What the process of a planned write is told, as one JSON file."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from icefloe.capture.sources import Source
from icefloe.planner.inputs import Request
from icefloe.spark.marks import Mark


@dataclass(frozen=True)
class Order:
    """``mark`` is the same for every attempt at the same work; ``branch`` is this attempt's own."""

    config: str
    request: Request
    sources: tuple[Source, ...]
    mark: Mark
    branch: str
    known: Mapping[str, int] = field(default_factory=dict)
    """What the state database says is published, by target."""
    conf: Mapping[str, str] = field(default_factory=dict)
    properties: Mapping[str, str] = field(default_factory=dict)

    def to_json(self) -> str:
        data: dict[str, Any] = {
            "config": self.config,
            "request": asdict(self.request),
            "sources": [source.to_json() for source in self.sources],
            "mark": self.mark.to_json(),
            "known": dict(self.known),
            "branch": self.branch,
            "conf": dict(self.conf),
            "properties": dict(self.properties),
        }
        return json.dumps(data)

    @classmethod
    def read(cls, file: Path) -> Order:
        data: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
        request: dict[str, Any] = {
            key: tuple(value) if isinstance(value, list) else value for key, value in data["request"].items()
        }
        sources = tuple(Source.from_json(one) for one in data["sources"])
        mark = Mark.from_json(data["mark"])
        return cls(**{**data, "request": Request(**request), "sources": sources, "mark": mark})
