"""The product as its users run it: ``python -m benchmarks.unattended [--mode local|cluster|both] [--quick] [--folder FOLDER]``.

``icefloe init``, ``push`` and ``serve`` in a new project, and a writer that is not Icefloe (PyIceberg, in its own process). The two
stages of :mod:`benchmarks.two_stage` are two workflows with incremental triggers. After 14 days of history both ``serve`` and the Spark
server are stopped; then ``serve`` starts again, nothing else is started or warmed up, and the writer commits at once:

- micro-batches (10,400 events at 1 million a day), the first one while the Spark server is still coming up;
- then whole days.

Each is timed from the writer's commit to the last target's snapshot. The writer waits until a batch is through, and then for a random part
of the scheduler's tick. Time in runs is from the runs' own start and end, as ``icefloe runs --output json`` prints them.

In the same run, on targets of their own, the same SELECTs over the last 14 days, tuned as in :mod:`benchmarks.two_stage`: as a workflow
by the same ``serve`` (twice after the micro-batches, once after each day), and as cron runs them, one ``spark-submit`` a stage (over the
history, and after every second day). In the end all targets are compared with both SELECTs over the whole source.

``local`` is the project's own Spark server. ``cluster`` is Spark standalone, a master and two worker processes on this machine, with a Spark
Connect server that the project reaches by ``remote``; there, ``write: {search: off}``. It was started before and stays: only ``serve`` is new to
the first batch. The last line is the figures as JSON, by mode; with ``--folder`` they are in ``unattended.json`` there, too.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

from benchmarks.playback import (
    AGGREGATE,
    GROUPED,
    KEYS,
    LOOKBACK_DAYS,
    PLAYBACK,
    TUNED,
    create_target,
    fingerprint,
    first_of_lookback,
    since,
)
from benchmarks.playback_writer import SOURCE, Load, Writer
from benchmarks.project import say
from benchmarks.served_project import ServedProject, seconds
from benchmarks.standalone_cluster import StandaloneCluster
from benchmarks.unattended_report import Batch, Observed, lines, report

MICRO_SHARE = 0.0104
STAGES = ("daily", "agg")
WAYS = ("icefloe", "lookback", "cron")


@dataclass(frozen=True)
class Size:
    events: int
    batches: int
    day_loads: int

    @property
    def micro_batch(self) -> int:
        return max(round(self.events * MICRO_SHARE), 1)


FULL = Size(events=1_000_000, batches=20, day_loads=3)
QUICK = Size(events=5_000, batches=2, day_loads=1)


def arguments(words: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mode", choices=("local", "cluster", "both"), default="both")
    parser.add_argument("--events", type=_count, help=f"a day ({FULL.events:,})")
    parser.add_argument("--batches", type=_count, help=f"micro-batches ({FULL.batches})")
    parser.add_argument("--day-loads", type=_count, help=f"whole days after them ({FULL.day_loads})")
    parser.add_argument("--quick", action="store_true", help="a size that shows that it works, and nothing about speed")
    parser.add_argument("--folder", type=Path, help="a new folder for the projects, which stays")
    asked = parser.parse_args(words)
    size = QUICK if asked.quick else FULL
    asked.size = Size(asked.events or size.events, asked.batches or size.batches, asked.day_loads or size.day_loads)
    asked.modes = ("local", "cluster") if asked.mode == "both" else (asked.mode,)
    if asked.folder is not None and asked.folder.exists() and any(asked.folder.iterdir()):
        parser.error(f"{asked.folder} is not empty")
    return asked


def main() -> int:
    asked = arguments()
    size: Size = asked.size
    figures: dict[str, Any] = {
        "benchmark": "unattended",
        "events_per_day": size.events,
        "micro_batch": size.micro_batch,
        "lookback_days": LOOKBACK_DAYS,
        "cpus": os.cpu_count(),
        "modes": {},
    }
    with _folder(asked.folder) as folder:
        for mode in asked.modes:
            load = os.getloadavg()[0]
            began = time.monotonic()
            seen = report(Measurement(mode, folder / mode, size).measure())
            took = time.monotonic() - began
            figures["modes"][mode] = {**seen, "load_before": round(load, 2), "took_s": round(took)}
            for line in lines(seen):
                print(line, flush=True)
        (folder / "unattended.json").write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")
    print(json.dumps(figures))
    return 0 if all(seen["equal"] for seen in figures["modes"].values()) else 1


def stage(name: str, source: str, target: str, select: str, write: dict[str, Any]) -> dict[str, Any]:
    """An incremental workflow with a trigger, as the README has it."""
    return {
        "Trigger": {"incremental": {"tables": [source]}},
        "Workflow": {
            "id": name,
            "jobs": [
                {"job": {"id": "take", "type": "IpCapture", "ip_capture": {"source_tables": [source]}}},
                {"job": {"id": "write", "type": "Spark", "spark": {"script": select, "write": {"table": target, **write}}}},
                {"job": {"id": "commit", "type": "IpCommit", "ip_commit": {"capture_step": "take"}}},
            ],
            "dag": "sequential",
        },
    }  # fmt: skip


def definitions(*, search: str) -> dict[str, dict[str, Any]]:
    daily, agg = _targets("icefloe")
    conf = [{}, dict.fromkeys(GROUPED, "true")]
    overwrites = [
        {
            "job": {
                "id": name,
                "type": "Spark",
                # Each statement commits to main by itself, as an INSERT OVERWRITE outside of Icefloe does.
                "spark": {"script": f"INSERT OVERWRITE {target} {select}", "conf": conf[at], "publish": "direct"},
            }
        }
        for at, (name, target, select) in enumerate(
            zip(STAGES, _targets("lookback"), lookback_selects("lookback", "${FIRST_DAY}"), strict=True)
        )
    ]
    return {
        "daily": stage(
            "daily",
            SOURCE,
            daily,
            PLAYBACK.clean.format(source=SOURCE),
            {"partition_by": ["event_day"], "search": search},
        ),
        "agg": stage("agg", daily, agg, AGGREGATE.format(source=daily), {"keys": list(KEYS), "search": search}),
        "lookback": {
            "Workflow": {"id": "lookback", "FIRST_DAY": "2026-01-01", "jobs": overwrites, "dag": "sequential"}
        },
    }


def lookback_selects(way: str, first_day: object) -> tuple[str, str]:
    """Both stages over the days since then."""
    return (
        PLAYBACK.clean.format(source=since(SOURCE, first_day)),
        AGGREGATE.format(source=since(_targets(way)[0], first_day)),
    )


def cron_is_due(day_load: int, day_loads: int) -> bool:
    """After every second day, at the latest: what is 12 days late on the day before is still in the window. And in the end."""
    return day_load % 2 == 0 or day_load == day_loads - 1


@dataclass(frozen=True)
class Commit:
    load: Load
    arrived: float
    """When the last target's snapshot was on main."""


