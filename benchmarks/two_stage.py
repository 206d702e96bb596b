"""The product's own benchmark: ``python -m benchmarks.two_stage [--events-per-day 1000000] [--rounds 4] [--days 14]``.

Playback events, partitioned by day, 3 percent of each load late over the 12 days before. Stage 1 cleans them row by row into a daily
table, stage 2 groups that by account, country and day, with a distinct count. Each round loads one more day, and then brings two pairs
of targets up to date on one warm Spark server: one by the write planner, from capture to publication, the other by a lookback of 14
days tuned as its own users would (no shuffle at the write; stage 2 reads grouped by partition). Both pairs must then be equal.

Ratios are sums over the measured rounds; rounds on small tables and eight large ones before them warm the server up, for all ways alike, and
each way begins when the server is at rest. Small files are first joined in the eighth round, then in every fourth: four measured rounds after
eight have their share of it (``rounds_with_joining``; of micro-batches it is every eighth). ``ratio_without_joining`` is that of the other rounds.
``limit`` is what must be read and written in any case, as a share of the lookback: (1 + late) / 14. The last line is the figures as JSON.

``--narrow``: events of nothing but the columns that stage 2 reads. ``--micro-batch N`` loads N events instead of a day, against the same lookback. ``--days N`` is how many days of history there are.
``--also seeds,merge,changelog,streaming,dbt`` measures the other ways to do the same, each on targets of its own. What many batches in a row
leave behind is measured by :mod:`benchmarks.debt`, long histories by :mod:`benchmarks.growth`.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable
from typing import Any

from benchmarks.playback import LATE_DAYS, LATE_PERCENT, LOOKBACK_DAYS, NARROW, PLAYBACK
from benchmarks.playback_pipeline import Incremental, Lookback, Pipeline
from benchmarks.playback_recipes import RECIPES
from benchmarks.project import measure_warm, say
from icefloe.spark import server


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--events-per-day", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=4, help="measured rounds")
    parser.add_argument("--warm-up", type=int, default=8, help="rounds before those")
    parser.add_argument(
        "--small-rounds", type=int, default=80, help="rounds of all ways on small tables, before anything"
    )
    parser.add_argument("--days", type=int, default=LOOKBACK_DAYS, help="days of history before the first round")
    parser.add_argument("--narrow", action="store_true", help="events of nothing but what stage 2 reads")
    parser.add_argument("--micro-batch", type=int, default=0, help="events of each round's load, instead of a day's")
    parser.add_argument("--also", type=_recipes, default="", help=f"other ways beside: {', '.join(RECIPES)}")
    parser.add_argument("--untuned", action="store_true", help="the lookback with default settings")
    parser.add_argument("--format-version", default="3", help="of the write planner's targets")
    return measure_warm(parser, _measure)


def _recipes(text: str) -> list[str]:
    names = [name for name in text.split(",") if name]
    unknown = [name for name in names if name not in RECIPES]
    if unknown:
        raise argparse.ArgumentTypeError(f"there are {', '.join(RECIPES)}, not {unknown[0]}")
    return names


def _measure(asked: argparse.Namespace, spark: Any, config: Any) -> dict[str, Any]:
    names: list[str] = asked.also
    events = NARROW if asked.narrow else PLAYBACK

    def ways_of(pipeline: Pipeline) -> dict[str, Any]:
        return {
            "icefloe": Incremental(pipeline, {"format-version": asked.format_version}),
            "lookback": Lookback(pipeline, tuned=not asked.untuned),
            **{name: RECIPES[name](pipeline) for name in names},
        }

    if asked.small_rounds:
        warm_up(asked.small_rounds, Pipeline(spark, config, 2_000, events, "small"), ways_of)
    pipeline = Pipeline(spark, config, asked.events_per_day, events)
    say(f"loading {asked.days} days of {asked.events_per_day:,} events")
    for _ in range(asked.days):
        pipeline.load_day()
    ways = ways_of(pipeline)
    for name, way in ways.items():
        say(f"first run of {name}")
        way.start()
    seconds: dict[str, list[list[float]]] = {name: [] for name in ways}
    cpu: dict[str, float] = dict.fromkeys(ways, 0.0)
    equal, said = True, ways["icefloe"].said
    joined: set[int] = set()
    pid = server.status(config).pid
    for number in range(asked.warm_up + asked.rounds):
        if asked.micro_batch:
            pipeline.load_micro_batch(asked.micro_batch, new_day=number == 0)
        else:
            pipeline.load_day()
        # Who goes first changes from round to round: the second finds the source's files in the page cache.
        for name in list(ways) if number % 2 else list(ways)[::-1]:
            _rest(spark, pid)
            said.clear()
            before = _cpu_seconds(pid)
            took = [timed(ways[name].stage1), timed(ways[name].stage2)]
            if number >= asked.warm_up:
                seconds[name].append(took)
                cpu[name] += _cpu_seconds(pid) - before
                if any(line.startswith("compaction:") for line in said):
                    joined.add(number - asked.warm_up)
            say(f"round {number}  {name:<10} {took[0]:.2f} + {took[1]:.2f} s")
        sums = {name: (pipeline.fingerprint(way.daily), pipeline.fingerprint(way.agg)) for name, way in ways.items()}
        equal = equal and len(set(sums.values())) == 1
        if not equal:
            say(f"NOT EQUAL: {sums}")
    base = _total(seconds["lookback"])
    plain = {name: [took for at, took in enumerate(rounds) if at not in joined] for name, rounds in seconds.items()}
    return {
        "events_per_day": asked.events_per_day,
        "events": "narrow" if asked.narrow else "playback",
        "days": asked.days,
        "micro_batch": asked.micro_batch or None,
        "format_version": asked.format_version,
        "rounds": asked.rounds,
        "rounds_with_joining": len(joined),
        "ratio_total": round(_total(seconds["icefloe"]) / base, 4),
        "ratio_without_joining": round(_total(plain["icefloe"]) / _total(plain["lookback"]), 4)
        if plain["icefloe"]
        else None,
        "ratio_stage1": round(_total(seconds["icefloe"], 0) / _total(seconds["lookback"], 0), 4),
        "ratio_stage2": round(_total(seconds["icefloe"], 1) / _total(seconds["lookback"], 1), 4),
        "ratio_cpu": round(cpu["icefloe"] / cpu["lookback"], 4) if cpu["lookback"] else None,
        "limit": round((1 + LATE_PERCENT / 100) / LOOKBACK_DAYS, 4),
        "equal": equal,
        "late_percent": LATE_PERCENT,
        "late_days": LATE_DAYS,
        "lookback": "default settings" if asked.untuned else "tuned",
        "seconds": {
            name: [round(_total(rounds, stage) / len(rounds), 3) for stage in (0, 1)]
            for name, rounds in seconds.items()
        },
        "cpu_seconds": {name: round(total / asked.rounds, 2) for name, total in cpu.items()},
        "ratios_of_others": {name: round(_total(seconds[name]) / base, 4) for name in names},
    }


def warm_up(rounds: int, pipeline: Pipeline, ways_of: Callable[[Pipeline], dict[str, Any]]) -> None:
    """A server at work for a while: the JVM compiles what plans and commits statements after some hundred of them, of any size."""
    say(f"warming up: {rounds} rounds of {pipeline.events_per_day:,} events")
    for _ in range(LOOKBACK_DAYS):
        pipeline.load_day()
    ways = ways_of(pipeline)
    for way in ways.values():
        way.start()
    for _ in range(rounds):
        pipeline.load_day()
        for way in ways.values():
            way.stage1()
            way.stage2()


def _total(rounds: list[list[float]], stage: int | None = None) -> float:
    return sum(sum(took) if stage is None else took[stage] for took in rounds)


def timed(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def _rest(spark: Any, pid: int | None) -> None:
    """Until the server is at rest, as it is between batches: nobody pays for what the way before has left to be written to the disk,
    to be collected in memory, or to be compiled. Nobody runs a lookback and its replacement on one server."""
    spark.sql("SELECT java_method('java.lang.System', 'gc')").collect()
    os.sync()
    for _ in range(60):
        before = _cpu_seconds(pid)
        time.sleep(0.5)
        if _cpu_seconds(pid) - before <= 0.02:
            return


def _cpu_seconds(pid: int | None) -> float:
    """What the server and this process have used so far."""
    own = sum(os.times()[:2])
    if pid is None:
        return own
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii") as stream:  # noqa: PTH123 - no file, the kernel's own
            fields = stream.read().rpartition(")")[2].split()
    except OSError:
        return own
    return own + (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


if __name__ == "__main__":
    sys.exit(main())
