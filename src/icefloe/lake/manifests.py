"""Manifest lists and manifests, read and written as raw Avro.

Fields are found by the field ids in the file's own schema, never by position or by name alone: v1 and v2 writers name some
of them differently. What is only looked at is read by :mod:`icefloe.lake.scanner`, what is written again by fastavro.
"""

from __future__ import annotations

import gc
import io
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from enum import IntEnum
from functools import lru_cache
from typing import Any, cast

import fastavro

from icefloe.errors import IcefloeError
from icefloe.lake import scanner
from icefloe.lake.errors import MetadataUnreadableError

DATA, DELETES = 0, 1
UNKNOWN_SNAPSHOT = -1


class EntryStatus(IntEnum):
    EXISTING = 0
    ADDED = 1
    DELETED = 2


@dataclass(frozen=True, slots=True)
class ManifestFile:
    """One line of a manifest list. Counts are ``None`` where the writer left them out (allowed in v1)."""

    path: str
    length: int
    spec_id: int
    content: int
    sequence_number: int
    min_sequence_number: int
    added_snapshot_id: int
    added_files: int | None
    existing_files: int | None
    deleted_files: int | None
    added_rows: int | None
    existing_rows: int | None
    deleted_rows: int | None
    partitions: list[dict[str, Any]] | None
    key_metadata: bytes | None
    first_row_id: int | None

    @property
    def may_have_added(self) -> bool:
        return self.added_files is None or self.added_files > 0

    @property
    def may_have_deleted(self) -> bool:
        return self.deleted_files is None or self.deleted_files > 0

    @property
    def may_have_live(self) -> bool:
        return self.may_have_added or self.existing_files is None or self.existing_files > 0

    @property
    def counts_known(self) -> bool:
        counts = (self.added_files, self.existing_files, self.deleted_files)
        rows = (self.added_rows, self.existing_rows, self.deleted_rows)
        return None not in counts and None not in rows


_LIST_FIELDS = {
    500: "path",
    501: "length",
    502: "spec_id",
    517: "content",
    515: "sequence_number",
    516: "min_sequence_number",
    503: "added_snapshot_id",
    504: "added_files",
    505: "existing_files",
    506: "deleted_files",
    512: "added_rows",
    513: "existing_rows",
    514: "deleted_rows",
    507: "partitions",
    519: "key_metadata",
    520: "first_row_id",
}
_LIST_DEFAULTS: dict[str, Any] = {
    "content": DATA,
    "sequence_number": 0,
    "min_sequence_number": 0,
    "added_snapshot_id": UNKNOWN_SNAPSHOT,
}

_ROW_IDS = {"first_row_id": (142, "long")}
VECTOR_FIELDS = {
    "referenced_data_file": (143, "string"),
    "content_offset": (144, "long"),
    "content_size_in_bytes": (145, "long"),
}
"""Where a deletion vector lies, and what of."""
SIZE_FIELDS = frozenset({"file_size_in_bytes", "content_size_in_bytes"})
"""What :func:`stored_bytes` looks at."""
Read = Callable[[str], bytes]


def stored_bytes(data_file: Mapping[str, Any]) -> int:
    """What one entry takes: a deletion vector is a part of a file that it shares with others (format version 3)."""
    own: int | None = data_file.get("content_size_in_bytes")
    size: int = data_file["file_size_in_bytes"]
    return size if own is None else own


def read_list(read: Read, location: str) -> list[ManifestFile]:
    """The manifests of one snapshot."""
    with readable(location):
        reader = fastavro.reader(io.BytesIO(read(location)))
        schema = json.loads(reader.metadata["avro.schema"])
        names = {_LIST_FIELDS[f["field-id"]]: f["name"] for f in schema["fields"] if f.get("field-id") in _LIST_FIELDS}
        manifests = []
        for record in cast(Iterator[dict[str, Any]], reader):
            values = {ours: record[theirs] for ours, theirs in names.items()}
            if any(values.get(name) is None for name in ("path", "length", "spec_id")):
                raise ValueError("a line without a manifest in it")
            for name in _LIST_FIELDS.values():
                if values.get(name) is None:
                    values[name] = _LIST_DEFAULTS.get(name)
            manifests.append(ManifestFile(**values))
        return manifests


