"""A project for tests of the engine: its own folder, a state database of either kind, and shorthands."""

from __future__ import annotations

import textwrap
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from icefloe import config as configuration
from icefloe.config import Config
from icefloe.engine.worker import Worker
from icefloe.service.client import Client
from icefloe.service.pushing import DiskFiles
from icefloe.service.views import RunView
from icefloe.steps.registry import Registry, installed
from icefloe.workflow.loading import load
from icefloe.workflow.versions import pack

FAST = {"lease_seconds": 3.0, "grace_seconds": 1.0, "drain_seconds": 5.0, "slots": 8}


@dataclass
class Project:
    """``client`` is this process's own; workers may be threads here or processes elsewhere on the same state."""

    config: Config
    client: Client

    @property
    def root(self) -> Path:
        return self.config.root

    def push(self, text: str) -> str:
        """Push a definition written as text; files it names are read from the project's folder. Returns its id."""
        source = textwrap.dedent(text)
        types = installed().types()
        loaded = load(source, "workflow.yaml", types)
        packed = pack(loaded, DiskFiles(self.root, self.config), types)
        return self.client.workflows.push(packed, source=source, source_name="workflow.yaml").workflow_id

    def start(self, workflow_id: str, **params: Any) -> str:
        return self.client.runs.start(workflow_id, params).run_id

    def execute(self, workflow_id: str, **params: Any) -> RunView:
        """Start a run and do it here, to its end."""
        return self.client.work(self.start(workflow_id, **params))

    def show(self, run_id: str) -> RunView:
        return self.client.runs.show(run_id)

    def statuses(self, run_id: str) -> dict[str, str]:
        return {step.id: step.status for step in self.show(run_id).steps}

    def log(self, run_id: str, step: str, attempt: int = 1) -> str:
        return self.client.runs.log(run_id, step, attempt).content.decode("utf-8", "replace")

    @contextmanager
    def worker(self, registry: Registry | None = None, **options: Any) -> Iterator[Worker]:
        """A worker in a thread of this process."""
        worker = Worker(self.config, self.client.database, registry=registry, **options)
        failure: list[BaseException] = []

        def work() -> None:
            try:
                worker.run()
            except BaseException as error:
                failure.append(error)

        thread = threading.Thread(target=work)
        thread.start()
        try:
            yield worker
        finally:
            worker.stop()
            thread.join(30)
        assert not thread.is_alive(), "the worker did not end"
        if failure:
            raise failure[0]


def make_project(root: Path, url: str | None = None, catalog: dict[str, str] | None = None, **engine: Any) -> Project:
    (root / configuration.HOME_NAME).mkdir(parents=True, exist_ok=True)
    data: dict[str, Any] = {"engine": {**FAST, **engine}}
    if url is not None:
        data["state"] = {"url": url}
    if catalog is not None:
        data["catalog"] = catalog
    config = configuration.from_dict(data, root=root)
    return Project(config, Client(config))


def wait_until(condition: Callable[[], Any], seconds: float = 20.0, what: str = "") -> Any:
    """Poll until the condition gives something true, and return that."""
    deadline = time.monotonic() + seconds
    while True:
        found = condition()
        if found:
            return found
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {seconds} s: {what or condition}")
        time.sleep(0.01)
