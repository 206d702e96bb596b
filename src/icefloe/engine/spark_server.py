"""The worker's care for the project's local Spark server, which belongs to no attempt.

A thread of the worker's own starts the server: when a pushed workflow will need one, so that the first batch does not wait for a
JVM; and when an attempt asks for one that is not there (:func:`icefloe.spark.server.ensure`).
Before a Spark step is launched its own ``start`` has asked already, so requests come from what steps start themselves:
``icefloe sql`` in a shell script, or a server that was killed a moment ago.

It does not watch the server: a dead one is replaced when the next step needs it.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

from icefloe.config import Config
from icefloe.engine.definitions import Definitions
from icefloe.errors import IcefloeError
from icefloe.spark import server
from icefloe.store import definitions as stored
from icefloe.store.database import Database
from icefloe.workflow.model import Step, TypedStep
from icefloe.workflow.step_types import BUILTIN, SparkSettings

LOG = logging.getLogger("icefloe.worker")
REQUEST_SECONDS = 0.5
PUSH_SECONDS = 5.0
"""How often to look for requests, and for workflows that were pushed."""


class SparkServerStarter:
    """``warm``: start the server when a workflow that was pushed needs it; ``warm_up`` is told which modules its steps import."""

    def __init__(
        self, config: Config, database: Database, *, warm: bool, warm_up: Callable[[tuple[str, ...]], None]
    ) -> None:
        self._config = config
        self._database = database
        self._warm = warm
        self._warm_up = warm_up
        self._definitions = Definitions()
        self._known: set[tuple[str, int]] = set()
        """Versions that were looked at. A server that ended for idleness is not started again on their account."""
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="icefloe-spark-server", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Do not wait: a start that is under way goes on without us, as the server does."""
        self._stopped.set()

    def _run(self) -> None:
        next_look = time.monotonic()
        while not self._stopped.is_set():
            if self._warm and time.monotonic() >= next_look:
                self._try(self._start_for_what_was_pushed)
                next_look = time.monotonic() + PUSH_SECONDS
            self._try(lambda: server.start_if_requested(self._config))
            self._stopped.wait(REQUEST_SECONDS)

    def _start_for_what_was_pushed(self) -> None:
        if self._newly_needed():
            from icefloe.steps import spark  # PyIceberg takes a second to import, and only Spark's users need it

            self._warm_up(spark.IMPORTS)
            server.ensure(self._config, note=lambda line: LOG.info("Spark: %s", line)).release()

    def _newly_needed(self) -> bool:
        """Whether a version pushed since the last look, of a workflow that may be started, has a step for the local server."""
        needed = False
        with self._database.read() as connection:
            for record in stored.listing(connection):
                version = (record.id, record.latest_version)
                if not record.active or not record.latest_version or version in self._known:
                    continue
                self._known.add(version)
                steps = self._definitions.get(connection, *version).steps.values()
                needed = needed or any(runs_on_local_server(step, self._config) for step in steps)
        return needed

    def _try(self, action: Callable[[], object]) -> None:
        try:
            action()
        except IcefloeError as error:
            # Whoever needs the server is told by its own step, with the same reason.
            LOG.warning("the Spark server is not started: %s%s", error, f" ({error.hint})" if error.hint else "")
        except Exception:
            LOG.exception("the Spark server is not started")


def runs_on_local_server(step: Step, config: Config) -> bool:
    """Whether the step needs the project's own server, as far as can be told before its settings are evaluated."""
    if not isinstance(step, TypedStep) or BUILTIN.find(step.type) is not BUILTIN.find("spark") or config.spark.remote:
        return False
    submit = str(step.settings.get("submit", SparkSettings.model_fields["submit"].default))
    return submit.lower() != "spark-submit" and step.settings.get("remote") is None
