"""The demonstration from beginning to end: a short warm-up, then days of one size and of a larger one, each day's load by both ways.

Runs go through a worker as they do in ``icefloe serve``, on one Spark server that both ways share. The larger size and the warm-up have a
state database of their own, so that a project that is kept has nothing in it but what goes on.
"""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from icefloe import config as configuration
from icefloe.config import Config
from icefloe.demo import spark_reads
from icefloe.demo.events import Events, day_number
from icefloe.demo.pipeline import TARGETS, Pipeline
from icefloe.demo.results import LOOKBACK_DAYS, WAYS, Cost, DemoResult, Round, SizeResult
from icefloe.demo.source import PlaybackTable
from icefloe.demo.spark_reads import SparkReads
from icefloe.engine.launchers import Launchers
from icefloe.engine.worker import Worker
from icefloe.service.client import Client

if TYPE_CHECKING:
    from pyspark.sql.connect.session import SparkSession

NAMESPACE = "demo"
"""Of the first size: what a kept project goes on with."""
WARM_UP_EVENTS = 3_000
_ASIDE = "measured"
"""What only the measuring needs: a state database and definitions, gone at the end."""
Say = Callable[[str], None]
Tick = Callable[[float], None]
"""Told how much of the work is done by now, as events that have been loaded or written."""


