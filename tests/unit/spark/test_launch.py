"""How the project's own server is set up."""

from __future__ import annotations

import os

import pytest

from icefloe.spark.launch import local_settings


@pytest.mark.parametrize(
    ("master", "cores"), [("local", 1), ("local[2]", 2), ("local[16,4]", 16), ("local[*]", os.cpu_count() or 1)]
)
def test_a_local_master_is_set_up_for_its_cores(master: str, cores: int) -> None:
    """Each task writes all of its parts into one file, not a file for each of them; a table is not read in as many tasks as
    there are parts."""
    assert local_settings(master) == {
        "spark.icefloe.cores": str(cores),
        "spark.sql.shuffle.partitions": str(16 * cores),
        "spark.shuffle.sort.bypassMergeThreshold": "1",
        "spark.shuffle.compress": "false",
        "spark.sql.iceberg.read.adaptive-split-size.parallelism": str(4 * cores),
    }


@pytest.mark.parametrize("master", ["spark://host:7077", "yarn", "local-cluster[2,1,1024]", "k8s://https://host"])
def test_a_cluster_keeps_its_own(master: str) -> None:
    assert local_settings(master) == {}
