"""What is in the manifests of a change set: one pass over their entries, for counts, partitions and ranges."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from icefloe.lake import partitions, ranges, storage
from icefloe.lake.catalog import LoadedTable
from icefloe.lake.content import Content, ManifestSlice, Side, manifests_of
from icefloe.lake.errors import (
    MetadataUnreadableError,
)
from icefloe.lake.file_columns import FileColumns
from icefloe.lake.manifests import DATA, EntryStatus, Manifest, readable, stored_bytes
from icefloe.lake.partitions import PartitionChange, PartitionsBuilder
from icefloe.lake.ranges import Range, RangeBuilder
from icefloe.lake.schema import Field, PartitionSpec

# The reserved column that position deletes keep their data file's path in (Iceberg spec).
_DELETE_FILE_PATH_ID = 2147483546
_DELETE_FIELDS = frozenset(
    {"content", "file_path", "partition", "referenced_data_file", "lower_bounds", "upper_bounds"}
)
_NOTHING: frozenset[str] = frozenset()


@dataclass(frozen=True)
class FileCounts:
    """``bytes`` is ``None`` when nobody looked: it is in the manifests only."""

    files: int = 0
    rows: int = 0
    bytes: int | None = 0


class Survey:
    """One pass over the manifests of a change set: counts, and if asked for partitions and ranges."""

    def __init__(self, table: LoadedTable, fields: Sequence[Field]) -> None:
        self._table = table
        self._builders = [RangeBuilder(field) for field in fields]
        self._wanted = frozenset(field.id for field in fields)
        self._partitions = PartitionsBuilder(table.metadata.specs, table.metadata.schema)
        self.counts: dict[Side, FileCounts] = {}
        self.ranges: dict[str, Range] = {}
        self.partitions: tuple[PartitionChange, ...] = ()

    @property
    def anything(self) -> bool:
        return any(counts.files for counts in self.counts.values())

    def look(self, content: Content, *, details: bool) -> None:
        for side in ("added", "removed", "deletes"):
            totals = [self._count(slice_, side, details=details) for slice_ in content.slices[side]]
            sizes = [total.bytes for total in totals]
            self.counts[side] = FileCounts(
                sum(total.files for total in totals),
                sum(total.rows for total in totals),
                None if any(size is None for size in sizes) else sum(size or 0 for size in sizes),
            )
        if self._builders and content.kind != "full":
            # Deletes that are applied in the change table itself (full) take rows away and widen nothing.
            self._touch(content.slices["deletes"])
        self.ranges = {builder.field.name: builder.result() for builder in self._builders}
        self.partitions = self._partitions.result()

    def _count(self, slice_: ManifestSlice, side: Side, *, details: bool) -> FileCounts:
        counted = slice_.counted
        if counted is not None and not details and not self._builders:
            return FileCounts(*counted, bytes=None)
        manifest = Manifest.open(self._table.read, slice_.manifest)
        ranged = bool(self._builders) and side != "deletes"
        spec = _spec_of(self._table, manifest)
        columns = self._columns_in(manifest) if ranged else None
        files = rows = size = 0
        fields = partitions.FILE_FIELDS | (ranges.FILE_FIELDS if ranged else _NOTHING)
        if slice_.paths is not None:
            fields |= {"file_path"}
        with readable(slice_.manifest.path):
            for entry in manifest.scan(fields, self._wanted):
                if not slice_.wants(entry):
                    continue
                data_file = entry["data_file"]
                files += 1
                rows += data_file["record_count"]
                size += stored_bytes(data_file)
                self._partitions.add(spec.id, data_file, side=side)
                if columns is not None:
                    self._add_file(entry, spec, columns)
        return FileCounts(files, rows, size)

    def _columns_in(self, manifest: Manifest) -> FileColumns:
        return FileColumns(self._table.metadata, manifest, [builder.field.id for builder in self._builders])

    def _add_file(self, entry: Mapping[str, Any], spec: PartitionSpec, columns: FileColumns) -> None:
        data_file = entry["data_file"]
        for builder, column_exists in zip(self._builders, columns.of(entry), strict=True):
            builder.add_file(data_file, spec=spec, column_exists=column_exists)

    def _touch(self, deletes: Sequence[ManifestSlice]) -> None:
        """Rows taken away by new delete files: the ranges of the data files they point at, else unknown."""
        for slice_ in deletes:
            pointed: set[str] = set()
            blind: list[RangeBuilder] = []
            manifest = Manifest.open(self._table.read, slice_.manifest)
            spec = _spec_of(self._table, manifest)
            for entry in manifest.scan(_DELETE_FIELDS, frozenset({_DELETE_FILE_PATH_ID})):
                if not slice_.wants(entry):
                    continue
                delete_file = entry["data_file"]
                left = [b for b in self._builders if not b.add_delete_file(delete_file, spec=spec)]
                if left:
                    path = _pointed_at(delete_file)
                    if path is None:
                        blind = left
                    else:
                        pointed.add(path)
            for builder in blind:
                builder.give_up()
            if pointed and not self._add_pointed(slice_, pointed):
                for builder in self._builders:
                    builder.give_up()

    def _add_pointed(self, slice_: ManifestSlice, pointed: set[str]) -> bool:
        """Find the data files in the snapshot that the delete file came with. False if one is not found."""
        snapshot = self._table.metadata.snapshots.get(slice_.snapshot_id or slice_.manifest.added_snapshot_id)
        if snapshot is None:
            return False
        for file in manifests_of(self._table, snapshot):
            if file.content != DATA or not file.may_have_live or not pointed:
                continue
            manifest = Manifest.open(self._table.read, file)
            columns = self._columns_in(manifest)
            spec = _spec_of(self._table, manifest)
            for entry in manifest.scan(ranges.FILE_FIELDS | {"file_path"}, self._wanted):
                data_file = entry["data_file"]
                path = storage.normal(data_file["file_path"])
                if entry["status"] == EntryStatus.DELETED or path not in pointed:
                    continue
                pointed.discard(path)
                self._add_file(entry, spec, columns)
        return not pointed


def _spec_of(table: LoadedTable, manifest: Manifest) -> PartitionSpec:
    """The spec that a manifest's partition tuples are of. One that does not fit must not be filed under wrong names."""
    spec = table.metadata.specs.get(manifest.file.spec_id)
    if spec is None or len(spec.fields) != manifest.partition_width:
        problem = "which the table has not" if spec is None else "which has another number of fields"
        raise MetadataUnreadableError(
            f"is of partition spec {manifest.file.spec_id}, {problem}", where=manifest.file.path
        )
    return spec


def _pointed_at(delete_file: Mapping[str, Any]) -> str | None:
    """The one data file that a delete file is about, if its metadata says so."""
    if delete_file.get("content") != 1:
        return None
    path = delete_file.get("referenced_data_file")
    if path:
        return storage.normal(path)
    lower, upper = (
        (delete_file.get(name) or {}).get(_DELETE_FILE_PATH_ID) for name in ("lower_bounds", "upper_bounds")
    )
    return storage.normal(lower.decode("utf-8")) if lower is not None and lower == upper else None
