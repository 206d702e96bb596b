"""Whether a batch costs more on a long history: ``python -m benchmarks.growth [--events-per-day 500000] [--days 30,120] [--rounds 4]``.

The two-stage pipeline of :mod:`benchmarks.two_stage` twice on one warm server, with 30 and with 120 days in source and targets. Each round
loads one more day into both and brings both up to date, in turns. The last line is the figures as JSON: ``ratio`` is the longer history's
seconds against the shorter one's. At the end each target equals its full recomputation.
"""

from __future__ import annotations

import argparse
import sys
from typing import Any

from benchmarks.playback_pipeline import Incremental, Pipeline
from benchmarks.project import measure_warm, say
from benchmarks.two_stage import timed, warm_up


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--events-per-day", type=int, default=500_000)
    parser.add_argument("--days", default="30,120", help="the two lengths of history")
    parser.add_argument("--rounds", type=int, default=4, help="measured rounds, after two that are not")
    parser.add_argument("--small-rounds", type=int, default=25, help="rounds on small tables, before anything")
    return measure_warm(parser, _measure)


def _measure(asked: argparse.Namespace, spark: Any, config: Any) -> dict[str, Any]:
    warm_up(
        asked.small_rounds, Pipeline(spark, config, 2_000, namespace="small"), lambda small: {"": Incremental(small)}
    )
    short, long = (int(text) for text in asked.days.split(","))
    ways: dict[int, Incremental] = {}
    for days in (short, long):
        pipeline = Pipeline(spark, config, asked.events_per_day, namespace=f"of_{days}_days")
        say(f"loading {days} days of {asked.events_per_day:,} events")
        for _ in range(days):
            pipeline.load_day()
        ways[days] = Incremental(pipeline)
        ways[days].start()
    seconds: dict[int, list[float]] = {days: [] for days in ways}
    for number in range(asked.rounds + 2):
        for days in list(ways) if number % 2 else list(ways)[::-1]:
            way = ways[days]
            way.pipeline.load_day()
            took = timed(way.stage1), timed(way.stage2)
            say(f"round {number}  {days} days  {took[0]:.2f} + {took[1]:.2f} s")
            if number >= 2:
                seconds[days].append(sum(took))
    equal = all(way.pipeline.fingerprint(way.agg) == way.pipeline.recomputed() for way in ways.values())
    return {
        "events_per_day": asked.events_per_day,
        "seconds": {days: [round(one, 2) for one in took] for days, took in seconds.items()},
        "ratio": round(sum(seconds[long]) / sum(seconds[short]), 3),
        "equal": equal,
    }


if __name__ == "__main__":
    sys.exit(main())
