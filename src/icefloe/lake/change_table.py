"""Change tables (ICDC tables): real Iceberg tables, made of metadata only, that hold the files of a change set.

Building one copies no data. Manifests whose entries all belong are copied byte for byte, others are filtered; a new manifest
list and a ``metadata.json`` edited from the source's go beside them, and the result is registered in the catalog. So every
field id, partition spec, sequence number and row id stays what it was in the source, which appending the same files to a
new table would lose.

What keeps the source safe: a change table lives in a folder of its own, outside every source's; it lists none of the
source's own manifests; ``gc.enabled=false`` makes expiry, orphan removal and purge refuse; and it is dropped here by taking
it out of the catalog and deleting its own folder, never by purging. What this does *not* do is keep the source's data files
alive: that is what pins are for.
"""

from __future__ import annotations

import json
import re
import secrets
import time
import uuid
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, Literal

from pyiceberg.io import FileIO

from icefloe import suppressed
from icefloe.errors import ConfigError, IcefloeError, UnreachableError, UsageError
from icefloe.lake import storage
from icefloe.lake.catalog import LoadedTable, Tables
from icefloe.lake.changes import ChangeSet
from icefloe.lake.content import ManifestSlice, manifests_of
from icefloe.lake.errors import (
    MetadataMissingError,
    MetadataUnreadableError,
    NameTakenError,
    NotAChangeTableError,
    TableNotFoundError,
    UnsupportedTableError,
)
from icefloe.lake.manifests import DATA, DELETES, Manifest, ManifestFile, filtered, write_list
from icefloe.lake.metadata import TableMetadata
from icefloe.table_names import Identifier, format_identifier, parse_identifier

MARK = "icefloe.change-table"
"""The property that tells a change table from any other table."""

# Read-side properties that a change table needs of its source; all others are about writing and maintenance.
_KEPT_PROPERTIES = ("schema.name-mapping.default", "read.")

Content = Literal["added", "removed"]


@dataclass(frozen=True)
class ChangeTable:
    """A registered change table."""

    name: str
    """As the catalog knows it: ``namespace.table``."""
    location: str
    source: str
    from_snapshot: int | None
    to_snapshot: int | None
    rows: int
    files: int
    created: datetime

    def to_dict(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "source": self.source,
            "from_snapshot": self.from_snapshot,
            "to_snapshot": self.to_snapshot,
            "rows": self.rows,
            "files": self.files,
            "created": self.created.isoformat(timespec="seconds"),
            "location": self.location,
        }


