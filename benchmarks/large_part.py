"""From which share of new rows on a partition is overwritten: ``python -m benchmarks.large_part [--events-per-day 1000000] [--days 3]``.

Late events go to all days of the two-stage pipeline at once, more with each step, and stage 2 is brought up to date in four ways on one warm
server: changed keys looked up by the step itself, or deleted and computed again by Spark in the form for many rows, and in that for few, or partitions as a whole. The last line is
the figures as JSON: for each share of a partition's rows that is new the seconds of each, and ``ratio``, the best by key against as a whole.
The planner's threshold (:data:`icefloe.planner.choice.LARGE_PART`) is where that passes 1; that for few rows
(:data:`icefloe.planner.statements.FEW_ROWS`) where their form is no longer the quicker one. All targets must equal the full recomputation.
"""

from __future__ import annotations

import argparse
import sys
from typing import Any
from unittest.mock import patch

from benchmarks.playback_pipeline import Incremental, Pipeline
from benchmarks.project import measure_warm, say
from benchmarks.two_stage import timed, warm_up
from icefloe.planner import choice, search, statements
from icefloe.steps.write import key_search

SHARES = (0.02, 0.05, 0.1, 0.15, 0.2, 0.25)
WAYS = {
    "by a search": (2.0, 10**12, 10**12),
    "by many keys": (2.0, 0, -1),
    "by few keys": (2.0, 10**12, -1),
    "as a whole": (0.0, 0, -1),
}
"""Each way by the thresholds that make the planner take it: ``LARGE_PART``, ``FEW_ROWS`` and ``MOST_FOUND``."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--events-per-day", type=int, default=1_000_000)
    parser.add_argument("--days", type=int, default=3)
    parser.add_argument("--small-rounds", type=int, default=10, help="rounds on small tables, before anything")
    return measure_warm(parser, _measure)


def _measure(asked: argparse.Namespace, spark: Any, config: Any) -> dict[str, Any]:
    warm_up(
        asked.small_rounds, Pipeline(spark, config, 2_000, namespace="small"), lambda small: {"": Incremental(small)}
    )
    # Each step twice: a share is only measured on a server that has seen it.
    seconds: dict[float, dict[str, float]] = {}
    equal = True
    for turn in range(2):
        pipeline = Pipeline(spark, config, asked.events_per_day, namespace=f"turn_{turn}")
        for _ in range(asked.days):
            pipeline.load_day()
        ways = {name: Incremental(pipeline, name=name.replace(" ", "_"), compact=False) for name in WAYS}
        for way in ways.values():
            way.start()
        there = asked.days * asked.events_per_day
        for number, share in enumerate(SHARES):
            events = int(there * share / (1 - share))
            there += events
            pipeline.load_late(events, asked.days)
            for name in list(ways) if (number + turn) % 2 else list(ways)[::-1]:
                ways[name].stage1()
                large, few, found = WAYS[name]
                with (
                    patch.object(choice, "LARGE_PART", large),
                    patch.object(statements, "FEW_ROWS", few),
                    patch.multiple(search, FEW_FOUND=found, MOST_FOUND=found),
                    patch.multiple(key_search, MOST_ROWS=found, MOST_BYTES=found),
                ):
                    took = timed(ways[name].stage2)
                say(f"turn {turn}  {share:.0%} new, {events:,} rows  {name:<12} {took:.2f} s")
                seconds.setdefault(share, {})[name] = took
        recomputed = pipeline.recomputed()
        equal = equal and all(pipeline.fingerprint(way.agg) == recomputed for way in ways.values())
    return {
        "events_per_day": asked.events_per_day,
        "days": asked.days,
        "seconds": {share: {name: round(took, 2) for name, took in both.items()} for share, both in seconds.items()},
        "ratio": {
            share: round(min(took for name, took in all_.items() if name != "as a whole") / all_["as a whole"], 2)
            for share, all_ in seconds.items()
        },
        "thresholds": [choice.LARGE_PART, statements.FEW_ROWS, search.MOST_FOUND],
        "equal": equal,
    }


if __name__ == "__main__":
    sys.exit(main())
