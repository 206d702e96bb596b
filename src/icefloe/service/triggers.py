"""Verbs on what starts workflows: why, next fires, publish a signal, set a watermark, schedulers."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from icefloe.acting import who
from icefloe.config import Config
from icefloe.errors import NotFoundError
from icefloe.service.auditing import audit
from icefloe.store import definitions, incidents, signals, triggers, workers
from icefloe.store.database import Database
from icefloe.store.incidents import IncidentRecord
from icefloe.store.signals import SignalRecord, WatermarkRecord
from icefloe.store.triggers import SchedulerRecord
from icefloe.triggers.next_fires import next_fire_of
from icefloe.triggers.sources import canonical
from icefloe.workflow import matching
from icefloe.workflow.signal_values import checked_name, checked_params

if TYPE_CHECKING:
    from icefloe.triggers.explanation import Explanation


@dataclass(frozen=True, slots=True)
class Why:
    """Why a workflow has not started, or when it will. ``remarks`` are about the whole, not one trigger."""

    workflow_id: str
    triggers: tuple[Explanation, ...]
    remarks: tuple[str, ...]
    incidents: tuple[IncidentRecord, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        return {
            "workflow_id": self.workflow_id,
            "triggers": [one.to_dict() for one in self.triggers],
            "remarks": list(self.remarks),
            "incidents": [asdict(one) for one in self.incidents],
        }


class Triggers:
    """Reads the state database and the lake; writes signals and watermarks."""

    SILENT_SECONDS = 30.0

    def __init__(self, config: Config, database: Database, clock: Callable[[], float] = time.time) -> None:
        self._config = config
        self._database = database
        self._clock = clock

    def why(self, workflow_id: str) -> Why:
        """The scheduler's own judgement of each trigger, made now."""
        from icefloe.lake import Lake  # PyIceberg takes a second to import
        from icefloe.triggers.explanation import explain

        with self._database.read() as connection:
            record = definitions.load(connection, workflow_id)
            if record is None or not record.latest_version:
                raise NotFoundError(f"there is no workflow {workflow_id!r}", hint="icefloe workflows")
            alive = workers.living(connection)
            active = triggers.active_runs(connection, workflow_id)
            opened = incidents.open_of(connection, workflow_id)
        found, unreadable = explain(
            self._database,
            lambda: Lake.open(self._config),
            self._config.scheduler,
            workflow_id,
            catalog=self._config.catalog.name,
        )
        remarks = [f"{one.message}: {one.hint}" for one in unreadable]
        if not found:
            remarks.append(f"it has no triggers: people start it (icefloe run {workflow_id})")
        elif not self._alive():
            remarks.append("no scheduler is running: start one with icefloe serve")
        if not any(worker.serves == "*" for worker in alive):
            remarks.append("no worker is alive: runs wait (icefloe serve, or icefloe worker)")
        remarks += [f"run {run.id} is {run.status}: icefloe show {run.id}" for run in active[:5]]
        return Why(workflow_id, tuple(found), tuple(remarks), tuple(opened))

    def next_fire(self, workflow_id: str) -> float | None:
        return next_fire_of(self._database, workflow_id, catalog=self._config.catalog.name, now=self._clock())

    def schedulers(self) -> list[SchedulerRecord]:
        with self._database.read() as connection:
            return triggers.all_schedulers(connection)

    def _alive(self) -> bool:
        """For people: a scheduler that showed up a moment ago by the clocks of both machines."""
        return any(self._clock() - one.seen_at < self.SILENT_SECONDS for one in self.schedulers())

    def signal(
        self, name: str, params: Mapping[str, Any], *, signal_id: str | None = None, by: str | None = None
    ) -> tuple[str, bool]:
        """Publish a signal. The same id twice is one signal. Returns its id, and whether it is new."""
        publisher = who(by)
        checked_name(name, "a signal's name")
        values = checked_params(params)
        if signal_id is not None:
            chosen = checked_name(signal_id, "a signal's id")
        else:
            chosen = f"{publisher}-{int(self._clock() * 1000):x}-{secrets.token_hex(4)}"
        with self._database.write() as connection:
            new = signals.publish(
                connection, signal_id=chosen, name=name, params=values, publisher=publisher, now=self._clock()
            )
            if new:
                audit(connection, self._clock(), "signal", name, {"id": chosen}, by)
            self._database.announce(connection, "signal")
        return chosen, new

    def signals(self, name: str | None = None, most: int = 50, before: int | None = None) -> list[SignalRecord]:
        """Newest first; ``before``: older than the one with this ``seq``."""
        if name is not None:
            checked_name(name, "a signal's name")
        with self._database.read() as connection:
            return signals.newest(connection, name, most, before)

    def set_watermark(
        self, table: str, valid_through: str | int, *, back: bool = False, by: str | None = None
    ) -> tuple[WatermarkRecord, bool]:
        """Say how far a table is complete. Goes forward only, unless ``back``. Returns what holds, and whether it moved."""
        source = canonical(table, self._config.catalog.name)
        record = WatermarkRecord(source, matching.moment(valid_through), who(by), self._clock())
        with self._database.write() as connection:
            moved = signals.raise_watermark(connection, record, back=back)
            held = signals.watermark(connection, source)
            if moved:
                audit(
                    connection, self._clock(), "watermark", source, {"through": record.valid_through, "back": back}, by
                )
            self._database.announce(connection, "watermark")
        assert held is not None
        return held, moved

    def watermarks(self, table: str | None = None) -> list[WatermarkRecord]:
        """All of them, or one table's."""
        source = None if table is None else canonical(table, self._config.catalog.name)
        with self._database.read() as connection:
            return [one for one in signals.all_watermarks(connection) if source in (None, one.source)]

    def incidents(
        self, workflow_id: str | None = None, most: int = 50, before: int | None = None, only_open: bool = False
    ) -> list[IncidentRecord]:
        """Newest first, those that are over too; ``before``: older than the one with this ``seq``."""
        with self._database.read() as connection:
            return incidents.listing(connection, workflow_id, most, before, only_open)
