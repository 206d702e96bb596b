"""A project as its users have it: ``icefloe`` commands typed in a folder, ``icefloe serve`` beside them, and cron's ``spark-submit``.

Nothing is called inside this process but PyIceberg, to see when a table has got its new snapshot.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from pyiceberg.catalog import load_catalog
from pyiceberg.exceptions import NoSuchTableError

from benchmarks.processes import end_group
from icefloe import config as configuration
from icefloe.spark import java, memory, server
from icefloe.spark.jars import spark_jars_folder
from icefloe.spark.launch import CORES, QUIET_LOG, local_settings

ICEFLOE = [sys.executable, "-m", "icefloe.cli.main"]
POLL_SECONDS = 0.2
"""Between two looks at a table's metadata, which cost a few milliseconds. When it was published, it says itself."""
SETTLE_SECONDS = 1.0
"""From a target's new snapshot to the first ``icefloe`` command: such a command is a process on the cores that the run's last steps are on."""
FAILURE_SECONDS = 60.0
"""So often one looks for a failed run while a snapshot does not come."""
JOB = Path(__file__).parent / "jobs" / "lookback.py"


class ServedProject:
    """``icefloe init`` in ``folder``. Ends what it has started when it is closed."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.servers: set[tuple[int, float]] = set()
        """Every local Spark server that was seen: process and start."""
        self._serve: subprocess.Popen[bytes] | None = None
        self("init")
        self.config = self._load()
        self.catalog = load_catalog(self.config.catalog.name, **self.config.catalog.pyiceberg_properties())

    def configure(self, remote: str) -> None:
        """Steps run on this Spark Connect server."""
        file = self.folder / configuration.FILE_NAME
        text = file.read_text(encoding="utf-8")
        assert "[spark]\n" in text, text
        file.write_text(text.replace("[spark]\n", f'[spark]\nremote = "{remote}"\n', 1), encoding="utf-8")
        self.config = self._load()

    def __call__(self, *words: str) -> str:
        """A command, and what it has printed."""
        done = subprocess.run([*ICEFLOE, *words], cwd=self.folder, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise RuntimeError(f"icefloe {' '.join(words)}: {done.returncode}\n{done.stdout}\n{done.stderr}")
        return done.stdout

    def json(self, *words: str) -> Any:
        return json.loads(self(*words, "--output", "json"))

    def push(self, definitions: Mapping[str, dict[str, Any]]) -> None:
        for name, definition in definitions.items():
            # JSON is YAML, in which nothing has to be quoted by hand.
            (self.folder / f"{name}.yaml").write_text(json.dumps(definition, indent=2), encoding="utf-8")
        self("push", *(f"{name}.yaml" for name in definitions))

    def serve(self) -> None:
        with (self.folder / "serve.log").open("ab") as log:
            self._serve = subprocess.Popen(
                [*ICEFLOE, "serve"], cwd=self.folder, stdout=log, stderr=log, start_new_session=True
            )

    def stop(self) -> None:
        """``serve``, and the project's own Spark server, which would outlive it."""
        if self._serve is not None:
            end_group(self._serve, 60)
            self._serve = None
        if not self.config.spark.remote:
            self("spark", "stop")

    def close(self) -> None:
        with suppress(Exception):
            self.stop()

    def wait(self, until: Callable[[], Any], seconds: float, what: str) -> Any:
        """What ``until`` answers, as soon as that is something."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            self._look()
            if answer := until():
                return answer
            if self._serve is not None and self._serve.poll() is not None:
                raise RuntimeError(f"icefloe serve has ended\n{self._last_words()}")
            time.sleep(POLL_SECONDS)
        raise TimeoutError(f"{seconds:.0f} s went by without {what}\n{self._last_words()}\n{self('runs')}")

    def published_at(self, table: str) -> tuple[int, float] | None:
        """The newest snapshot of a table's main branch, and when it became that. Joined files do not count."""
        try:
            metadata = self.catalog.load_table(table).metadata
        except NoSuchTableError:
            return None
        operations = {snapshot.snapshot_id: snapshot.summary for snapshot in metadata.snapshots}
        for entry in reversed(metadata.snapshot_log):
            summary = operations.get(entry.snapshot_id)
            if summary is not None and summary.operation.value != "replace":
                return entry.snapshot_id, entry.timestamp_ms / 1000
        return None

    def new_snapshot(self, table: str, before: tuple[int, float] | None) -> float:
        """When a table had another newest snapshot than ``before``."""
        next_look = time.monotonic() + FAILURE_SECONDS

        def newer() -> tuple[int, float] | None:
            nonlocal next_look
            if time.monotonic() > next_look:
                next_look += FAILURE_SECONDS
                if failed := self.json("runs", "--status", "FAILED"):
                    raise RuntimeError(f"{failed[0]['run_id']} has failed\n{self('show', failed[0]['run_id'])}")
            now = self.published_at(table)
            return None if now == before else now

        _, at = self.wait(newer, 900, f"a new snapshot of {table}")
        time.sleep(SETTLE_SECONDS)
        return float(at)

    def run(self, workflow: str, target: str, **params: str) -> float:
        """A run by ``serve`` that ends with one statement on ``target``; its seconds."""
        before = self.published_at(target)
        run_id = self.json("run", workflow, *(f"{name}={value}" for name, value in params.items()))["run_id"]
        self.new_snapshot(target, before)
        return seconds(self.wait(lambda: self._ended(run_id), 60, f"the end of {run_id}"))

    def runs(self, workflows: tuple[str, ...], since: float, limit: int = 10) -> list[dict[str, Any]]:
        """Runs of these that were made since then, the oldest first."""
        newest = self.json("runs", "--limit", str(limit))
        runs = [run for run in newest if run["workflow_id"] in workflows and run["created_at"] >= since]
        if failed := [run for run in runs if run["ended_at"] and run["status"] != "SUCCEEDED"]:
            raise RuntimeError(f"{failed[0]['run_id']} has failed\n{self('show', failed[0]['run_id'])}")
        return sorted(runs, key=lambda run: float(run["created_at"]))

    def submit(self, select: Path, target: str, master: str, settings: Mapping[str, str]) -> float:
        """One stage by a ``spark-submit`` of its own, as cron starts it; its seconds."""
        properties = self.folder / "cron.properties"
        if not properties.exists():
            logging = self.folder / "log4j2.properties"
            logging.write_text(QUIET_LOG, encoding="utf-8")
            properties.write_text(
                self("spark-conf", "--output", "properties", "--reveal")
                + f"spark.driver.extraJavaOptions=-Dlog4j2.configurationFile={logging.as_uri()}\n",
                encoding="utf-8",
            )
        # Tuned like the project's own server: as much memory, as many parts.
        own = {key: value for key, value in local_settings(master).items() if key != CORES}
        quiet = {"spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false"}
        conf = [f"--conf={key}={value}" for key, value in {**quiet, **own, **settings}.items()]
        home = spark_jars_folder().parent
        words = [str(home / "bin" / "spark-submit"), "--master", master, "--driver-memory", memory.of_the_server()]
        words += ["--properties-file", str(properties), *conf, str(JOB), str(select), target]
        environment = {
            **{name: value for name, value in os.environ.items() if name != "SPARK_REMOTE"},
            "JAVA_HOME": str(java.find(self.config.spark.java_home).home),
            "SPARK_HOME": str(home),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "PYSPARK_PYTHON": sys.executable,
        }
        began = time.monotonic()
        done = subprocess.run(words, cwd=self.folder, env=environment, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise RuntimeError(f"spark-submit: {done.returncode}\n{done.stdout[-2000:]}\n{done.stderr[-6000:]}")
        return time.monotonic() - began

    def _ended(self, run_id: str) -> dict[str, Any] | None:
        run: dict[str, Any] = self.json("show", run_id)
        if run["ended_at"] and run["status"] != "SUCCEEDED":
            raise RuntimeError(f"{run_id} has failed\n{self('show', run_id)}")
        return run if run["ended_at"] else None

    def _look(self) -> None:
        record = server.folder_of(self.config).read()
        if record is not None:
            self.servers.add((record.pid, record.began))

    def _load(self) -> configuration.Config:
        return configuration.load(self.folder / configuration.FILE_NAME, env={})

    def _last_words(self) -> str:
        with suppress(OSError):
            return (self.folder / "serve.log").read_text(encoding="utf-8", errors="replace")[-2000:]
        return ""


def seconds(run: Mapping[str, Any]) -> float:
    """From a run's start to its end, as the state database has them."""
    return float(run["ended_at"]) - float(run["started_at"])
