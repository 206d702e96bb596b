"""The demonstration's source table, made and written to by PyIceberg: a writer that knows nothing of Icefloe."""

from __future__ import annotations

from datetime import date
from typing import TYPE_CHECKING

from pyiceberg.catalog import load_catalog
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import DateType, IntegerType, LongType, NestedField, StringType, TimestamptzType

from icefloe.config import Config
from icefloe.demo.events import LATE_SHARE, Events

if TYPE_CHECKING:
    import pyarrow as pa
    from pyiceberg.table import Table

COLUMNS = Schema(
    NestedField(1, "event_id", StringType()),
    NestedField(2, "event_time", TimestamptzType()),
    NestedField(3, "account_id", LongType()),
    NestedField(4, "device", StringType()),
    NestedField(5, "country", StringType()),
    NestedField(6, "title_id", IntegerType()),
    NestedField(7, "position_ms", LongType()),
    NestedField(8, "view_min", IntegerType()),
    NestedField(9, "event_day", DateType()),
)
BY_DAY = PartitionSpec(PartitionField(9, 1000, IdentityTransform(), "event_day"))


class PlaybackTable:
    """``NAMESPACE.playback_table``, partitioned by the day on which an event happened. In format version 2: PyIceberg 0.12 cannot write 3."""

    def __init__(self, config: Config, namespace: str, events: Events) -> None:
        self._catalog = load_catalog(config.catalog.name, **config.catalog.pyiceberg_properties())
        self.name = f"{namespace}.playback_table"
        self.events = events

    def create(self) -> None:
        self._catalog.create_namespace_if_not_exists(self.name.partition(".")[0])
        self._catalog.create_table(self.name, COLUMNS, partition_spec=BY_DAY, properties={"format-version": "2"})

    def load(self, day: date, *, number: int = 0, count: int | None = None, late: float = LATE_SHARE) -> int:
        """One commit of the events that arrive on a day. Returns how many of them are late."""
        import pyarrow.compute as pc

        rows = self.events.load(day, number=number, count=count, late=late)
        self.append(rows)
        return int(pc.sum(pc.less(rows["event_day"], day)).as_py() or 0)

    def append(self, rows: pa.Table) -> None:
        self.table().append(rows)

    def table(self) -> Table:
        return self._catalog.load_table(self.name)

    def bytes_per_event(self) -> float:
        """By the sizes of the data files."""
        snapshot = self.table().current_snapshot()
        assert snapshot is not None and snapshot.summary is not None
        return int(snapshot.summary["total-files-size"] or 0) / int(snapshot.summary["total-records"] or 1)
