"""What it costs to watch tables in which nothing happens: one scheduler, one workflow with an incremental trigger per table.

    python -m benchmarks.watching [--tables 1000] [--tick 5] [--seconds 30]

The tables are real entries of an embedded catalog, all naming one metadata file; each workflow's consumer has seen its head.
Measured is the CPU time of the whole process, threads included, over whole ticks.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import threading
import time
from typing import Any

from benchmarks.project import temporary_project
from benchmarks.synthetic import SyntheticTable
from icefloe.config import Config
from icefloe.lake import Lake
from icefloe.service.client import Client
from icefloe.service.scheduling import make_scheduler
from icefloe.steps.registry import installed
from icefloe.store import captures
from icefloe.store.captures import CheckpointRecord
from icefloe.triggers.scheduler import Scheduler
from icefloe.workflow.loading import load
from icefloe.workflow.versions import pack

WORKFLOW = """
Trigger: {{incremental: {{tables: [db.t{number}], at_most_every: 1m}}}}
Workflow:
  id: w{number}
  jobs:
    - job: {{id: look, type: IpCapture, ip_capture: {{source_tables: [db.t{number}]}}}}
    - job: {{id: commit, type: IpCommit, ip_commit: {{capture_step: look}}}}
  dag: sequential
"""


class NoFiles:
    """These definitions refer to none."""

    def read(self, key: str) -> bytes:
        raise AssertionError(key)


def prepare(config: Config, client: Client, tables: int) -> None:
    lake = Lake.open(config)
    SyntheticTable(lake, "db.model").append(100, 1)
    model = lake.table("db.model")
    head = lake.checkpoint("db.model")
    assert head is not None
    types = installed().types()
    for number in range(tables):
        lake.tables.register(("db", f"t{number}"), model.metadata.metadata_location)
        text = WORKFLOW.format(number=number)
        client.workflows.push(pack(load(text, "w.yaml", types), NoFiles(), types), source=text, source_name="w.yaml")
    with client.database.write() as connection:
        for number in range(tables):
            name = f"w{number}/look"
            captures.ensure_consumer(connection, name, f"w{number}", time.time())
            captures.set_checkpoint(
                connection,
                CheckpointRecord(
                    name, f"db.t{number}", "main", head.table_uuid, head.snapshot_id, head.sequence_number,
                    head.schema_id, None, time.time(),
                ),
            )  # fmt: skip


def cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def settled(scheduler: Scheduler, tables: int, seconds: float) -> float:
    """Until every table has been looked at. Returns how long that took."""
    began = time.monotonic()
    while time.monotonic() - began < seconds:
        reasons = [judged.verdict.reason for n in range(tables) for judged in scheduler.judgements(f"w{n}").values()]
        if len(reasons) == tables and all("nothing new" in reason for reason in reasons):
            return time.monotonic() - began
        time.sleep(0.5)
    raise RuntimeError(f"not settled: {reasons[:3]}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tables", type=int, default=1000)
    parser.add_argument("--tick", type=float, default=5.0)
    parser.add_argument("--seconds", type=float, default=30.0)
    options = parser.parse_args()
    with temporary_project() as made:
        config = made.model_copy(update={"scheduler": made.scheduler.model_copy(update={"tick_seconds": options.tick})})
        with Client(config) as client:
            prepare(config, client, options.tables)
            scheduler = make_scheduler(config, client.database, client.runs)
            thread = threading.Thread(target=scheduler.run)
            thread.start()
            try:
                first = settled(scheduler, options.tables, 300)
                loads = scheduler.tables.loads
                before, began = cpu(), time.monotonic()
                time.sleep(options.seconds)
                share = (cpu() - before) / (time.monotonic() - began)
                opened = scheduler.tables.loads - loads
            finally:
                scheduler.stop()
                thread.join()
    result: dict[str, Any] = {
        "benchmark": "watching",
        "cores": os.cpu_count(),
        "tables": options.tables,
        "tick_seconds": options.tick,
        "first_look_seconds": round(first, 2),
        "share_of_a_core": round(share, 4),
        "goal": 0.10,
        "metadata_files_opened_while_idle": opened,
        "peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
    }
    print(
        f"{options.tables} tables, a tick of {options.tick:g} s: {share:.1%} of a core, {opened} files opened",
        flush=True,
    )
    print(json.dumps(result))


if __name__ == "__main__":
    main()
