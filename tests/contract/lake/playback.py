"""A table that PyIceberg writes: no JVM, on every catalog."""

from __future__ import annotations

import json
import uuid
from collections.abc import Sequence
from datetime import date
from typing import Any

import pyarrow as pa
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import DateType, DoubleType, LongType, NestedField, StringType

from icefloe.lake import Lake, storage
from icefloe.lake.catalog import LoadedTable

SCHEMA = Schema(
    NestedField(1, "event_day", DateType()),
    NestedField(2, "account_id", LongType()),
    NestedField(3, "country", StringType()),
    NestedField(4, "view_min", DoubleType()),
)
BY_DAY = PartitionSpec(PartitionField(1, 1000, IdentityTransform(), "event_day"))

Row = tuple[date, int, str | None, float | None]


def day(number: int) -> date:
    return date(2026, 3, number)


def rows(*numbers: int, on: int = 1, country: str = "DE") -> list[Row]:
    """One row per number, all on one day of March."""
    return [(day(on), number, country, number / 2) for number in numbers]


class Playback:
    """Minutes watched per day and account, partitioned by day."""

    def __init__(
        self, lake: Lake, identifier: tuple[str, ...], *, version: int = 2, spec: PartitionSpec = BY_DAY
    ) -> None:
        self.lake = lake
        self.identifier = identifier
        catalog = lake.tables.catalog
        catalog.create_namespace_if_not_exists(identifier[:-1])
        catalog.create_table(
            identifier, schema=SCHEMA, partition_spec=spec, properties={"format-version": str(version)}
        )

    @property
    def name(self) -> str:
        return self.lake.canonical_name(self.identifier)

    @property
    def table(self) -> Table:
        return self.lake.tables.catalog.load_table(self.identifier)

    @property
    def loaded(self) -> LoadedTable:
        return self.lake.table(self.identifier)

    @property
    def head(self) -> int:
        return self.loaded.metadata.refs["main"].snapshot_id

    def append(self, *added: Row, branch: str = "main") -> int:
        table = self.table
        table.append(_arrow(table, added), branch=branch)
        return self.loaded.metadata.refs[branch].snapshot_id

    def overwrite(self, where: str, *added: Row) -> int:
        table = self.table
        table.overwrite(_arrow(table, added), overwrite_filter=where)
        return self.head

    def delete(self, where: str) -> int:
        self.table.delete(where)
        return self.head

    def expire(self, *snapshot_ids: int) -> None:
        """As Spark does it: the child of an expired snapshot still names its parent."""
        kept = [one for one in self.loaded.metadata.raw["snapshots"] if one["snapshot-id"] not in snapshot_ids]
        log = [{"snapshot-id": one["snapshot-id"], "timestamp-ms": one["timestamp-ms"]} for one in kept]
        self.edit(snapshots=kept, snapshot_log=log)

    def expire_by_pyiceberg(self, *snapshot_ids: int) -> None:
        """PyIceberg 0.12 makes the child of an expired snapshot an orphan."""
        self.table.maintenance.expire_snapshots().by_ids(list(snapshot_ids)).commit()

    def recreate(self) -> None:
        location = f"{self.loaded.metadata.location}_{uuid.uuid4().hex[:6]}"
        self.lake.tables.catalog.drop_table(self.identifier)
        self.lake.tables.catalog.create_table(self.identifier, schema=SCHEMA, partition_spec=BY_DAY, location=location)

    def edit(self, **changes: Any) -> None:
        """Commit metadata that PyIceberg would not write, by taking the table out and registering it again."""
        loaded = self.loaded
        raw = {**loaded.metadata.raw, **{name.replace("_", "-"): value for name, value in changes.items()}}
        location = f"{loaded.metadata.location}/metadata/{90000}-{uuid.uuid4()}.metadata.json"
        storage.write(loaded.io, location, json.dumps(raw).encode())
        self.lake.tables.drop(self.identifier)
        self.lake.tables.register(self.identifier, location)

    def upgrade_to_v3(self) -> None:
        self.edit(format_version=3, next_row_id=0)

    def files(self) -> dict[str, int]:
        """Every file below the table's location, with its size."""
        loaded = self.loaded
        return {one: len(storage.read(loaded.io, one)) for one in storage.files(loaded.io, loaded.metadata.location)}


def read(lake: Lake, name: str) -> list[Row]:
    """A table's rows as PyIceberg reads them, in order."""
    found = lake.tables.catalog.load_table(lake._identifier(name)).scan().to_arrow().to_pylist()
    return sorted((tuple(one.values()) for one in found), key=repr)  # type: ignore[arg-type]


def _arrow(table: Table, added: Sequence[Row]) -> pa.Table:
    schema = table.schema().as_arrow()
    names = schema.names
    return pa.Table.from_pylist([dict(zip(names, row, strict=False)) for row in added], schema=schema)
