"""One source of a capture, as it is stored: the range that was fixed, and what was found in it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from icefloe.lake import ChangeSet, Checkpoint


@dataclass(frozen=True, slots=True)
class Source:
    """``start`` None: the table as it is. ``end`` None: the table has no snapshot yet."""

    table: str
    ref: str
    start: Checkpoint | None
    end: Checkpoint | None
    change_table: str | None = None
    branch: str | None = None
    """The pin to read the source at ``end`` by."""
    found: Mapping[str, Any] = field(default_factory=dict)
    """The change set as ``icefloe changes --output json`` prints it."""

    @property
    def has_changes(self) -> bool:
        return any(self.found.get(name) for name in ("added_files", "removed_files", "delete_files"))

    def read_point(self, catalog: str) -> str:
        """How Spark SQL names the source as it was captured."""
        full = f"{catalog}.{self.table}"
        if self.branch is not None:
            return f"{full}.branch_{self.branch}"
        return f"{full} VERSION AS OF {self.end.snapshot_id}" if self.end else full

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Source:
        def point(name: str) -> Checkpoint | None:
            return Checkpoint(**data[name]) if data[name] else None

        return cls(
            data["table"],
            data["ref"],
            point("start"),
            point("end"),
            data["change_table"],
            data["branch"],
            dict(data["found"]),
        )


def found_in(changes: ChangeSet) -> dict[str, Any]:
    return changes.to_dict()


def consumer_name(workflow_id: str, step_path: tuple[str, ...]) -> str:
    """A consumer's name unless ``consumer:`` says another: the workflow and the step's path."""
    return f"{workflow_id}/{'/'.join(step_path)}"
