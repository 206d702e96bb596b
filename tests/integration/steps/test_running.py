"""Where a Spark step runs, with which settings, how it is cancelled."""

from __future__ import annotations

import threading

from icefloe.spark import predecessors, server, session
from icefloe.store.tables import spark_sessions
from tests.integration.steps.conftest import SparkBench, cause, succeeded
from tests.projects import wait_until


def test_a_submitted_application_runs_the_classic_api_fenced_and_with_static_settings(bench: SparkBench) -> None:
    for name in ("a", "b", "c"):
        bench.sql(f"CREATE TABLE DB.{name} (id BIGINT)")
        bench.sql(f"INSERT INTO DB.{name} VALUES (0)")
    bench.file(
        "classic.py",
        f"""
        import sys
        from pyspark.sql import SparkSession
        from icefloe import job

        spark = SparkSession.builder.getOrCreate()
        rows = spark.sparkContext.parallelize([(1,), (2,)]).toDF(["id"])  # an RDD: not over Connect
        rows.writeTo("{bench.db}.a").append()
        spark.sql("INSERT INTO {bench.db}.b SELECT count(*) FROM {bench.db}.a")
        job.write(rows, "{bench.db}.c")
        others_see = [
            spark.sql(f"SELECT * FROM {bench.db}.{{name}} VERSION AS OF 'main'").count() for name in ("a", "b", "c")
        ]
        job.output(
            others_see=others_see, master=spark.sparkContext.master, codec=spark.conf.get("spark.io.compression.codec"),
            forked="icefloe.engine.supervisor" in sys.modules,
        )
        """,
    )
    settings = "script: classic.py\nsubmit: spark-submit\nmaster: local[2]\nconf: {spark.io.compression.codec: zstd}"
    run = succeeded(bench.step(settings))
    outputs = run.steps[0].outputs
    assert (outputs["master"], outputs["codec"]) == ("local[2]", "zstd")
    assert outputs["forked"] is False, "spark-submit has started the process"
    assert list(outputs["others_see"]) == [1, 1, 1], "nothing is visible before the script has ended"
    assert (bench.rows("a"), bench.rows("b"), bench.rows("c")) == ([(0,), (1,), (2,)], [(0,), (3,)], [(0,), (1,), (2,)])
    assert bench.branches("a") == []


def test_a_step_on_a_server_is_forked_from_a_warm_process(bench: SparkBench) -> None:
    bench.file(
        "where.py",
        "import sys\nfrom icefloe import job\njob.output(forked='icefloe.engine.supervisor' in sys.modules)\n",
    )
    assert succeeded(bench.step("script: where.py")).steps[0].outputs["forked"] is True


def test_settings_hold_for_the_step_and_a_static_one_names_spark_submit(bench: SparkBench) -> None:
    bench.file(
        "settings.py",
        """
        from icefloe import job
        conf = job.session().conf
        job.output(mode=conf.get("spark.sql.sources.partitionOverwriteMode"), shuffles=conf.get("spark.sql.shuffle.partitions"))
        """,
    )
    outputs = succeeded(bench.step("script: settings.py\nconf: {spark.sql.shuffle.partitions: 3}")).steps[0].outputs
    assert (outputs["mode"], outputs["shuffles"]) == ("dynamic", "3")
    failed = cause(bench.step("script: settings.py\nconf: {spark.executor.memory: 1g}"))
    assert failed["code"] == "spark.static-setting"
    assert "spark.executor.memory" in failed["message"] and "submit: spark-submit" in failed["hint"]


def test_a_step_may_name_a_server_of_its_own(bench: SparkBench) -> None:
    record = server.folder_of(bench.config).read()
    assert record is not None
    run = succeeded(bench.step(f"script: SELECT 41 + 1 AS answer\nremote: '{record.url}'"))
    assert "42" in bench.log(run)
    failed = cause(bench.step("script: SELECT 1\nremote: sc://localhost:1"))
    assert failed["code"] == "spark.unreachable"
    failed = cause(bench.step("script: SELECT 1\nremote: http://localhost"))
    assert "sc://host:port" in failed["hint"]


def test_stopping_a_run_ends_its_statement_on_the_server(bench: SparkBench) -> None:
    bench.sql("CREATE TABLE DB.t (id BIGINT)")
    slow = (
        f"INSERT INTO {bench.db}.t SELECT id FROM range(0, 900000000, 1, 2) WHERE sha2(string(id), 512) LIKE '00000%'"
    )
    run_id = bench.client.runs.start(
        bench.push(
            f'Workflow:\n  id: slow\n  jobs:\n    - job: {{id: work, type: Spark, spark: {{script: "{slow}"}}}}\n'
        )
    ).run_id
    thread = threading.Thread(target=lambda: bench.client.work(run_id))
    thread.start()
    try:
        # The live view's last line: the server reports tasks, so the statement is running there.
        wait_until(lambda: "running" in bench.client.runs.log_tail(run_id, "work", 1, lines=1), 90)
        bench.client.runs.stop(run_id)
        thread.join(60)
    finally:
        bench.client.runs.status(run_id) == "STOPPED" or bench.client.runs.kill(run_id)
        thread.join(60)
    assert bench.client.runs.show(run_id).status == "STOPPED"
    with bench.client.database.read() as connection:
        (identity,) = connection.execute(spark_sessions.select()).scalars()
    said: list[str] = []
    predecessors.end(session.address(bench.spark), [identity], said.append)
    assert said == [], "the server has nothing left to end in that session"
    assert bench.rows("t") == []
