"""The pipeline of the demonstration, both ways: ``playback_table -> playback_daily_table -> playback_daily_agg_table``.

The incremental way writes ``NAMESPACE.*``, in tables that Icefloe makes; the lookback writes ``NAMESPACE_lookback.*``, in tables set up as its
users would: nothing is shuffled to be written.
"""

from __future__ import annotations

from datetime import date
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING

from icefloe.demo.results import Cost, Proof, Way
from icefloe.demo.spark_reads import SparkReads
from icefloe.errors import IcefloeError
from icefloe.service.client import Client
from icefloe.service.pushing import push_files

if TYPE_CHECKING:
    from pyspark.sql.connect.session import SparkSession

STAGES = ("playback_daily", "playback_agg")
TARGETS = ("playback_daily_table", "playback_daily_agg_table")
_COLUMNS = (
    "event_id STRING, event_time TIMESTAMP, account_id BIGINT, device STRING, country STRING, title_id INT, position_s BIGINT, "
    "view_min INT, event_day DATE",
    "account_id BIGINT, country STRING, event_day DATE, views BIGINT, view_min BIGINT, longest INT, titles BIGINT",
)


class DemoError(IcefloeError):
    """A run of the demonstration did not succeed."""

    code = "demo.failed"


class Pipeline:
    """Somebody must be working for the client's runs."""

    def __init__(self, spark: SparkSession, client: Client, reads: SparkReads, namespace: str, folder: Path) -> None:
        self._spark = spark
        self._client = client
        self._reads = reads
        self._namespace = namespace
        self._folder = folder

    def set_up(self) -> None:
        """The lookback's tables, and the workflows of both ways, as files in ``folder`` and pushed."""
        self._spark.sql(f"CREATE NAMESPACE IF NOT EXISTS {self._of('lookback')}")
        for table, columns in zip(TARGETS, _COLUMNS, strict=True):
            self._spark.sql(
                f"CREATE TABLE {self._of('lookback')}.{table} ({columns}) USING iceberg PARTITIONED BY (event_day) TBLPROPERTIES "
                "('write.distribution-mode'='none', 'write.spark.fanout.enabled'='true')"
            )
        self._folder.mkdir(parents=True, exist_ok=True)
        for template in resources.files("icefloe.demo").joinpath("workflows").iterdir():
            text = template.read_text(encoding="utf-8").replace("NAMESPACE", self._namespace)
            (self._folder / template.name).write_text(text, encoding="utf-8")
        push_files(self._client, sorted(self._folder.glob("*.yaml")))

    def run(self, way: Way, day: date) -> Cost:
        """Both stages, one after the other, as runs of their workflows."""
        before = self._reads.now()
        cost = Cost()
        for stage in STAGES:
            params = {"DAY": day.isoformat()} if way == "lookback" else {}
            cost += self._stage(f"{self._of(way)}.{stage}", params)
        return cost + self._reads.since(before)

    def _stage(self, workflow: str, params: dict[str, str]) -> Cost:
        run_id = self._client.runs.start(workflow, params).run_id
        try:
            view = self._client.wait(run_id)
        except KeyboardInterrupt:
            self._client.runs.kill(run_id)
            raise
        if view.status != "SUCCEEDED":
            causes = "; ".join(str((step.cause or {}).get("message")) for step in view.steps if step.cause)
            raise DemoError(f"run {view.run_id} is {view.status}: {causes}")
        assert view.started_at is not None and view.ended_at is not None
        outputs = [step.outputs for step in view.steps]
        return Cost(
            seconds=view.ended_at - view.started_at,
            searched_rows=sum(int(values.get("searched_rows", 0)) for values in outputs),
        )

    def proofs(self) -> tuple[Proof, ...]:
        return tuple(
            Proof(table, self._digest("lookback", table), self._digest("incremental", table)) for table in TARGETS
        )

    def _digest(self, way: Way, table: str) -> tuple[int, int]:
        digest = "count(*), sum(CAST(xxhash64(*) AS DECIMAL(38,0)))"
        (row,) = self._spark.sql(f"SELECT {digest} FROM {self._of(way)}.{table}").collect()
        return int(row[0]), int(row[1] or 0)

    def _of(self, way: Way) -> str:
        return f"{self._namespace}_lookback" if way == "lookback" else self._namespace