@dataclass(frozen=True)
class Manifest:
    """A manifest's header and a way to its entries."""

    file: ManifestFile
    data: bytes
    schema: dict[str, Any]
    metadata: dict[str, str]

    @classmethod
    def open(cls, read: Read, file: ManifestFile) -> Manifest:
        data = read(file.path)
        with readable(file.path):
            metadata = dict(fastavro.reader(io.BytesIO(data)).metadata)
            return cls(file, data, _entry_schema(metadata["avro.schema"]), metadata)

    @property
    def field_ids(self) -> set[int] | None:
        """The column ids that the files of this manifest can have; ``None`` if the header does not tell."""
        from icefloe.lake.schema import Schema

        text = self.metadata.get("schema")
        try:
            return set(Schema.parse(json.loads(text)).fields) if text else None
        except (ValueError, KeyError, TypeError):
            return None

    @property
    def partition_width(self) -> int:
        """How many members the partition tuples of this manifest have."""
        return len(_members(_members(self.schema)["data_file"])["partition"]["fields"])

    def scan(self, fields: frozenset[str], columns: frozenset[int] = frozenset()) -> Iterator[dict[str, Any]]:
        """The entries with only these members of ``data_file``, and of maps by column only these columns, as dicts."""
        with readable(self.file.path), _no_garbage_collection():
            try:
                read = _entry_reader(self.metadata["avro.schema"], fields, columns)
            except scanner.UnsupportedSchemaError:
                yield from (_narrowed(entry, columns) for entry in self.entries())
                return
            for block in cast(Iterator[Any], fastavro.block_reader(io.BytesIO(self.data))):
                buffer: bytes = block.bytes_.getvalue()
                at = 0
                for _ in range(block.num_records):
                    entry, at = read(buffer, at)
                    yield entry
                if at != len(buffer):
                    raise ValueError(f"{len(buffer) - at} bytes are left over in a block")

    def entries(self) -> Iterator[dict[str, Any]]:
        """The entries as stored: dates, times and decimals of partition tuples are numbers and bytes (see ``values``)."""
        with readable(self.file.path), _no_garbage_collection():
            yield from cast(Iterator[dict[str, Any]], fastavro.reader(_without_logical_types(self.data)))


def _narrowed(entry: dict[str, Any], columns: frozenset[int]) -> dict[str, Any]:
    """An entry of fastavro's in the form that :meth:`Manifest.scan` gives."""
    data_file = {
        name: {pair["key"]: pair["value"] for pair in value if pair["key"] in columns}
        if isinstance(value, list) and value and isinstance(value[0], dict)
        else value
        for name, value in entry["data_file"].items()
    }
    return {**entry, "data_file": data_file}


def filtered(manifest: Manifest, keep: Callable[[dict[str, Any]], bool]) -> tuple[bytes, ManifestFile] | None:
    """A new manifest with only the entries that ``keep`` wants, or ``None`` if there are none.

    What an entry would inherit (snapshot id, sequence numbers, v3 row ids) depends on its manifest and its place in it, so
    it is written out before anything is left out. All entries become EXISTING: they were added by another table's snapshot.
    """
    with readable(manifest.file.path):
        return _filtered(manifest, keep)


def _filtered(manifest: Manifest, keep: Callable[[dict[str, Any]], bool]) -> tuple[bytes, ManifestFile] | None:
    file = manifest.file
    kept: list[dict[str, Any]] = []
    row_ids_known = True
    for entry in spelt_out(manifest, keep):
        entry["status"] = int(EntryStatus.EXISTING)
        row_ids_known = row_ids_known and entry["data_file"].get("first_row_id") is not None
        kept.append(entry)
    if not kept:
        return None
    schema = manifest.schema if file.first_row_id is None else with_fields(manifest.schema, _ROW_IDS)
    # Readers hand out ids from here to files that have none; a removed file from before v3 must not get another's.
    listed = replace(file, first_row_id=file.first_row_id if row_ids_known else None)
    return write_entries(replace(manifest, file=listed, schema=schema), kept)


