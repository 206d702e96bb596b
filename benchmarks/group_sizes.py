"""Four thresholds of the write planner, by how many rows share a key: ``python -m benchmarks.group_sizes [--events-per-day 500000]``.

On three days of the playback pipeline stage 2 is brought up to date on one warm server in two ways for each threshold, the one that the planner takes
below it and the one above, with more and more rows to a group:

- ``small_groups``: a day's load with rows sent to their group before they are grouped and without Spark's small map, against as Spark does it by
  itself (:data:`icefloe.planner.choice.NEARLY_UNIQUE`; ``result_rows`` is the share that this threshold is compared with).
- ``few_rows``: late rows for all days, in the form for few of them against that for many (:data:`icefloe.planner.statements.FEW_ROWS`).
- ``one_key``: late rows, looked up by the one key that nearly tells a row against by all keys (:data:`icefloe.planner.keys.ROWS_PER_VALUE`,
  :data:`icefloe.planner.keys.MOST_ALONG`, which ``along`` is compared with).
- ``search``: late rows, looked up by the step itself against by Spark (:data:`icefloe.planner.search.FEW_FOUND` and others, which ``found`` is compared with: as
  many rows as metadata lets expect).

The last line is the figures as JSON: seconds of both ways, and ``ratio``, the first against the second. A threshold is where that passes 1. All targets
must equal the full recomputation.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

from benchmarks.playback import AGGREGATE, KEYS
from benchmarks.playback_pipeline import Incremental, Pipeline
from benchmarks.project import measure_warm, say
from benchmarks.two_stage import timed, warm_up
from icefloe.planner import choice, keys, search, statements
from icefloe.steps.write import key_search

DAYS = 3
BY_TITLE = """SELECT account_id, title_id, event_day, count(*) AS views, sum(view_min) AS view_min
FROM {source} GROUP BY account_id, title_id, event_day"""
"""An account has as many rows as it has views, nearly: titles are many."""

BY_SPARK: dict[str, float] = {"MOST_FOUND": -1}
HERE: dict[str, float] = dict.fromkeys(("FEW_FOUND", "MOST_FOUND", "MOST_ROWS", "MOST_BYTES"), 10**12)


@dataclass(frozen=True)
class Trial:
    """One threshold. ``ways``: what makes the planner take each of the two, by how many events an account has."""

    name: str
    ways: Mapping[str, Callable[[float], Mapping[str, float]]]
    per_account: tuple[float, ...]
    """Events of a day for each account."""
    late: tuple[float, ...] = (0.0,)
    """Rows of a load that goes to all days, as shares of a day's; 0: a day's load instead."""
    aggregate: str = AGGREGATE
    keys: tuple[str, ...] = KEYS


TRIALS = (
    Trial(
        "small_groups",
        {
            "small": lambda _: {"NEARLY_UNIQUE": 0.0} | BY_SPARK,
            "large": lambda _: {"NEARLY_UNIQUE": 9e9} | BY_SPARK,
        },
        (2, 16, 64, 256, 2048),
    ),
    Trial(
        "few_rows",
        {"few": lambda _: {"FEW_ROWS": 10**12} | BY_SPARK, "many": lambda _: {"FEW_ROWS": 0} | BY_SPARK},
        (2, 32, 256, 100_000),
        (0.01, 0.1, 0.4, 1.0),
    ),
    Trial(
        "one_key",
        # Just so many that the account tells enough, and the title, of which there are two thousand, does not.
        {
            "one": lambda events: {"ROWS_PER_VALUE": 1.5 * events, "MOST_ALONG": 1e9} | BY_SPARK,
            "all": lambda _: {"ROWS_PER_VALUE": 1e-9} | BY_SPARK,
        },
        (2, 8, 32, 128),
        (0.02, 0.2),
        BY_TITLE,
        ("account_id", "title_id", "event_day"),
    ),
    Trial("search", {"here": lambda _: HERE, "spark": lambda _: BY_SPARK}, (2, 32, 256), (0.01, 0.1, 0.4, 1.0)),
)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--events-per-day", type=int, default=500_000)
    parser.add_argument("--rounds", type=int, default=2, help="measured rounds, after one that is not")
    parser.add_argument("--only", choices=[trial.name for trial in TRIALS], action="append", help="one threshold")
    parser.add_argument("--small-rounds", type=int, default=10, help="rounds on small tables, before anything")
    return measure_warm(parser, _measure)


def _measure(asked: argparse.Namespace, spark: Any, config: Any) -> dict[str, Any]:
    warm_up(
        asked.small_rounds, Pipeline(spark, config, 2_000, namespace="small"), lambda small: {"": Incremental(small)}
    )
    found: dict[str, list[dict[str, Any]]] = {}
    for trial in (one for one in TRIALS if one.name in (asked.only or [one.name])):
        for number, per_account in enumerate(trial.per_account):
            pipeline = Pipeline(
                spark,
                config,
                asked.events_per_day,
                namespace=f"{trial.name}_{number}",
                accounts=max(round(asked.events_per_day / per_account), 1),
            )
            for line in _rows(trial, pipeline, per_account, asked.rounds):
                figures = {"events_per_account": per_account, **line}
                say(f"{trial.name}  {figures}")
                found.setdefault(trial.name, []).append(figures)
    return {
        "events_per_day": asked.events_per_day,
        **found,
        "thresholds": [choice.NEARLY_UNIQUE, statements.FEW_ROWS, keys.ROWS_PER_VALUE, search.FEW_FOUND],
        "equal": all(line["equal"] for lines in found.values() for line in lines),
    }


def _rows(trial: Trial, pipeline: Pipeline, per_account: float, rounds: int) -> Iterator[dict[str, Any]]:
    """One line of figures for each size of a load, all on the same tables."""
    for _ in range(DAYS):
        pipeline.load_day()
    ways = {
        name: Incremental(pipeline, name=name, compact=False, aggregate=trial.aggregate, keys=trial.keys)
        for name in trial.ways
    }
    for way in ways.values():
        way.start()
    for share in trial.late:
        seconds = dict.fromkeys(ways, 0.0)
        for number in range(1 + rounds):
            if share:
                pipeline.load_late(int(share * pipeline.events_per_day), DAYS)
            else:
                pipeline.load_day()
            for name in list(ways) if number % 2 else list(ways)[::-1]:
                ways[name].stage1()
                took = _as_told(trial.ways[name](per_account), ways[name])
                seconds[name] += took if number else 0.0
        source, result = (pipeline.fingerprint(name)[0] for name in (pipeline.source, next(iter(ways.values())).agg))
        sums = {pipeline.fingerprint(way.agg) for way in ways.values()}
        first, second = seconds.values()
        yield {
            "late_rows": int(share * pipeline.events_per_day),
            "found": int(share * pipeline.events_per_day * max(source / result, 1)),
            "along": round(share * max(per_account - 1, 0) / DAYS, 3),
            "result_rows": round(result / source, 2),
            "seconds": {name: round(took / rounds, 2) for name, took in seconds.items()},
            "ratio": round(first / second, 2),
            "equal": sums == {pipeline.recomputed(trial.aggregate)},
        }


def _as_told(values: Mapping[str, float], way: Incremental) -> float:
    """Stage 2's seconds with these thresholds, and no partition overwritten as a whole."""
    with ExitStack() as stack:
        stack.enter_context(patch.object(choice, "LARGE_PART", 2.0))
        for name, value in values.items():
            home = next(module for module in (choice, keys, statements, search, key_search) if name in vars(module))
            stack.enter_context(patch.object(home, name, value))
        return timed(way.stage2)


if __name__ == "__main__":
    sys.exit(main())
