"""``icefloe.Client``: every verb once. The command line and REST are thin layers over it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from icefloe import config as configuration
from icefloe.config import Config
from icefloe.engine.conductor import Conductor
from icefloe.engine.events import Refused
from icefloe.engine.launchers import Launchers
from icefloe.engine.worker import Worker
from icefloe.errors import UsageError
from icefloe.service.runs import Runs
from icefloe.service.state import open_database
from icefloe.service.views import Pushed, RunView
from icefloe.service.workflows import Workflows
from icefloe.store import audits, workers
from icefloe.store.audits import AuditRecord
from icefloe.store.workers import WorkerRecord

if TYPE_CHECKING:
    from icefloe.lake import Lake
    from icefloe.lake.arrivals import ArrivalReader
    from icefloe.service.consumer_lags import ConsumerLags
    from icefloe.service.consumers import Consumers
    from icefloe.service.definition_tables import DefinitionTables
    from icefloe.service.explain import Explained
    from icefloe.service.previews import Consumer
    from icefloe.service.run_history import RunHistory
    from icefloe.service.saved_so_far import SavedSoFar
    from icefloe.service.savings import Savings
    from icefloe.service.table_metadata import TableMetadataCache
    from icefloe.service.triggers import Triggers
    from icefloe.service.workflow_overview import WorkflowOverviews
    from icefloe.workflow.diff import Diff


class Client:
    """A project: its workflows, runs and consumers. Opens nothing but the state database, and starts nothing by itself. ``launchers`` are
    another's, who closes them.

    with Client() as icefloe:
        run = icefloe.runs.start("playback.agg", {"DAY": 20260101})
        icefloe.work(run.run_id)
    """

    def __new__(
        cls, config: Config | Path | str | None = None, *, token: str | None = None, launchers: Launchers | None = None
    ) -> Any:
        """With the address of a server: a client of that one, which needs a token."""
        if isinstance(config, str) and config.startswith(("http://", "https://")):
            from icefloe.service.remote import RemoteClient

            return RemoteClient(config, token)
        return super().__new__(cls)

    def __init__(
        self,
        config: Config | Path | str | None = None,
        *,
        token: str | None = None,
        launchers: Launchers | None = None,
    ) -> None:
        if token is not None:
            raise UsageError("a token is for a server, and this is a folder", hint="Client('https://…', token=…)")
        config = Path(config) if isinstance(config, str) else config
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

        return ConsumerLags(self)

    @cached_property
    def lake(self) -> Lake:
        """The project's catalog, opened when it is first asked for."""
        from icefloe.lake import Lake  # PyIceberg takes a second to import

        return Lake.open(self.config)

    @cached_property
    def consumers(self) -> Consumers:
        from icefloe.service.consumers import Consumers

        return Consumers(self.database, self.lake, self.conductor)

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

    def push(self, files: Sequence[Path]) -> list[Pushed]:
        """Store every workflow in the files, YAML or Python. All are read and checked before the first is stored."""
        from icefloe.service.pushing import push_files

        return push_files(self, files)

    def diff(self, file: Path) -> dict[str, Diff | None]:
        """What pushing a file would change, by workflow; None for one that has never been pushed."""
        from icefloe.service.pushing import diff_file

        return diff_file(self, file)

    def next_fires(self) -> dict[str, float | None]:
        """When triggers by time start workflows next, by workflow."""
        by_time = {"cron", "interval"}
        listed = self.workflows.listing()
        return {item.id: self.triggers.next_fire(item.id) for item in listed if by_time & set(item.triggers)}

    def works_in_place(self) -> bool:
        """Whether a run can be worked on by :meth:`work`, since nobody else would."""
        return self.database.is_sqlite and not self.worker_alive()

    def explain(self, workflow_id: str, params: Mapping[str, Any] | None = None) -> list[Explained]:
        """How the next run would write its targets. Runs and writes nothing."""
        from icefloe.service.explain import Explaining  # the planner takes a second to import

        return Explaining(self, self.lake).explain(workflow_id, params)

    def savings(self, workflow_id: str | None = None, *, since: float | None = None) -> Savings:
        """What planned writes have read, against what they replace."""
        from icefloe.service.savings import savings

        if workflow_id is not None:
            self.workflows.latest(workflow_id)  # raises when there is none
        return savings(self.database, workflow_id=workflow_id, since=since)

    def audit(self, subject: str | None = None, most: int = 50, before: int | None = None) -> list[AuditRecord]:
        """Who did what by hand, when and why; the newest first. ``before``: older than the one with this ``seq``."""
        with self.database.read() as connection:
            return audits.listing(connection, subject=subject, most=most, before=before)

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
