"""What is written once and what again: retries, restarts, runs begun anew, a state database from an old backup."""

from __future__ import annotations

import shutil

import pytest

from icefloe.service.client import Client
from tests.integration.steps.conftest import SparkBench, cause, succeeded

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
    state = bench.folder / "state.db"

    def restore() -> None:
        bench.client.close()
        for left in bench.folder.glob("state.db-*"):
            left.unlink()
        shutil.copy(bench.folder / "backup.db", state)
        bench.client = Client(bench.config)

    bench.sql("INSERT INTO DB.events VALUES (1)")
    succeeded(bench.run(COPY))
    bench.client.close()
    shutil.copy(state, bench.folder / "backup.db")
    bench.client = Client(bench.config)
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