class Measurement:
    """One mode, in a folder of its own."""

    def __init__(self, mode: str, folder: Path, size: Size) -> None:
        folder.mkdir(parents=True)
        self.mode, self.size = mode, size
        self.project = ServedProject(folder)
        tick = self.project.config.scheduler.tick_seconds
        self.observed = Observed(mode, tick)
        self.master, self.settings = "local[*]", dict[str, str]()
        self._chance = random.Random(19)
        self._stack = ExitStack()

    def measure(self) -> Observed:
        with self._stack:
            self._stack.callback(self.project.close)
            config = self.project.config
            if self.mode == "cluster":
                self._start_cluster()
            catalog = config.catalog
            self.writer = Writer(catalog.name, catalog.pyiceberg_properties(), self.size.events)
            self._stack.callback(self.writer.close)
            self._prepare()
            self._restart()
            micro = [self._batch(self.size.micro_batch, new_day=number == 0) for number in range(self.size.batches)]
            for _ in range(2):
                self._counted_lookback(micro[-1].load.day)
            days = []
            for number in range(self.size.day_loads):
                days.append(self._batch(self.size.events, new_day=True))
                today = days[-1].load.day
                self._counted_lookback(today)
                if cron_is_due(number, self.size.day_loads):
                    self._cron(today)
            batches = attributed([*micro, *days], self.project.runs(STAGES, micro[0].load.began, limit=10_000))
            self.observed.micro, self.observed.days = batches[: len(micro)], batches[len(micro) :]
            self.observed.servers = len(self.project.servers)
            self._compare()
        return self.observed

    def _start_cluster(self) -> None:
        conf = json.loads(self.project("spark-conf", "--output", "json", "--reveal"))
        cluster = StandaloneCluster(self.project.folder / "cluster", conf)
        self._stack.callback(cluster.stop)
        say("starting a master, two workers and a Spark Connect server")
        cluster.start()
        self.project.configure(cluster.remote)
        self.master, self.settings = cluster.master, cluster.application

    def _prepare(self) -> None:
        """The history, and all targets filled with it."""
        say(f"{self.mode}: writing {LOOKBACK_DAYS} days of {self.size.events:,} events")
        self.writer.create_source()
        for _ in range(LOOKBACK_DAYS):
            last = self.writer.load(self.size.events, new_day=True)
        self.project.push(definitions(search="off" if self.mode == "cluster" else "auto"))
        began = time.time()
        self.project.serve()
        arrived = self._arrival(None, began)
        self.observed.first_load = arrived - began
        say(f"{self.mode}: the history was in the last target after {self.observed.first_load:.1f} s")
        statements = [
            create_target(target, select, TUNED)
            for way in WAYS[1:]
            for target, select in zip(_targets(way), lookback_selects(way, last.day), strict=True)
        ]
        self._sql(statements)
        say(f"{self.mode}: lookback, first time, not counted: {self._lookback(last.day):.1f} s")
        self._cron(last.day)

    def _restart(self) -> None:
        self.project.stop()
        self.project.servers.clear()
        self.project.serve()

    def _batch(self, rows: int, *, new_day: bool) -> Commit:
        before = self.project.published_at(_targets("icefloe")[-1])
        load = self.writer.load(rows, new_day=new_day)
        commit = Commit(load, self._arrival(before, load.began))
        say(f"{self.mode}: {rows:,} events in the last target after {commit.arrived - load.at:.2f} s")
        time.sleep(self._chance.uniform(0, self.observed.tick_seconds))  # commits fall anywhere between two ticks
        return commit

    def _arrival(self, before: tuple[int, float] | None, began: float) -> float:
        """When the last target had a new snapshot; returns when both stages' runs have ended."""
        arrived = self.project.new_snapshot(_targets("icefloe")[-1], before)

        def ended() -> bool:
            runs = self.project.runs(STAGES, began)
            return {run["workflow_id"] for run in runs} == {*STAGES} and all(run["ended_at"] for run in runs)

        self.project.wait(ended, 120, "the end of both runs")
        return arrived

    def _lookback(self, today: date) -> float:
        return self.project.run("lookback", _targets("lookback")[-1], FIRST_DAY=str(first_of_lookback(today)))

    def _counted_lookback(self, today: date) -> None:
        self.observed.lookback.append(self._lookback(today))
        say(f"{self.mode}: lookback by the same serve: {self.observed.lookback[-1]:.1f} s")

    def _cron(self, today: date) -> None:
        stages = []
        selects = lookback_selects("cron", first_of_lookback(today))
        for at, (name, target, select) in enumerate(zip(STAGES, _targets("cron"), selects, strict=True)):
            file = self.project.folder / f"cron-{name}.sql"
            file.write_text(select, encoding="utf-8")
            grouped = dict.fromkeys(GROUPED, "true") if at else {}
            stages.append(self.project.submit(file, target, self.master, {**self.settings, **grouped}))
        self.observed.cron.append(stages)
        say(f"{self.mode}: cron, one spark-submit a stage: {stages[0]:.1f} + {stages[1]:.1f} s")

    def _compare(self) -> None:
        """All targets with both SELECTs over the whole source, by Spark."""
        clean = PLAYBACK.clean.format(source=SOURCE)
        selects = [clean, AGGREGATE.format(source=f"({clean})")]
        names = [target for way in WAYS for target in _targets(way)]
        answers = self._sql(
            [fingerprint(select) for select in (*selects, *(f"SELECT * FROM {name}" for name in names))]
        )
        expected, seen = answers[: len(selects)], answers[len(selects) :]
        for at, name in enumerate(names):
            self.observed.equal[name] = seen[at] == expected[at % len(selects)]
            if not self.observed.equal[name]:
                say(f"NOT EQUAL: {name} has {seen[at]}, not {expected[at % len(selects)]}")

    def _sql(self, statements: list[str]) -> list[Any]:
        file = self.project.folder / "statements.sql"
        file.write_text(";\n".join(statements), encoding="utf-8")
        return [result["rows"] for result in self.project.json("sql", "--file", str(file))["results"]]


