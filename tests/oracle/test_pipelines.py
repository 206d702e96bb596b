"""Random pipelines with fixed seeds; the long form is ``python -m tests.equivalence.run``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from icefloe.lake import Lake
from tests.equivalence.pipeline import PATTERNS, Pipeline
from tests.spark_server import Project

if TYPE_CHECKING:
    from pyspark.sql.connect.session import SparkSession


@pytest.mark.parametrize("pattern", PATTERNS)
def test_after_every_micro_batch_the_target_equals_a_full_recomputation(
    pattern: str, project: Project, spark: SparkSession, tmp_path: Path
) -> None:
    seed = 1
    print(f"pattern {pattern}, seed {seed}")
    pipeline = Pipeline(
        lambda statement: spark.sql(statement).collect(),
        Lake.open(project.config),
        tmp_path,
        project.namespace,
        seed,
        pattern,
    )
    pipeline.run(batches=4)
