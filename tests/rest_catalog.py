"""A real REST catalog whose warehouse is on an S3-protocol store: Iceberg's own test server, and moto as the store.

The server is the one of Iceberg 1.10.0 (later ones are not published as jars); clients on both sides are today's. What it needs beyond PySpark's jars
and ours is locked in ``jars.lock.json`` beside this file.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from icefloe.spark import jars, java

LOCK_FILE = Path(__file__).with_name("jars.lock.json")
# Iceberg's server uses these of PySpark's jars; the rest would bring a second logging binding and servlet API.
FROM_SPARK = (
    "avro-1.*.jar",
    "hadoop-client-*.jar",
    "jackson-annotations-*.jar",
    "jackson-core-2.*.jar",
    "jackson-databind-*.jar",
    "jcl-over-slf4j-*.jar",
    "RoaringBitmap-*.jar",
    "slf4j-api-*.jar",
)
ACCESS_KEY, SECRET_KEY, REGION, BUCKET = "test-access", "test-secret", "us-east-1", "lake"


@dataclass(frozen=True)
class RestCatalog:
    """Where the running catalog and store are."""

    uri: str
    s3_endpoint: str
    warehouse: str

    @property
    def properties(self) -> dict[str, str]:
        """For ``[catalog.properties]``."""
        return {
            "s3.endpoint": self.s3_endpoint,
            "s3.access-key-id": ACCESS_KEY,
            "s3.secret-access-key": SECRET_KEY,
            "s3.region": REGION,
            "s3.path-style-access": "true",
        }

    def toml(self) -> str:
        """The ``[catalog]`` sections of an ``icefloe.toml`` that uses it."""
        lines = [
            "[catalog]",
            'name = "lake"',
            'type = "rest"',
            f'uri = "{self.uri}"',
            "",
            "[catalog.properties]",
            *(f'"{key}" = "{value}"' for key, value in self.properties.items()),
            "",
            "[change_tables]",
            f'location = "{self.warehouse}-change-tables"',
        ]
        return "\n".join(lines) + "\n"


@contextmanager
def rest_catalog() -> Iterator[RestCatalog]:
    """Both servers, on free ports, for the length of the block."""
    with tempfile.TemporaryDirectory(prefix="icefloe-rest-") as scratch, _s3_store(Path(scratch)) as endpoint:
        warehouse = f"s3://{BUCKET}/warehouse"
        port = _free_port()
        runtime = java.find()
        wanted = (*jars.locked(LOCK_FILE), *(jar for jar in jars.locked() if jar.module == "sqlite-jdbc"))
        spark_jars = [jar for pattern in FROM_SPARK for jar in jars.spark_jars_folder().glob(pattern)]
        classpath = [*jars.ensure(wanted, runtime.launcher), *spark_jars]
        environment = {
            **os.environ,
            "AWS_ACCESS_KEY_ID": ACCESS_KEY,
            "AWS_SECRET_ACCESS_KEY": SECRET_KEY,
            "AWS_REGION": REGION,
            "CATALOG_REST_PORT": str(port),
            "CATALOG_WAREHOUSE": warehouse,
            "CATALOG_CATALOG__IMPL": "org.apache.iceberg.jdbc.JdbcCatalog",
            "CATALOG_URI": f"jdbc:sqlite:{scratch}/catalog.db",
            "CATALOG_JDBC_SCHEMA__VERSION": "V1",
            "CATALOG_IO__IMPL": "org.apache.iceberg.aws.s3.S3FileIO",
            "CATALOG_S3_ENDPOINT": endpoint,
            "CATALOG_S3_PATH__STYLE__ACCESS": "true",
        }
        command = [
            str(runtime.launcher),
            *("-Xmx256m", "-XX:TieredStopAtLevel=1", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"),
            *("-cp", os.pathsep.join(map(str, classpath))),
            "org.apache.iceberg.rest.RESTCatalogServer",
        ]
        uri = f"http://127.0.0.1:{port}"
        with _running(command, f"{uri}/v1/config", Path(scratch) / "rest.log", environment):
            yield RestCatalog(uri, endpoint, warehouse)


@contextmanager
def _s3_store(scratch: Path) -> Iterator[str]:
    port = _free_port()
    endpoint = f"http://127.0.0.1:{port}"
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    with _running(command, endpoint, scratch / "s3.log", dict(os.environ)):
        request = urllib.request.Request(f"{endpoint}/{BUCKET}", method="PUT")
        urllib.request.urlopen(request, timeout=30).close()
        yield endpoint


@contextmanager
def _running(command: list[str], probe: str, log: Path, environment: dict[str, str]) -> Iterator[None]:
    with log.open("wb") as stream:
        process = subprocess.Popen(command, stdout=stream, stderr=stream, env=environment)
    try:
        _wait_for(probe, process, log)
        yield
    finally:
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _wait_for(url: str, process: subprocess.Popen[bytes], log: Path, seconds: float = 90) -> None:
    deadline = time.monotonic() + seconds
    while True:
        try:
            urllib.request.urlopen(url, timeout=5).close()
            return
        except urllib.error.HTTPError:
            return
        except OSError:
            if process.poll() is not None or time.monotonic() > deadline:
                words = log.read_text(encoding="utf-8", errors="replace")[-2000:]
                raise AssertionError(f"{process.args!s:.200} did not come up:\n{words}") from None
            time.sleep(0.05)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
