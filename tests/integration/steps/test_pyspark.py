"""PySpark steps: files and functions with a session, typed parameters, the change table, outputs and protected writes."""

from __future__ import annotations

import secrets
from pathlib import Path

import pytest

from icefloe.service.client import Client
from tests.integration.steps.conftest import SparkBench, cause, succeeded


def test_a_script_reads_its_changes_writes_and_publishes_with_the_step(bench: SparkBench) -> None:
    bench.sql("CREATE TABLE DB.events (id BIGINT, day DATE) PARTITIONED BY (day)")
    bench.sql("CREATE TABLE DB.copy (id BIGINT, day DATE)")
    bench.sql("INSERT INTO DB.events VALUES (1, DATE'2026-03-01'), (2, DATE'2026-03-02')")
    bench.file(
        "copy.py",
        """
        from icefloe import job

        changes = job.changes()
        print("range", changes.range("day").min, changes.range("day").max, len(changes.partitions))
        job.write(changes.read(), job.param("TARGET"))
        job.output(rows=changes.row_count, doubled=job.param("FACTOR") * 2, source=changes.source)
        """,
    )
    text = """
    Workflow:
      id: copy
      TARGET: DB.copy
      FACTOR: 21
      jobs:
        - job: {id: look, type: IpCapture, ip_capture: {source_tables: [DB.events], columns: [day]}}
        - job: {id: work, type: Spark, spark: {script: copy.py}}
        - job: {id: commit, type: IpCommit, ip_commit: {capture_step: look}}
      dag: sequential
    """
    run = succeeded(bench.run(text))
    assert [row[0] for row in bench.rows("copy")] == [1, 2]
    outputs = next(step for step in run.steps if step.id == "work").outputs
    assert (outputs["rows"], outputs["doubled"]) == (2, 42)
    assert "range 2026-03-01 2026-03-02 2" in bench.log(run)
    bench.sql("INSERT INTO DB.events VALUES (3, DATE'2026-03-03')")
    succeeded(bench.run(text))
    assert [row[0] for row in bench.rows("copy")] == [1, 2, 3]
    assert bench.branches("copy") == []


def test_whatever_api_writes_it_is_seen_on_the_wire_and_nothing_is_visible_when_the_script_fails(
    bench: SparkBench,
) -> None:
    for name in ("a", "b", "c", "d"):
        bench.sql(f"CREATE TABLE DB.{name} (id BIGINT)")
        bench.sql(f"INSERT INTO DB.{name} VALUES (0)")
    bench.file(
        "writes.py",
        f"""
        from pyspark.sql import SparkSession
        from pyspark.sql.functions import col

        spark = SparkSession.builder.getOrCreate()
        one = spark.range(1, 2).select(col("id"))
        one.writeTo("{bench.db}.a").append()
        one.write.insertInto("{bench.db}.b")
        spark.sql("INSERT INTO {bench.db}.c VALUES (1)")
        one.createOrReplaceTempView("one")
        spark.sql("MERGE INTO {bench.db}.d t USING one s ON t.id = s.id WHEN NOT MATCHED THEN INSERT *")
        assert spark.table("{bench.db}.a").count() == 2, "it reads what it has written"
        import os
        if os.path.exists("{bench.folder}/broken"):
            raise RuntimeError("after all writes")
        """,
    )
    (bench.folder / "broken").touch()
    failed = cause(bench.step("script: writes.py"))
    assert failed["code"] == "spark.script"
    assert failed["message"] == "writes.py, line 15: RuntimeError: after all writes"
    for name in ("a", "b", "c", "d"):
        assert bench.rows(name) == [(0,)], "no reader sees part of a failed step"
        assert bench.branches(name) == []
    (bench.folder / "broken").unlink()
    succeeded(bench.step("script: writes.py"))
    for name in ("a", "b", "c", "d"):
        assert bench.rows(name) == [(0,), (1,)]


