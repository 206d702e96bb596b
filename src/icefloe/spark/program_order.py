"""What a step's process is told to do: the one file that goes from the worker to the program that talks to Spark."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

from icefloe.spark.fence import Fencing, branch_of_round
from icefloe.spark.marks import Mark

PROPERTIES = "spark.properties"
"""Beside the order of a step with ``submit: spark-submit``: its settings, secrets among them."""


class ProgramKind(StrEnum):
    SQL = "sql"
    SCRIPT = "script"
    FUNCTION = "function"
    CARRIED = "carried"


@dataclass(frozen=True, slots=True)
class ProgramOrder:
    """``script`` is SQL text, the path of a Python file, or ``module:function``: user code, or with ``CARRIED`` what carries the
    order out by itself, named since it is of a package above this one."""

    kind: ProgramKind
    config: str
    script: str
    where: str
    """The file, or the run and step, that errors name."""
    mark: Mark
    branch: str
    session_id: str
    conf: Mapping[str, str] = field(default_factory=dict)
    remote: str | None = None
    master: str | None = None
    direct: bool = False
    ref: str = "main"
    """The branch of the targets that batches are published to."""
    targets: tuple[str, ...] = ()
    args: tuple[Any, ...] = ()
    captures: tuple[Mapping[str, Any], ...] = ()
    """Per source of the captures that the run holds: what was published about it, and ``source``, its name."""
    known: Mapping[str, int] = field(default_factory=dict)
    predecessors: tuple[str, ...] = ()
    """Sessions of earlier attempts at the same work that nobody has seen end."""
    stale_branches: tuple[str, ...] = ()
    work: Mapping[str, Any] = field(default_factory=dict)
    """What only the carrier understands."""
    folder: str = ""
    """Where the files of the workflow's version are, for imports."""

    def fencing(self, round_number: int = 1) -> Fencing:
        branch = branch_of_round(self.branch, round_number)
        return Fencing(self.mark, branch, self.direct, self.ref, self.known, self.stale_branches)

    def to_json(self) -> str:
        return json.dumps({**asdict(self), "mark": self.mark.to_json()})

    @classmethod
    def read(cls, file: Path) -> ProgramOrder:
        data: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
        tuples = {name: tuple(data[name]) for name in ("targets", "args", "captures", "predecessors", "stale_branches")}
        return cls(**{**data, **tuples, "kind": ProgramKind(data["kind"]), "mark": Mark.from_json(data["mark"])})
