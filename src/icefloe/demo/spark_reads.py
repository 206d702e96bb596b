"""What Spark itself says its tasks have read: rows and bytes, from the REST interface of the demonstration's own server."""

from __future__ import annotations

import socket
from dataclasses import dataclass

import httpx


@dataclass(frozen=True, slots=True)
class Reads:
    rows: int
    bytes: int

    def since(self, earlier: Reads) -> Reads:
        return Reads(self.rows - earlier.rows, self.bytes - earlier.bytes)


class SparkReads:
    """Counts since the server's start; take the difference of two. Needs :func:`settings` in the server's configuration."""

    def __init__(self, port: int) -> None:
        self._base = f"http://localhost:{port}/api/v1/applications"

    def now(self) -> Reads:
        application = httpx.get(self._base, timeout=30).raise_for_status().json()[0]["id"]
        stages = httpx.get(f"{self._base}/{application}/stages", timeout=30).raise_for_status().json()
        return Reads(sum(one["inputRecords"] for one in stages), sum(one["inputBytes"] for one in stages))


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
