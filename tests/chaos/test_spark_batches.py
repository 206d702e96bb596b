"""Micro-batches on real Spark, killed at named points: never a row twice, never one missing, never half a batch to be seen.

This is a short fixed set; ``python -m tests.chaos.spark_batches`` runs all points on both databases, and random kills.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from icefloe.config import Config
from tests.chaos.spark_batches import LATE_POINTS, STEP_POINTS, WORKER_POINTS, Arena, Reader
from tests.chaos.test_fault_points import names_in_source

if TYPE_CHECKING:
    from pyspark.sql.connect.session import SparkSession

KILLED = ("spark.before_publish", "spark.after_publish", "capture.after_pin", "commit.after_transaction")


def test_every_point_of_a_batch_has_a_place_in_the_matrix() -> None:
    named = {name for name in names_in_source() if name.split(".")[0] in ("spark", "capture", "commit")}
    assert named == {*STEP_POINTS, *WORKER_POINTS} - {"worker.process_ended", "worker.before_result"}
    assert {*LATE_POINTS, *KILLED} <= named


def test_kills_and_a_late_attempt_leave_every_row_once(
    project_config: Config, spark: SparkSession, state_url: str, tmp_path: Path
) -> None:
    on_sqlite = state_url.startswith("sqlite")
    arena = Arena.make(project_config, spark, state_url)
    try:
        with Reader(arena).reading():
            for point in KILLED[::2] if on_sqlite else KILLED[1::2]:
                arena.killed_at(point, tmp_path)
            if on_sqlite:
                arena.woken_at("spark.branched", tmp_path)
    finally:
        arena.close()


@pytest.mark.long
@pytest.mark.parametrize("point", LATE_POINTS)
def test_an_attempt_that_wakes_up_late_publishes_nothing(
    project_config: Config, spark: SparkSession, state_url: str, tmp_path: Path, point: str
) -> None:
    arena = Arena.make(project_config, spark, state_url)
    try:
        arena.append()
        arena.woken_at(point, tmp_path)
    finally:
        arena.close()
