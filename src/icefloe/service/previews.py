"""A consumer in a notebook: look at the rows that its next capture would bring, with nothing moved.

with Client() as icefloe, icefloe.consumer("playback.agg/capture_change").preview(spark) as unseen:
    unseen.rows("db.playback").groupBy("event_day").count().show()
"""

from __future__ import annotations

import weakref
from collections.abc import Mapping
from contextlib import suppress
from types import TracebackType
from typing import TYPE_CHECKING

from icefloe import suppressed
from icefloe.engine.conductor import Conductor
from icefloe.errors import IcefloeError, NotFoundError, UsageError
from icefloe.lake import ChangeSet, ChangeTable, Lake
from icefloe.service.consumer_positions import checkpoint_of
from icefloe.store import captures
from icefloe.store.database import Database
from icefloe.workflow.consumers import consumers_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class Unseen:
    """What lies between a consumer's checkpoints and the heads of its sources.

    ``changes`` has it in numbers, by source. The rows are read through change tables of its own, which go with it: at the
    end of a ``with`` block, at :meth:`close`, or when nobody holds it any more. No checkpoint, capture or pin is touched, so
    expiry may take the files of an old range away while it is looked at.
    """

    def __init__(self, spark: SparkSession, lake: Lake, changes: Mapping[str, ChangeSet]) -> None:
        self.changes = dict(changes)
        self._spark = spark
        self._catalog = lake.tables.name
        self._tables = {table: lake.create_change_table(found) for table, found in changes.items()}
        self._finalizer = weakref.finalize(self, _drop, lake, list(self._tables.values()))

    def rows(self, table: str | None = None) -> DataFrame:
        """The new rows of a source; it need not be named where there is only one."""
        if table is None and len(self._tables) == 1:
            (made,) = self._tables.values()
        elif table in self._tables:
            made = self._tables[table]
        else:
            raise UsageError(f"{table or 'which source'}?", hint=f"the sources are: {', '.join(self._tables)}")
        return self._spark.table(f"{self._catalog}.{made.name}")

    def close(self) -> None:
        self._finalizer()

    def __enter__(self) -> Unseen:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class Consumer:
    """One consumer by its name."""

    def __init__(self, name: str, database: Database, lake: Lake, conductor: Conductor) -> None:
        self.name = name
        self._database = database
        self._lake = lake
        self._conductor = conductor

    def preview(self, spark: SparkSession) -> Unseen:
        """What the next capture would bring, with the operations that the workflow's latest version asks for."""
        with self._database.read() as connection:
            record = captures.consumer(connection, self.name)
            if record is None:
                raise NotFoundError(f"there is no consumer {self.name!r}", hint="icefloe consumers")
            checkpoints = captures.checkpoints_of(connection, self.name)
            recent = captures.recent_captures(connection, consumer_name=self.name, most=1)
            operations: tuple[str, ...] = ("append",)
            with suppress(NotFoundError):
                latest = self._conductor.definitions.latest(connection, record.workflow_id)
                for named in consumers_of(latest.workflow):
                    if named.covers(self.name):
                        operations = tuple(named.operations)
        refs = {one["table"]: one["ref"] for capture in recent for one in capture.sources}
        refs |= {one.source: one.ref for one in checkpoints.values()}
        found = {
            table: self._lake.changes(
                table, since=checkpoint_of(checkpoints.get(table)), ref=ref, operations=operations
            )
            for table, ref in sorted(refs.items())
        }
        return Unseen(spark, self._lake, found)


def _drop(lake: Lake, tables: list[ChangeTable]) -> None:
    for table in tables:
        with suppressed.errors("preview.drop_table", IcefloeError, where=table.name):
            lake.drop_change_table(table.name)
