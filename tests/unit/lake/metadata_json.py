"""Table metadata as JSON, made by hand: a table whose past is whatever a test says."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from icefloe.lake.metadata import TableMetadata


@dataclass(frozen=True)
class Past:
    """One snapshot of a table's past."""

    id: int
    parent: int | None
    number: int = 0
    timestamp_ms: int = 0
    operation: str = "append"
    files: tuple[int, int] | None = None
    """Added and total data files, if the summary tells."""


def table_metadata(
    snapshots: Sequence[Past],
    refs: Mapping[str, int],
    *,
    uuid: str = "11111111-1111-1111-1111-111111111111",
    version: int = 2,
    **extra: Any,
) -> TableMetadata:
    raw: dict[str, Any] = {
        "format-version": version,
        "table-uuid": uuid,
        "location": "file:///nowhere/t",
        "last-updated-ms": 0,
        "last-column-id": 1,
        "current-schema-id": 0,
        "schemas": [
            {
                "type": "struct",
                "schema-id": 0,
                "fields": [{"id": 1, "name": "a", "type": "long", "required": False}],
            }
        ],
        "default-spec-id": 0,
        "partition-specs": [{"spec-id": 0, "fields": []}],
        "snapshots": [_snapshot(one, version) for one in snapshots],
        "refs": {name: {"snapshot-id": held, "type": "branch"} for name, held in refs.items()},
        "current-snapshot-id": refs.get("main", -1),
        **extra,
    }
    if version >= 2:
        raw["last-sequence-number"] = max((one.number for one in snapshots), default=0)
    return TableMetadata.of(raw, location="file:///nowhere/t/metadata/v1.metadata.json")


def _snapshot(one: Past, version: int) -> dict[str, Any]:
    out: dict[str, Any] = {
        "snapshot-id": one.id,
        "timestamp-ms": one.timestamp_ms,
        "manifest-list": f"file:///nowhere/t/metadata/snap-{one.id}.avro",
        "summary": {"operation": one.operation},
        "schema-id": 0,
    }
    if one.files is not None:
        out["summary"] |= {"added-data-files": str(one.files[0]), "total-data-files": str(one.files[1])}
    if one.parent is not None:
        out["parent-snapshot-id"] = one.parent
    if version >= 2:
        out["sequence-number"] = one.number
    return out
