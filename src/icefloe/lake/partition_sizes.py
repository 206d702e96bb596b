"""How much lies in which partition of a table, by one partition field, and how much its columns differ from row to row. From
metadata: manifests whose bounds exclude every wanted value are not opened."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from icefloe.lake.catalog import LoadedTable
from icefloe.lake.content import manifests_of
from icefloe.lake.manifests import DATA, EntryStatus, Manifest, ManifestFile
from icefloe.lake.partitions import result_type
from icefloe.lake.schema import Field, PartitionSpec
from icefloe.lake.survey import FileCounts
from icefloe.lake.values import UndecodableError, decode, from_avro

_FIELDS = frozenset({"partition", "record_count", "file_size_in_bytes"})
_LEAST_ROWS = 10_000
"""Of a file whose column sizes say something: in a small one headers and dictionaries outweigh the values."""


@dataclass(frozen=True, slots=True)
class Position:
    """Where a column stands in the partition tuples of one spec."""

    index: int
    type: str


@dataclass(frozen=True, slots=True)
class PartitionSizes:
    """Live files under each of the wanted values that has any."""

    by_value: Mapping[Any, FileCounts]
    bits: Mapping[str, float]
    """Column -> bits that its values take per row as stored. Encoders and compressors take few for what repeats, so that a column
    of b bits has some 2**b different values, or more where rows are sorted. Columns of which files do not tell are missing."""
    files: Mapping[Any, tuple[tuple[int, ...], ...]] = field(default_factory=dict, compare=False)
    """The bytes of each of those files, apart for each partition that has the value."""


class _ColumnSizes:
    """Sums the stored sizes of columns over files that are large enough to tell."""

    def __init__(self, columns: Mapping[int, str]) -> None:
        self._columns = columns
        self._sizes = dict.fromkeys(columns, 0)
        self._rows = 0
        self._rows_total = 0

    def add(self, data_file: Mapping[str, Any]) -> None:
        rows = data_file["record_count"]
        self._rows_total += rows
        sizes = data_file.get("column_sizes") or {}
        if rows < _LEAST_ROWS or any(column_id not in sizes for column_id in self._columns):
            return
        self._rows += rows
        for column_id in self._columns:
            self._sizes[column_id] += sizes[column_id]

    def bits_per_row(self) -> dict[str, float]:
        if self._rows * 2 < self._rows_total or not self._rows:
            return {}
        return {name: 8 * self._sizes[column_id] / self._rows for column_id, name in self._columns.items()}


def identity_columns(table: LoadedTable, snapshot_id: int | None) -> tuple[str, ...]:
    """The columns that every spec in use, and the one that new files get, has as they are."""
    metadata = table.metadata
    ids = {int(metadata.raw.get("default-spec-id") or 0)}
    if snapshot_id is not None:
        ids |= {manifest.spec_id for manifest in _data(table, snapshot_id)}
    specs = [metadata.specs[spec_id] for spec_id in sorted(ids) if spec_id in metadata.specs]
    common: list[int] | None = None
    for spec in specs:
        own = [field.source_id for field in spec.fields if field.transform == "identity"]
        common = own if common is None else [column_id for column_id in common if column_id in own]
    fields = metadata.schema.fields
    return tuple(
        fields[column_id].name for column_id in common or () if column_id in fields and len(fields[column_id].path) == 1
    )


def sizes_by_value(
    table: LoadedTable,
    snapshot_id: int | None,
    column: str,
    values: Collection[Any] | None,
    transform: str = "identity",
    *,
    measured: Collection[str] = (),
) -> PartitionSizes | None:
    """``None`` if a spec in use does not tell ``transform`` of the column. ``measured``: the columns whose bits are wanted.
    Without ``values``: all there are.

    Rows that delete files take away are still counted: a partition that is not in the answer is certainly empty.
    """
    schema = table.metadata.schema
    partitioned_by = schema.find(column, table=table.name)
    wanted = set(values) if values is not None else None
    columns = {schema.find(name, table=table.name).id: name for name in measured}
    fields = _FIELDS | ({"column_sizes"} if columns else set())
    column_sizes = _ColumnSizes(columns)
    counts_by_value: dict[Any, list[int]] = {}
    files: dict[Any, dict[tuple[Any, ...], list[int]]] = {}
    for manifest in _data(table, snapshot_id) if snapshot_id is not None else ():
        position = position_of(table.metadata.specs, manifest, partitioned_by, transform)
        if position is None:
            return None
        if wanted is not None and not may_hold(manifest, position, wanted):
            continue
        try:
            for entry in Manifest.open(table.read, manifest).scan(fields, frozenset(columns)):
                if entry["status"] == EntryStatus.DELETED:
                    continue
                data_file = entry["data_file"]
                place = tuple(data_file["partition"].values())
                value = from_avro(position.type, place[position.index])
                if wanted is None or value in wanted:
                    counts = counts_by_value.setdefault(value, [0, 0, 0])
                    counts[0] += 1
                    counts[1] += data_file["record_count"]
                    counts[2] += data_file["file_size_in_bytes"]
                    files.setdefault(value, {}).setdefault(place, []).append(data_file["file_size_in_bytes"])
                    column_sizes.add(data_file)
        except UndecodableError:
            return None
    return PartitionSizes(
        {value: FileCounts(*counts) for value, counts in counts_by_value.items()},
        column_sizes.bits_per_row(),
        {value: tuple(map(tuple, places.values())) for value, places in files.items()},
    )


def _data(table: LoadedTable, snapshot_id: int) -> list[ManifestFile]:
    snapshot = table.metadata.snapshots[snapshot_id]
    return [
        manifest for manifest in manifests_of(table, snapshot) if manifest.content == DATA and manifest.may_have_live
    ]


def position_of(
    specs: Mapping[int, PartitionSpec], manifest: ManifestFile, field: Field, transform: str
) -> Position | None:
    spec = specs.get(manifest.spec_id)
    for index, partition_field in enumerate(spec.fields if spec else ()):
        if partition_field.source_id == field.id and partition_field.transform == transform:
            return Position(index, result_type(transform, field.type))
    return None


def may_hold(manifest: ManifestFile, position: Position, wanted: set[Any]) -> bool:
    """By the bounds in the manifest list. What cannot be told may hold anything."""
    summaries = manifest.partitions
    if summaries is None or position.index >= len(summaries):
        return True
    summary = summaries[position.index]
    if None in wanted and summary.get("contains_null") is not False:
        return True
    lower, upper = summary.get("lower_bound"), summary.get("upper_bound")
    if lower is None or upper is None:
        # No bounds: nothing but NULLs.
        return summary.get("contains_null") is None
    try:
        low, high = decode(position.type, lower), decode(position.type, upper)
    except UndecodableError:
        return True
    return any(value is not None and low <= value <= high for value in wanted)
