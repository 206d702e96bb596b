"""The partitions a change set touches, as (spec id, values): the same values under two specs are two partitions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from icefloe.lake.schema import PartitionField, PartitionSpec, Schema
from icefloe.lake.values import Value, from_avro, to_json

FILE_FIELDS = frozenset({"partition", "record_count", "file_size_in_bytes"})
"""What :meth:`PartitionsBuilder.add` looks at."""


@dataclass(frozen=True)
class PartitionChange:
    """What a change set adds to and removes from one partition."""

    spec_id: int
    values: Mapping[str, Value]
    """Partition field name to value; a transform's value is what Iceberg stores (``day`` is a date, ``hour`` a number)."""
    files: int
    rows: int
    bytes: int
    removed_files: int = 0
    removed_rows: int = 0
    delete_files: int = 0

    def to_dict(self) -> dict[str, Any]:
        return {
            "spec_id": self.spec_id,
            "values": {name: to_json(value) for name, value in self.values.items()},
            "files": self.files,
            "rows": self.rows,
            "bytes": self.bytes,
            "removed_files": self.removed_files,
            "removed_rows": self.removed_rows,
            "delete_files": self.delete_files,
        }


_COUNTERS = ("files", "rows", "bytes", "removed_files", "removed_rows", "delete_files")


class PartitionsBuilder:
    """Counts files per partition, one file after the other."""

    def __init__(self, specs: Mapping[int, PartitionSpec], schema: Schema) -> None:
        self._specs = specs
        self._schema = schema
        self._found: dict[tuple[int, tuple[Any, ...]], dict[str, int]] = {}

    def add(self, spec_id: int, data_file: Mapping[str, Any], *, side: str) -> None:
        """``side`` is ``added``, ``removed`` or ``deletes`` (a delete file applies within its own partition)."""
        key = (spec_id, tuple(data_file["partition"].values()))
        counts = self._found.get(key)
        if counts is None:
            counts = self._found[key] = dict.fromkeys(_COUNTERS, 0)
        if side == "added":
            counts["files"] += 1
            counts["rows"] += data_file["record_count"]
            counts["bytes"] += data_file["file_size_in_bytes"]
        elif side == "removed":
            counts["removed_files"] += 1
            counts["removed_rows"] += data_file["record_count"]
        else:
            counts["delete_files"] += 1

    def result(self) -> tuple[PartitionChange, ...]:
        changes = []
        for (spec_id, raw), counts in self._found.items():
            spec = self._specs[spec_id]
            # strict: a tuple that does not fit its spec must not be filed under wrong names.
            values = {f.name: self._value(f, value) for f, value in zip(spec.fields, raw, strict=True)}
            changes.append(PartitionChange(spec_id, values, **counts))
        return tuple(sorted(changes, key=_order))

    def _value(self, field: PartitionField, value: Any) -> Value:
        source = self._schema.fields.get(field.source_id)
        return from_avro(result_type(field.transform, source.type if source else None), value)


def result_type(transform: str, source_type: str | None) -> str:
    """The type of a transform's values."""
    if transform == "day":
        return "date"
    if transform in ("year", "month", "hour") or transform.startswith("bucket"):
        return "int"
    return source_type or "unknown"


def _order(change: PartitionChange) -> tuple[Any, ...]:
    """By spec, then by values; NULL first. Values of one field are of one type, so they compare."""
    return (change.spec_id, tuple((value is not None, _comparable(value)) for value in change.values.values()))


def _comparable(value: Value) -> Any:
    return 0 if value is None else value
