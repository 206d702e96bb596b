"""``python -m benchmarks.unattended``, as far as it can be checked without Spark: its arguments, definitions, writer and sums."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from benchmarks.playback import FIRST_DAY, LATE_DAYS, LOOKBACK_DAYS, first_of_lookback
from benchmarks.playback_writer import SOURCE, Load, Writer, events
from benchmarks.unattended import FULL, QUICK, Commit, Size, arguments, attributed, cron_is_due, definitions
from benchmarks.unattended_report import Batch, Observed, lines, percentile, report
from pyiceberg.catalog import load_catalog

from icefloe.workflow.loading import load


def test_without_arguments_both_modes_run_at_the_size_of_the_goals() -> None:
    asked = arguments([])
    assert asked.modes == ("local", "cluster")
    assert asked.size == FULL == Size(events=1_000_000, batches=20, day_loads=3)
    assert asked.size.micro_batch == 10_400


def test_quick_is_small_and_each_size_can_still_be_given() -> None:
    assert arguments(["--quick", "--mode", "local"]).size == QUICK
    asked = arguments(["--quick", "--mode", "cluster", "--batches", "7", "--events", "20_000"])
    assert asked.size == Size(events=20_000, batches=7, day_loads=QUICK.day_loads)
    assert asked.modes == ("cluster",)


@pytest.mark.parametrize("words", [["--batches", "0"], ["--events", "-1"], ["--mode", "yarn"], ["--folder", "."]])
def test_what_cannot_be_run_is_refused_before_anything_starts(words: list[str]) -> None:
    with pytest.raises(SystemExit):
        arguments(words)


@pytest.mark.parametrize("search", ["auto", "off"])
def test_its_definitions_are_valid_and_the_stages_have_triggers(search: str) -> None:
    made = definitions(search=search)
    assert [name for name, definition in made.items() if "Trigger" in definition] == ["daily", "agg"]
    for name, definition in made.items():
        assert load(json.dumps(definition), f"{name}.yaml").workflow.id == name


@pytest.mark.parametrize("day_loads", range(1, 8))
def test_cron_misses_no_late_event_of_any_day(day_loads: int) -> None:
    micro_batches = FIRST_DAY + timedelta(days=LOOKBACK_DAYS)
    waiting = [micro_batches]
    for number in range(day_loads):
        today = micro_batches + timedelta(days=number + 1)
        waiting.append(today)
        if cron_is_due(number, day_loads):
            assert all(day - timedelta(days=LATE_DAYS) >= first_of_lookback(today) for day in waiting)
            waiting.clear()
    assert not waiting


def test_events_are_repeatable_and_late_by_at_most_twelve_days() -> None:
    made = events(20_000, 13, 100, seed=5)
    assert made.equals(events(20_000, 13, 100, seed=5))
    age = 13 - (made["event_day"].to_numpy() - np.datetime64(FIRST_DAY)).astype(int)
    assert age.min() == 0 and age.max() == LATE_DAYS
    assert 0.02 < (age > 0).mean() < 0.04
    assert len(set(made["event_id"].to_pylist())) == 20_000


def test_the_writer_commits_from_another_process_and_says_what(tmp_path: Path) -> None:
    properties = {"type": "sql", "uri": f"sqlite:///{tmp_path}/catalog.db", "warehouse": tmp_path.as_uri()}
    writer = Writer("lake", properties, 1_000)
    try:
        writer.create_source()
        loads = [writer.load(1_000, new_day=True), writer.load(10, new_day=True), writer.load(10, new_day=False)]
        with pytest.raises(RuntimeError, match="the writer failed"):
            writer.create_source()
    finally:
        writer.close()
    assert [made.rows for made in loads] == [1_000, 10, 10]
    assert [(made.day - FIRST_DAY).days for made in loads] == [0, 1, 1]
    assert all(made.began <= made.at for made in loads)
    table = load_catalog("lake", **properties).load_table(SOURCE)
    assert table.scan().to_arrow().num_rows == 1_020
    assert len(table.metadata.snapshots) == 3


def test_a_run_belongs_to_the_last_commit_before_it() -> None:
    def commit(began: float, arrived: float) -> Commit:
        return Commit(Load(began, began + 1, FIRST_DAY, 10, 0), arrived)

    def run(created: float, took: float) -> dict[str, Any]:
        return {"created_at": created, "started_at": created + 0.5, "ended_at": created + 0.5 + took}

    runs = [run(102, 2), run(105, 1), run(203, 4), run(208, 3), run(212, 0.25)]
    first, second = attributed([commit(100, 107), commit(200, 215)], runs)
    assert first == Batch(rows=10, to_last_target=6, to_first_run=1.5, in_runs=3, runs=2)
    assert second == Batch(rows=10, to_last_target=14, to_first_run=2.5, in_runs=7.25, runs=3)


def test_the_95th_percentile_is_a_value_that_was_seen() -> None:
    assert percentile([3.0, 1.0, 2.0], 0.95) == 3.0
    assert percentile([float(value) for value in range(1, 21)], 0.95) == 19.0
    assert percentile([7.0], 0.95) == 7.0


def _observed() -> Observed:
    micro = [Batch(10, 40.0, 2, 30), *(Batch(10, 4 + number / 10, 2, 2) for number in range(4))]
    return Observed(
        mode="local",
        tick_seconds=5,
        micro=micro,
        days=[Batch(1000, 9, 3, 5), Batch(1000, 7, 3, 3), Batch(1000, 8, 3, 4)],
        lookback=[30.0, 24.0, 25.0],
        cron=[[20.0, 30.0], [21.0, 31.0]],
        servers=1,
        equal={"bench.daily_icefloe": True, "bench.agg_icefloe": True},
    )


def test_the_report_has_medians_the_first_batch_ratios_and_goals() -> None:
    figures = report(_observed())
    micro, day, ratios, goals = (figures[name] for name in ("micro_batch", "day", "ratios", "goals"))
    assert (micro["batches"], micro["first_to_last_target_s"], micro["to_last_target_median_s"]) == (5, 40, 4.2)
    assert (micro["to_last_target_p95_s"], micro["first_in_runs_s"], micro["in_runs_median_s"]) == (40, 30, 2)
    assert (day["to_last_target_median_s"], day["in_runs_median_s"]) == (8, 4)
    assert figures["lookback"]["in_runs_median_s"] == 25 and figures["cron_spark_submit"]["median_s"] == 51
    assert (ratios["micro_batch_of_lookback"], ratios["day_of_lookback"]) == (0.08, 0.16)
    assert (ratios["micro_batch_of_cron"], ratios["day_of_cron"]) == (0.0392, 0.0784)
    assert ratios["cron_of_lookback"] == 2.04
    assert ratios["micro_batch_of_lookback_by_means"] == round(7.6 / ((30 + 24 + 25) / 3), 4)
    assert goals["micro_batch_to_last_target"] == {"seen": 4.2, "at_most": 8, "met": True}
    assert goals["micro_batch_of_lookback"]["met"] and not goals["day_of_lookback"]["met"]
    assert figures["spark_servers_started"] == 1 and figures["equal"]
    text = "\n".join(lines(figures))
    assert "40.000" in text and "0.160, at most 0.15: missed" in text and "results equal: True" in text


def test_one_target_that_differs_makes_the_whole_run_unequal() -> None:
    observed = _observed()
    observed.equal["bench.agg_cron"] = False
    figures = report(observed)
    assert not figures["equal"] and figures["unequal"] == ["bench.agg_cron"]
    assert not report(Observed("local", 5))["equal"], "nothing compared is not equal"
    assert lines(report(Observed("local", 5))), "and nothing measured is not an error"
