"""What the orchestration adds to one SQL statement: ``python -m benchmarks.overhead`` (last line: one JSON object).

A source gets a commit; its rows are to be in a target. Once by the bare statement in an open session on the warm server, and
once by the whole line: capture, the same statement as a SQL step on a branch, published by fast-forward, IpCommit. Both are
measured in one run, turn by turn, so that a slow machine is slow for both. Times are from the commit on the source to the
target's commit (``to_target``) and to the run's end (``whole``); a worker is alive already, as in production.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from benchmarks.project import temporary_project
from icefloe.engine.worker import Worker
from icefloe.lake import Lake
from icefloe.service.client import Client
from icefloe.service.pushing import push_files
from icefloe.service.views import RunView
from icefloe.spark import server
from icefloe.spark.session import session

if TYPE_CHECKING:
    from pyspark.sql.connect.session import SparkSession

DEFINITION = """
Workflow:
  id: line
  jobs:
    - job: {id: capture, type: IpCapture, ip_capture: {source_tables: [db.source], columns: [day]}}
    - job:
        id: copy
        type: Spark
        spark: {script: "INSERT INTO db.by_the_line SELECT id, day, upper(name) FROM ${capture__icdc_table}"}
    - job: {id: commit, type: IpCommit, ip_commit: {capture_step: capture}}
  dag: sequential
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--turns", type=int, default=15, help="how often each way is measured")
    parser.add_argument("--rows", type=int, default=10_000, help="rows in each commit on the source")
    arguments = parser.parse_args()
    with temporary_project() as config:
        try:
            with session(config, note=_say) as spark, Client(config) as client, _worker(client):
                found = measure(spark, client, arguments.turns, arguments.rows)
        finally:
            server.stop(config)
    print(json.dumps(found))


def measure(spark: SparkSession, client: Client, turns: int, rows: int) -> dict[str, Any]:
    columns = "(id BIGINT, day DATE, name STRING) USING iceberg PARTITIONED BY (day)"
    spark.sql("CREATE NAMESPACE db")
    for table in ("source", "bare", "by_the_line"):
        spark.sql(f"CREATE TABLE db.{table} {columns}")
    file = client.config.root / "line.yaml"
    file.write_text(DEFINITION, encoding="utf-8")
    push_files(client, [file])
    lake = Lake.open(client.config)
    bare, to_target, whole, steps = [], [], [], []
    warm_up = 3
    for turn in range(turns + warm_up):
        since = lake.checkpoint("db.source")
        _commit(spark, turn, rows)
        table = lake.create_change_table(lake.changes("db.source", since=since), name=f"bare_{turn}")
        name = f"{client.config.catalog.name}.{table.name}"
        began = time.perf_counter()
        spark.sql(f"INSERT INTO db.bare SELECT id, day, upper(name) FROM {name}").collect()
        seconds = time.perf_counter() - began
        view, ended, published = _line(client, lake)
        if turn >= warm_up:
            bare.append(seconds)
            to_target.append(published)
            whole.append(ended)
            steps.append({step.id: (step.ended_at or 0) - (step.started_at or 0) for step in view.steps})
            _say(f"turn {turn - warm_up + 1} of {turns}: bare {seconds:.2f} s, line {published:.2f} s to the target")
    same = [
        tuple(spark.sql(f"SELECT count(*), sum(id) FROM db.{table}").collect()[0]) for table in ("bare", "by_the_line")
    ]
    assert same[0] == same[1], f"the two ways wrote different rows: {same}"
    return {
        "benchmark": "overhead",
        "turns": turns,
        "rows_per_commit": rows,
        "bare_seconds": _median(bare),
        "line_to_target_seconds": _median(to_target),
        "line_whole_seconds": _median(whole),
        "added_seconds": _median([line - alone for line, alone in zip(to_target, bare, strict=True)]),
        "added_whole_seconds": _median([line - alone for line, alone in zip(whole, bare, strict=True)]),
        "ratio": round(statistics.median(to_target) / statistics.median(bare), 2),
        "capture_ms": round(1000 * statistics.median(one["capture"] for one in steps), 1),
        "copy_ms": round(1000 * statistics.median(one["copy"] for one in steps), 1),
        "commit_ms": round(1000 * statistics.median(one["commit"] for one in steps), 1),
    }


def _commit(spark: SparkSession, turn: int, rows: int) -> None:
    spark.sql(
        f"INSERT INTO db.source SELECT id, date_add(DATE'2026-03-01', {turn}), concat('n', id) "
        f"FROM range({turn * rows}, {(turn + 1) * rows}, 1, 1)"
    ).collect()


def _line(client: Client, lake: Lake) -> tuple[RunView, float, float]:
    """Seconds to the run's end, and to the moment the target had its new snapshot."""
    began, clock = time.perf_counter(), time.time()
    run = client.runs.start("line").run_id
    view = client.wait(run, timeout=300)
    ended = time.perf_counter() - began
    if view.status != "SUCCEEDED":
        raise SystemExit(f"run {run} is {view.status}: {[step.cause for step in view.steps if step.cause]}")
    metadata = lake.table("db.by_the_line").metadata
    moved = metadata.raw["snapshot-log"][
        -1
    ]  # when main came to where it is: the fast-forward, not the statement's commit
    assert moved["snapshot-id"] == metadata.refs["main"].snapshot_id
    return view, ended, moved["timestamp-ms"] / 1000 - clock


@contextmanager
def _worker(client: Client) -> Iterator[None]:
    worker = Worker(client.config, client.database)
    thread = threading.Thread(target=worker.run, name="worker")
    thread.start()
    try:
        yield
    finally:
        worker.stop()
        thread.join()


def _median(values: list[float]) -> float:
    return round(statistics.median(values), 3)


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
