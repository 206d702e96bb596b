"""The demonstration: one pipeline of two stages, run both ways, day after day, through the workflow engine.

``playback_table -> playback_daily_table -> playback_daily_agg_table``. Each day's load brings a few percent of events that
happened on one of the days before. One way overwrites the last fourteen days each time, in both stages; the other takes what
changed. Both must come to the same tables. Showing it is the command line's business.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, timedelta
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

from icefloe.demo.playback import FIRST_DAY, Playback
from icefloe.demo.spark_reads import Reads, SparkReads
from icefloe.errors import IcefloeError
from icefloe.service.client import Client
from icefloe.service.pushing import push_files

if TYPE_CHECKING:
    from pyspark.sql.connect.session import SparkSession

LOOKBACK_DAYS = 14
SOURCE = "demo.playback_table"
TARGETS = ("playback_daily_table", "playback_daily_agg_table")
WAYS = ("lookback", "incremental")
WORKFLOWS = ("playback_daily", "playback_agg")
Note = Callable[[str], None]


class DemoError(IcefloeError):
    """A run of the demonstration did not succeed."""

    code = "demo.failed"


@dataclass(frozen=True, slots=True)
class Cost:
    """What one way cost for one day: as Spark counts what it read, and as the runs took from start to end."""

    rows: int
    bytes: int
    seconds: float

    def plus(self, other: Cost) -> Cost:
        return Cost(self.rows + other.rows, self.bytes + other.bytes, self.seconds + other.seconds)


@dataclass(frozen=True, slots=True)
class Round:
    """One day's load, and what each way made of it."""

    day: date
    late_rows: int
    lookback: Cost
    incremental: Cost


@dataclass(frozen=True, slots=True)
class Proof:
    """A table of one way against the other's: rows, and the sum of the hashes of all columns."""

    table: str
    lookback: tuple[Any, ...]
    incremental: tuple[Any, ...]

    @property
    def equal(self) -> bool:
        return self.lookback == self.incremental


@dataclass(frozen=True, slots=True)
class Finding:
    rounds: tuple[Round, ...]
    proofs: tuple[Proof, ...]

    @property
    def equal(self) -> bool:
        return all(proof.equal for proof in self.proofs)

    def total(self, way: str) -> Cost:
        total = Cost(0, 0, 0.0)
        for one in self.rounds:
            total = total.plus(one.lookback if way == "lookback" else one.incremental)
        return total


class Story:
    """``history`` days are there at the beginning, ``days`` follow one by one and are measured."""

    def __init__(
        self,
        spark: SparkSession,
        client: Client,
        reads: SparkReads,
        *,
        history: int,
        days: int,
        events_per_day: int,
        note: Note,
    ) -> None:
        self._spark = spark
        self._client = client
        self._reads = reads
        self._history = history
        self._days = days
        self._playback = Playback(spark, client.config.catalog.name, events_per_day, SOURCE)
        self._note = note

    def tell(self) -> Finding:
        self._prepare()
        rounds = []
        for number in range(self._history, self._history + self._days):
            day = FIRST_DAY + timedelta(days=number)
            self._playback.load(number)
            late = self._late(day)
            self._note(f"{day}: loaded {self._playback.events_per_day:,} events, {late:,} of them late")
            costs = {way: self._run(way, day) for way in WAYS}
            for way, cost in costs.items():
                self._note(f"  {way:<12} {cost.rows:>12,} rows read, {cost.seconds:6.1f} s")
            rounds.append(Round(day, late, costs["lookback"], costs["incremental"]))
        return Finding(tuple(rounds), tuple(self._proof(table) for table in TARGETS))

    def _prepare(self) -> None:
        playback = self._playback
        self._note(
            f"creating {SOURCE}: {self._history} days of {playback.events_per_day:,} events, a few percent of them late"
        )
        playback.create()
        for way in WAYS:
            self._create_targets(way)
        for number in range(self._history):
            playback.load(number)
        with resources.as_file(resources.files("icefloe.demo") / "workflows") as folder:
            push_files(self._client, sorted(Path(folder).glob("*.yaml")))
        self._note("bringing both ways up to date, which also warms Spark up")
        last = FIRST_DAY + timedelta(days=self._history - 1)
        for way in WAYS:
            self._run(way, last)

    def _create_targets(self, way: str) -> None:
        columns = {
            "playback_daily_table": "event_id BIGINT, account_id BIGINT, country STRING, title_id INT, event_day DATE, view_min DOUBLE",
            "playback_daily_agg_table": "account_id BIGINT, country STRING, event_day DATE, views BIGINT, view_min DOUBLE, titles BIGINT",
        }
        self._spark.sql(f"CREATE NAMESPACE {way}")
        for table in TARGETS:
            self._spark.sql(
                f"CREATE TABLE {way}.{table} ({columns[table]}) USING iceberg PARTITIONED BY (event_day) TBLPROPERTIES "
                "('write.distribution-mode'='none', 'write.spark.fanout.enabled'='true', 'write.delete.mode'='merge-on-read')"
            )

    def _late(self, day: date) -> int:
        row = self._spark.sql(
            f"SELECT count(*) FROM {SOURCE} WHERE load_day = DATE'{day}' AND event_day < load_day"
        ).collect()[0]
        return int(row[0])

    def _run(self, way: str, day: date) -> Cost:
        """Both stages, one after the other, as runs of their workflows."""
        before = self._reads.now()
        seconds = 0.0
        for workflow in WORKFLOWS:
            params = {"DAY": day.isoformat()} if way == "lookback" else {}
            view = self._client.work(self._client.runs.start(f"{way}.{workflow}", params).run_id)
            if view.status != "SUCCEEDED":
                causes = "; ".join(str((step.cause or {}).get("message")) for step in view.steps if step.cause)
                raise DemoError(f"run {view.run_id} is {view.status}: {causes}")
            assert view.started_at is not None and view.ended_at is not None
            seconds += view.ended_at - view.started_at
        read: Reads = self._reads.now().since(before)
        return Cost(read.rows, read.bytes, seconds)

    def _proof(self, table: str) -> Proof:
        digest = "count(*), sum(CAST(xxhash64(*) AS DECIMAL(38,0)))"
        answers = [tuple(self._spark.sql(f"SELECT {digest} FROM {way}.{table}").collect()[0]) for way in WAYS]
        return Proof(table, *answers)
