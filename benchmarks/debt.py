"""What many batches in a row leave behind: ``python -m benchmarks.debt [--batches 30] [--micro-batch 10400]``.

The two-stage pipeline of :mod:`benchmarks.two_stage`, kept up to date twice, batch by batch, in turns on one warm server: with small files
joined now and then (``compact: auto``), which counts as part of the batch, and with all of them left lying (``compact: off``). At the end
both targets are read as a whole, the second is compacted by Iceberg's own procedure, and read again. All of them must equal the full
recomputation. ``--micro-batch 0`` loads a day in each batch. The last line is the figures as JSON.
"""

from __future__ import annotations

import argparse
import sys
from typing import Any

from benchmarks.playback import LOOKBACK_DAYS
from benchmarks.playback_pipeline import Incremental, Pipeline
from benchmarks.project import measure_warm, say
from benchmarks.two_stage import timed, warm_up


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--events-per-day", type=int, default=1_000_000)
    parser.add_argument("--micro-batch", type=int, default=10_400, help="events of a batch; 0: a day's")
    parser.add_argument("--batches", type=int, default=30)
    parser.add_argument("--small-rounds", type=int, default=25, help="rounds on small tables, before anything")
    return measure_warm(parser, _measure)


def _measure(asked: argparse.Namespace, spark: Any, config: Any) -> dict[str, Any]:
    def ways_of(pipeline: Pipeline) -> dict[str, Incremental]:
        return {
            "joined": Incremental(pipeline, name="joined"),
            "left": Incremental(pipeline, name="left", compact=False),
        }

    warm_up(asked.small_rounds, Pipeline(spark, config, 2_000, namespace="small"), ways_of)
    pipeline = Pipeline(spark, config, asked.events_per_day)
    say(f"loading {LOOKBACK_DAYS} days of {asked.events_per_day:,} events")
    for _ in range(LOOKBACK_DAYS):
        pipeline.load_day()
    ways = ways_of(pipeline)
    for way in ways.values():
        way.start()
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    joining = 0.0
    for number in range(asked.batches):
        if asked.micro_batch:
            pipeline.load_micro_batch(asked.micro_batch, new_day=number == 0)
        else:
            pipeline.load_day()
        for name in list(ways) if number % 2 else list(ways)[::-1]:
            way = ways[name]
            way.said.clear()
            took = timed(way.stage1), timed(way.stage2)
            seconds[name].append(sum(took))
            told = [line for line in way.said if line.startswith("compaction")]
            joining += sum(float(line.split()[-2]) for line in told)
            say(f"batch {number}  {name:<6} {took[0]:.2f} + {took[1]:.2f} s  {'  '.join(told)}")
    recomputed = pipeline.recomputed()
    equal = all(pipeline.fingerprint(way.agg) == recomputed for way in ways.values())
    files = {name: {"daily": pipeline.files(way.daily), "agg": pipeline.files(way.agg)} for name, way in ways.items()}
    reads = {name: pipeline.read_seconds(way.agg, timed) for name, way in ways.items()}
    procedure = timed(lambda: pipeline.compact(ways["left"].agg))
    reads["compacted"] = pipeline.read_seconds(ways["left"].agg, timed)
    equal = equal and pipeline.fingerprint(ways["left"].agg) == recomputed
    last = max(asked.batches // 3, 1)
    return {
        "events_per_day": asked.events_per_day,
        "micro_batch": asked.micro_batch or None,
        "batches": asked.batches,
        "seconds": {name: [round(one, 2) for one in took] for name, took in seconds.items()},
        "ratio_total": round(sum(seconds["joined"]) / sum(seconds["left"]), 3),
        "ratio_last_third": round(sum(seconds["joined"][-last:]) / sum(seconds["left"][-last:]), 3),
        "joining_seconds": round(joining, 1),
        "files": files,
        "read_seconds": {name: round(one, 3) for name, one in reads.items()},
        "read_ratio": {name: round(reads[name] / reads["compacted"], 3) for name in ways},
        "compaction_seconds": round(procedure, 2),
        "equal": equal,
    }


if __name__ == "__main__":
    sys.exit(main())
