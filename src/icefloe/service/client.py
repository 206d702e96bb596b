"""``icefloe.Client``: every verb once. The command line and REST are thin layers over it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

from icefloe import config as configuration
from icefloe.config import Config
from icefloe.engine.conductor import Conductor
from icefloe.engine.events import Refused
from icefloe.engine.launchers import Launchers
from icefloe.engine.worker import Worker
from icefloe.service.runs import Runs
from icefloe.service.state import open_database
from icefloe.service.views import RunView
from icefloe.service.workflows import Workflows
from icefloe.store import workers
from icefloe.store.workers import WorkerRecord

if TYPE_CHECKING:
    from icefloe.lake.arrivals import ArrivalReader
    from icefloe.service.consumer_lags import ConsumerLags
    from icefloe.service.consumers import Consumers
    from icefloe.service.definition_tables import DefinitionTables
    from icefloe.service.previews import Consumer
    from icefloe.service.run_history import RunHistory
    from icefloe.service.saved_so_far import SavedSoFar
    from icefloe.service.table_metadata import TableMetadataCache
    from icefloe.service.triggers import Triggers
    from icefloe.service.workflow_overview import WorkflowOverviews


class Client:
    """A project: its workflows, runs and consumers. Opens nothing but the state database, and starts nothing by itself. ``launchers`` are
    another's, who closes them.

    with Client() as icefloe:
        run = icefloe.runs.start("playback.agg", {"DAY": 20260101})
        icefloe.work(run.run_id)
    """

    def __init__(self, config: Config | Path | None = None, *, launchers: Launchers | None = None) -> None:
        self.config = config if isinstance(config, Config) else configuration.load(config)
        self.database = open_database(self.config)
        self.conductor = Conductor(self.database)
        self.workflows = Workflows(
            self.database, self.conductor.definitions, catalog=self.config.catalog.name, config=self.config
        )
        self.runs = Runs(self.config, self.database, self.conductor)
        self._launchers = launchers or Launchers(self.config)
        self._owns_launchers = launchers is None

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        if self._owns_launchers:
            self._launchers.close()
        self.database.close()

    @cached_property
    def triggers(self) -> Triggers:
        """What starts workflows: why not, when next, signals, watermarks, schedulers."""
        from icefloe.service.triggers import Triggers  # PyIceberg takes a second to import

        return Triggers(self.config, self.database)

    @cached_property
    def history(self) -> RunHistory:
        """Runs of the past: pages of them, and how their steps ended."""
        from icefloe.service.run_history import RunHistory

        return RunHistory(self.database)

    @cached_property
    def overviews(self) -> WorkflowOverviews:
        """All workflows at a glance."""
        from icefloe.service.workflow_overview import WorkflowOverviews

        return WorkflowOverviews(self.config, self.database)

    @cached_property
    def saved(self) -> SavedSoFar:
        """What was saved so far, in all."""
        from icefloe.service.saved_so_far import SavedSoFar

        return SavedSoFar(self.database)

    @cached_property
    def lags(self) -> ConsumerLags:
        """How far consumers are behind, as of some seconds ago."""
        from icefloe.service.consumer_lags import ConsumerLags

        return ConsumerLags(self.database, lambda: self.consumers)

    @cached_property
    def consumers(self) -> Consumers:
        """Opens the catalog when it is first asked for."""
        from icefloe.lake import Lake  # PyIceberg takes a second to import
        from icefloe.service.consumers import Consumers

        return Consumers(self.database, Lake.open(self.config), self.conductor)

    @cached_property
    def table_metadata(self) -> TableMetadataCache:
        """What pages show of many tables, read in parallel and kept for some seconds."""
        from icefloe.lake import Lake
        from icefloe.service.table_metadata import TableMetadataCache

        return TableMetadataCache(lambda: Lake.open(self.config))

    @cached_property
    def definition_tables(self) -> DefinitionTables:
        """Which tables workflows read and write."""
        from icefloe.service.definition_tables import DefinitionTables

        return DefinitionTables(self.database, self.conductor.definitions, catalog=self.config.catalog.name)

    @cached_property
    def arrivals(self) -> ArrivalReader:
        """What appends brought to which partition, remembered by snapshot."""
        from icefloe.lake.arrivals import ArrivalReader

        return ArrivalReader()

    def consumer(self, name: str) -> Consumer:
        """One consumer, to look at what it has not seen: ``client.consumer("flow/capture").preview(spark)``."""
        from icefloe.lake import Lake
        from icefloe.service.previews import Consumer

        return Consumer(name, self.database, Lake.open(self.config), self.conductor)

    def workers(self) -> list[WorkerRecord]:
        """The workers that have not been found gone."""
        with self.database.read() as connection:
            return workers.living(connection)

    def worker_alive(self) -> bool:
        """Whether somebody works for every run: a worker or a server, not a command that works for its own run."""
        return any(worker.serves == "*" and worker.status == workers.ALIVE for worker in self.workers())

    def wait(
        self, run_id: str, *, on_change: Callable[[RunView], None] | None = None, timeout: float | None = None
    ) -> RunView:
        """Wait for the run's end; somebody else must work on it."""
        return _Waiting(self, run_id, on_change).wait(timeout)

    def work(self, run_id: str, *, on_change: Callable[[RunView], None] | None = None) -> RunView:
        """Execute a run in this process until it has ended. An interrupt (Ctrl-C) stops the run, and then raises.

        What launches its steps stays until the client is closed: the next run does not wait for imports again.
        """
        serves = frozenset({run_id, *self.runs.ahead_of(run_id)})
        worker = Worker(self.config, self.database, serves=serves, launchers=self._launchers)
        waiting = _Waiting(self, run_id, on_change)
        failure: list[BaseException] = []

        def work() -> None:
            try:
                worker.run(until=lambda: waiting.over)
            except BaseException as error:
                failure.append(error)
                waiting.wake()

        thread = threading.Thread(target=work, name="icefloe-worker")
        thread.start()
        interrupted = False
        try:
            while True:
                try:
                    waiting.wait(None, broken=lambda: bool(failure))
                    break
                except KeyboardInterrupt:
                    if interrupted:
                        self.runs.kill(run_id)
                    interrupted = True
                    with suppress(Refused):
                        self.runs.stop(run_id)
        finally:
            waiting.over = True
            thread.join()
        if failure:
            raise failure[0]
        if interrupted:
            raise KeyboardInterrupt
        return self.runs.show(run_id)


class _Waiting:
    """Looks at a run whenever the database has changed, until it has ended."""

    def __init__(self, client: Client, run_id: str, on_change: Callable[[RunView], None] | None) -> None:
        self.over = False
        self._client = client
        self._run_id = run_id
        self._on_change = on_change

    def wake(self) -> None:
        self.over = True

    def wait(self, timeout: float | None, broken: Callable[[], bool] = lambda: False) -> RunView:
        deadline = None if timeout is None else time.monotonic() + timeout
        watch = self._client.database.watch()
        try:
            while True:
                if self._on_change is not None:
                    self._on_change(self._client.runs.show(self._run_id, events=False))
                if (
                    self._client.runs.status(self._run_id) in ("SUCCEEDED", "FAILED", "STOPPED", "TIMED_OUT")
                    or broken()
                ):
                    self.over = True
                    return self._client.runs.show(self._run_id)
                if deadline is not None and time.monotonic() >= deadline:
                    raise TimeoutError(f"run {self._run_id} has not ended within {timeout} s")
                watch.wait(0.5)
        finally:
            watch.close()
