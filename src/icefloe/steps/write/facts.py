"""What the planner has to know, asked of the lake: metadata only, no JVM."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Literal

from icefloe import suppressed
from icefloe.capture.sources import Source
from icefloe.errors import IcefloeError
from icefloe.lake import ChangeSet, Lake, history
from icefloe.lake.catalog import LoadedTable
from icefloe.lake.errors import TableNotFoundError
from icefloe.lake.metadata import TableMetadata
from icefloe.lake.partition_sizes import PartitionSizes, identity_columns, sizes_by_value
from icefloe.lake.partitions import result_type
from icefloe.lake.values import UndecodableError, from_json
from icefloe.planner import query
from icefloe.planner.analysis import Analysis, analyse
from icefloe.planner.inputs import (
    FILE_BYTES,
    Column,
    PartitionContents,
    PartitionKey,
    Size,
    SourceState,
    TargetState,
    WriteRequest,
)
from icefloe.table_names import format_identifier

UTC = ("UTC", "Etc/UTC", "GMT", "Z")
"""Names of the zone in which Iceberg counts days."""
_TRANSFORMS: tuple[Literal["identity", "day"], ...] = ("identity", "day")
_PARTITION_TYPES = ("boolean", "int", "long", "string", "date", "timestamp", "timestamptz")


@dataclass(frozen=True)
class Facts:
    """One look at the lake. ``base`` is the head of the target that everything here is true of."""

    analysis: Analysis
    target: TargetState
    contents: PartitionContents
    base: int | None
    schema_id: int
    spec_id: int


class Observer:
    """Looks at the tables of one request. ``utc``: the session that will run the plan counts days in UTC, as Iceberg does."""

    def __init__(self, lake: Lake, request: WriteRequest, sources: Sequence[Source], *, utc: bool) -> None:
        self._utc = utc
        self._lake = lake
        self._request = request
        self._sources = {source.table: source for source in sources}
        self._loaded: dict[str, LoadedTable] = {}

    def analysis(self) -> Analysis:
        names = query.read(self._request.text, where=self._request.where, canonical=self.canonical).table_names
        states = {name: state for name in names if (state := self._state(name)) is not None}
        return analyse(self._request, states, self.canonical)

    def head(self, ref: str = "main") -> int | None:
        """Where the target's ref is; a branch that is missing is made off main. None: nowhere yet."""
        try:
            table = self._lake.table(self._request.target)
        except TableNotFoundError:
            return None
        return history.head(table.metadata, ref if ref in table.metadata.refs else "main", table=table.name)

    def facts(self, analysis: Analysis, *, branch: str, base: int | None) -> Facts:
        """The target as it is at ``base``, and how much lies in the partitions that changed."""
        name = self._lake.canonical_name(self._request.target)
        catalog = self._lake.tables.name
        try:
            table = self._lake.table(name)
        except TableNotFoundError:
            full = f"{catalog}.{name}"
            return Facts(
                analysis, TargetState(name, full, f"{full}.branch_{branch}"), PartitionContents(), None, -1, -1
            )
        metadata = table.metadata
        full = f"{catalog}.{format_identifier(table.identifier)}"
        target = TargetState(
            name=table.name,
            sql_name=full,
            branch_name=f"{full}.branch_{branch}",
            exists=True,
            columns=_columns(metadata),
            identity_columns=identity_columns(table, base),
            total=_total(metadata, base),
            merge_on_read=metadata.properties.get("write.delete.mode") == "merge-on-read",
            scattered=metadata.properties.get("write.distribution-mode") == "none",
            format_version=int(metadata.raw.get("format-version") or 2),
            file_bytes=_file_bytes(metadata),
        )
        return Facts(analysis, target, self._contents(analysis, target, table, base), base, *versions(metadata))

    def canonical(self, name: str) -> str:
        try:
            return self._lake.canonical_name(name)
        except IcefloeError:
            return name

    def _contents(
        self, analysis: Analysis, target: TargetState, table: LoadedTable, base: int | None
    ) -> PartitionContents:
        link = analysis.link(target)
        if link is None:
            return PartitionContents(changed=self._changed(analysis))
        names = [column.name for column in target.columns if column.name.lower() in analysis.key_maps]
        sizes = sizes_by_value(table, base, link.column, link.values, measured=names)
        live = None
        tables = analysis.changed_tables
        if len(tables) == 1:
            source = self._sources[tables[0]]
            key = next(iter(link.sources.values()))
            end = source.end.snapshot_id if source.end else None
            with suppressed.errors("facts.sizes", IcefloeError, where=tables[0]), suppress(KeyError):
                live = _sizes(sizes_by_value(self._table(tables[0]), end, key.column, link.values, key.transform))
        if sizes is None:
            return PartitionContents(source=live)
        return PartitionContents(target=_sizes(sizes), source=live, bits=sizes.bits, files=sizes.files)

    def _changed(self, analysis: Analysis) -> dict[str, Size]:
        """What lies at the end of the capture in partitions that rows went from. What metadata does not tell is missing."""
        out = {}
        for name in analysis.changed_tables:
            state, source = analysis.sources[name], self._sources[name]
            key = next(iter(state.changed_partitions), None)
            if state.append_only or key is None or source.end is None:
                continue
            with suppressed.errors("facts.changed", IcefloeError, where=name), suppress(KeyError):
                table, end = self._table(name), source.end.snapshot_id
                sizes = _sizes(sizes_by_value(table, end, key.column, list(key.added), key.transform))
                if sizes is not None:
                    out[name] = sum(sizes.values(), Size())
        return out

    def _table(self, name: str) -> LoadedTable:
        if name not in self._loaded:
            self._loaded[name] = self._lake.table(name)
        return self._loaded[name]

    def _state(self, name: str) -> SourceState | None:
        try:
            metadata = self._table(name).metadata
        except IcefloeError:
            return None
        source = self._sources.get(name)
        if source is None:
            head = history.head(metadata, "main", table=name)
            return SourceState(name, _columns(metadata), total=_total(metadata, head))
        catalog = self._lake.tables.name
        changes = source.found
        append_only = bool(changes.get("append_only"))
        return SourceState(
            name=name,
            columns=_columns(metadata),
            captured=True,
            changed=source.has_changes,
            whole=source.start is None or changes.get("kind") == "full",
            append_only=append_only,
            at_to=source.read_point(catalog),
            at_from=self._at_from(source, metadata),
            change_table=f"{catalog}.{source.change_table}" if source.change_table else None,
            partition_filter=changes.get("partition_filter"),
            changed_partitions=tuple(_changed_partitions(metadata, changes.get("partitions") or [], utc=self._utc)),
            nulls=self._nulls(source, metadata) if append_only else {},
            ignored=changes.get("skipped_operations") or {},
            added=Size(
                changes.get("added_files") or 0, changes.get("added_rows") or 0, changes.get("added_bytes") or 0
            ),
            total=_total(metadata, source.end.snapshot_id if source.end else None),
        )

    def _at_from(self, source: Source, metadata: TableMetadata) -> str | None:
        """The source before the change. By its id a snapshot shows its own schema, so that must be today's."""
        start = metadata.snapshots.get(source.start.snapshot_id) if source.start else None
        if start is None or start.schema_id is None or start.schema_id != metadata.raw.get("current-schema-id"):
            return None
        return f"{self._lake.tables.name}.{source.table} VERSION AS OF {start.id}"

    def _nulls(self, source: Source, metadata: TableMetadata) -> dict[str, int]:
        """NULLs among the new rows, of the columns that the text names."""
        ranges: Mapping[str, Any] = source.found.get("ranges") or {}
        nulls = {name: range_["nulls"] for name, range_ in ranges.items() if range_.get("nulls") is not None}
        if source.change_table is None or not source.has_changes:
            return nulls
        text = self._request.text.lower()
        names = [
            field.name
            for field in metadata.schema.fields.values()
            if len(field.path) == 1 and field.is_primitive and field.name.lower() in text and field.name not in nulls
        ]
        with suppressed.errors("facts.nulls", IcefloeError, where=source.change_table):
            added = self._added(source, names)
            nulls |= {name: range_.nulls for name, range_ in added.ranges.items() if range_.nulls is not None}
        return nulls

    def _added(self, source: Source, columns: Sequence[str]) -> ChangeSet:
        """The new rows' files: of the change table, or where it is not made yet of the source's own history, which has the same ones."""
        assert source.change_table is not None
        try:
            return self._lake.changes(source.change_table, columns=columns)
        except TableNotFoundError:
            end = source.end.snapshot_id if source.end is not None else None
            return self._lake.changes(
                source.table, since=source.start, until=end, ref=source.ref, columns=columns, on_gap="diff"
            )


