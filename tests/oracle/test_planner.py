"""A small fixed part of the planner's corpus; ``python -m tests.planner.run`` plays all of it, with as many seeds as wanted."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from icefloe.config import Config
from tests.planner.corpus import BY_NAME
from tests.planner.world import World, play

if TYPE_CHECKING:
    from pyspark.sql.connect.session import SparkSession

# One of each way that a plan is written: from the change table, by key inside and on top of the SELECT, by partition, full.
NAMES = [
    "union all of two tables",
    "left join, grouped",
    "views per account, country and day",
    "HAVING that rows can enter",
    "by a computed key",
    "dimension first, facts optional",
    "rank within a day",
    "the ten largest",
]
# Grouped by columns as they are and the partition, into targets of format version 3.
SEARCHED = ["conditional sums", "views per account, country and day", "with a distinct count and a maximum"]


@pytest.mark.parametrize(("seed", "only_appends"), [(3, True), (7, False)])
def test_targets_follow_a_random_history_of_their_sources(
    project_config: Config, spark: SparkSession, seed: int, only_appends: bool
) -> None:
    world = World.make(spark, project_config, seed, only_appends=only_appends)
    played = play(world, [BY_NAME[name] for name in NAMES], 3)
    assert not played.failed, "\n\n".join(played.failed.values())
    assert set(played.patterns) > {"full"}


@pytest.mark.parametrize("seed", [20, 21])
def test_targets_follow_a_random_history_by_searches_of_the_step_itself(
    project_config: Config, spark: SparkSession, seed: int
) -> None:
    world = World.make(spark, project_config, seed, only_appends=True)
    world.searching = True
    played = play(world, [BY_NAME[name] for name in SEARCHED], 5)
    assert not played.failed, "\n\n".join(played.failed.values())
    assert played.searches["here"] > 8, played.searches
