"""Beside production on real Spark: an environment of its own, and a consumer's unseen rows in a notebook."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from icefloe.lake import Lake
from icefloe.service.environments import push_for
from icefloe.service.pushing import push_files
from tests.spark_server import Project

if TYPE_CHECKING:
    from pyspark.sql.connect.session import SparkSession

DEFINITION = """
Workflow:
  id: {namespace}.flow
  retry_policy: {{error: 0, platform: 0}}
  jobs:
    - job: {{id: look, type: IpCapture, ip_capture: {{source_tables: [{namespace}.source]}}}}
    - job: {{id: write, type: Spark, spark: {{script: "INSERT INTO {namespace}.target SELECT {value} FROM ${{look__icdc_table}}"}}}}
    - job: {{id: commit, type: IpCommit, ip_commit: {{capture_step: look}}}}
  dag: sequential
"""


def test_an_environment_leaves_production_alone_and_a_preview_moves_nothing(
    project: Project, spark: SparkSession, tmp_path: Path
) -> None:
    def sql(text: str) -> list[Any]:
        return [row[0] for row in spark.sql(text).collect()]

    source, target = project.name("source"), project.name("target")
    spark.sql(f"CREATE TABLE {source} (id BIGINT) USING iceberg")
    spark.sql(f"CREATE TABLE {target} (id BIGINT) USING iceberg")
    spark.sql(f"INSERT INTO {source} VALUES (1), (2)").collect()
    file = tmp_path / "flow.yaml"
    consumer = f"{project.namespace}.flow/look"
    with project.client() as client:

        def run(workflow: str) -> None:
            view = client.work(client.runs.start(workflow).run_id)
            assert view.status == "SUCCEEDED", [step.cause for step in view.steps]

        file.write_text(DEFINITION.format(namespace=project.namespace, value="id"), encoding="utf-8")
        push_files(client, [file])
        run(f"{project.namespace}.flow")
        spark.sql(f"INSERT INTO {source} VALUES (3)").collect()
        before = client.consumers.show(consumer).sources[0]

        file.write_text(DEFINITION.format(namespace=project.namespace, value="id * 100"), encoding="utf-8")
        pushed = push_for(client, file, "dev")
        assert pushed.workflow_id == f"dev.{project.namespace}.flow"
        run(pushed.workflow_id)
        assert sorted(sql(f"SELECT id FROM {target}")) == [1, 2]
        assert sorted(sql(f"SELECT id FROM {target}.branch_dev")) == [1, 2, 100, 200, 300]
        spark.sql(f"INSERT INTO {source} VALUES (4)").collect()
        run(pushed.workflow_id)
        assert sorted(sql(f"SELECT id FROM {target}.branch_dev")) == [1, 2, 100, 200, 300, 400]

        after = client.consumers.show(consumer).sources[0]
        assert (after.snapshot_id, after.version) == (before.snapshot_id, before.version)
        lake = Lake.open(project.config)
        tables = len(lake.change_tables())
        with client.consumer(consumer).preview(spark) as unseen:
            assert sorted(row[0] for row in unseen.rows().collect()) == [3, 4]
            assert unseen.changes[source].added.rows == 2
        assert len(lake.change_tables()) == tables
        assert client.consumers.show(consumer).sources[0].snapshot_id == before.snapshot_id
        run(f"{project.namespace}.flow")
        assert sorted(sql(f"SELECT id FROM {target}")) == [1, 2, 3, 4], "production goes on from its own place"