def attributed(commits: list[Commit], runs: list[dict[str, Any]]) -> list[Batch]:
    """Each run belongs to the last commit before it was made."""
    batches = []
    for commit, following in zip(commits, [*commits[1:], None], strict=True):
        end = following.load.began if following else float("inf")
        own = [run for run in runs if commit.load.began <= run["created_at"] < end]
        batches.append(
            Batch(
                rows=commit.load.rows,
                to_last_target=commit.arrived - commit.load.at,
                to_first_run=min(float(run["started_at"]) for run in own) - commit.load.at,
                in_runs=sum(seconds(run) for run in own),
                runs=len(own),
            )
        )
    return batches


def _targets(way: str) -> tuple[str, str]:
    return f"bench.daily_{way}", f"bench.agg_{way}"


@contextmanager
def _folder(asked: Path | None) -> Iterator[Path]:
    if asked is not None:
        asked.mkdir(parents=True, exist_ok=True)
        yield asked.resolve()
        return
    with tempfile.TemporaryDirectory(prefix="icefloe-unattended-") as folder:
        yield Path(folder)


def _count(text: str) -> int:
    number = int(text.replace("_", ""))
    if number < 1:
        raise argparse.ArgumentTypeError("at least 1")
    return number


if __name__ == "__main__":
    sys.exit(main())
