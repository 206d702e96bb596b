"""The live data files in some partitions of a table, and what is deleted from each. From metadata."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from typing import Any

from icefloe.lake import storage
from icefloe.lake.catalog import LoadedTable
from icefloe.lake.content import manifests_of
from icefloe.lake.manifests import DATA, EntryStatus, Manifest, ManifestFile
from icefloe.lake.partition_sizes import Position, may_hold, position_of
from icefloe.lake.schema import Field
from icefloe.lake.values import UndecodableError, from_avro
from icefloe.rows import NotPlainError
from icefloe.rows.vectors import Vector

_DATA_FIELDS = frozenset({"file_path", "file_format", "partition", "record_count"})
_DELETE_FIELDS = frozenset(
    {"file_path", "file_format", "partition", "referenced_data_file", "content_offset", "content_size_in_bytes"}
)


@dataclass(frozen=True, slots=True, eq=False)
class LiveFile:
    """``value``: the partition's, of the column that was asked for; ``place``: the whole tuple as it is stored. Each is only itself."""

    path: str
    rows: int
    value: Any
    place: dict[str, Any]
    manifest: ManifestFile
    identity: frozenset[int]
    """The columns that its partition tells the value of."""
    vector: Vector | None = None

    @property
    def key(self) -> str:
        """One spelling per file."""
        return storage.normal(self.path)


def live_files(table: LoadedTable, snapshot_id: int, column: str, values: Collection[Any]) -> list[LiveFile]:
    """Those under ``values`` of a column that every spec in use has as it is."""
    field = table.metadata.schema.find(column, table=table.name)
    snapshot = table.metadata.snapshots.get(snapshot_id)
    if snapshot is None:
        raise NotPlainError(f"snapshot {snapshot_id} of {table.name} is gone")
    wanted = set(values)
    live: dict[str, LiveFile] = {}
    vectors: dict[str, Vector] = {}
    for manifest in manifests_of(table, snapshot):
        if not manifest.may_have_live:
            continue
        if manifest.content == DATA:
            spec = table.metadata.specs[manifest.spec_id]
            identity = frozenset(field.source_id for field in spec.fields if field.transform == "identity")
            for data_file, value in _entries(table, manifest, field, wanted, _DATA_FIELDS):
                if str(data_file["file_format"]).lower() != "parquet":
                    raise NotPlainError(f"{table.name} has files of the format {data_file['file_format']}")
                path, rows, place = data_file["file_path"], data_file["record_count"], data_file["partition"]
                file = LiveFile(path, rows, value, place, manifest, identity)
                live[file.key] = file
        else:
            for data_file, _ in _entries(table, manifest, field, wanted, _DELETE_FIELDS):
                deleted_from, offset = data_file.get("referenced_data_file"), data_file.get("content_offset")
                if deleted_from is None or offset is None or str(data_file["file_format"]).lower() != "puffin":
                    raise NotPlainError(f"{table.name} has rows deleted otherwise than by deletion vectors")
                vectors[storage.normal(deleted_from)] = Vector(
                    data_file["file_path"], offset, data_file["content_size_in_bytes"]
                )
    return [replace(file, vector=vectors.get(key)) for key, file in live.items()]


def _entries(
    table: LoadedTable, manifest: ManifestFile, field: Field, wanted: set[Any], fields: frozenset[str]
) -> Iterator[tuple[dict[str, Any], Any]]:
    position = position_of(table.metadata.specs, manifest, field, "identity")
    if position is None:
        raise NotPlainError(f"{table.name} has files that do not tell their {field.name}")
    if not may_hold(manifest, position, wanted):
        return
    for entry in Manifest.open(table.read, manifest).scan(fields):
        if entry["status"] == EntryStatus.DELETED:
            continue
        value = _value(entry["data_file"], position, table)
        if value in wanted:
            yield entry["data_file"], value


def _value(data_file: dict[str, Any], position: Position, table: LoadedTable) -> Any:
    try:
        return from_avro(position.type, list(data_file["partition"].values())[position.index])
    except UndecodableError as error:
        raise NotPlainError(f"{table.name} has a partition that cannot be told: {error}") from error