class Story:
    """``sizes``: events a day. ``history`` days are there at the beginning, ``days`` follow one by one and are measured."""

    def __init__(
        self,
        file: Path,
        *,
        sizes: tuple[int, ...],
        history: int,
        days: int,
        warm_up: int,
        seed: int,
        say: Say,
        tick: Tick,
    ) -> None:
        self._file = file
        self._sizes = sizes
        self._history = history
        self._days = days
        self._warm_up = warm_up
        self._seed = seed
        self._say = say
        self._tick = tick
        self._done = 0.0

    @property
    def total(self) -> float:
        """What :data:`Tick` counts up to."""
        first = self._history * 3 + self._days * (self._history + 2)
        larger = self._history * 2 + self._history + 2
        warm = WARM_UP_EVENTS * self._history * (3 + self._warm_up) if self._warm_up else 0
        return float(self._sizes[0] * first + sum(self._sizes[1:]) * larger + warm)

    def run(self) -> DemoResult:
        from icefloe.spark import server
        from icefloe.spark.session import session

        began = time.monotonic()
        port = spark_reads.free_port()
        plain = self._file.read_text(encoding="utf-8")
        self._file.write_text(plain + _toml(spark_reads.settings(port)), encoding="utf-8")
        config = configuration.load(self._file, env={})
        # Of the workers of all sizes: what Spark steps import is imported once.
        self._launchers = Launchers(config)
        try:
            with session(config, note=self._say) as spark:
                reads = SparkReads(port)
                aside = configuration.load(self._file, env={"ICEFLOE_STATE__URL": f"sqlite:///.icefloe/{_ASIDE}.db"})
                if self._warm_up:
                    self._warm(spark, aside, reads)
                sizes = [self._size(spark, config, reads, NAMESPACE, self._sizes[0])]
                for number, events in enumerate(self._sizes[1:], start=2):
                    sizes.append(self._size(spark, aside, reads, f"demo_{number}", events))
                    self._forget(spark, aside, f"demo_{number}")
        finally:
            self._launchers.close()
            server.stop(config)
            self._file.write_text(plain, encoding="utf-8")
        for path in config.home.glob(f"{_ASIDE}.db*"):
            path.unlink()
        shutil.rmtree(config.home / _ASIDE, ignore_errors=True)
        return DemoResult(tuple(sizes), self._seed, time.monotonic() - began)

    def _warm(self, spark: SparkSession, config: Config, reads: SparkReads) -> None:
        self._say(f"warming Spark up: {self._warm_up} small load{'s' if self._warm_up > 1 else ''}, both ways")
        with self._working(config) as client:
            source, pipeline = self._prepared(spark, config, client, reads, "warm_up", WARM_UP_EVENTS)
            for number in range(self._history, self._history + self._warm_up):
                source.load(day_number(number))
                for way in WAYS:
                    pipeline.run(way, day_number(number))
                self._advance(WARM_UP_EVENTS * self._history)
        self._forget(spark, config, "warm_up")

    def _size(self, spark: SparkSession, config: Config, reads: SparkReads, namespace: str, events: int) -> SizeResult:
        """``days`` loads of the first size, one of a larger: there is a limit to a newcomer's patience."""
        self._say(f"{events:,} events a day: loading {self._history} days, and bringing both ways up to date")
        with self._working(config) as client:
            source, pipeline = self._prepared(spark, config, client, reads, namespace, events)
            rounds = []
            for number in range(self._history, self._history + (self._days if namespace == NAMESPACE else 1)):
                day = day_number(number)
                late = source.load(day)
                self._advance(events)
                costs: dict[str, Cost] = {}
                # Who goes first changes from day to day: the second finds the source's files in memory.
                for way in WAYS if number % 2 else WAYS[::-1]:
                    costs[way] = pipeline.run(way, day)
                    self._advance(events * (self._history if way == "lookback" else 1))
                rounds.append(Round(day, late, costs["lookback"], costs["incremental"]))
                self._say(
                    f"  {day}, {late:,} late: lookback {costs['lookback'].seconds:.1f} s, incremental {costs['incremental'].seconds:.1f} s"
                )
            return SizeResult(events, source.bytes_per_event(), tuple(rounds), pipeline.proofs())

    def _prepared(
        self, spark: SparkSession, config: Config, client: Client, reads: SparkReads, namespace: str, events: int
    ) -> tuple[PlaybackTable, Pipeline]:
        """History loaded, and both ways up to date: that is not measured. The lookback of a larger size is left out while all of the history
        is in its window: its load writes all of that anyhow."""
        source = PlaybackTable(config, namespace, Events(events, self._seed))
        source.create()
        for number in range(self._history):
            source.load(day_number(number))
            self._advance(events)
        folder = config.root / "workflows" if namespace == NAMESPACE else config.home / _ASIDE / namespace
        pipeline = Pipeline(spark, client, reads, namespace, folder)
        pipeline.set_up()
        larger = namespace.startswith(f"{NAMESPACE}_")
        for way in WAYS:
            if way == "incremental" or not larger or self._history >= LOOKBACK_DAYS:
                pipeline.run(way, day_number(self._history - 1))
                self._advance(events * self._history)
        return source, pipeline

    @contextmanager
    def _working(self, config: Config) -> Iterator[Client]:
        """With a worker, as ``icefloe serve`` has one."""
        with Client(config, launchers=self._launchers) as client:
            worker = Worker(config, client.database, launchers=self._launchers)
            thread = threading.Thread(target=worker.run, name="icefloe-worker")
            thread.start()
            try:
                yield client
            finally:
                worker.stop()
                thread.join()

    def _forget(self, spark: SparkSession, config: Config, namespace: str) -> None:
        """Tables that were only measured: their files would be most of a kept project."""
        for own in (namespace, f"{namespace}_lookback"):
            tables = TARGETS if own.endswith("_lookback") else ("playback_table", *TARGETS)
            for table in tables:
                spark.sql(f"DROP TABLE {own}.{table}")
            spark.sql(f"DROP NAMESPACE {own}")
            warehouse = (config.catalog.warehouse or "").removeprefix("file://")
            shutil.rmtree(Path(warehouse) / own, ignore_errors=True)

    def _advance(self, events: float) -> None:
        self._done += events
        self._tick(self._done)


def _toml(settings: dict[str, str]) -> str:
    return "\n[spark.conf]\n" + "".join(f'"{key}" = "{value}"\n' for key, value in settings.items())
