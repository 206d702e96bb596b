"""Per column the smallest and largest value over many files, from the bounds in their manifests.

A side of a range is *known* only when every file with values has a bound for it; one file without makes it unknown, and
nothing is guessed. Bounds of strings and binary may be truncated (the lower one cut, the upper one cut and raised), so a
known range is one that no value lies outside of, not always one whose ends exist.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from icefloe.lake.schema import Field, PartitionSpec
from icefloe.lake.values import UndecodableError, Value, decode, from_avro, from_json, to_json

FILE_FIELDS = frozenset(
    {"partition", "record_count", "null_value_counts", "nan_value_counts", "lower_bounds", "upper_bounds"}
)
"""What :meth:`RangeBuilder.add_file` looks at."""

_MOST_GATHERED = 4096


@dataclass(frozen=True)
class Range:
    """``min`` and ``max`` are ``None`` when that side is unknown, or when no file holds a value (``empty``)."""

    column: str
    type: str
    min: Value | None
    max: Value | None
    min_known: bool
    max_known: bool
    nulls: int | None
    """How many NULLs there are; ``None`` when a file does not tell."""
    nans: int | None
    """How many NaNs there are; ``None`` when a file does not tell. Bounds never include NaN."""

    @property
    def known(self) -> bool:
        return self.min_known and self.max_known

    @property
    def empty(self) -> bool:
        """Known to hold no value but NULL and NaN."""
        return self.known and self.min is None and self.max is None

    def to_dict(self) -> dict[str, Any]:
        return {
            "min": to_json(self.min),
            "max": to_json(self.max),
            "known": self.known,
            "nulls": self.nulls,
        }


class RangeBuilder:
    """Takes in one file after the other; :meth:`result` is the range over all of them.

    Bounds are gathered as the bytes they are and decoded together: many files share theirs.
    """

    def __init__(self, field: Field) -> None:
        self.field = field
        self._is_float = field.type in ("float", "double")
        self._min: Value | None = None
        self._max: Value | None = None
        self._lower_bounds: set[bytes] = set()
        self._upper_bounds: set[bytes] = set()
        self._min_known = self._max_known = True
        self._nulls: int | None = 0
        # Only floats have NaN; for the others "none" is certain.
        self._nans: int | None = 0

    def add_file(self, data_file: Mapping[str, Any], *, spec: PartitionSpec, column_exists: bool) -> None:
        """One file of the change set. ``column_exists`` is false when the file is older than the column."""
        rows: int = data_file["record_count"]
        if rows == 0:
            return
        column = self.field.id
        if not column_exists and not self._mentioned(data_file):
            self._add_default(rows)
            return
        nulls = _metric(data_file, "null_value_counts", column)
        nans = _metric(data_file, "nan_value_counts", column) if self._is_float else 0
        self._nulls = None if nulls is None or self._nulls is None else self._nulls + nulls
        self._nans = None if nans is None or self._nans is None else self._nans + nans
        lower, upper = _metric(data_file, "lower_bounds", column), _metric(data_file, "upper_bounds", column)
        if lower is None or upper is None:
            # Writers leave bounds out when there is nothing to bound. nan_value_counts may be absent for want of NaN.
            if lower is None and upper is None and nulls is not None and nulls + (nans or 0) >= rows:
                return
            value, known = self._partition_value(data_file, spec)
            if known:
                self._add_value(value)
                return
        if lower is None:
            self._min_known = False
        else:
            self._lower_bounds.add(lower)
        if upper is None:
            self._max_known = False
        else:
            self._upper_bounds.add(upper)
        if len(self._lower_bounds) + len(self._upper_bounds) >= _MOST_GATHERED:
            self._decode_bounds()

    def _mentioned(self, data_file: Mapping[str, Any]) -> bool:
        """Whether the file's metrics name the column: then the file has it, whatever its manifest's header says."""
        names = ("null_value_counts", "nan_value_counts", "lower_bounds", "upper_bounds")
        return any(_metric(data_file, name, self.field.id) is not None for name in names)

    def add_delete_file(self, delete_file: Mapping[str, Any], *, spec: PartitionSpec) -> bool:
        """A delete file whose data files are not known: its partition may still tell. False if it does not."""
        value, known = self._partition_value(delete_file, spec)
        if known:
            if value is None:
                self._nulls = None
            self._add_value(value)
        return known

    def result(self) -> Range:
        self._decode_bounds()
        return Range(
            column=self.field.name,
            type=self.field.type,
            min=self._min if self._min_known else None,
            max=self._max if self._max_known else None,
            min_known=self._min_known,
            max_known=self._max_known,
            nulls=self._nulls,
            nans=self._nans,
        )

    def give_up(self) -> None:
        """Something touched by the change set cannot be seen: both sides are unknown."""
        self._min_known = self._max_known = False
        self._nulls = self._nans = None

    def _add_default(self, rows: int) -> None:
        try:
            default = from_json(self.field.type, self.field.initial_default)
        except (UndecodableError, ValueError, TypeError):
            self.give_up()
            return
        if default is None:
            self._nulls = None if self._nulls is None else self._nulls + rows
        else:
            self._add_value(default)

    def _partition_value(self, data_file: Mapping[str, Any], spec: PartitionSpec) -> tuple[Value, bool]:
        """An identity-partitioned column has one value per file, bounds or not."""
        # By position: Avro spells a field's name differently when it has characters that Avro does not allow.
        for field, value in zip(spec.fields, data_file["partition"].values(), strict=True):
            if field.source_id == self.field.id and field.transform == "identity":
                try:
                    return from_avro(self.field.type, value), True
                except UndecodableError:
                    return None, False
        return None, False

    def _decode_bounds(self) -> None:
        for data in self._lower_bounds:
            value = self._decoded(data)
            if value is None:
                self._min_known = False
            else:
                self._lower(value)
        for data in self._upper_bounds:
            value = self._decoded(data)
            if value is None:
                self._max_known = False
            else:
                self._raise(value)
        self._lower_bounds.clear()
        self._upper_bounds.clear()

    def _decoded(self, data: bytes) -> Value | None:
        """``None`` for what bounds nothing."""
        try:
            value = decode(self.field.type, data)
        except UndecodableError:
            return None
        # Some old writers put NaN into bounds.
        return None if isinstance(value, float) and math.isnan(value) else value

    def _add_value(self, value: Value) -> None:
        if value is None:
            return
        if isinstance(value, float) and math.isnan(value):
            self._nans = None
            return
        self._lower(value)
        self._raise(value)

    def _lower(self, value: Value) -> None:
        if self._min is None or _position(value) < _position(self._min):
            self._min = value

    def _raise(self, value: Value) -> None:
        if self._max is None or _position(value) > _position(self._max):
            self._max = value


def _position(value: Value) -> Any:
    """Iceberg puts -0.0 before 0.0 when it skips files, and Python and SQL call them equal: the order is Iceberg's."""
    return (value, math.copysign(1.0, value)) if isinstance(value, float) else value


def _metric(data_file: Mapping[str, Any], name: str, column: int) -> Any:
    """One column's metric; ``None`` where the file has none, or the manifest no such field."""
    bounds = data_file.get(name)
    return bounds.get(column) if bounds else None
