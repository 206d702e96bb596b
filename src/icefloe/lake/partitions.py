"""The partitions a change set touches, as (spec id, values): the same values under two specs are two partitions."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from icefloe.lake.manifests import SIZE_FIELDS, stored_bytes
from icefloe.lake.schema import PartitionField, PartitionSpec, Schema
from icefloe.lake.values import UndecodableError, Value, from_avro, to_json

FILE_FIELDS = frozenset({"partition", "record_count"}) | SIZE_FIELDS
"""What :meth:`PartitionsBuilder.add` looks at."""


@dataclass(frozen=True)
class PartitionChange:
    """What a change set adds to and removes from one partition."""

    spec_id: int
    values: Mapping[str, Value]
    """Partition field name to value; a transform's value is what Iceberg stores (``day`` is a date, ``hour`` a number).

    A date or time that Python's calendar does not have (year 10000) stays the number that Iceberg counts it with.
    """
    files: int
    rows: int
    bytes: int
    removed_files: int = 0
    removed_rows: int = 0
    delete_files: int = 0
    transforms: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Partition field name to what its values are: ``identity``, ``day``, ``hour``…"""

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
        self._counts: dict[tuple[int, tuple[Any, ...]], dict[str, int]] = {}

    def add(self, spec_id: int, data_file: Mapping[str, Any], *, side: str) -> None:
        """``side`` is ``added``, ``removed`` or ``deletes`` (a delete file applies within its own partition)."""
        key = (spec_id, tuple(map(_identity, data_file["partition"].values())))
        counts = self._counts.get(key)
        if counts is None:
            counts = self._counts[key] = dict.fromkeys(_COUNTERS, 0)
        if side == "added":
            counts["files"] += 1
            counts["rows"] += data_file["record_count"]
            counts["bytes"] += stored_bytes(data_file)
        elif side == "removed":
            counts["removed_files"] += 1
            counts["removed_rows"] += data_file["record_count"]
        else:
            counts["delete_files"] += 1

    def result(self) -> tuple[PartitionChange, ...]:
        changes = []
        for (spec_id, raw), counts in self._counts.items():
            spec = self._specs[spec_id]
            # strict: a tuple that does not fit its spec must not be filed under wrong names.
            values = {f.name: self._value(f, _plain(value)) for f, value in zip(spec.fields, raw, strict=True)}
            transforms = {f.name: f.transform for f in spec.fields}
            changes.append(PartitionChange(spec_id, values, **counts, transforms=transforms))
        return tuple(sorted(changes, key=_order))

    def _value(self, field: PartitionField, value: Any) -> Value:
        source = self._schema.fields.get(field.source_id)
        try:
            return from_avro(result_type(field.transform, source.type if source else None), value)
        except UndecodableError:
            return value


def result_type(transform: str, source_type: str | None) -> str:
    """The type of a transform's values."""
    if transform == "day":
        return "date"
    if transform in ("year", "month", "hour") or transform.startswith("bucket"):
        return "int"
    return source_type or "unknown"


def _identity(value: Any) -> Any:
    """What makes two partition values one: NaN is not equal to itself, and -0.0 and 0.0 are two partitions."""
    return ("float", repr(value)) if isinstance(value, float) else value


def _plain(value: Any) -> Any:
    return float(value[1]) if isinstance(value, tuple) else value


def _order(change: PartitionChange) -> tuple[Any, ...]:
    """By spec, then by values; NULL first, then numbers that stand for no date, NaN last."""
    return (change.spec_id, tuple(map(_comparable, change.values.values())))


def _comparable(value: Value) -> tuple[Any, ...]:
    if value is None:
        return (0,)
    if isinstance(value, float):
        return (3,) if math.isnan(value) else (2, value, math.copysign(1.0, value))
    return (1, value) if isinstance(value, int) else (2, value)