def spelt_out(manifest: Manifest, keep: Callable[[dict[str, Any]], bool]) -> Iterator[dict[str, Any]]:
    """The entries that ``keep`` wants, with what they inherit from their manifest and their place in it written out."""
    file = manifest.file
    next_row_id = file.first_row_id
    for entry in manifest.entries():
        data_file = entry["data_file"]
        if next_row_id is not None and entry["status"] != EntryStatus.DELETED and data_file.get("first_row_id") is None:
            data_file["first_row_id"] = next_row_id
            next_row_id += data_file["record_count"]
        if not keep(entry):
            continue
        if entry.get("snapshot_id") is None:
            entry["snapshot_id"] = file.added_snapshot_id
        for name in ("sequence_number", "file_sequence_number"):
            if name in entry and entry[name] is None and entry["status"] == EntryStatus.ADDED:
                entry[name] = file.sequence_number
        yield entry


def write_entries(like: Manifest, entries: Sequence[dict[str, Any]]) -> tuple[bytes, ManifestFile]:
    """A manifest of these entries with the schema, header and list line of another one, but for what is counted."""
    header = {key: value for key, value in like.metadata.items() if not key.startswith("avro.")}
    data = _write_avro(like.schema, list(entries), header)
    files = dict.fromkeys(EntryStatus, 0)
    rows = dict.fromkeys(EntryStatus, 0)
    for entry in entries:
        files[EntryStatus(entry["status"])] += 1
        rows[EntryStatus(entry["status"])] += entry["data_file"]["record_count"]
    # What is to inherit its number gets the manifest's own; a missing one on an old entry means 0: it was written before the table
    # had numbers (v1).
    numbers = [
        like.file.sequence_number
        if entry["status"] == EntryStatus.ADDED and entry.get("sequence_number") is None
        else entry.get("sequence_number") or 0
        for entry in entries
    ]
    return data, replace(
        like.file,
        length=len(data),
        min_sequence_number=min(numbers),
        added_files=files[EntryStatus.ADDED],
        existing_files=files[EntryStatus.EXISTING],
        deleted_files=files[EntryStatus.DELETED],
        added_rows=rows[EntryStatus.ADDED],
        existing_rows=rows[EntryStatus.EXISTING],
        deleted_rows=rows[EntryStatus.DELETED],
    )


def write_list(
    files: Sequence[ManifestFile],
    *,
    format_version: int,
    snapshot_id: int,
    sequence_number: int,
    parent_id: int | None = None,
) -> bytes:
    """A manifest list in the given format version."""
    schema = _list_schema(format_version)
    names = {_LIST_FIELDS[f["field-id"]]: f["name"] for f in schema["fields"]}
    records = [{theirs: getattr(file, ours) for ours, theirs in names.items()} for file in files]
    parent = "null" if parent_id is None else str(parent_id)
    header = {"snapshot-id": str(snapshot_id), "parent-snapshot-id": parent, "format-version": str(format_version)}
    if format_version >= 2:
        header["sequence-number"] = str(sequence_number)
    return _write_avro(schema, records, header)


# -- Avro ----------------------------------------------------------------------------------------------------------------


@contextmanager
def readable(location: str) -> Iterator[None]:
    """Whatever a decoder throws at broken bytes (zlib, struct, schema errors, too) becomes one error with the file's name."""
    try:
        yield
    except IcefloeError:
        raise
    except Exception as error:
        raise MetadataUnreadableError(f"is not a readable Avro file: {error!r}", where=location) from error


@lru_cache(maxsize=256)
def _entry_schema(text: str) -> dict[str, Any]:
    """Not to be changed. The manifests of a table have one or two schemas among them: read once, and its readers made once."""
    schema: dict[str, Any] = json.loads(text)
    _check_entry_schema(schema)
    return schema


@lru_cache(maxsize=256)
def _entry_reader(text: str, fields: frozenset[str], columns: frozenset[int]) -> scanner.Reader:
    return scanner.entry_reader(json.loads(text), fields, columns)


