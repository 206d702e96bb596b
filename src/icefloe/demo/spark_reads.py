"""What Spark itself says its tasks have read: rows, from the REST interface of the demonstration's own server."""

from __future__ import annotations

import socket

import httpx

from icefloe.demo.results import Cost


class SparkReads:
    """Counts since the server's start; take the difference of two. Needs :func:`settings` in the server's configuration.

    Rows only. Spark 4.1 with Iceberg 1.12 counts bytes wrongly: 1.2 a row in files of 400,000 events that hold 42 a row, also with
    ``parquet.hadoop.vectored.io.enabled`` off.
    """

    def __init__(self, port: int) -> None:
        self._base = f"http://localhost:{port}/api/v1/applications"

    def now(self) -> int:
        application = httpx.get(self._base, timeout=30).raise_for_status().json()[0]["id"]
        stages = httpx.get(f"{self._base}/{application}/stages", timeout=30).raise_for_status().json()
        return sum(stage["inputRecords"] for stage in stages)

    def since(self, earlier: int) -> Cost:
        return Cost(spark_rows=self.now() - earlier)


def settings(port: int) -> dict[str, str]:
    """Spark's own pages, which are off otherwise, on this machine only; every stage of the demonstration is remembered."""
    return {
        "spark.ui.enabled": "true",
        "spark.ui.port": str(port),
        "spark.ui.retainedStages": "100000",
        "spark.ui.liveUpdate.period": "0",
    }


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port
