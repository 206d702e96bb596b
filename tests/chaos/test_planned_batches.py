"""Planned writes whose late keys the step looks up itself, on real Spark, killed at named points: every group right, nothing seen half."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from icefloe.config import Config
from tests.chaos import spark_batches
from tests.chaos.planned_batches import SEARCH_POINTS, PlannedArena, PlannedReader
from tests.chaos.test_fault_points import names_in_source

if TYPE_CHECKING:
    from pyspark.sql.connect.session import SparkSession

OTHERS = ("spark.branched", "spark.before_statement", "spark.before_publish")


@pytest.fixture(autouse=True)
def points(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spark_batches, "STEP_POINTS", (*spark_batches.STEP_POINTS, *SEARCH_POINTS))


def test_every_point_of_a_search_has_a_place_in_the_matrix() -> None:
    assert {name for name in names_in_source() if name.startswith("search.")} == set(SEARCH_POINTS)


def test_kills_and_a_late_attempt_leave_every_group_right(
    project_config: Config, spark: SparkSession, state_url: str, tmp_path: Path
) -> None:
    arena = PlannedArena.make(project_config, spark, state_url)
    try:
        arena._finish(arena.start())  # everything there is
        with PlannedReader(arena).reading():
            if state_url.startswith("sqlite"):
                for point in SEARCH_POINTS:
                    arena.killed_at(point, tmp_path)
            else:
                arena.woken_at("search.before_commit", tmp_path)
        assert arena.searches() == (2 if state_url.startswith("sqlite") else 1)
    finally:
        arena.close()


@pytest.mark.long
@pytest.mark.parametrize("point", [*SEARCH_POINTS, *OTHERS])
@pytest.mark.parametrize("way", ["killed_at", "woken_at"])
def test_at_every_point(
    project_config: Config, spark: SparkSession, state_url: str, tmp_path: Path, point: str, way: str
) -> None:
    arena = PlannedArena.make(project_config, spark, state_url)
    try:
        arena._finish(arena.start())
        with PlannedReader(arena).reading():
            for _ in range(3):
                getattr(arena, way)(point, tmp_path)
    finally:
        arena.close()
