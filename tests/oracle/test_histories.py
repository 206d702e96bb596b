"""A fixed set of random histories; ``python -m tests.oracle.run`` plays as many others as wanted."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from icefloe.config import Config
from tests.histories.generator import OPERATIONS
from tests.oracle.tally import Tally
from tests.oracle.walk import Place, play

if TYPE_CHECKING:
    from pyspark.sql.connect.session import SparkSession

# Together they have every operation of the generator; 20, 30 and 7001 found faults.
SEEDS = [20, 30, 34, 37, 39, 43, 48, 57, 62, 63, 7001]


@pytest.fixture(scope="module")
def place(project_config: Config, spark: SparkSession) -> Place:
    return Place.on(spark, project_config)


@pytest.fixture(scope="module")
def exercised() -> set[str]:
    return set()


@pytest.mark.parametrize("seed", SEEDS)
def test_the_lake_says_of_a_random_history_what_brute_force_says(place: Place, exercised: set[str], seed: int) -> None:
    tally = Tally()
    exercised |= play(place, seed, tally)
    assert tally.reads["Spark"] > 0


def test_the_fixed_histories_exercise_every_operation_of_the_generator(exercised: set[str]) -> None:
    assert {operation.name for operation in OPERATIONS} <= exercised