class ChangeTables:
    """Makes, lists and drops the change tables of one catalog."""

    def __init__(
        self, tables: Tables, *, namespace: str, location: str | None, fault: Callable[[str], None] = lambda name: None
    ) -> None:
        self._tables = tables
        self.namespace: Identifier = tuple(namespace.split("."))
        self._location = location.rstrip("/") if location else None
        self._fault = fault

    @property
    def location(self) -> str:
        if self._location is None:
            raise ConfigError(
                "change tables have no place to live",
                hint='set location = "s3://bucket/prefix" in [change_tables], outside every table\'s own location',
            )
        return self._location

    def create(
        self, table: LoadedTable, changes: ChangeSet, *, name: str | None, content: Content = "added"
    ) -> ChangeTable:
        """Build and register. Nothing half-made stays behind: files are written first, and removed if registering fails."""
        if name is not None and not re.fullmatch(r"\w+", name):
            raise UsageError(f"{name!r} is not a name for a change table", hint="use letters, digits and underscores")
        folder_name = unique_name(changes.table)
        identifier = (*self.namespace, name or folder_name)
        if name is not None and self._tables.exists(identifier):
            raise NameTakenError(
                "a table of that name exists", where=format_identifier(identifier), hint="choose another"
            )
        folder = f"{self.location}/{folder_name}"
        if storage.inside(folder, table.metadata.location) or storage.inside(table.metadata.location, folder):
            raise ConfigError(
                f"change tables would lie inside their source ({table.metadata.location}), whose orphan removal deletes them",
                where=table.name,
                hint="set another location in [change_tables]",
            )
        io = self._tables.file_io(folder)
        try:
            metadata_location, built = self._write(io, folder, table, changes, identifier, content)
            self._fault("change_table.before_register")
            self._tables.register(identifier, metadata_location)
        except UnreachableError:
            # A catalog that went away may have registered the table all the same; if it has not, clean takes the folder.
            raise
        except BaseException:
            with suppressed.errors("change_table.delete_folder", IcefloeError, OSError, where=folder):
                storage.delete_folder(io, folder)
            raise
        return built

    def list(self) -> list[ChangeTable]:
        """All registered change tables, oldest first."""
        tables = []
        for identifier in self._tables.names_in(self.namespace):
            # Another process may be dropping it at this moment.
            with suppress(MetadataMissingError, TableNotFoundError):
                change_table = _described(self._tables.load(identifier))
                if change_table is not None:
                    tables.append(change_table)
        return sorted(tables, key=lambda change_table: change_table.created)

    def drop(self, identifier: Identifier) -> ChangeTable:
        """Take one out of the catalog and delete its own folder."""
        loaded = self._tables.load(identifier)
        change_table = _described(loaded)
        if (
            change_table is None
            or not storage.inside(change_table.location, self.location)
            or change_table.location.rstrip("/") == self.location
        ):
            raise NotAChangeTableError(
                "this is not a change table made here, so it is left alone", where=format_identifier(identifier)
            )
        self._tables.drop(identifier)
        if loaded.metadata.properties.get("icefloe.name") != change_table.name:
            return change_table  # a second name: the folder is another's
        self._fault("change_table.after_unregister")
        storage.delete_folder(self._tables.file_io(change_table.location), change_table.location)
        return change_table

    def point(self, alias: Identifier, at: Identifier) -> None:
        """Let a stable name lead to a change table, whatever change table it led to before. Readers find either or, for a
        moment, none. A name that anything else has is refused."""
        loaded = self._tables.load(at)
        if self._tables.exists(alias):
            if not self._leads_here(alias):
                raise NameTakenError(
                    "is a table of its own, so it cannot be the name of a change table",
                    where=format_identifier(alias),
                    hint="choose another targetTable",
                )
            self._tables.drop(alias)
        self._tables.register(alias, loaded.metadata.metadata_location)

    def _leads_here(self, alias: Identifier) -> bool:
        """Whether a name leads, or led before that was released, to a change table in our own folder."""
        try:
            change_table = _described(self._tables.load(alias))
        except MetadataMissingError as error:
            return error.where is not None and storage.inside(error.where, self.location)
        return change_table is not None and storage.inside(change_table.location, self.location)

    def unpoint(self, alias: Identifier, at: Identifier) -> None:
        """Take a stable name away if it still leads there."""
        with suppress(TableNotFoundError, MetadataMissingError):
            if self._tables.load(alias).metadata.properties.get("icefloe.name") == format_identifier(at):
                self._tables.drop(alias)

    def clean(self, *, older_than_seconds: float, now: float | None = None) -> tuple[str, ...]:
        """Delete the folders of captures that died before they registered. Returns their names.

        A folder carries the time it was begun in its name; younger ones may belong to a capture that is running. A table
        that is registered stays, also in a namespace that was configured before. Another *catalog's* change tables cannot be
        told from leftovers: each catalog needs a location of its own.
        """
        now = time.time() if now is None else now
        io = self._tables.file_io(self.location)
        # Folders first: one that is registered meanwhile is then seen to be.
        folders = storage.folders(io, self.location)
        registered = {storage.normal(change_table.location) for change_table in self.list()}
        removed = []
        for folder in folders:
            begun = begun_at(folder)
            full = f"{self.location}/{folder}"
            if begun is None or now - begun < older_than_seconds:
                continue
            if storage.normal(full) in registered or self._is_registered_elsewhere(io, full):
                continue
            storage.delete_folder(io, full)
            removed.append(folder)
        return tuple(removed)

    def _is_registered_elsewhere(self, io: FileIO, folder: str) -> bool:
        """Whether the name that a folder's table was given still leads to that folder."""
        for file in storage.files(io, folder):
            if not file.endswith(".metadata.json"):
                continue
            with suppress(MetadataUnreadableError, MetadataMissingError, TableNotFoundError, UsageError):
                name = TableMetadata.parse(storage.read(io, file), location=file).properties.get("icefloe.name", "")
                identifier = parse_identifier(name, catalog=self._tables.name)
                if storage.normal(self._tables.load(identifier).metadata.location) == storage.normal(folder):
                    return True
        return False

    def _write(
        self, io: FileIO, folder: str, table: LoadedTable, changes: ChangeSet, identifier: Identifier, content: Content
    ) -> tuple[str, ChangeTable]:
        snapshot_id = secrets.randbits(62) + 1
        version = table.metadata.format_version
        first_row_ids = self._first_row_ids(table, changes)
        listed: list[ManifestFile] = []
        for number, slice_ in enumerate(_slices(table, changes, content)):
            wanted = replace(slice_, manifest=_with_row_id(slice_.manifest, first_row_ids))
            copy = _copied(table, wanted)
            if copy is None:
                continue
            data, file = copy
            path = f"{folder}/metadata/m{number:06d}.avro"
            storage.write(io, path, data)
            self._fault("change_table.after_manifest")
            listed.append(replace(file, path=path, length=len(data)))
        sequence_number = table.metadata.raw.get("last-sequence-number") or 0
        list_location = f"{folder}/metadata/snap-{snapshot_id}.avro"
        storage.write(
            io,
            list_location,
            write_list(listed, format_version=version, snapshot_id=snapshot_id, sequence_number=sequence_number),
        )
        files, rows = _totals(listed)
        built = ChangeTable(
            name=format_identifier(identifier),
            location=folder,
            source=changes.table,
            from_snapshot=changes.from_snapshot,
            to_snapshot=changes.to_snapshot,
            rows=rows,
            files=files,
            created=datetime.now(UTC),
        )
        raw = _metadata(table, built, snapshot_id, list_location, content)
        metadata_location = f"{folder}/metadata/00000-{uuid.uuid4()}.metadata.json"
        storage.write(io, metadata_location, json.dumps(raw).encode())
        return metadata_location, built

    def _first_row_ids(self, table: LoadedTable, changes: ChangeSet) -> dict[str, int]:
        """Row ids that ``to``'s list knows of manifests which were listed before the table was v3, and had none."""
        snapshot = table.metadata.snapshots.get(changes.to_snapshot or 0)
        if table.metadata.format_version < 3 or snapshot is None:
            return {}
        return {m.path: m.first_row_id for m in manifests_of(table, snapshot) if m.first_row_id is not None}


