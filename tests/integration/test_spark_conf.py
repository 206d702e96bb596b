"""Somebody else's Spark joins with the printed settings, and the server starts as Spark's own launcher would start it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from icefloe.spark import jars, java
from icefloe.spark.launch import MODULE_OPTIONS
from tests.spark_server import Project

if TYPE_CHECKING:
    from pyspark.sql.connect.session import SparkSession

NOTEBOOK = """\
import json, sys
from pyspark.sql import SparkSession
builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
for key, value in json.load(open(sys.argv[1])).items():
    builder = builder.config(key, value)
spark = builder.getOrCreate()
spark.sql(f"INSERT INTO {sys.argv[2]} VALUES (3)")
print("total", spark.sql(f"SELECT sum(id) FROM {sys.argv[2]}").first()[0])
"""

JOB = """\
import sys
from pyspark.sql import SparkSession
spark = SparkSession.builder.getOrCreate()
print("total", spark.sql(f"SELECT sum(id) FROM {sys.argv[1]}").first()[0])
"""


def icefloe(project: Project, *words: str) -> str:
    command = [sys.executable, "-m", "icefloe.cli.main", "--config", str(project.root), *words]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def environment() -> dict[str, str]:
    own = {name: value for name, value in os.environ.items() if not name.startswith("SPARK_")}
    return {**own, "JAVA_HOME": str(java.find().home), "PYSPARK_PYTHON": sys.executable}


def total(command: list[str], folder: Path) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment(), cwd=folder)
    lines = [line for line in done.stdout.splitlines() if line.startswith("total ")]
    assert lines, done.stderr[-3000:]
    return lines[-1]


def test_a_notebook_and_a_spark_submit_join_with_the_printed_settings(
    project: Project, spark: SparkSession, tmp_path: Path
) -> None:
    table = project.name("joined")
    spark.sql(f"CREATE TABLE {table} (id BIGINT)")
    spark.sql(f"INSERT INTO {table} VALUES (1), (2)")

    (tmp_path / "conf.json").write_text(icefloe(project, "spark-conf", "--output", "json"))
    (tmp_path / "notebook.py").write_text(NOTEBOOK)
    assert total([sys.executable, "notebook.py", "conf.json", table], tmp_path) == "total 6"

    (tmp_path / "lake.properties").write_text(icefloe(project, "spark-conf", "--output", "properties"))
    (tmp_path / "job.py").write_text(JOB)
    submit = jars.spark_jars_folder().parent / "bin" / "spark-submit"
    command = [str(submit), "--master", "local[1]", "--properties-file", "lake.properties", "job.py", table]
    assert total(command, tmp_path) == "total 6"
    assert spark.sql(f"SELECT sum(id) FROM {table}").first()[0] == 6


def test_the_json_form_names_jars_that_exist(project: Project) -> None:
    conf = json.loads(icefloe(project, "spark-conf", "--output", "json"))
    assert all(Path(jar).is_file() for jar in conf["spark.jars"].split(","))


def test_the_server_gets_the_java_options_that_sparks_own_launcher_gives() -> None:
    folder = jars.spark_jars_folder()
    command = [java.find().launcher, "-cp", f"{folder}/*", "org.apache.spark.launcher.Main"]
    command += ["org.apache.spark.deploy.SparkSubmit", "--class", "x", "spark-internal"]
    env = {**environment(), "SPARK_HOME": str(folder.parent), "SPARK_SCALA_VERSION": "2.13"}
    printed = subprocess.run(command, capture_output=True, text=True, check=True, env=env).stdout
    words = [word.strip() for word in printed.split("\0")]
    theirs = {word for word in words if word.startswith(("--add", "--enable", "-D", "-XX"))}
    assert theirs == set(MODULE_OPTIONS)
