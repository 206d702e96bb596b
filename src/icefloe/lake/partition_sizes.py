"""How much lies in which partition of a table, by one partition field. From metadata: manifests whose bounds exclude every wanted
value are not opened."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from icefloe.lake.catalog import LoadedTable
from icefloe.lake.content import manifests_of
from icefloe.lake.manifests import DATA, Manifest, ManifestFile, Status
from icefloe.lake.partitions import result_type
from icefloe.lake.schema import Field, PartitionSpec
from icefloe.lake.survey import FileCounts
from icefloe.lake.values import UndecodableError, decode, from_avro

_FIELDS = frozenset({"partition", "record_count", "file_size_in_bytes"})


@dataclass(frozen=True, slots=True)
class Position:
    """Where a column stands in the partition tuples of one spec."""

    index: int
    type: str


def identity_columns(table: LoadedTable, snapshot_id: int | None) -> tuple[str, ...]:
    """The columns that every spec in use, and the one that new files get, has as they are."""
    metadata = table.metadata
    ids = {int(metadata.raw.get("default-spec-id") or 0)}
    if snapshot_id is not None:
        ids |= {one.spec_id for one in _data(table, snapshot_id)}
    specs = [metadata.specs[one] for one in sorted(ids) if one in metadata.specs]
    common: list[int] | None = None
    for spec in specs:
        own = [field.source_id for field in spec.fields if field.transform == "identity"]
        common = own if common is None else [one for one in common if one in own]
    fields = metadata.schema.fields
    return tuple(fields[one].name for one in common or () if one in fields and len(fields[one].path) == 1)


def sizes_by_value(
    table: LoadedTable, snapshot_id: int | None, column: str, values: Collection[Any], transform: str = "identity"
) -> dict[Any, FileCounts] | None:
    """Live files under each of ``values`` that has any; ``None`` if a spec in use does not tell ``transform`` of the column.

    Rows that delete files take away are still counted: a partition that is not in the answer is certainly empty.
    """
    field = table.metadata.schema.find(column, table=table.name)
    wanted = set(values)
    found: dict[Any, list[int]] = {}
    for manifest in _data(table, snapshot_id) if snapshot_id is not None else ():
        position = position_of(table.metadata.specs, manifest, field, transform)
        if position is None:
            return None
        if not may_hold(manifest, position, wanted):
            continue
        try:
            for entry in Manifest.open(table.read, manifest).scan(_FIELDS):
                if entry["status"] == Status.DELETED:
                    continue
                data_file = entry["data_file"]
                value = from_avro(position.type, list(data_file["partition"].values())[position.index])
                if value in wanted:
                    counts = found.setdefault(value, [0, 0, 0])
                    counts[0] += 1
                    counts[1] += data_file["record_count"]
                    counts[2] += data_file["file_size_in_bytes"]
        except UndecodableError:
            return None
    return {value: FileCounts(*counts) for value, counts in found.items()}


def _data(table: LoadedTable, snapshot_id: int) -> list[ManifestFile]:
    snapshot = table.metadata.snapshots[snapshot_id]
    return [one for one in manifests_of(table, snapshot) if one.content == DATA and one.may_have_live]


def position_of(
    specs: Mapping[int, PartitionSpec], manifest: ManifestFile, field: Field, transform: str
) -> Position | None:
    spec = specs.get(manifest.spec_id)
    for index, one in enumerate(spec.fields if spec else ()):
        if one.source_id == field.id and one.transform == transform:
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
