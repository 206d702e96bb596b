"""What the demonstration does, step by step, and what it found out. Showing it is the command line's business."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from icefloe.config import Config
from icefloe.demo.playback import FIRST_DAY, TABLE, Playback
from icefloe.lake import ChangeSet, ChangeTable, Lake

if TYPE_CHECKING:
    from pyspark.sql.connect.session import SparkSession

LOOKBACK_DAYS = 14


@dataclass(frozen=True)
class Reading:
    """One way to get at what the last load brought: how much it reads, how long that took, and what came out."""

    name: str
    files: int
    rows: int
    bytes: int
    seconds: float
    answer: tuple[Any, ...]


@dataclass(frozen=True)
class Finding:
    """What changed, how long that took to find out, and two ways to read it."""

    changes: ChangeSet
    change_table: ChangeTable
    capture_seconds: float
    lookback: Reading
    incremental: Reading
    truth: tuple[Any, ...]

    @property
    def equal(self) -> bool:
        """The change table holds exactly what the last load wrote, by count and sum of hashes of all columns."""
        return self.incremental.answer == self.truth


def tell(
    spark: SparkSession, config: Config, *, days: int, events_per_day: int, note: Callable[[str], None]
) -> Finding:
    """Load the table day by day; then ask what the last load changed, with the data out of reach, and read just that."""
    playback = Playback(spark, config.catalog.name, events_per_day)
    note(f"creating {playback.table} and loading {days} days of {events_per_day:,} events")
    playback.create()
    for number in range(days - 1):
        playback.load(number)
        note(f"loaded {FIRST_DAY + timedelta(days=number)}")
    lake = Lake.open(config)
    checkpoint = lake.checkpoint(TABLE)
    playback.load(days - 1)
    last_day = FIRST_DAY + timedelta(days=days - 1)
    note(f"loaded {last_day}, {'with late events for the days before' if days > 1 else ''}")

    loaded = lake.table(TABLE)
    with _out_of_reach(loaded.metadata.location):
        note("moved the table's data folder away: from here to the change table, metadata is all there is")
        began = time.perf_counter()
        changes = lake.changes_of(loaded, since=checkpoint, columns=["event_day", "account_id"])
        table = lake.create_change_table(changes, table=loaded)
        seconds = time.perf_counter() - began
    note("moved it back")

    whole = lake.changes(TABLE)
    recent = [
        one for one in whole.partitions or () if one.values["event_day"] > last_day - timedelta(days=LOOKBACK_DAYS)
    ]
    digest = "count(*), sum(CAST(xxhash64(*) AS DECIMAL(38,0)))"
    lookback_sql = (
        f"SELECT {digest} FROM {playback.table} WHERE event_day > date_sub(DATE'{last_day}', {LOOKBACK_DAYS})"
    )
    change_sql = f"SELECT {digest} FROM {config.catalog.name}.{table.name}"
    truth_sql = f"SELECT {digest} FROM {playback.table} WHERE load_day = DATE'{last_day}'"
    spark.sql(change_sql).collect()  # so that neither is the first to use its code
    answer, took = _timed(spark, lookback_sql)
    lookback = Reading(
        f"the last {LOOKBACK_DAYS} days",
        sum(one.files for one in recent),
        sum(one.rows for one in recent),
        sum(one.bytes for one in recent),
        took,
        answer,
    )
    answer, took = _timed(spark, change_sql)
    incremental = Reading(
        "the change table", changes.added.files, changes.added.rows, changes.added.bytes or 0, took, answer
    )
    truth, _ = _timed(spark, truth_sql)
    return Finding(changes, table, seconds, lookback, incremental, truth)


def _timed(spark: SparkSession, sql: str) -> tuple[tuple[Any, ...], float]:
    began = time.perf_counter()
    row = spark.sql(sql).collect()[0]
    return tuple(row), time.perf_counter() - began


class _out_of_reach:  # noqa: N801  (used as a with-statement's word)
    """The data folder of a local table under another name for a while."""

    def __init__(self, location: str) -> None:
        self._folder = Path(urlsplit(location).path) / "data"
        self._hidden = self._folder.with_name("data-moved-away")

    def __enter__(self) -> None:
        self._folder.rename(self._hidden)

    def __exit__(self, *_: object) -> None:
        self._hidden.rename(self._folder)
