"""One source of a capture, as it is stored: the range that was fixed, and what was found in it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from icefloe.lake import ChangeSet, Checkpoint
from icefloe.lake.metadata import TableMetadata


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
    schema_id: int | None = None
    """The table's schema that the change table shows."""
    behind_schema: bool = False
    """``end`` was written under an older one: Iceberg 1.12 shows a branch there with the new schema, and filters by the old."""
    at_end: str | None = None
    """A table of all files at ``end``, where that is behind the schema and a branch would not do."""
    alias: str | None = None
    """A stable name that was asked for, and leads to the change table."""
    completes: str | None = None
    """The table whose watermark the capture derives."""
    through: float | None = None
    """How far this source lets it be complete; None: not known."""

    @property
    def has_changes(self) -> bool:
        return any(self.found.get(name) for name in ("added_files", "removed_files", "delete_files"))

    def read_point(self, catalog: str) -> str:
        """How Spark SQL names the source as it was captured."""
        full = f"{catalog}.{self.table}"
        if self.at_end is not None:
            return f"{catalog}.{self.at_end}"
        if self.branch is not None:
            return f"{full}.branch_{self.branch}"
        return f"{full} VERSION AS OF {self.end.snapshot_id}" if self.end else full

    def under(self, metadata: TableMetadata) -> Source:
        """This source with the table's schema of today."""
        snapshot = metadata.snapshots.get(self.end.snapshot_id) if self.end is not None else None
        written_under = snapshot.schema_id if snapshot is not None else None
        behind = written_under is not None and written_under != metadata.schema.id
        return replace(self, schema_id=metadata.schema.id, behind_schema=behind)

    @property
    def made_tables(self) -> tuple[str, ...]:
        """The tables that the capture made of this source."""
        return tuple(name for name in (self.change_table, self.at_end) if name is not None)

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
            data.get("schema_id"),
            data.get("behind_schema", False),
            data.get("at_end"),
            data.get("alias"),
            data.get("completes"),
            data.get("through"),
        )


def change_summary(changes: ChangeSet) -> dict[str, Any]:
    return changes.to_dict()
