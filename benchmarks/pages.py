"""Pages and listings with a year's runs in the store and people who watch, and what that costs the scheduler.

``icefloe serve`` runs in a new project whose state database was filled with finished runs. Each watcher is what an open tab is: one stream
of changes, and the page fetched again when the stream names it. Meanwhile one caller opens pages and listings in turn, and runs are
started and timed from their creation to the start of their first step, with watchers and without.

    python -m benchmarks.pages                  # both databases
    python -m benchmarks.pages --runs 5000 --watchers 5 --rounds 5 --only sqlite

The last line is one JSON document. The exit code is 1 when a page answered anything but 200.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import multiprocessing
import os
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
from tests.filled_store import Filled, fill
from tests.postgres import running_postgres
from tests.projects import Project, make_project, wait_until

from icefloe import config as configuration
from icefloe.store import migrations
from icefloe.store.database import Database

ICEFLOE = [sys.executable, "-m", "icefloe.cli.main"]
LIVE = """
Workflow:
  id: live
  run_strategy: {rule: PARALLEL, concurrency: 50}
  jobs:
    - job: {id: first, type: NoOp}
    - job: {id: second, type: NoOp}
  dag: sequential
"""


def say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


@contextlib.contextmanager
def served(folder: Path, url: str) -> Iterator[tuple[str, dict[str, str]]]:
    """``icefloe serve`` in a project on this state database: its address, and what a caller sends along."""
    (folder / configuration.FILE_NAME).write_text(f'[state]\nurl = "{url}"\n', encoding="utf-8")
    with (folder / "serve.log").open("wb") as log:
        process = subprocess.Popen(
            [*ICEFLOE, "serve", "--listen", "127.0.0.1:0"], cwd=folder, stdout=log, stderr=log, start_new_session=True
        )
    try:
        file = folder / configuration.HOME_NAME / "server.json"
        wait_until(file.exists, 60, "serve did not come up")
        address = json.loads(file.read_text(encoding="utf-8"))["address"]
        token = (folder / configuration.HOME_NAME / "server.token").read_text(encoding="utf-8").strip()
        yield address, {"Authorization": f"Bearer {token}"}
    finally:
        os.killpg(process.pid, signal.SIGTERM)
        process.wait(60)


def watch(address: str, headers: dict[str, str], paths: list[str], stop: Any) -> None:
    """Tabs that people have open: a process of its own, as browsers are."""
    asyncio.run(_watch(address, headers, paths, stop))


async def _watch(address: str, headers: dict[str, str], paths: list[str], stop: Any) -> None:
    limits = httpx.Limits(max_connections=None)
    async with httpx.AsyncClient(base_url=address, headers=headers, timeout=60, limits=limits) as client:
        tabs = [asyncio.create_task(_tab(client, path)) for path in paths]
        while not stop.is_set():
            await asyncio.sleep(0.2)
        for tab in tabs:
            tab.cancel()
        await asyncio.gather(*tabs, return_exceptions=True)


async def _tab(client: httpx.AsyncClient, path: str) -> None:
    async with client.stream("GET", "/api/v1/changes", timeout=None) as stream:
        async for line in stream.aiter_lines():
            if line.startswith("data:") and "runs" in json.loads(line[5:])["topics"]:
                await asyncio.sleep(random.random() / 2)  # as the pages' script does
                (await client.get(path, headers={"X-Live": "listing"})).raise_for_status()


def opened(client: httpx.Client, paths: list[str], rounds: int) -> tuple[dict[str, list[float]], list[str]]:
    times: dict[str, list[float]] = {path: [] for path in paths}
    wrong = []
    for _ in range(rounds):
        for path in paths:
            began = time.perf_counter()
            answer = client.get(path)
            times[path].append((time.perf_counter() - began) * 1000)
            if answer.status_code != 200:
                wrong.append(f"{path}: {answer.status_code}")
    return times, wrong


def latencies(project: Project, count: int) -> list[float]:
    """From a run's creation to its first step's start, of runs that come one after the other."""
    found = []
    for _ in range(count):
        run = project.start("live")
        wait_until(lambda run=run: project.show(run).ended, 60)  # type: ignore[misc]
        view = project.show(run)
        found.append(((view.steps[0].started_at or 0) - view.created_at) * 1000)
    return found


def high(values: list[float], share: float = 0.95) -> float:
    return sorted(values)[min(int(len(values) * share), len(values) - 1)]


def measure(name: str, url: str, folder: Path, asked: argparse.Namespace) -> dict[str, Any]:
    database = Database(url)
    migrations.upgrade(database)
    database.close()
    project = make_project(folder, url)
    say(f"{name}: writing {asked.runs:,} runs")
    filled: Filled = fill(project, runs=asked.runs)
    project.push(LIVE)
    paths = [
        "/", "/workflows", f"/workflows/{filled.workflows[0]}", "/runs", "/runs?status=FAILED", f"/runs?workflow={filled.workflows[0]}",
        f"/runs/{filled.failed_run}", f"/runs/{filled.wide_run}", "/tables", "/consumers", "/lineage", "/savings", "/system",
        "/api/v1/runs", "/api/v1/workflows", f"/api/v1/runs/{filled.failed_run}",
    ]  # fmt: skip
    with (
        served(folder, url) as (address, headers),
        httpx.Client(base_url=address, headers=headers, timeout=60) as client,
    ):
        opened(client, paths, 1)  # what the first caller pays: templates, caches
        quiet_start = latencies(project, asked.starts)
        alone, wrong = opened(client, paths, asked.rounds)
        stop = multiprocessing.Event()
        watched = [f"/runs/{filled.failed_run}", "/runs", "/", "/workflows", f"/workflows/{filled.workflows[0]}"]
        tabs = [watched[number % len(watched)] for number in range(asked.watchers)]
        process = multiprocessing.Process(target=watch, args=(address, headers, tabs, stop))
        process.start()
        time.sleep(3)
        busy_start = latencies(project, asked.starts)
        stop_runs = multiprocessing.Event()
        runner = multiprocessing.Process(target=_keep_starting, args=(str(folder), url, stop_runs))
        runner.start()
        shared, also_wrong = opened(client, paths, asked.rounds)
        stop_runs.set()
        runner.join()
        stop.set()
        process.join(30)
    project.client.close()
    every_alone = [value for values in alone.values() for value in values]
    every_shared = [value for values in shared.values() for value in values]
    for path in paths:
        say(
            f"{name}: {path:40} {high(alone[path]):7.0f} ms alone {high(shared[path]):7.0f} ms watched (95th percentile)"
        )
    figures = {
        "page_ms_p95_alone": round(high(every_alone), 1),
        "page_ms_p95_watched": round(high(every_shared), 1),
        "page_ms_median_watched": round(statistics.median(every_shared), 1),
        "start_ms_median_alone": round(statistics.median(quiet_start), 1),
        "start_ms_median_watched": round(statistics.median(busy_start), 1),
        "start_ratio": round(statistics.median(busy_start) / statistics.median(quiet_start), 3),
        "wrong": [*wrong, *also_wrong],
    }
    say(f"{name}: {figures}")
    return figures


def _keep_starting(folder: str, url: str, stop: Any) -> None:
    """A run a second, which everybody who watches runs is told of."""
    project = make_project(Path(folder), url)
    while not stop.is_set():
        project.start("live")
        stop.wait(1.0)
    project.client.close()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=100_000)
    parser.add_argument("--watchers", type=int, default=50)
    parser.add_argument("--rounds", type=int, default=20, help="how often each page is opened")
    parser.add_argument("--starts", type=int, default=40, help="runs whose start is timed")
    parser.add_argument("--only", choices=("sqlite", "postgresql"))
    asked = parser.parse_args()
    figures: dict[str, Any] = {"runs": asked.runs, "watchers": asked.watchers}
    with tempfile.TemporaryDirectory(prefix="icefloe-bench-") as scratch:
        if asked.only != "postgresql":
            folder = Path(scratch) / "sqlite"
            folder.mkdir()
            figures["sqlite"] = measure("sqlite", f"sqlite:///{folder}/state.db", folder, asked)
        if asked.only != "sqlite":
            folder = Path(scratch) / "postgresql"
            folder.mkdir()
            with running_postgres() as server:
                figures["postgresql"] = measure("postgresql", server.new_database(), folder, asked)
    print(json.dumps(figures))
    return 1 if any(figures[name]["wrong"] for name in ("sqlite", "postgresql") if name in figures) else 0


if __name__ == "__main__":
    sys.exit(main())