def with_new_target(
    facts: Facts, columns: Sequence[Column], partition_by: Sequence[str], properties: Mapping[str, str]
) -> Facts:
    """The facts as they are once a missing target is made, without any rows."""
    version = properties.get("format-version", "")
    target = replace(
        facts.target,
        exists=True,
        columns=tuple(columns),
        identity_columns=tuple(name.strip("`") for name in partition_by if "(" not in name),
        merge_on_read=properties.get("write.delete.mode") == "merge-on-read",
        scattered=properties.get("write.distribution-mode") == "none",
        format_version=int(version) if version.isdigit() else 2,
    )
    return replace(facts, target=target)


def _file_bytes(metadata: TableMetadata) -> int:
    size = metadata.properties.get("write.target-file-size-bytes", "")
    return int(size) if size.isdigit() else FILE_BYTES


def _columns(metadata: TableMetadata) -> tuple[Column, ...]:
    return tuple(Column(field.name, field.type) for field in metadata.schema.fields.values() if len(field.path) == 1)


def versions(metadata: TableMetadata) -> tuple[int, int]:
    """Of its schema and its partition spec."""
    return int(metadata.raw.get("current-schema-id") or 0), int(metadata.raw.get("default-spec-id") or 0)


def _total(metadata: TableMetadata, snapshot_id: int | None) -> Size:
    """By the snapshot's summary. One that does not tell counts as one row: not empty, and not known to be large."""
    snapshot = metadata.snapshots.get(snapshot_id) if snapshot_id is not None else None
    if snapshot is None:
        return Size()
    names = ("total-data-files", "total-records", "total-files-size")
    files, rows, size = (str(snapshot.summary.get(name, "")) for name in names)
    return Size(
        int(files) if files.isdigit() else 0,
        int(rows) if rows.isdigit() else 1,
        int(size) if size.isdigit() else 0,
    )


