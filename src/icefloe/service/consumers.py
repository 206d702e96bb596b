"""Consumers and captures as people look at them: where each stands, and how far behind its source that is."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

from icefloe.errors import IcefloeError
from icefloe.lake import Checkpoint, Lake, history
from icefloe.lake.catalog import LoadedTable
from icefloe.store import captures
from icefloe.store.captures import CaptureRecord, CheckpointRecord, ConsumerRecord
from icefloe.store.database import Database


@dataclass(frozen=True, slots=True)
class Standing:
    """One consumer's place in one source. The lag is unknown (``None``) when the source cannot be read, or history is lost."""

    consumer: str
    table: str
    snapshot_id: int
    version: int
    lag_snapshots: int | None
    lag_rows: int | None
    lag_seconds: float | None
    """How long the oldest unseen snapshot has been there."""
    open_capture: str | None
    problem: str | None = None

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


class Consumers:
    """Reads the state database and the lake; changes nothing."""

    def __init__(self, database: Database, lake: Lake) -> None:
        self._database = database
        self._lake = lake

    def listing(self) -> list[Standing]:
        """Every consumer and source. Each source's metadata is loaded once, however many consumers it has."""
        with self._database.read() as connection:
            found = [
                (one, captures.checkpoints_of(connection, one.name), captures.open_capture(connection, one.name))
                for one in captures.all_consumers(connection)
            ]
        tables = self._tables(source for _, checkpoints, _ in found for source in checkpoints)
        return [
            self._standing(consumer, checkpoint, held, tables[checkpoint.source])
            for consumer, checkpoints, held in found
            for checkpoint in sorted(checkpoints.values(), key=lambda one: one.source)
        ]

    def captures(self, consumer: str | None = None, most: int = 50) -> list[CaptureRecord]:
        """The newest captures first."""
        with self._database.read() as connection:
            return captures.recent_captures(connection, consumer_name=consumer, most=most)

    def _tables(self, names: Iterable[str]) -> dict[str, LoadedTable | IcefloeError]:
        tables: dict[str, LoadedTable | IcefloeError] = {}
        for name in names:
            if name not in tables:
                try:
                    tables[name] = self._lake.table(name)
                except IcefloeError as error:
                    tables[name] = error
        return tables

    def _standing(
        self,
        consumer: ConsumerRecord,
        checkpoint: CheckpointRecord,
        held: CaptureRecord | None,
        table: LoadedTable | IcefloeError,
    ) -> Standing:
        standing = Standing(
            consumer.name,
            checkpoint.source,
            checkpoint.snapshot_id,
            consumer.version,
            None,
            None,
            None,
            held.id if held else None,
        )
        if isinstance(table, IcefloeError):
            return _with_problem(standing, table)
        try:
            return _with_lag(standing, checkpoint, table)
        except IcefloeError as error:
            return _with_problem(standing, error)


def _with_lag(standing: Standing, checkpoint: CheckpointRecord, table: LoadedTable) -> Standing:
    since = Checkpoint(checkpoint.table_uuid, checkpoint.snapshot_id, checkpoint.sequence_number, checkpoint.schema_id)
    head = history.head(table.metadata, checkpoint.ref, table=table.name)
    unseen = history.between(table.metadata, since, head, ref=checkpoint.ref, table=table.name)
    rows = [snapshot.summary.get("added-records", "0") for snapshot in unseen if snapshot.operation != "replace"]
    age = time.time() - unseen[0].timestamp_ms / 1000 if unseen else 0.0
    return Standing(
        **{
            **asdict(standing),
            "lag_snapshots": len(unseen),
            "lag_rows": sum(int(text) for text in rows if text.isdigit()),
            "lag_seconds": round(max(age, 0.0), 1),
        }
    )


def _with_problem(standing: Standing, error: IcefloeError) -> Standing:
    return Standing(**{**asdict(standing), "problem": f"{error.code}: {error.message}"})