def unique_name(source: str) -> str:
    """``playback_20260301t120000_5f3a9c``: the source, the moment, and a random part."""
    base = re.sub(r"[^a-z0-9]+", "_", source.rsplit(".", 1)[-1].lower()).strip("_")[:60] or "table"
    return f"{base}_{datetime.now(UTC):%Y%m%dt%H%M%S}_{secrets.token_hex(3)}"


def begun_at(folder: str) -> float | None:
    """When a folder with a name of ours was begun; ``None`` for any other folder, which is not ours to delete."""
    match = re.fullmatch(r"[a-z0-9_]+_(\d{8}t\d{6})_[0-9a-f]{6}", folder)
    return datetime.strptime(match[1] + "+0000", "%Y%m%dt%H%M%S%z").timestamp() if match else None


def _slices(table: LoadedTable, changes: ChangeSet, content: Content) -> Sequence[ManifestSlice]:
    if content == "removed":
        return changes.slices.get("removed", ())
    slices = list(changes.slices.get("added", ()))
    if changes.kind == "full":
        slices += changes.slices.get("deletes", ())
    elif changes.kind == "diff" and changes.to_snapshot is not None:
        # Net rows: whatever deletes stand at `to` are applied. Those about files that are not listed here do nothing.
        snapshot = table.metadata.snapshots[changes.to_snapshot]
        slices += [
            ManifestSlice(m, "live") for m in manifests_of(table, snapshot) if m.content == DELETES and m.may_have_live
        ]
    return slices


