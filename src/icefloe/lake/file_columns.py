"""Which columns a data file can have: none that is younger than the file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from icefloe.lake.manifests import EntryStatus, Manifest
from icefloe.lake.metadata import TableMetadata


class FileColumns:
    """Tells the files of one manifest apart by age.

    A manifest's header names the schema it was written with. One that was merged or rewritten later has a newer schema than
    its files, which then seem to lack counts for a new column; the schema of the snapshot that added the file tells.
    """

    def __init__(self, metadata: TableMetadata, manifest: Manifest, column_ids: Sequence[int]) -> None:
        self._metadata = metadata
        self._ids = tuple(column_ids)
        header = manifest.field_ids
        self._by_header = tuple(header is None or column_id in header for column_id in self._ids)
        self._by_birth: dict[int | None, tuple[bool, ...]] = {None: self._by_header}

    def of(self, entry: Mapping[str, Any]) -> tuple[bool, ...]:
        birth = self._birth(entry)
        columns = self._by_birth.get(birth)
        if columns is None:
            columns = self._by_birth[birth] = self._at(birth)
        return columns

    def _birth(self, entry: Mapping[str, Any]) -> int | None:
        """The snapshot that added an older file; ``None`` if this manifest did, or if nobody knows any more."""
        if entry["status"] == EntryStatus.ADDED:
            return None
        number = entry.get("file_sequence_number")
        if number:
            return self._metadata.by_sequence_number.get(number)
        # v1 has no sequence numbers, and a DELETED entry names the snapshot that deleted.
        return entry.get("snapshot_id") if entry["status"] == EntryStatus.EXISTING else None

    def _at(self, snapshot_id: int | None) -> tuple[bool, ...]:
        snapshot = self._metadata.snapshots.get(snapshot_id or 0)
        schema = self._metadata.schemas.get(snapshot.schema_id) if snapshot and snapshot.schema_id is not None else None
        if schema is None:
            return self._by_header
        return tuple(
            in_header and column_id in schema.fields
            for in_header, column_id in zip(self._by_header, self._ids, strict=True)
        )
