"""How long it takes to find out what changed: ``python -m benchmarks.capture [--files 100000] [--skip-java]``.

Ratios are between two ways measured in this one run. The last line is the figures as JSON.

- ``capture``: a change set of ``--files`` files in 100 manifests, with and without ranges of two columns, and how much memory
  that takes above the idle process.
- ``growth``: the same change set on a table with 1,000 and with 100,000 older files.
- ``java``: the re:Invent slide's recipe in a warm JVM, and Icefloe, on 10,000 files.
- ``engines``: the rows of the last commits by change table, by an incremental read and by ``create_changelog_view``: seconds to
  the first row and to a full count.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import uuid4

from benchmarks.java_recipe import JavaRecipe
from benchmarks.project import temporary_project
from benchmarks.synthetic import SyntheticTable
from icefloe import config as configuration
from icefloe.config import Config
from icefloe.demo.events import Events, day_number
from icefloe.demo.source import PlaybackTable
from icefloe.lake import Lake
from icefloe.spark import jars, java

COLUMNS = ("event_day", "account_id")
ROUNDS = 3


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--files", type=int, default=100_000)
    parser.add_argument("--skip-java", action="store_true", help="only what needs no JVM")
    parser.add_argument("--child", nargs=3, metavar=("CONFIG", "SINCE", "MODE"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        print(json.dumps(_child(Path(arguments.child[0]), int(arguments.child[1]), arguments.child[2])))
        return
    figures: dict[str, Any] = {"files": arguments.files, "cpus": os.cpu_count()}
    with temporary_project() as config:
        figures["capture"] = capture(config, arguments.files)
        figures["growth"] = growth(config)
        if not arguments.skip_java:
            figures |= with_spark(config)
    print(json.dumps(figures))


def capture(config: Config, files: int) -> dict[str, Any]:
    """In a process of its own each time, so that memory is told honestly."""
    lake = Lake.open(config)
    say(f"making a table with {files:,} new files in 100 manifests")
    table = SyntheticTable(lake, "bench.large")
    since = table.append(1000, 1)
    table.append(files, 100)
    out: dict[str, Any] = {}
    for mode in ("plain", "partitions", "ranges"):
        runs = [_in_child(config, since, mode) for _ in range(ROUNDS)]
        out[mode] = {
            "seconds": round(statistics.median(one["seconds"] for one in runs), 3),
            "cpu_seconds": round(statistics.median(one["cpu_seconds"] for one in runs), 3),
            "mb_above_idle": round(max(one["mb_above_idle"] for one in runs), 1),
        }
        say(f"  {mode}: {out[mode]}")
    return out


def growth(config: Config) -> dict[str, Any]:
    """The two tables take turns, so that whatever else the machine does befalls both; the quickest turn counts."""
    lake = Lake.open(config)
    tables: dict[str, tuple[str, int]] = {}
    for older in (1_000, 100_000):
        say(f"making a table with {older:,} older files")
        table = SyntheticTable(lake, f"bench.old_{older}")
        since = table.append(older, max(older // 1000, 1))
        table.append(2_000, 2)
        tables[f"older_{older}"] = (table.name, since)
    out: dict[str, Any] = dict.fromkeys(tables, float("inf"))
    for _ in range(12):
        for label, (name, since) in tables.items():
            began = time.perf_counter()
            lake.create_change_table(lake.changes(name, since=since, columns=COLUMNS))
            out[label] = round(min(out[label], time.perf_counter() - began), 4)
    out["ratio"] = round(out["older_100000"] / out["older_1000"], 3)
    say(f"  growth: {out}")
    return out


def with_spark(config: Config) -> dict[str, Any]:
    from pyspark.sql import SparkSession

    lake = Lake.open(config)
    say("making a table with 10,000 new files")
    table = SyntheticTable(lake, "bench.slide")
    since = table.append(100, 1)
    until = table.append(10_000, 10)
    found = java.find()
    os.environ["JAVA_HOME"] = str(found.home)
    paths = ":".join(str(path) for path in jars.ensure(jars.required(config), found.launcher))
    builder = SparkSession.builder.master("local[2]").appName("bench").config("spark.ui.enabled", "false")
    builder = builder.config("spark.ui.showConsoleProgress", "false")
    builder = builder.config("spark.driver.extraClassPath", paths).config("spark.driver.memory", "4g")
    for key, value in config.spark_conf().items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("OFF")  # its warnings would bury the figures
    try:
        return {"java": _java(spark, lake, config, table.name, since, until), "engines": _engines(spark, lake, config)}
    finally:
        spark.stop()


def _java(spark: Any, lake: Lake, config: Config, name: str, since: int, until: int) -> dict[str, Any]:
    recipe = JavaRecipe(spark, config.catalog.name)
    seconds = []
    for _ in range(2 + ROUNDS):  # two rounds warm the JVM up
        files, took = recipe.run(name, f"bench.recipe_{uuid4().hex[:8]}", since, until)
        assert files == 10_000
        seconds.append(took)
    theirs = statistics.median(seconds[2:])

    def plain() -> None:
        lake.create_change_table(lake.changes(name, since=since, details=False))

    def ranged() -> None:
        lake.create_change_table(lake.changes(name, since=since, columns=COLUMNS))

    ours, with_ranges = _median(plain, ROUNDS), _median(ranged, ROUNDS)
    out = {
        "recipe_seconds": round(theirs, 3),
        "icefloe_seconds": round(ours, 4),
        "icefloe_with_ranges_seconds": round(with_ranges, 3),
        "times_faster": round(theirs / ours, 1),
        "times_faster_with_ranges": round(theirs / with_ranges, 2),
    }
    say(f"  java: {out}")
    return out


def _engines(spark: Any, lake: Lake, config: Config) -> dict[str, Any]:
    """Real data: 20 loads, of which the last five are asked for."""
    say("loading 20 days of 100,000 events")
    playback = PlaybackTable(config, "demo", Events(100_000, seed=1))
    playback.create()
    for number in range(15):
        playback.load(day_number(number))
    since = lake.checkpoint(playback.name)
    assert since is not None
    for number in range(15, 20):
        playback.load(day_number(number))
    until = lake.checkpoint(playback.name)
    assert until is not None
    name = f"{config.catalog.name}.{playback.name}"

    def by_change_table() -> Any:
        made = lake.create_change_table(lake.changes(playback.name, since=since, details=False))
        return spark.table(f"{config.catalog.name}.{made.name}")

    def by_incremental_read() -> Any:
        reader = spark.read.format("iceberg").option("start-snapshot-id", since.snapshot_id)
        return reader.option("end-snapshot-id", until.snapshot_id).load(name)

    def by_changelog_view() -> Any:
        view = f"changes_{uuid4().hex[:8]}"
        spark.sql(
            f"CALL {config.catalog.name}.system.create_changelog_view(table => '{playback.name}', changelog_view => '{view}', "
            f"options => map('start-snapshot-id', '{since.snapshot_id}', 'end-snapshot-id', '{until.snapshot_id}'))"
        ).collect()
        return spark.table(view)

    out: dict[str, Any] = {}
    for label, make in (
        ("change_table", by_change_table),
        ("incremental_read", by_incremental_read),
        ("changelog_view", by_changelog_view),
    ):
        rows = make().count()
        assert rows == 500_000, (label, rows)
        out[label] = {
            "first_row_seconds": round(_median(lambda m=make: m().head(1), ROUNDS), 3),
            "count_seconds": round(
                _median(lambda m=make: m().agg({"view_min": "sum", "*": "count"}).collect(), ROUNDS), 3
            ),
        }
        say(f"  {label}: {out[label]}")
    return out


def _in_child(config: Config, since: int, mode: str) -> dict[str, float]:
    command = [sys.executable, "-m", "benchmarks.capture", "--child"]
    command += [str(config.root / configuration.FILE_NAME), str(since), mode]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def _child(file: Path, since: int, mode: str) -> dict[str, float]:
    lake = Lake.open(configuration.load(file, env={}))
    lake.table("bench.large")
    idle = _status_kb("VmRSS")
    began, cpu = time.perf_counter(), time.process_time()
    found = lake.changes(
        "bench.large", since=since, details=mode != "plain", columns=COLUMNS if mode == "ranges" else ()
    )
    lake.create_change_table(found)
    return {
        "seconds": time.perf_counter() - began,
        "cpu_seconds": time.process_time() - cpu,
        "mb_above_idle": (_status_kb("VmHWM") - idle) / 1024,
    }


def _status_kb(name: str) -> int:
    """From the kernel: ru_maxrss would include what the parent process was when it forked."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith(f"{name}:")).split()[1])


def _median(work: Callable[[], object], rounds: int) -> float:
    seconds = []
    for _ in range(rounds):
        began = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - began)
    return statistics.median(seconds)


def say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