def _sizes(sizes: PartitionSizes | None) -> dict[Any, Size] | None:
    if sizes is None:
        return None
    return {value: Size(counts.files, counts.rows, counts.bytes or 0) for value, counts in sizes.by_value.items()}


def _changed_partitions(
    metadata: TableMetadata, partitions: Sequence[Mapping[str, Any]], *, utc: bool
) -> Iterator[PartitionKey]:
    """What all changed partitions are partitioned by, with their values. In another zone than UTC days of moments are others."""
    specs = [metadata.specs.get(spec_id) for spec_id in {partition["spec_id"] for partition in partitions}]
    known = [spec for spec in specs if spec is not None]
    if not partitions or len(known) < len(specs):
        return
    for field in metadata.schema.fields.values():
        for transform in _TRANSFORMS:
            by_spec = {
                spec.id: partition_field.name
                for spec in known
                for partition_field in spec.fields
                if partition_field.source_id == field.id and partition_field.transform == transform
            }
            kind = result_type(transform, field.type)
            if len(field.path) != 1 or kind not in _PARTITION_TYPES or len(by_spec) < len(known):
                continue
            if transform == "day" and field.type == "timestamptz" and not utc:
                continue
            counts: dict[Any, int] = {}
            try:
                for partition in partitions:
                    value = from_json(kind, partition["values"][by_spec[partition["spec_id"]]])
                    counts[value] = counts.get(value, 0) + int(partition["rows"])
            except (UndecodableError, ValueError, TypeError, KeyError):
                continue
            yield PartitionKey(field.name, field.type, transform, counts)
