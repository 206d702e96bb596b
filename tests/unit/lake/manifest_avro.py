"""Manifests written entry by entry, in the Avro of the specification."""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import fastavro

from icefloe.lake.manifests import DATA, ManifestFile

SCHEMA = {
    "type": "struct",
    "schema-id": 0,
    "fields": [
        {"id": 1, "name": "d", "type": "date", "required": False},
        {"id": 2, "name": "t", "type": "time", "required": False},
        {"id": 3, "name": "ts", "type": "timestamp", "required": False},
        {"id": 4, "name": "tz", "type": "timestamptz", "required": False},
        {"id": 5, "name": "ns", "type": "timestamp_ns", "required": False},
        {"id": 6, "name": "u", "type": "uuid", "required": False},
        {"id": 7, "name": "dec", "type": "decimal(38, 2)", "required": False},
        {"id": 8, "name": "s", "type": "string", "required": False},
    ],
}
PARTITION_TYPES: dict[str, Any] = {
    "d": {"type": "int", "logicalType": "date"},
    "t": {"type": "long", "logicalType": "time-micros"},
    "ts": {"type": "long", "logicalType": "timestamp-micros", "adjust-to-utc": False},
    "tz": {"type": "long", "logicalType": "timestamp-micros", "adjust-to-utc": True},
    "ns": {"type": "long", "logicalType": "timestamp-nanos", "adjust-to-utc": False},
    "u": {"type": "fixed", "size": 16, "name": "uuid_fixed", "logicalType": "uuid"},
    "dec": {"type": "fixed", "size": 16, "name": "decimal_38_2", "logicalType": "decimal", "precision": 38, "scale": 2},
    "s": "string",
}
SPEC_FIELDS = [
    {"name": name, "source-id": number, "field-id": 999 + number, "transform": "identity"}
    for number, name in enumerate(PARTITION_TYPES, start=1)
]


def _optional(name: str, kind: Any, field_id: int) -> dict[str, Any]:
    return {"name": name, "type": ["null", kind], "default": None, "field-id": field_id}


def entry_schema(version: int, *, partitioned: bool = True) -> dict[str, Any]:
    """The Avro schema of a manifest's entries in a format version."""
    members = PARTITION_TYPES.items() if partitioned else ()
    partition = {
        "type": "record",
        "name": "r102",
        "fields": [_optional(name, kind, 1000 + number) for number, (name, kind) in enumerate(members)],
    }
    bounds = {
        "type": "array",
        "logicalType": "map",
        "items": {
            "type": "record",
            "name": "k126_v127",
            "fields": [
                {"name": "key", "type": "int", "field-id": 126},
                {"name": "value", "type": "bytes", "field-id": 127},
            ],
        },
    }
    data_file = [
        *([{"name": "content", "type": "int", "field-id": 134}] if version >= 2 else []),
        {"name": "file_path", "type": "string", "field-id": 100},
        {"name": "file_format", "type": "string", "field-id": 101},
        {"name": "partition", "type": partition, "field-id": 102},
        {"name": "record_count", "type": "long", "field-id": 103},
        {"name": "file_size_in_bytes", "type": "long", "field-id": 104},
        *([{"name": "block_size_in_bytes", "type": "long", "field-id": 105}] if version == 1 else []),
        _optional("lower_bounds", bounds, 125),
        *([_optional("first_row_id", "long", 142)] if version >= 3 else []),
    ]
    snapshot_id = {"name": "snapshot_id", "type": "long", "field-id": 1}
    return {
        "type": "record",
        "name": "manifest_entry",
        "fields": [
            {"name": "status", "type": "int", "field-id": 0},
            snapshot_id if version == 1 else _optional("snapshot_id", "long", 1),
            *([_optional("sequence_number", "long", 3)] if version >= 2 else []),
            *([_optional("file_sequence_number", "long", 4)] if version >= 2 else []),
            {
                "name": "data_file",
                "type": {"type": "record", "name": "r2", "fields": data_file},
                "field-id": 2,
            },
        ],
    }


def entry(
    path: str, status: int, *, rows: int = 1, partition: dict[str, Any] | None = None, **extra: Any
) -> dict[str, Any]:
    """An entry; ``extra`` sets inherited fields (snapshot_id, sequence_number, first_row_id, …)."""
    empty = dict.fromkeys(PARTITION_TYPES)
    data_file = {
        "content": 0,
        "file_path": path,
        "file_format": "PARQUET",
        "partition": {**empty, **(partition or {})},
        "record_count": rows,
        "file_size_in_bytes": 100,
        "block_size_in_bytes": 1,
        "lower_bounds": None,
        "first_row_id": extra.pop("first_row_id", None),
    }
    inherited = {"snapshot_id": None, "sequence_number": None, "file_sequence_number": None}
    return {"status": status, **inherited, **extra, "data_file": data_file}


def manifest_bytes(
    version: int, entries: Sequence[dict[str, Any]], *, codec: str = "deflate", partitioned: bool = True
) -> bytes:
    header = {
        "schema": json.dumps(SCHEMA),
        "partition-spec": json.dumps(SPEC_FIELDS if partitioned else []),
        "partition-spec-id": "0",
        "format-version": str(version),
        "content": "data",
    }
    out = io.BytesIO()
    schema = fastavro.parse_schema(entry_schema(version, partitioned=partitioned), _force=True)
    fastavro.writer(out, schema, list(entries), codec=codec, metadata=header)
    return out.getvalue()


LINE = ManifestFile(
    path="file:///t/metadata/m0.avro",
    length=1000,
    spec_id=0,
    content=DATA,
    sequence_number=7,
    min_sequence_number=2,
    added_snapshot_id=77,
    added_files=1,
    existing_files=0,
    deleted_files=0,
    added_rows=1,
    existing_rows=0,
    deleted_rows=0,
    partitions=None,
    key_metadata=None,
    first_row_id=None,
)


def listed(entries: Sequence[dict[str, Any]], **changes: Any) -> ManifestFile:
    """The line of a manifest list about a manifest with these entries."""

    def count(status: int) -> tuple[int, int]:
        found = [one for one in entries if one["status"] == status]
        return len(found), sum(one["data_file"]["record_count"] for one in found)

    (existing, existing_rows), (added, added_rows), (deleted, deleted_rows) = map(count, (0, 1, 2))
    return replace(
        LINE,
        added_files=added,
        existing_files=existing,
        deleted_files=deleted,
        added_rows=added_rows,
        existing_rows=existing_rows,
        deleted_rows=deleted_rows,
        **changes,
    )