def test_a_table_that_the_script_makes_and_then_appends_to_has_all_its_rows(bench: SparkBench) -> None:
    bench.file(
        "makes.py",
        f"""
        from pyspark.sql import SparkSession

        spark = SparkSession.builder.getOrCreate()
        for name, number in (("made", 1), ("remade", 2)):
            rows = spark.range(number, number + 1)
            rows.writeTo(f"{bench.db}.{{name}}").using("iceberg").createOrReplace()
            rows.writeTo(f"{bench.db}.{{name}}").append()
        """,
    )
    bench.sql("CREATE TABLE DB.remade (id BIGINT)")
    bench.sql("INSERT INTO DB.remade VALUES (0)")
    succeeded(bench.step("script: makes.py"))
    assert bench.rows("made") == [(1,), (1,)]
    assert bench.rows("remade") == [(2,), (2,)]


def test_a_function_gets_the_session_and_parameters_by_name_and_type(bench: SparkBench) -> None:
    bench.file("library.py", "WORDS = ['floe', 'berg']\n")
    bench.file(
        "my_job.py",
        """
        from datetime import date
        from library import WORDS

        def run(spark, DAY: date, RATE: float, NAMES: list, limit: int = 7):
            assert DAY == date(2026, 3, 1) and RATE == 2.0 and NAMES == ["x", "y"] and limit == 7
            return {"total": spark.range(len(WORDS)).count(), "day": DAY}
        """,
    )
    run = succeeded(
        bench.run(
            """
            Workflow:
              id: fun
              DAY: 20260301
              RATE: 2
              NAMES: [x, y]
              jobs:
                - job: {id: work, type: Spark, spark: {script: "my_job:run", files: [my_job.py, library.py]}}
            """
        )
    )
    outputs = run.steps[0].outputs
    assert (outputs["total"], outputs["day"]) == (2, "2026-03-01")


@pytest.mark.parametrize("script", ["udfs.py", "udfs:run"])
def test_python_functions_run_in_sparks_workers_with_the_modules_of_the_step(bench: SparkBench, script: str) -> None:
    bench.file("kit/__init__.py", "")
    bench.file(
        "udfs.py",
        """
        import pandas as pd
        from icefloe import job
        from pyspark.sql.functions import col, pandas_udf, udf
        from kit.words import shout

        @udf("string")
        def loud(word: str) -> str:
            return shout(word)

        @pandas_udf("long")
        def twice(numbers: pd.Series) -> pd.Series:
            return numbers * 2

        def run(spark):
            rows = spark.range(2).select(twice(col("id")).alias("id"), loud(col("id").cast("string")).alias("word"))
            job.write(rows, job.param("TARGET"))

        if __name__ == "__main__":
            run(job.session())
        """,
    )
    text = f"""
    Workflow:
      id: udfs
      TARGET: DB.loud
      jobs:
        - job: {{id: work, type: Spark, spark: {{script: "{script}", files: [udfs.py, kit/__init__.py, kit/words.py]}}}}
    """
    bench.file("kit/words.py", "SUFFIX = '!'\n\ndef shout(word):\n    return 'w' + word + SUFFIX\n")
    succeeded(bench.run(text))
    assert sorted(bench.rows("loud")) == [(0, "w0!"), (2, "w1!")]
    # The same workers, another version of the module.
    bench.file("kit/words.py", "SUFFIX = '?'\n\ndef shout(word):\n    return 'v' + word + SUFFIX\n")
    succeeded(bench.run(text))
    assert sorted(bench.rows("loud")) == [(0, "v0?"), (0, "w0!"), (2, "v1?"), (2, "w1!")]


