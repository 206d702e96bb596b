"""``icefloe demo`` from beginning to end, small; and the project that it keeps, watched live as it says."""

from __future__ import annotations

import json
import re
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.catalog.sql import SqlCatalog

from icefloe import config
from icefloe.spark import server
from tests.e2e.test_run_commands import ICEFLOE, Shell
from tests.projects import wait_until

TWO_SIZES = ["--days", "1", "--history", "3", "--warm-up", "0", "--events-per-day", "1000", "--growth", "2"]


def demo(folder: Path, *words: str) -> dict[str, Any]:
    done = subprocess.run(
        [*ICEFLOE, "demo", *words, "--output", "json"],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    result: dict[str, Any] = json.loads(done.stdout)
    return result


@pytest.mark.long
def test_both_ways_come_to_the_same_tables_and_the_incremental_one_reads_less(tmp_path: Path) -> None:
    # As many days as the lookback has: with fewer it reads less than its window.
    result = demo(tmp_path, "--history", "13", "--events-per-day", "2000", "--picture", "demo.svg")
    assert result["equal"] is True
    assert [size["events_per_day"] for size in result["sizes"]] == [2000, 4000]
    for size in result["sizes"]:
        assert all(day["late_rows"] > 0 for day in size["days"])
        assert 0 < size["incremental"]["rows"] < size["lookback"]["rows"]
        assert size["incremental"]["read_by_steps"]["rows"] > 0
    picture = (tmp_path / "demo.svg").read_text(encoding="utf-8")
    assert picture.startswith("<svg") and "4,000 events a day" in picture


def test_a_kept_project_goes_on_by_itself_while_events_are_fed_to_it(tmp_path: Path) -> None:
    result = demo(tmp_path, *TWO_SIZES, "--folder", "kept")
    assert result["equal"] is True and len(result["sizes"]) == 2
    shell = Shell(tmp_path / "kept")
    assert "spark.conf" not in (shell.folder / "icefloe.toml").read_text(), "what only the measuring needed is gone"
    loaded = config.load(shell.folder / "icefloe.toml", env={})
    catalog = SqlCatalog(loaded.catalog.name, **loaded.catalog.pyiceberg_properties())
    assert ("demo_2",) not in catalog.list_namespaces()

    def events() -> int:
        return int(catalog.load_table("demo.playback_table").scan().count())

    def views() -> int:
        rows = catalog.load_table("demo.playback_daily_agg_table").scan().to_arrow()
        return sum(rows["views"].to_pylist())

    before = events()
    assert views() == before
    serve = subprocess.Popen([*ICEFLOE, "serve"], cwd=shell.folder, env=shell.env, stderr=subprocess.PIPE, text=True)
    try:
        fed = shell("demo", "--folder", ".", "--feed", "--batches", "2", "--every", "0.5").stderr
        appended = [int(number.replace(",", "")) for number in re.findall(r": ([\d,]+) events appended", fed)]
        assert len(appended) == 2
        assert events() == before + sum(appended)
        wait_until(lambda: views() == before + sum(appended), 120, "what was fed, in the last target")
        # A target is published before its run has moved the checkpoint and ended.
        wait_until(lambda: {run["status"] for run in shell.json("runs")} == {"SUCCEEDED"}, 60, "every run succeeds")
    finally:
        serve.send_signal(signal.SIGTERM)
        serve.communicate(timeout=60)
        server.stop(loaded)
    assert "is not empty" in shell("demo", "--folder", ".", expect=2).stderr


def test_what_is_for_the_feed_alone_is_refused_without_it(tmp_path: Path) -> None:
    shell = Shell(tmp_path)
    assert "--feed" in shell("demo", "--batches", "2", expect=2).stderr
    assert "--folder" in shell("demo", "--feed", expect=2).stderr
    assert "icefloe demo --folder" in shell("demo", "--folder", ".", "--feed", expect=2).stderr
