"""What an operator wants to know of the installation: workers, schedulers, Spark server, state database, janitor, versions."""

from __future__ import annotations

import platform
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

import icefloe
from icefloe import suppressed
from icefloe.acting import who
from icefloe.config import Config
from icefloe.credentials import masked
from icefloe.service.auditing import audit
from icefloe.service.janitor import Janitor, Pruned
from icefloe.service.serving import Service
from icefloe.spark import server as spark_server
from icefloe.store import audits, janitor, migrations, triggers, workers
from icefloe.store.audits import AuditRecord
from icefloe.store.database import Database
from icefloe.store.janitor import PruningRecord
from icefloe.store.triggers import SchedulerRecord
from icefloe.store.workers import WorkerRecord
from icefloe.suppressed import Suppressed

SILENT_SECONDS = 30.0
MOST_WORKERS = 100
MOST_PRUNINGS = 20
_PACKAGES = ("pyiceberg", "pyspark", "pyarrow", "sqlalchemy", "fastapi", "uvicorn")


@dataclass(frozen=True, slots=True)
class WorkerHealth:
    """``silent``: not seen for a while, by the clocks of both machines. ``suppressed``: by place, what has failed in it without
    failing a step; empty also when its files cannot be seen from here."""

    worker: WorkerRecord
    silent: bool
    suppressed: Mapping[str, Suppressed]

    def to_dict(self) -> dict[str, Any]:
        known = {name: getattr(self.worker, name) for name in self.worker.__slots__ if name != "lock_file"}
        errors = {place: asdict(error) for place, error in self.suppressed.items()}
        return {**known, "silent": self.silent, "suppressed": errors}


@dataclass(frozen=True, slots=True)
class SparkServer:
    """The project's own one. ``remote``: steps use this one instead, about which nothing is known here."""

    running: bool
    ready: bool
    in_use: bool
    began: float | None
    idle_minutes: float
    remote: bool

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True, slots=True)
class StateDatabase:
    """``kind``: SQLite or PostgreSQL, with its version. ``bytes`` None: that is not known here."""

    kind: str
    label: str
    schema: int
    bytes: int | None

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True, slots=True)
class JanitorState:
    """``next_at`` None: nobody on this server cleans up."""

    holder: str | None
    rounds: int
    seen_at: float | None
    next_at: float | None
    every_minutes: float
    prunings: tuple[PruningRecord, ...]

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Overview:
    workers: tuple[WorkerHealth, ...]
    schedulers: tuple[SchedulerRecord, ...]
    spark: SparkServer
    state: StateDatabase
    janitor: JanitorState
    versions: Mapping[str, str]
    now: float

    def silent(self, seen_at: float) -> bool:
        return self.now - seen_at > SILENT_SECONDS

    def to_dict(self) -> dict[str, Any]:
        return {
            "workers": [worker.to_dict() for worker in self.workers],
            "schedulers": [asdict(scheduler) for scheduler in self.schedulers],
            "spark": self.spark.to_dict(),
            "state": self.state.to_dict(),
            "janitor": self.janitor.to_dict(),
            "versions": dict(self.versions),
        }


@dataclass(frozen=True, slots=True)
class AuditPage:
    """Newest first. ``before``: where the next page begins; None: there is none."""

    records: tuple[AuditRecord, ...]
    before: int | None


class System:
    """``service``: the scheduler, worker and janitor of this process, if it has them."""

    def __init__(
        self, config: Config, database: Database, service: Service | None = None, clock: Callable[[], float] = time.time
    ) -> None:
        self._config, self._database, self._service, self._clock = config, database, service, clock

    def overview(self) -> Overview:
        now = self._clock()
        with self._database.read() as connection:
            living = workers.living(connection)[:MOST_WORKERS]
            schedulers = triggers.all_schedulers(connection)
            lease = janitor.lease(connection)
            prunings = janitor.listing(connection, MOST_PRUNINGS)
        return Overview(
            tuple(WorkerHealth(one, now - one.seen_at > SILENT_SECONDS, suppressed_errors(one)) for one in living),
            tuple(schedulers),
            self.spark(),
            self._state(),
            JanitorState(
                lease.holder if lease else None,
                lease.rounds if lease else 0,
                lease.seen_at if lease else None,
                self._service.janitor.next_at if self._service is not None else None,
                self._config.keep.every_minutes,
                tuple(prunings),
            ),
            versions(),
            now,
        )

    def audits(self, *, before: int | None = None, actor: str | None = None, most: int = 50) -> AuditPage:
        with self._database.read() as connection:
            found = audits.listing(connection, who=actor, before=before, most=most + 1)
        return AuditPage(tuple(found[:most]), found[most - 1].seq if len(found) > most else None)

    # -- Spark -------------------------------------------------------------------------------------------------------------

    def spark(self) -> SparkServer:
        status = spark_server.status(self._config)
        return SparkServer(
            status.running,
            status.ready,
            status.in_use,
            status.began,
            self._config.spark.idle_minutes,
            self._config.spark.remote is not None,
        )

    def stop_spark(self, by: str | None = None) -> bool:
        """End the project's Spark server; whether there was one. Statements that run on it fail."""
        stopped = spark_server.stop(self._config)
        if stopped:
            with self._database.write() as connection:
                audit(connection, self._clock(), "spark stop", "spark", {}, who(by))
        return stopped

    # -- the janitor -------------------------------------------------------------------------------------------------------

    def due(self) -> list[Pruned]:
        """What the janitor would delete now."""
        cleaner = Janitor(self._config, self._database)
        return [*cleaner.due(), cleaner.due_files()]

    def prune(self, by: str | None = None) -> list[Pruned]:
        """One round now. Pins and change tables are left to the janitor's own round, which asks the catalog."""
        cleaner = Janitor(self._config, self._database)
        pruned = [*cleaner.prune(), cleaner.remove_files()]
        with self._database.write() as connection:
            items = sum(one.items for one in pruned)
            audit(connection, self._clock(), "db prune", "state", {"items": items}, who(by))
        return pruned

    def _state(self) -> StateDatabase:
        file = self._database.file
        if file is not None:
            import sqlite3

            kind, size = f"SQLite {sqlite3.sqlite_version}", file.stat().st_size
        else:
            version, size = self._database.server_facts()
            kind = f"PostgreSQL {version}"
        return StateDatabase(kind, masked(self._database.label), migrations.current(self._database), size)


def suppressed_errors(worker: WorkerRecord) -> dict[str, Suppressed]:
    """What went wrong in a worker without failing a step, as far as its files can be seen from here."""
    return suppressed.read(suppressed.file_beside(Path(worker.lock_file)))


@cache
def versions() -> dict[str, str]:
    found = {"icefloe": icefloe.__version__, "python": platform.python_version()}
    for package in _PACKAGES:
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return found
