"""One history from a seed: make the table, change it, check it now and then."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

from pyiceberg.catalog import load_catalog

from icefloe.config import Config
from icefloe.lake import Lake
from tests.histories import generator
from tests.histories.history import History
from tests.oracle.check import Checker
from tests.oracle.tally import Tally
from tests.spark_server import fresh_namespace

STEPS = 12

# A handful of rows and hundreds of different statements: compiling code and shuffling into 200 parts would be most of it.
TINY = {
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}


@dataclass(frozen=True)
class Place:
    """Where histories happen: one Spark, one catalog, one lake."""

    spark: Any
    catalog: Any
    config: Config
    namespace: str

    @classmethod
    def on(cls, spark: Any, config: Config) -> Place:
        for key, value in TINY.items():
            spark.conf.set(key, value)
        return cls(
            spark,
            load_catalog(config.catalog.name, **config.catalog.pyiceberg_properties()),
            config,
            fresh_namespace(spark),
        )

    @property
    def lake(self) -> Lake:
        return Lake.open(self.config)

    @property
    def warehouse(self) -> Path:
        return Path((self.config.catalog.warehouse or "").removeprefix("file://"))


class FailedHistoryError(AssertionError):
    """A history that went wrong: how to play it again, and all that was done to the table."""

    def __init__(self, seed: int, history: History | None, error: BaseException) -> None:
        lines = [f"history {seed} failed: {type(error).__name__}: {error}"]
        lines += ["play it again with:", f"  python -m tests.oracle.run --histories 1 --seed {seed}"]
        if history is not None:
            lines += ["what was done:", *(f"  {line}" for line in history.transcript)]
        super().__init__("\n".join(lines))


def play(place: Place, seed: int, tally: Tally, *, steps: int = STEPS) -> set[str]:
    """Play one history; returns which operations it had. The table is dropped at the end."""
    history = None
    try:
        history = generator.start(place.spark, place.catalog, place.namespace, seed)
        # Its own randomness: what is asked must not change what is done.
        checker = Checker(history, place.lake, warehouse=place.warehouse, rng=Random(f"ask {seed}"), tally=tally)
        for number in range(1, steps + 1):
            generator.step(history)
            checker.remember_checkpoint()
            if number == steps // 2:
                checker.check(2, keep=True)
        checker.check(3, keep=True)
        checker.finish()
    except Exception as error:
        raise FailedHistoryError(seed, history, error) from error
    tally.histories += 1
    tally.operations += history.done
    tally.refused += history.refused
    place.spark.sql(f"DROP TABLE {history.name} PURGE")
    return set(history.done)
