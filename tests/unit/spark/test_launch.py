"""How the project's own server is set up."""

from __future__ import annotations

import os

import pytest

from icefloe.spark.launch import shuffle_settings


@pytest.mark.parametrize(
    ("master", "parts"),
    [("local", "16"), ("local[2]", "32"), ("local[16,4]", "256"), ("local[*]", str(16 * (os.cpu_count() or 1)))],
)
def test_a_local_master_shuffles_into_parts_for_its_cores(master: str, parts: str) -> None:
    """Each task writes all of its parts into one file, not a file for each of them."""
    one_file = {"spark.shuffle.sort.bypassMergeThreshold": "1"}
    assert shuffle_settings(master) == {"spark.sql.shuffle.partitions": parts, **one_file}


@pytest.mark.parametrize("master", ["spark://host:7077", "yarn", "local-cluster[2,1,1024]", "k8s://https://host"])
def test_a_cluster_keeps_its_own(master: str) -> None:
    assert shuffle_settings(master) == {}
