"""A project whose lake is written by PyIceberg: no Spark, on both state databases."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date
from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import DateType, LongType, NestedField

from icefloe.lake import Lake
from icefloe.lake.catalog import LoadedTable
from icefloe.service import project as projects
from icefloe.store import captures
from icefloe.store.captures import CaptureRecord, CheckpointRecord
from tests.projects import Project, make_project

SCHEMA = Schema(NestedField(1, "id", LongType()), NestedField(2, "day", DateType()))
SPEC = PartitionSpec(PartitionField(2, 1000, IdentityTransform(), "day"))


def opened_files(table: LoadedTable) -> list[str]:
    """The locations of what is read through this table from now on, in order."""
    opened: list[str] = []
    read = table.read

    def counting(location: str) -> bytes:
        opened.append(location)
        return read(location)

    table.read = counting  # type: ignore[method-assign]
    return opened


class Bench:
    """One project with source tables, and looks into its state."""

    def __init__(self, project: Project) -> None:
        self.project = project
        projects.init(project.root)
        self.lake = Lake.open(project.config)
        self.catalog = self.lake.tables.catalog
        self.catalog.create_namespace("db")

    def create(self, name: str) -> None:
        self.catalog.create_table(name, schema=SCHEMA, partition_spec=SPEC)

    def append(self, name: str, *ids: int, day: int = 1, mark: dict[str, str] | None = None) -> int:
        """One append, with ``mark`` in its summary. Returns its snapshot."""
        table = self.catalog.load_table(name)
        columns = {"id": pa.array(ids, pa.int64()), "day": pa.array([date(2026, 3, day)] * len(ids), pa.date32())}
        table.append(pa.table(columns), snapshot_properties=mark or {})
        snapshot = table.current_snapshot()
        assert snapshot is not None
        return int(snapshot.snapshot_id)

    def overwrite(self, name: str, *ids: int) -> None:
        table = self.catalog.load_table(name)
        columns = {"id": pa.array(ids, pa.int64()), "day": pa.array([date(2026, 3, 1)] * len(ids), pa.date32())}
        table.overwrite(pa.table(columns))

    def ids_in(self, name: str) -> list[int]:
        table = self.catalog.load_table(name.removeprefix("lake."))
        return sorted(table.scan().to_arrow().column("id").to_pylist())

    def checkpoint(self, consumer: str, source: str = "db.events") -> CheckpointRecord | None:
        with self.project.client.database.read() as connection:
            return captures.checkpoints_of(connection, consumer).get(source)

    def version(self, consumer: str) -> int:
        with self.project.client.database.read() as connection:
            found = captures.consumer(connection, consumer)
        return found.version if found else -1

    def captures(self, consumer: str) -> list[CaptureRecord]:
        """Newest first."""
        with self.project.client.database.read() as connection:
            return captures.recent_captures(connection, consumer_name=consumer, most=100)


@pytest.fixture
def bench(state_url: str, tmp_path: Path) -> Iterator[Bench]:
    made = make_project(tmp_path / "project", state_url)
    yield Bench(made)
    made.client.close()
