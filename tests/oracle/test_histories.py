"""A fixed set of random histories; ``python -m tests.oracle.run`` plays as many others as wanted."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from icefloe.config import Config
from tests.oracle.tally import Tally
from tests.oracle.walk import Place, play

if TYPE_CHECKING:
    from pyspark.sql.connect.session import SparkSession

SEEDS = [16, 18, 20, 23, 30, 31, 38, 45, 51]


@pytest.fixture(scope="module")
def place(project_config: Config, spark: SparkSession) -> Place:
    return Place.on(spark, project_config)


@pytest.mark.parametrize("seed", SEEDS)
def test_the_lake_says_of_a_random_history_what_brute_force_says(place: Place, seed: int) -> None:
    tally = Tally()
    play(place, seed, tally)
    assert tally.reads["Spark"] > 0