def test_write_appends_overwrites_and_merges_and_makes_what_is_missing(bench: SparkBench) -> None:
    bench.file(
        "modes.py",
        f"""
        import sys
        from icefloe import job

        assert sys.argv[1:] == ["x", "2"]
        spark = job.session()
        rows = spark.createDataFrame([(1, "a"), (2, "b")], "id BIGINT, part STRING")
        job.write(rows, "{bench.db}.made", partition_by=["part"])
        job.write(rows.where("part = 'b'").selectExpr("id * 10 AS id", "part"), "{bench.db}.made", mode="overwrite")
        job.write(spark.sql("SELECT 1L AS id, 'z' AS part UNION ALL SELECT 5L, 'c'"), "{bench.db}.made", mode="merge", keys=["id"])
        job.write(spark.sql("SELECT 6L AS id, 'c' AS part"), "{bench.db}.made", mode="overwrite", where="part = 'c'")
        """,
    )
    succeeded(bench.step("script: modes.py\nargs: [x, 2]"))
    assert bench.rows("made") == [(1, "z"), (6, "c"), (20, "b")]
    wrong = bench.file(
        "wrong.py", f"from icefloe import job\njob.write(job.session().range(1), '{bench.db}.made', mode='merge')\n"
    )
    failed = cause(bench.step(f"script: {wrong}"))
    assert failed["code"] == "job.write" and failed["message"].startswith("wrong.py, line 2")


def test_a_sql_file_of_the_version_is_run_and_its_errors_name_line_and_column(bench: SparkBench) -> None:
    bench.sql("CREATE TABLE DB.t (id BIGINT)")
    bench.file(
        "load.sql", f"-- two statements\nINSERT INTO {bench.db}.t VALUES (1);\nINSERT INTO {bench.db}.t VALUES (2);\n"
    )
    succeeded(bench.step("script: load.sql"))
    assert bench.rows("t") == [(1,), (2,)]
    bench.file("bad.sql", f"INSERT INTO {bench.db}.t VALUES (3);\n\n  SELECT nothing\n  FROM {bench.db}.t")
    failed = cause(bench.step("script: bad.sql"))
    assert failed["code"] == "spark.analysis"
    assert failed["message"].startswith("bad.sql, line 3, column 10: ")
    assert bench.rows("t") == [(1,), (2,)], "the statement before the bad one is not visible either"
    assert bench.branches("t") == []
    bench.file("worse.sql", "SELECT 1;\nSELECT 1 FORM x y z")
    failed = cause(bench.step("script: worse.sql"))
    assert failed["code"] == "spark.syntax" and failed["message"].startswith("worse.sql, line 2, column ")


def test_a_script_sees_no_secret_of_the_project_and_the_step_reaches_its_catalog_all_the_same(
    bench: SparkBench, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    alert, password, cloud = (secrets.token_urlsafe(24) for _ in range(3))
    monkeypatch.setenv("ICEFLOE_ALERTS__CHANNELS__ops", f"json://hooks.example/{alert}")
    monkeypatch.setenv("ICEFLOE_CATALOG__PYICEBERG__password", password)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", cloud)
    monkeypatch.setenv("KEPT_BY_THE_WORKER", "x")
    bench.client.close()
    bench.client = Client(bench.config)  # what starts its steps is started with these
    bench.sql("CREATE TABLE DB.numbers (id BIGINT)")
    bench.file(
        "look.py",
        f"""
        import os
        from pathlib import Path
        from pyspark.sql import SparkSession
        from pyspark.sql.functions import udf
        from icefloe import job

        spark = SparkSession.builder.getOrCreate()
        spark.range(3).writeTo("{bench.db}.numbers").append()
        environment = lambda: str(dict(os.environ)) + Path(f"/proc/{{os.getppid()}}/environ").read_text()
        here = environment()
        there = spark.range(1).select(udf(lambda _: environment())("id")).collect()[0][0]
        attempt = Path(os.environ["ICEFLOE_PARAMS"]).parent
        files = "".join(file.read_text() for file in attempt.glob("*.json"))
        print(here, there, files)
        Path({str(tmp_path / "seen")!r}).write_text(here + there + files)
        """,
    )
    run = succeeded(bench.step("script: look.py"))
    assert [row[0] for row in bench.rows("numbers")] == [0, 1, 2]
    seen, log = (tmp_path / "seen").read_text(), bench.log(run)
    for secret in (alert, password):
        assert secret not in seen
        assert secret not in log
    assert "KEPT_BY_THE_WORKER" not in seen
    assert cloud in seen, "a cloud's credentials are Spark's"
    assert cloud not in log
    assert "token=***" in log
