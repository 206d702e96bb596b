"""What is written once and what again: retries, restarts, runs begun anew, a state database from an old backup."""

from __future__ import annotations

import sqlite3
import threading
from contextlib import closing
from pathlib import Path

import psutil
import pytest

from icefloe.service.client import Client
from tests.integration.steps.conftest import SparkBench, cause, succeeded
from tests.projects import wait_until

ONE = """
Workflow:
  id: one
  retry: {error: 0, platform: 0}
  jobs:
    - job: {id: work, type: Spark, spark: {script: INSERT INTO DB.t VALUES (1)}}
"""


def test_a_restart_of_what_is_incomplete_writes_nothing_twice_and_one_from_the_beginning_writes_again(
    bench: SparkBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.sql("CREATE TABLE DB.t (id BIGINT)")
    monkeypatch.setenv("ICEFLOE_FAULT", "spark.after_publish:1")
    run = bench.run(ONE)
    assert cause(run)["code"] == "step.killed"
    assert bench.rows("t") == [(1,)], "killed between publishing and telling so"
    monkeypatch.delenv("ICEFLOE_FAULT")
    bench.client.runs.restart(run.run_id)
    succeeded(bench.client.work(run.run_id))
    assert bench.rows("t") == [(1,)]
    bench.client.runs.restart(run.run_id, from_beginning=True)
    succeeded(bench.client.work(run.run_id))
    assert bench.rows("t") == [(1,), (1,)]
    assert bench.branches("t") == [], "the killed attempt's branch is gone too"


def copied(source: Path, target: Path) -> None:
    """As an administrator would: whole, whatever else has the file open."""
    with closing(sqlite3.connect(source)) as one, closing(sqlite3.connect(target)) as other:
        one.backup(other)


COPY = """
Workflow:
  id: copy
  retry: {error: 0, platform: 0}
  jobs:
    - job: {id: look, type: IpCapture, ip_capture: {source_tables: [DB.events]}}
    - job: {id: work, type: Spark, spark: {script: "INSERT INTO DB.copy SELECT * FROM ${look__icdc_table}"}}
    - job: {id: commit, type: IpCommit, ip_commit: {capture_step: look}}
  dag: sequential
"""


def test_a_state_database_from_an_old_backup_consumes_nothing_again(bench: SparkBench) -> None:
    for name in ("events", "copy"):
        bench.sql(f"CREATE TABLE DB.{name} (id BIGINT)")
    state, backup = bench.folder / "state.db", bench.folder / "backup.db"

    def restore() -> None:
        copied(backup, state)
        bench.client.close()
        bench.client = Client(bench.config, launchers=bench.launchers)  # nothing remembered

    bench.sql("INSERT INTO DB.events VALUES (1)")
    succeeded(bench.run(COPY))
    copied(state, backup)
    bench.sql("INSERT INTO DB.events VALUES (2)")
    succeeded(bench.run(COPY))
    restore()
    run = succeeded(bench.run(COPY))
    assert "published already" in bench.log(run)
    assert bench.rows("copy") == [(1,), (2,)], "the same range, captured anew: recognised"

    restore()
    bench.sql("INSERT INTO DB.events VALUES (3)")
    failed = cause(bench.run(COPY))
    assert failed["code"] == "spark.foreign-batch", "a longer range, of which a part is in the target"
    assert bench.rows("copy") == [(1,), (2,)]
    consumer, to = failed["hint"].rpartition("fast-forward ")[2].split(" --to ")
    (held,) = [one for one in bench.client.consumers.captures(consumer) if one.state == "built"]
    bench.client.consumers.abandon(held.id, yes=True, why="restored from an old backup")
    bench.client.consumers.fast_forward(consumer, int(to), yes=True, why="restored from an old backup")
    succeeded(bench.run(COPY))
    assert bench.rows("copy") == [(1,), (2,), (3,)], "what the hint said helps"


PLANNED = """
Workflow:
  id: planned
  retry: {error: 0, platform: 0}
  jobs:
    - job: {id: look, type: IpCapture, ip_capture: {source_tables: [DB.events]}}
    - job: {id: work, type: Spark, spark: {script: "SELECT id FROM DB.events", write: {table: DB.copy, pattern: append}}}
    - job: {id: commit, type: IpCommit, ip_commit: {capture_step: look}}
  dag: sequential
"""


@pytest.mark.parametrize(
    "point", ["spark.before_statement", "spark.before_first_publish", "spark.after_publish", "spark.after_result"]
)
def test_a_planned_write_that_was_killed_is_done_once(
    bench: SparkBench, monkeypatch: pytest.MonkeyPatch, point: str
) -> None:
    bench.sql("CREATE TABLE DB.events (id BIGINT)")
    bench.sql("INSERT INTO DB.events VALUES (1)")
    succeeded(bench.run(PLANNED))
    bench.sql("INSERT INTO DB.events VALUES (2)")
    monkeypatch.setenv("ICEFLOE_FAULT", f"{point}:1")
    run = bench.run(PLANNED)
    assert cause(run)["code"] == "step.killed"
    monkeypatch.delenv("ICEFLOE_FAULT")
    bench.client.runs.restart(run.run_id)
    succeeded(bench.client.work(run.run_id))
    assert bench.rows("copy") == [(1,), (2,)]
    assert bench.branches("copy") == []


DIRECT = """
Workflow:
  id: direct
  retry: {error: 0, platform: 0}
  jobs:
    - job:
        id: work
        type: Spark
        spark:
          publish: direct
          script: |
            INSERT INTO DB.t VALUES (1);
            INSERT INTO DB.t SELECT id + 2 FROM range(2) WHERE coalesce(reflect('java.lang.Thread', 'sleep', bigint(4000)), '') <> 'x'
"""


def test_a_statement_that_a_killed_attempt_left_running_is_ended_before_the_next_writes_where_there_is_no_branch(
    bench: SparkBench,
) -> None:
    bench.sql("CREATE TABLE DB.t (id BIGINT)")
    run_id = bench.client.runs.start(bench.push(DIRECT)).run_id
    thread = threading.Thread(target=lambda: bench.client.work(run_id))
    thread.start()
    wait_until(lambda: "statement 2 of 2" in bench.client.runs.log_tail(run_id, "work", 1, lines=5), 90)
    for process in psutil.process_iter():
        if _is_step(process, run_id):
            process.kill()
    thread.join(60)
    assert bench.client.runs.show(run_id).status == "FAILED"
    bench.client.runs.restart(run_id)
    run = succeeded(bench.client.work(run_id))
    assert bench.rows("t") == [(1,), (2,), (3,)], "each statement once, whatever became of the one that was running"
    log = bench.log(run)
    assert "is there already" in log or "ended 1 statement(s) that an earlier attempt had left running" in log


def _is_step(process: psutil.Process, run_id: str) -> bool:
    try:
        return process.environ().get("ICEFLOE_ATTEMPT", "").startswith(run_id)
    except psutil.Error:
        return False


def test_files_that_are_no_table_are_written_by_one_attempt_at_a_time(
    bench: SparkBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = bench.folder / "files"
    bench.file(
        "job.py",
        f"""
        from icefloe.job import current
        current().session.range(3).write.mode("overwrite").parquet("{folder}")
        """,
    )
    text = "Workflow:\n  id: files\n  retry: {error: 0, platform: 0}\n  jobs:\n    - job: {id: work, type: Spark, spark: {script: job.py}}\n"
    monkeypatch.setenv("ICEFLOE_FAULT", "spark.before_first_publish:1")
    run = bench.run(text)
    assert cause(run)["code"] == "step.killed"
    monkeypatch.delenv("ICEFLOE_FAULT")
    bench.client.runs.restart(run.run_id)
    succeeded(bench.client.work(run.run_id))
    assert bench.spark.read.parquet(str(folder)).count() == 3
