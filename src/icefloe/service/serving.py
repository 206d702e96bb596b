"""``icefloe serve``: a scheduler and a worker in one process, until told to end.

The worker has the main thread, the scheduler one of its own. Told to end, the scheduler starts nothing more, and the worker
finishes or hands over what it has in hand.
"""

from __future__ import annotations

import threading

from icefloe.engine.worker import Worker
from icefloe.service import lineage_receivers
from icefloe.service.client import Client
from icefloe.service.janitor import Janitor
from icefloe.service.lineage_delivery import LineageDelivery
from icefloe.service.scheduling import make_scheduler
from icefloe.service.tracing import Tracing, is_configured, otlp_exporter
from icefloe.triggers.scheduler import Scheduler


class Service:
    """``scheduler`` and ``worker`` are there to be looked at; who made the service runs and stops it as a whole."""

    def __init__(self, client: Client, *, slots: int | None = None) -> None:
        self.worker = Worker(client.config, client.database, slots=slots, warm=True)
        self.scheduler: Scheduler = make_scheduler(client.config, client.database, client.runs)
        self.janitor = Janitor(client.config, client.database)
        self.tracing: Tracing | None = None
        if is_configured(client.config):
            self.tracing = Tracing(client.database, otlp_exporter(client.config))
        self.lineage: LineageDelivery | None = None
        receiver = lineage_receivers.configured(client.config)
        if receiver is not None:
            self.lineage = LineageDelivery(client.config, client.database, receiver)
        self._failure: list[BaseException] = []
        self.schedules = self.works = False
        """Whether the scheduler's and the worker's loops run."""

    def run(self) -> None:
        """Until :meth:`stop`. Raises what ended it otherwise."""
        thread = threading.Thread(target=self._schedule, name="icefloe-scheduler")
        thread.start()
        self.janitor.start()
        if self.tracing is not None:
            self.tracing.start()
        if self.lineage is not None:
            self.lineage.start()
        try:
            self.works = True
            self.worker.run()
        finally:
            self.works = False
            self.janitor.stop()
            self.scheduler.stop()
            thread.join()
            if self.tracing is not None:
                self.tracing.stop()
            if self.lineage is not None:
                self.lineage.stop()
        if self._failure:
            raise self._failure[0]

    def stop(self) -> None:
        """From any thread or a signal handler."""
        self.scheduler.stop()
        self.worker.stop()

    def _schedule(self) -> None:
        try:
            self.schedules = True
            self.scheduler.run()
        except BaseException as error:
            # A service without a scheduler would look alive and start nothing.
            self._failure.append(error)
            self.worker.stop()
        finally:
            self.schedules = False
