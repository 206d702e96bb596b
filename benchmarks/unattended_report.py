"""The figures of :mod:`benchmarks.unattended`: what was seen, and the sums made of it."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

MARGIN_SECONDS = 3.0
"""Goal: a micro-batch is in the last target a scheduler's tick and this long after its commit, at the median."""
DAY_GOAL, MICRO_GOAL = 0.15, 0.08
"""Goals: time in runs, of the tuned lookback's."""


@dataclass(frozen=True)
class Batch:
    """One commit of the writer. Seconds."""

    rows: int
    to_last_target: float
    """From the writer's commit to the last target's snapshot on main."""
    to_first_run: float
    """From the writer's commit to the start of the first run; at most about a tick, and no work of anybody."""
    in_runs: float
    """Both stages, each from its run's start to its end."""
    runs: int = 2


@dataclass
class Observed:
    """Everything that one mode has seen."""

    mode: str
    tick_seconds: float
    micro: list[Batch] = field(default_factory=list)
    """The first one came right after the start of ``serve``."""
    days: list[Batch] = field(default_factory=list)
    lookback: list[float] = field(default_factory=list)
    """Runs of both stages by the same ``serve``."""
    cron: list[list[float]] = field(default_factory=list)
    """One ``spark-submit`` a stage."""
    first_load: float = 0.0
    """The whole history, from the first start of ``serve`` on."""
    servers: int = 0
    """Local Spark servers that were started after ``serve``'s second start, with which the batches begin."""
    equal: dict[str, bool] = field(default_factory=dict)


def report(observed: Observed) -> dict[str, Any]:
    lookback = _median(observed.lookback)
    cron = _median([sum(stages) for stages in observed.cron])
    micro, days = _batches(observed.micro), _batches(observed.days)
    ratio_micro, ratio_day = _ratio(micro["in_runs_median_s"], lookback), _ratio(days["in_runs_median_s"], lookback)
    limit = observed.tick_seconds + MARGIN_SECONDS
    return {
        "mode": observed.mode,
        "tick_seconds": observed.tick_seconds,
        "spark_servers_started": observed.servers,
        "history_to_last_target_s": _rounded(observed.first_load),
        "micro_batch": micro,
        "day": days,
        "lookback": {
            "rounds": len(observed.lookback),
            "in_runs_median_s": _rounded(lookback),
            "in_runs_s": [_rounded(value) for value in observed.lookback],
        },
        "cron_spark_submit": {
            "rounds": len(observed.cron),
            "median_s": _rounded(cron),
            "stages_s": [[_rounded(value) for value in stages] for stages in observed.cron],
        },
        "ratios": {
            "micro_batch_of_lookback": ratio_micro,
            "day_of_lookback": ratio_day,
            "micro_batch_of_cron": _ratio(micro["in_runs_median_s"], cron),
            "day_of_cron": _ratio(days["in_runs_median_s"], cron),
            "cron_of_lookback": _ratio(cron, lookback),
            # With whatever was slow in them, the first batch after the start too.
            "micro_batch_of_lookback_by_means": _ratio(micro["in_runs_mean_s"], _mean(observed.lookback)),
            "day_of_lookback_by_means": _ratio(days["in_runs_mean_s"], _mean(observed.lookback)),
        },
        "goals": {
            "micro_batch_to_last_target": _goal(micro["to_last_target_median_s"], limit),
            "micro_batch_of_lookback": _goal(ratio_micro, MICRO_GOAL),
            "day_of_lookback": _goal(ratio_day, DAY_GOAL),
        },
        "equal": bool(observed.equal) and all(observed.equal.values()),
        "unequal": [name for name, equal in observed.equal.items() if not equal],
    }


def percentile(values: Sequence[float], share: float) -> float:
    """The smallest of ``values`` that at least this share of them does not exceed (nearest rank)."""
    ordered = sorted(values)
    return ordered[max(math.ceil(share * len(ordered)), 1) - 1]


def lines(figures: dict[str, Any]) -> list[str]:
    """For people."""
    micro, day, ratios = figures["micro_batch"], figures["day"], figures["ratios"]
    rows = [
        ("", "batches", "first", "median", "p95", "in runs", "of lookback", "of cron"),
        _line("micro-batch", micro, ratios["micro_batch_of_lookback"], ratios["micro_batch_of_cron"]),
        _line("a day's load", day, ratios["day_of_lookback"], ratios["day_of_cron"]),
        ("lookback", figures["lookback"]["rounds"], "", "", "", figures["lookback"]["in_runs_median_s"], 1, ""),
        ("cron, spark-submit", figures["cron_spark_submit"]["rounds"], "", "", "", figures["cron_spark_submit"]["median_s"],
         ratios["cron_of_lookback"], 1),
    ]  # fmt: skip
    texts = [f"{figures['mode']}: seconds from commit to last target (first, median, p95), and in runs (median)"]
    texts += [f"{row[0]:<20}" + "".join(f"{_shown(cell):>12}" for cell in row[1:]) for row in rows]
    texts.append(f"Spark servers started: {figures['spark_servers_started']}   results equal: {figures['equal']}")
    for name, goal in figures["goals"].items():
        texts.append(f"goal {name}: {_shown(goal['seen'])}, at most {goal['at_most']:g}: {_met(goal['met'])}")
    return texts


def _batches(batches: list[Batch]) -> dict[str, Any]:
    arrived, in_runs = [batch.to_last_target for batch in batches], [batch.in_runs for batch in batches]
    return {
        "batches": len(batches),
        "rows": batches[0].rows if batches else 0,
        "first_to_last_target_s": _rounded(arrived[0]) if batches else None,
        "to_last_target_median_s": _rounded(_median(arrived)),
        "to_last_target_p95_s": _rounded(percentile(arrived, 0.95)) if batches else None,
        "to_first_run_median_s": _rounded(_median([batch.to_first_run for batch in batches])),
        "first_in_runs_s": _rounded(in_runs[0]) if batches else None,
        "in_runs_median_s": _rounded(_median(in_runs)),
        "in_runs_p95_s": _rounded(percentile(in_runs, 0.95)) if batches else None,
        "in_runs_mean_s": _rounded(_mean(in_runs)),
        "runs": sum(batch.runs for batch in batches),
        "to_last_target_s": [_rounded(value) for value in arrived],
        "in_runs_s": [_rounded(value) for value in in_runs],
    }


def _line(name: str, batches: dict[str, Any], of_lookback: float | None, of_cron: float | None) -> tuple[Any, ...]:
    places = ("first_to_last_target_s", "to_last_target_median_s", "to_last_target_p95_s", "in_runs_median_s")
    return (name, batches["batches"], *(batches[place] for place in places), of_lookback, of_cron)


def _median(values: Sequence[float]) -> float | None:
    return statistics.median(values) if values else None


def _mean(values: Sequence[float]) -> float | None:
    return statistics.fmean(values) if values else None


def _ratio(value: float | None, base: float | None) -> float | None:
    return round(value / base, 4) if value is not None and base else None


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 3)


def _goal(seen: float | None, at_most: float) -> dict[str, Any]:
    return {"seen": seen, "at_most": at_most, "met": None if seen is None else seen <= at_most}


def _met(met: bool | None) -> str:
    return "not measured" if met is None else "met" if met else "missed"


def _shown(cell: Any) -> str:
    return "-" if cell is None else f"{cell:.3f}" if isinstance(cell, float) else str(cell)
