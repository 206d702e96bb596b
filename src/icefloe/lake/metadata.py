"""A table's ``metadata.json``, kept as the JSON it is.

Nothing is converted that need not be, so that a copy of it loses no field, whatever version wrote it.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from icefloe.lake.errors import MetadataUnreadableError
from icefloe.lake.schema import PartitionSpec, Schema


@dataclass(frozen=True)
class Snapshot:
    """One snapshot. ``sequence_number`` is 0 in format v1, where there are none."""

    id: int
    parent_id: int | None
    sequence_number: int
    timestamp_ms: int
    manifest_list: str | None
    summary: Mapping[str, str]
    schema_id: int | None = None

    @property
    def operation(self) -> str | None:
        return self.summary.get("operation")

    @property
    def is_first(self) -> bool:
        """Whether a history begins here: there is no parent, and none of the files came from one.

        PyIceberg 0.12 takes the parent's id away when it expires the parent; such an orphan still has its parent's files.
        """
        try:
            added = int(self.summary.get("added-data-files", 0))
            return self.parent_id is None and int(self.summary.get("total-data-files", added)) <= added
        except ValueError:
            return self.parent_id is None

    @property
    def is_cherry_pick(self) -> bool:
        return "source-snapshot-id" in self.summary


@dataclass(frozen=True)
class Ref:
    name: str
    snapshot_id: int
    type: str
    max_ref_age_ms: int | None = None


class TableMetadata:
    """Read-only view of one ``metadata.json``."""

    def __init__(self, raw: dict[str, Any], *, location: str) -> None:
        self.raw = raw
        self.metadata_location = location
        self.format_version: int = raw["format-version"]
        self.uuid: str = raw.get("table-uuid") or ""
        self.location: str = raw["location"].rstrip("/")

    @classmethod
    def parse(cls, data: bytes, *, location: str) -> TableMetadata:
        with _readable(location):
            text = gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data
            return cls.of(json.loads(text), location=location)

    @classmethod
    def of(cls, raw: dict[str, Any], *, location: str) -> TableMetadata:
        """From JSON that is read already. What is asked of it later is looked at now, so that it can fail only here."""
        with _readable(location):
            metadata = cls(raw, location=location)
            for part in (
                metadata.snapshots,
                metadata.refs,
                metadata.schema.fields,
                metadata.specs,
                metadata.properties,
            ):
                len(part)
            return metadata

    @property
    def properties(self) -> dict[str, str]:
        properties: dict[str, str] = self.raw.get("properties") or {}
        return properties

    @cached_property
    def snapshots(self) -> dict[int, Snapshot]:
        return {
            raw["snapshot-id"]: Snapshot(
                id=raw["snapshot-id"],
                parent_id=_id(raw.get("parent-snapshot-id")),
                sequence_number=raw.get("sequence-number") or 0,
                timestamp_ms=raw["timestamp-ms"],
                manifest_list=raw.get("manifest-list"),
                summary=raw.get("summary") or {},
                schema_id=raw.get("schema-id"),
            )
            for raw in self.raw.get("snapshots") or []
        }

    @cached_property
    def by_sequence_number(self) -> dict[int, int]:
        """Sequence number to snapshot id; each commit has its own, but for those of v1, which have none."""
        return {
            snapshot.sequence_number: snapshot.id for snapshot in self.snapshots.values() if snapshot.sequence_number
        }

    @cached_property
    def refs(self) -> dict[str, Ref]:
        """Branches and tags. Metadata without ``refs`` (old v1) has ``main`` at its current snapshot."""
        refs = {
            name: Ref(name, raw["snapshot-id"], raw["type"], raw.get("max-ref-age-ms"))
            for name, raw in (self.raw.get("refs") or {}).items()
        }
        current = _id(self.raw.get("current-snapshot-id"))
        if current is not None and "main" not in refs:
            refs["main"] = Ref("main", current, "branch")
        return refs

    @cached_property
    def schema(self) -> Schema:
        """The current schema."""
        current = self.raw.get("current-schema-id")
        for raw in self.raw.get("schemas") or []:
            if raw.get("schema-id") == current:
                return Schema.parse(raw)
        return Schema.parse(self.raw["schema"])

    @cached_property
    def schemas(self) -> dict[int, Schema]:
        """All schemas there ever were, by id."""
        return {schema.id: schema for schema in map(Schema.parse, self.raw.get("schemas") or [])}

    @cached_property
    def specs(self) -> dict[int, PartitionSpec]:
        raw = self.raw.get("partition-specs")
        if raw:
            return {spec.id: spec for spec in map(PartitionSpec.parse, raw)}
        return {0: PartitionSpec.of(0, self.raw.get("partition-spec") or [])}


@contextmanager
def _readable(location: str) -> Iterator[None]:
    """JSON can be wrong in as many ways as there are fields: whatever the reading throws is one error."""
    try:
        yield
    except MetadataUnreadableError:
        raise
    except Exception as error:
        raise MetadataUnreadableError(f"is not Iceberg table metadata: {error!r}", where=location) from error


def _id(value: int | None) -> int | None:
    """Old writers spell "no snapshot" as -1."""
    return None if value is None or value == -1 else value
