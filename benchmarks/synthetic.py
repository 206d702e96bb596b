"""Large tables without large data: real Iceberg metadata whose data files do not exist.

Good for what reads metadata only. One small file is appended for real; its manifest entry is then copied under new paths, in
other partitions and with other bounds, as often as is asked for, and committed as ordinary append snapshots.
"""

from __future__ import annotations

import io
import json
import struct
import uuid
from dataclasses import replace
from datetime import date, timedelta

import fastavro
import pyarrow as pa
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import DateType, DoubleType, LongType, NestedField, StringType, TimestampType

from icefloe.lake import Lake, storage
from icefloe.lake.catalog import LoadedTable
from icefloe.lake.manifests import Manifest, read_list, write_list

FIRST_DAY = date(2024, 1, 1)
_EPOCH = date(1970, 1, 1)

SCHEMA = Schema(
    NestedField(1, "event_day", DateType()),
    NestedField(2, "account_id", LongType()),
    NestedField(3, "country", StringType()),
    NestedField(4, "device", StringType()),
    NestedField(5, "title_id", LongType()),
    NestedField(6, "event_time", TimestampType()),
    NestedField(7, "view_min", DoubleType()),
    NestedField(8, "session", StringType()),
    NestedField(9, "bitrate", LongType()),
    NestedField(10, "country_code", LongType()),
)
SPEC = PartitionSpec(PartitionField(1, 1000, IdentityTransform(), "event_day"))


class SyntheticTable:
    """``playback`` of any size. :meth:`append` adds one append snapshot of so many files in so many manifests."""

    def __init__(self, lake: Lake, name: str) -> None:
        self.lake = lake
        self.name = name
        catalog = lake.tables.catalog
        catalog.create_namespace_if_not_exists(name.rsplit(".", 1)[0])
        table = catalog.create_table(name, schema=SCHEMA, partition_spec=SPEC)
        table.append(_one_row())
        self._template = self._read_template()
        self._files = 0

    def append(self, files: int, manifests: int) -> int:
        """Commit ``files`` files in ``manifests`` manifests as one append. Returns the snapshot's id."""
        loaded = self._load()
        raw = loaded.metadata.raw
        parent = loaded.metadata.refs["main"].snapshot_id
        snapshot_id = uuid.uuid4().int >> 66
        number = raw["last-sequence-number"] + 1
        folder = f"{loaded.metadata.location}/metadata"
        listed = []
        for one in range(manifests):
            count = files // manifests + (1 if one < files % manifests else 0)
            path = f"{folder}/{uuid.uuid4()}-m0.avro"
            data = self._manifest(count)
            storage.write(loaded.io, path, data)
            listed.append(
                replace(
                    self._template.file,
                    path=path,
                    length=len(data),
                    sequence_number=number,
                    min_sequence_number=number,
                    added_snapshot_id=snapshot_id,
                    added_files=count,
                    added_rows=count,
                    existing_files=0,
                    deleted_files=0,
                    existing_rows=0,
                    deleted_rows=0,
                )
            )
        previous = read_list(loaded.read, loaded.metadata.snapshots[parent].manifest_list or "")
        list_path = f"{folder}/snap-{snapshot_id}-{uuid.uuid4()}.avro"
        everything = write_list([*listed, *previous], format_version=2, snapshot_id=snapshot_id, sequence_number=number)
        storage.write(loaded.io, list_path, everything)
        self._commit(loaded, snapshot_id, parent, number, list_path)
        return snapshot_id

    def _manifest(self, count: int) -> bytes:
        template = next(iter(self._template.entries()))
        entries = []
        for _ in range(count):
            self._files += 1
            days = (FIRST_DAY - _EPOCH).days + self._files % 14
            data_file = dict(template["data_file"])
            data_file["file_path"] = (
                f"{data_file['file_path'].rsplit('/', 1)[0]}/{self._files:09d}-{uuid.uuid4()}.parquet"
            )
            data_file["partition"] = {"event_day": _EPOCH + timedelta(days=days)}
            for side in ("lower_bounds", "upper_bounds"):
                data_file[side] = [
                    {**pair, "value": struct.pack("<i", days)} if pair["key"] == 1 else pair for pair in data_file[side]
                ]
            entries.append({**template, "snapshot_id": None, "sequence_number": None, "data_file": data_file})
        header = {k: v for k, v in self._template.metadata.items() if not k.startswith("avro.")}
        out = io.BytesIO()
        fastavro.writer(out, fastavro.parse_schema(self._template.schema), entries, codec="deflate", metadata=header)
        return out.getvalue()

    def _commit(self, loaded: LoadedTable, snapshot_id: int, parent: int, number: int, list_path: str) -> None:
        raw = loaded.metadata.raw
        now = raw["last-updated-ms"] + 1
        snapshot = {
            "snapshot-id": snapshot_id,
            "parent-snapshot-id": parent,
            "sequence-number": number,
            "timestamp-ms": now,
            "manifest-list": list_path,
            "summary": {"operation": "append"},
            "schema-id": 0,
        }
        edited = {
            **raw,
            "last-sequence-number": number,
            "last-updated-ms": now,
            "current-snapshot-id": snapshot_id,
            "snapshots": [*raw["snapshots"], snapshot],
            "snapshot-log": [*raw["snapshot-log"], {"snapshot-id": snapshot_id, "timestamp-ms": now}],
            "refs": {**raw["refs"], "main": {"snapshot-id": snapshot_id, "type": "branch"}},
        }
        location = f"{loaded.metadata.location}/metadata/{number:05d}-{uuid.uuid4()}.metadata.json"
        storage.write(loaded.io, location, json.dumps(edited).encode())
        self.lake.tables.drop(loaded.identifier)
        self.lake.tables.register(loaded.identifier, location)

    def _load(self) -> LoadedTable:
        return self.lake.table(self.name)

    def _read_template(self) -> Manifest:
        loaded = self._load()
        head = loaded.metadata.snapshots[loaded.metadata.refs["main"].snapshot_id]
        return Manifest.open(loaded.read, read_list(loaded.read, head.manifest_list or "")[0])


def _one_row() -> pa.Table:
    from datetime import datetime

    return pa.table(
        {
            "event_day": pa.array([FIRST_DAY], pa.date32()),
            "account_id": pa.array([123456789], pa.int64()),
            "country": ["DE"],
            "device": ["television-set-of-some-kind"],
            "title_id": pa.array([987654321], pa.int64()),
            "event_time": pa.array([datetime(2024, 1, 1, 12)], pa.timestamp("us")),
            "view_min": [12.5],
            "session": [str(uuid.uuid4())],
            "bitrate": pa.array([5_000_000], pa.int64()),
            "country_code": pa.array([49], pa.int64()),
        }
    )