def _check_entry_schema(schema: dict[str, Any]) -> None:
    """Everything that is looked up in an entry later is there."""
    entry = _members(schema)
    data_file = _members(entry["data_file"])
    missing = ({"status"} - set(entry)) | (_DATA_FILE_FIELDS - set(data_file))
    if missing:
        raise ValueError(f"entries have no {', '.join(sorted(missing))}")
    len(data_file["partition"]["fields"])


_DATA_FILE_FIELDS = {"file_path", "partition", "record_count", "file_size_in_bytes"}


def _members(record: dict[str, Any]) -> dict[str, Any]:
    return {field["name"]: field["type"] for field in record["fields"]}


def _without_logical_types(data: bytes) -> io.BytesIO:
    """The same file with its schema's logical types unknown to the decoder.

    A logical value may be one that Python has not (a date in year 10000), and then the whole file would be unreadable; and
    what is not converted is written back as it was. The word is replaced by one of the same length, in the header only.
    """
    stream = io.BytesIO(data)
    header = fastavro.reader(stream)._header
    end = data.index(header["sync"]) + len(header["sync"])
    return io.BytesIO(data[:end].replace(b'"logicalType"', b'"ignoredType"') + data[end:])


@contextmanager
def _no_garbage_collection() -> Iterator[None]:
    """Decoding makes many short-lived containers and no cycles; the collector doubles its CPU time (CPython 3.11)."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def with_fields(schema: dict[str, Any], extra: Mapping[str, tuple[int, str]]) -> dict[str, Any]:
    """A manifest's schema with these members of ``data_file`` (name -> field id and type), in so far as it has them not: one that was
    written before the table was v3 has no field to write row ids or places of deletion vectors into."""
    out = {**schema, "fields": [dict(field) for field in schema["fields"]]}
    for field in out["fields"]:
        if field["name"] == "data_file":
            names = {member["name"] for member in field["type"]["fields"]}
            more = [
                {"name": name, "type": ["null", kind], "default": None, "field-id": field_id}
                for name, (field_id, kind) in extra.items()
                if name not in names
            ]
            field["type"] = {**field["type"], "fields": [*field["type"]["fields"], *more]}
    return out


def _write_avro(schema: dict[str, Any], records: list[dict[str, Any]], header: dict[str, str]) -> bytes:
    out = io.BytesIO()
    fastavro.writer(out, fastavro.parse_schema(schema, _force=True), records, codec="deflate", metadata=header)
    return out.getvalue()


def _list_schema(version: int) -> dict[str, Any]:
    def field(name: str, kind: Any, field_id: int, *, optional: bool = False) -> dict[str, Any]:
        if optional:
            return {"name": name, "type": ["null", kind], "default": None, "field-id": field_id}
        return {"name": name, "type": kind, "field-id": field_id}

    summary = {
        "type": "record",
        "name": "r508",
        "fields": [
            field("contains_null", "boolean", 509),
            field("contains_nan", "boolean", 518, optional=True),
            field("lower_bound", "bytes", 510, optional=True),
            field("upper_bound", "bytes", 511, optional=True),
        ],
    }
    counts = version == 1
    fields = [field("manifest_path", "string", 500), field("manifest_length", "long", 501)]
    fields.append(field("partition_spec_id", "int", 502))
    if version >= 2:
        fields.append(field("content", "int", 517))
        fields.append(field("sequence_number", "long", 515))
        fields.append(field("min_sequence_number", "long", 516))
    fields.append(field("added_snapshot_id", "long", 503))
    for name, kind, field_id in (
        ("added_files_count", "int", 504),
        ("existing_files_count", "int", 505),
        ("deleted_files_count", "int", 506),
        ("added_rows_count", "long", 512),
        ("existing_rows_count", "long", 513),
        ("deleted_rows_count", "long", 514),
    ):
        fields.append(field(name, kind, field_id, optional=counts))
    fields.append(field("partitions", {"type": "array", "items": summary, "element-id": 508}, 507, optional=True))
    fields.append(field("key_metadata", "bytes", 519, optional=True))
    if version >= 3:
        fields.append(field("first_row_id", "long", 520, optional=True))
    return {"type": "record", "name": "manifest_file", "fields": fields}
