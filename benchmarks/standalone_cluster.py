"""Spark standalone on this machine, from PySpark's own jars: a master, two worker processes, and a Spark Connect server as an
application on them.

Each worker offers two cores, and each application takes one core of each worker: so a team's own ``spark-submit`` fits beside the
Connect server, which holds its executors all the time.
"""

from __future__ import annotations

import os
import socket
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path

from benchmarks.processes import end_group
from icefloe.spark import java, memory
from icefloe.spark.jars import spark_jars_folder
from icefloe.spark.launch import CORES, MODULE_OPTIONS, QUIET_LOG, SERVER_CLASS

WORKERS = 2
EXECUTOR_MEMORY_GB = 2


class StandaloneCluster:
    """``catalog`` is what ``icefloe spark-conf`` prints."""

    def __init__(self, folder: Path, catalog: Mapping[str, str]) -> None:
        self._folder = folder
        self._catalog = dict(catalog)
        self._jars = [path for path in self._catalog.pop("spark.jars", "").split(",") if path]
        self._java = java.find()
        self._processes: list[subprocess.Popen[bytes]] = []
        self.master = f"spark://localhost:{_free_port()}"
        self._port = _free_port()
        self.remote = f"sc://localhost:{self._port}"
        (folder / "work").mkdir(parents=True)
        (folder / "log4j2.properties").write_text(QUIET_LOG, encoding="utf-8")

    @property
    def application(self) -> dict[str, str]:
        """What every application on it is told."""
        return {
            "spark.cores.max": str(WORKERS),
            "spark.executor.cores": "1",
            "spark.executor.memory": f"{EXECUTOR_MEMORY_GB}g",
            "spark.driver.host": "localhost",
            "spark.driver.bindAddress": "127.0.0.1",
            # Spark's 200 is for more cores than these two; the local server has as many for two.
            "spark.sql.shuffle.partitions": str(16 * WORKERS),
        }

    def start(self) -> None:
        port = self.master.rpartition(":")[2]
        self._run("master", "1g", {}, "org.apache.spark.deploy.master.Master",
                  "--host", "localhost", "--port", port, "--webui-port", "0")  # fmt: skip
        self._wait_for(int(port))
        for number in range(WORKERS):
            self._run(f"worker-{number}", "1g", {}, "org.apache.spark.deploy.worker.Worker",
                      "--host", "localhost", "--cores", "2", "--memory", f"{2 * EXECUTOR_MEMORY_GB}g",
                      "--webui-port", "0", "--work-dir", str(self._folder / "work" / str(number)), self.master)  # fmt: skip
        settings = {
            **self._catalog,
            **self.application,
            "spark.master": self.master,
            "spark.app.name": "connect",
            "spark.ui.enabled": "false",
            "spark.scheduler.mode": "FAIR",
            CORES: str(WORKERS),
            "spark.local.dir": str(self._folder / "scratch"),
            "spark.sql.warehouse.dir": str(self._folder / "warehouse"),
            "spark.executor.extraClassPath": os.pathsep.join(self._jars),
            "spark.connect.grpc.binding.address": "localhost",
            "spark.connect.grpc.binding.port": str(self._port),
        }
        self._run("connect", memory.of_the_server(), settings, SERVER_CLASS, classpath=self._jars)
        self._wait_for(self._port)

    def stop(self) -> None:
        """The Connect server first, then workers with their executors, then the master."""
        for process in reversed(self._processes):
            end_group(process)
        self._processes.clear()

    def _run(
        self,
        name: str,
        heap: str,
        settings: Mapping[str, str],
        main: str,
        *arguments: str,
        classpath: list[str] | None = None,
    ) -> None:
        own = sorted(str(jar) for jar in spark_jars_folder().glob("*.jar"))
        words = [
            *MODULE_OPTIONS,
            f"-Xmx{heap}",
            "-XX:+UseParallelGC",
            f"-Dlog4j2.configurationFile={self._folder / 'log4j2.properties'}",
            *(f"-D{key}={value}" for key, value in settings.items()),
            *("-cp", os.pathsep.join([*own, *(classpath or [])])),
            main,
            *arguments,
        ]
        environment = {
            **os.environ,
            "JAVA_HOME": str(self._java.home),
            "SPARK_HOME": str(spark_jars_folder().parent),
            "SPARK_SCALA_VERSION": "2.13",  # as bin/load-spark-env.sh says it; workers start no executor without
            "SPARK_LOCAL_DIRS": str(self._folder / "scratch"),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_LOCAL_HOSTNAME": "localhost",
        }
        with (self._folder / f"{name}.log").open("wb") as log:
            self._processes.append(
                subprocess.Popen(
                    [str(self._java.launcher), *words], stdout=log, stderr=log, env=environment, start_new_session=True
                )
            )

    def _wait_for(self, port: int, seconds: float = 120) -> None:
        process, deadline = self._processes[-1], time.monotonic() + seconds
        while time.monotonic() < deadline:
            if process.poll() is not None:
                break
            try:
                socket.create_connection(("localhost", port), 1).close()
                return
            except OSError:
                time.sleep(0.2)
        logs = "\n".join(log.read_text(errors="replace")[-2000:] for log in sorted(self._folder.glob("*.log")))
        raise RuntimeError(f"nothing answers on port {port}:\n{logs}")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
