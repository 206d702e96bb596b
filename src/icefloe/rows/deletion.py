"""Rows taken away from a table by their positions: one commit to a branch, in format version 3, as Spark's DELETE would make it.

A data file has one vector at most, with all that was ever deleted from it. The new ones are listed in a manifest of their own; those whose
place they take are struck off the manifests that list them, which become one. All other manifests are the parent's.
"""

from __future__ import annotations

import secrets
import time
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pyroaring import BitMap64

from icefloe.faults import fault
from icefloe.lake import storage
from icefloe.lake.catalog import LoadedTable, Tables
from icefloe.lake.content import manifests_of
from icefloe.lake.errors import CommitConflictError, StorageError
from icefloe.lake.manifests import (
    DATA,
    DELETES,
    VECTOR_FIELDS,
    EntryStatus,
    Manifest,
    ManifestFile,
    spelt_out,
    stored_bytes,
    with_fields,
    write_entries,
    write_list,
)
from icefloe.lake.metadata import Snapshot
from icefloe.lake.partitions import result_type
from icefloe.lake.values import UndecodableError, decode
from icefloe.rows import NotPlainError
from icefloe.rows.files import LiveFile
from icefloe.rows.vectors import Blob, puffin

FORMAT_VERSION = 3


class Deletion:
    """Of these files of a snapshot these rows are to be deleted, those included that are already. Whatever is in the way is said when it is
    made, :class:`NotPlainError`: the vectors are written then, so that it is known whether they can be."""

    def __init__(
        self, tables: Tables, table: LoadedTable, snapshot_id: int, deleted: Mapping[LiveFile, BitMap64]
    ) -> None:
        if not tables.takes_snapshots or table.metadata.format_version != FORMAT_VERSION:
            raise NotPlainError(f"{table.name} takes no deletion vectors from here")
        for manifest in manifests_of(table, table.metadata.snapshots[snapshot_id]):
            if manifest.content == DATA and manifest.may_have_live and manifest.first_row_id is None:
                raise NotPlainError(f"{table.name} has rows that were given no ids since it became version 3")
        self._tables = tables
        self._table = table
        self._vectors = _write_vectors(table, deleted) if deleted else None

    def commit(self, branch: str, properties: Mapping[str, str]) -> int | None:
        """Let the branch go on to a snapshot without these rows, and return that; ``None``: there are none. ``properties`` go into its
        summary. Whatever the branch has on top of the snapshot that was looked at must not have touched these files."""
        vectors = self._vectors
        if vectors is None:
            return None
        committed: list[int] = []

        def make(now: LoadedTable) -> Mapping[str, Any]:
            head = now.metadata.refs.get(branch)
            if head is None:
                raise CommitConflictError(f"the branch {branch} was taken away by somebody else", where=now.name)
            parent = now.metadata.snapshots[head.snapshot_id]
            snapshot = _Commit(now, parent, vectors, properties).write()
            committed.append(snapshot["snapshot-id"])
            fault("search.before_commit")
            return snapshot

        self._tables.add_snapshot(self._table.identifier, branch, make)
        return committed[-1]


@dataclass(frozen=True)
class _VectorFile:
    """A Puffin file that is written, not listed anywhere yet. ``schemas``: by spec, a manifest whose schema and header fit."""

    path: str
    size: int
    blobs: Mapping[LiveFile, Blob]
    schemas: Mapping[int, Manifest]


def _write_vectors(table: LoadedTable, deleted: Mapping[LiveFile, BitMap64]) -> _VectorFile:
    schemas = {file.manifest.spec_id: _with_vector_fields(table, file.manifest) for file in deleted}
    data, blobs = puffin({file.path: positions for file, positions in deleted.items()})
    folder = table.metadata.properties.get("write.data.path") or f"{table.metadata.location}/data"
    path = f"{folder.rstrip('/')}/{uuid.uuid4()}-deletes.puffin"
    try:
        storage.write(table.io, path, data)
    except StorageError as error:
        raise NotPlainError(f"{table.name} cannot be written to from here: {error.message}") from error
    return _VectorFile(path, len(data), {file: blobs[file.path] for file in deleted}, schemas)