def _with_row_id(manifest: ManifestFile, first_row_ids: dict[str, int]) -> ManifestFile:
    if manifest.first_row_id is None and manifest.content == DATA and manifest.path in first_row_ids:
        return replace(manifest, first_row_id=first_row_ids[manifest.path])
    return manifest


def _copied(table: LoadedTable, slice_: ManifestSlice) -> tuple[bytes, ManifestFile] | None:
    """The manifest as it is where all its live entries are wanted, else a filtered one."""
    m = slice_.manifest
    # Readers pass over DELETED entries, so "live" needs no filter; "added" does if other entries are live too.
    as_it_is = slice_.which == "live" or (slice_.which == "added" and m.existing_files == 0 and m.deleted_files == 0)
    if as_it_is and slice_.paths is None and m.counts_known:
        return table.read(m.path), m
    return filtered(Manifest.open(table.read, m), slice_.wants)


def _totals(listed: Sequence[ManifestFile]) -> tuple[int, int]:
    data = [m for m in listed if m.content == DATA]
    files = sum((m.added_files or 0) + (m.existing_files or 0) for m in data)
    return files, sum((m.added_rows or 0) + (m.existing_rows or 0) for m in data)


def _metadata(
    table: LoadedTable, built: ChangeTable, snapshot_id: int, list_location: str, content: Content
) -> dict[str, Any]:
    """The source's metadata with another identity, another place and one snapshot."""
    raw = dict(table.metadata.raw)
    for key in ("metadata-log", "statistics", "partition-statistics"):
        raw.pop(key, None)
    now = max(int(time.time() * 1000), raw.get("last-updated-ms", 0))
    properties = {k: v for k, v in table.metadata.properties.items() if k.startswith(_KEPT_PROPERTIES)}
    properties |= {
        "gc.enabled": "false",
        MARK: "true",
        "icefloe.name": built.name,
        "icefloe.source": built.source,
        "icefloe.source-uuid": table.metadata.uuid,
        "icefloe.content": content,
        "icefloe.from-snapshot": str(built.from_snapshot or ""),
        "icefloe.to-snapshot": str(built.to_snapshot or ""),
        "icefloe.created": built.created.isoformat(),
        "icefloe.rows": str(built.rows),
        "icefloe.files": str(built.files),
    }
    snapshot: dict[str, Any] = {
        "snapshot-id": snapshot_id,
        "timestamp-ms": now,
        "manifest-list": list_location,
        "summary": {
            "operation": "append",
            "total-data-files": str(built.files),
            "total-records": str(built.rows),
        },
        "schema-id": table.metadata.schema.id,
    }
    version = table.metadata.format_version
    if version >= 2:
        snapshot["sequence-number"] = raw.get("last-sequence-number") or 0
    if version >= 3:
        next_row_id = raw.get("next-row-id")
        if next_row_id is None:
            raise UnsupportedTableError("a v3 table without next-row-id is not valid", where=table.name)
        snapshot |= {"first-row-id": next_row_id, "added-rows": 0}
    return {
        **raw,
        "table-uuid": str(uuid.uuid4()),
        "location": built.location,
        "last-updated-ms": now,
        "properties": properties,
        "current-snapshot-id": snapshot_id,
        "snapshots": [snapshot],
        "snapshot-log": [{"snapshot-id": snapshot_id, "timestamp-ms": now}],
        "metadata-log": [],
        "refs": {"main": {"snapshot-id": snapshot_id, "type": "branch"}},
    }


def _described(table: LoadedTable) -> ChangeTable | None:
    properties = table.metadata.properties
    if properties.get(MARK) != "true":
        return None

    def snapshot(key: str) -> int | None:
        return int(properties[key]) if properties.get(key) else None

    return ChangeTable(
        name=table.name,
        location=table.metadata.location,
        source=properties.get("icefloe.source", ""),
        from_snapshot=snapshot("icefloe.from-snapshot"),
        to_snapshot=snapshot("icefloe.to-snapshot"),
        rows=int(properties.get("icefloe.rows", 0)),
        files=int(properties.get("icefloe.files", 0)),
        created=datetime.fromisoformat(properties.get("icefloe.created", "1970-01-01T00:00:00+00:00")),
    )