def _with_vector_fields(table: LoadedTable, file: ManifestFile) -> Manifest:
    manifest = Manifest.open(table.read, file)
    if manifest.metadata.get("format-version", "1") == "1":
        raise NotPlainError(f"{table.name} has manifests of format version 1")
    return replace(manifest, schema=with_fields(manifest.schema, VECTOR_FIELDS))


class _Commit:
    """One try: everything that it writes is new, and of no consequence if the branch has moved meanwhile."""

    def __init__(
        self, table: LoadedTable, parent: Snapshot, vectors: _VectorFile, properties: Mapping[str, str]
    ) -> None:
        self._table = table
        self._parent = parent
        self._vectors = vectors
        self._properties = properties
        self._id = secrets.randbits(62) + 1
        self._number = int(table.metadata.raw.get("last-sequence-number") or 0) + 1
        self._folder = table.metadata.properties.get("write.metadata.path") or f"{table.metadata.location}/metadata"
        self._unique = uuid.uuid4()
        self._written = 0

    def write(self) -> dict[str, Any]:
        """The snapshot, all of whose files are written."""
        before = [manifest for manifest in manifests_of(self._table, self._parent) if manifest.may_have_live]
        replaced = {file.key for file in self._vectors.blobs if file.vector is not None}
        struck, removed = self._struck_off(before, replaced)
        kept = [manifest for manifest in before if manifest not in struck]
        new = [self._new(spec_id) for spec_id in self._vectors.schemas]
        listed = [*new, *(self._rewritten(spec_id, struck, replaced) for spec_id in _specs(struck)), *kept]
        location = f"{self._folder.rstrip('/')}/snap-{self._id}-1-{self._unique}.avro"
        storage.write(
            self._table.io,
            location,
            write_list(
                listed,
                format_version=FORMAT_VERSION,
                snapshot_id=self._id,
                sequence_number=self._number,
                parent_id=self._parent.id,
            ),
        )
        raw = self._table.metadata.raw
        counts = {"created": len(listed) - len(kept), "kept": len(kept), "replaced": len(struck)}
        return {
            "sequence-number": self._number,
            "snapshot-id": self._id,
            "parent-snapshot-id": self._parent.id,
            "timestamp-ms": max(int(time.time() * 1000), raw.get("last-updated-ms", 0)),
            "summary": self._summary(removed) | {f"manifests-{status}": str(many) for status, many in counts.items()},
            "manifest-list": location,
            "schema-id": int(raw["current-schema-id"]),
            "first-row-id": raw["next-row-id"],
            "added-rows": 0,
        }

    # -- manifests -----------------------------------------------------------------------------------------------------------

    def _struck_off(
        self, before: Sequence[ManifestFile], replaced: set[str]
    ) -> tuple[list[ManifestFile], list[dict[str, Any]]]:
        """The manifests that list a vector whose place is taken, and those entries."""
        struck, removed = [], []
        for file in before:
            if file.content != DELETES or not replaced:
                continue
            own = [
                entry["data_file"]
                for entry in Manifest.open(self._table.read, file).entries()
                if _about(entry, replaced)
            ]
            if own:
                struck.append(file)
                removed += own
        return struck, removed

    def _new(self, spec_id: int) -> ManifestFile:
        files = [file for file in self._vectors.blobs if file.manifest.spec_id == spec_id]
        entries = [self._entry(file, self._vectors.blobs[file]) for file in files]
        return self._manifest(self._vectors.schemas[spec_id], spec_id, entries, [file.manifest for file in files])

    def _rewritten(self, spec_id: int, struck: Sequence[ManifestFile], replaced: set[str]) -> ManifestFile:
        """All of the struck ones of a spec in one, with what is gone as DELETED by this snapshot."""
        files = [manifest for manifest in struck if manifest.spec_id == spec_id]
        entries = []
        opened = [Manifest.open(self._table.read, file) for file in files]
        for manifest in opened:
            for entry in spelt_out(manifest, lambda entry: entry["status"] != EntryStatus.DELETED):
                if _about(entry, replaced):
                    entry |= {"status": int(EntryStatus.DELETED), "snapshot_id": self._id}
                else:
                    entry["status"] = int(EntryStatus.EXISTING)
                entries.append(entry)
        return self._manifest(opened[0], spec_id, entries, files)

    def _manifest(
        self, like: Manifest, spec_id: int, entries: Sequence[dict[str, Any]], of: Iterable[ManifestFile]
    ) -> ManifestFile:
        location = f"{self._folder.rstrip('/')}/{self._unique}-m{self._written}.avro"
        self._written += 1
        line = replace(
            like.file,
            path=location,
            spec_id=spec_id,
            content=DELETES,
            sequence_number=self._number,
            added_snapshot_id=self._id,
            partitions=self._summaries(spec_id, of),
            first_row_id=None,
        )
        header = like.metadata | {"content": "deletes", "format-version": str(FORMAT_VERSION)}
        data, file = write_entries(replace(like, file=line, metadata=header), entries)
        storage.write(self._table.io, location, data)
        return file

    def _entry(self, file: LiveFile, blob: Blob) -> dict[str, Any]:
        """A new vector. What an entry may leave out is left out."""
        data_file = {
            "content": 1,
            "file_path": self._vectors.path,
            "file_format": "PUFFIN",
            "partition": file.place,
            "record_count": blob.rows,
            "file_size_in_bytes": self._vectors.size,
            "referenced_data_file": file.path,
            "content_offset": blob.offset,
            "content_size_in_bytes": blob.size,
        }
        own = {"status": int(EntryStatus.ADDED), "snapshot_id": self._id}
        return own | {"sequence_number": None, "file_sequence_number": None, "data_file": data_file}

    def _summaries(self, spec_id: int, files: Iterable[ManifestFile]) -> list[dict[str, Any]] | None:
        """What the partitions of these manifests span together; ``None``: nobody knows, and every reader opens it."""
        manifests = list({manifest.path: manifest for manifest in files}.values())
        if any(manifest.partitions is None for manifest in manifests):
            return None
        metadata = self._table.metadata
        kinds = []
        for part in metadata.specs[spec_id].fields:
            source = metadata.schema.fields.get(part.source_id)
            kinds.append(result_type(part.transform, source.type) if source is not None else None)
        try:
            return [
                _span(kind, [(manifest.partitions or [])[at] for manifest in manifests])
                for at, kind in enumerate(kinds)
            ]
        except (UndecodableError, IndexError, TypeError):
            return None

    # -- the summary ---------------------------------------------------------------------------------------------------------

    def _summary(self, removed: Sequence[Mapping[str, Any]]) -> dict[str, str]:
        blobs = self._vectors.blobs
        counts = {
            "delete-files": (len(blobs), len(removed)),
            "dvs": (len(blobs), len(removed)),
            "files-size": (sum(blob.size for blob in blobs.values()), sum(map(stored_bytes, removed))),
            "position-deletes": (
                sum(blob.rows for blob in blobs.values()),
                sum(data_file["record_count"] for data_file in removed),
            ),
        }
        out = {"operation": "delete", **self._properties}
        for name, both in counts.items():
            out |= {f"{sign}-{name}": str(many) for sign, many in zip(("added", "removed"), both, strict=True) if many}
        places = {(file.manifest.spec_id, tuple(file.place.values())) for file in blobs}
        out["changed-partition-count"] = str(len(places))
        for name, total in self._parent.summary.items():
            if name.startswith("total-") and total.isdigit():
                plus, minus = counts.get(name.removeprefix("total-"), (0, 0))
                out[name] = str(int(total) + plus - minus)
        return out | {"engine-name": "icefloe"}


def _about(entry: Mapping[str, Any], replaced: set[str]) -> bool:
    """Whether a live entry is the vector of one of these data files."""
    if entry["status"] == EntryStatus.DELETED:
        return False
    path = entry["data_file"].get("referenced_data_file")
    return path is not None and storage.normal(path) in replaced


def _specs(files: Iterable[ManifestFile]) -> list[int]:
    return list(dict.fromkeys(manifest.spec_id for manifest in files))


def _span(kind: str | None, summaries: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """One field's summary over several manifests."""
    if kind is None:
        raise UndecodableError("a partition of a column that is not there any more")
    out: dict[str, Any] = {"contains_null": any(summary["contains_null"] for summary in summaries)}
    nan = [summary.get("contains_nan") for summary in summaries]
    out["contains_nan"] = True if any(nan) else (None if None in nan else False)
    for name, best in (("lower_bound", min), ("upper_bound", max)):
        known = [summary[name] for summary in summaries if summary.get(name) is not None]
        out[name] = best(known, key=lambda bound: decode(kind, bound)) if known else None
    return out
