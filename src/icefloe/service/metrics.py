"""What operators measure: what goes on now, and what has ended since this process began to look.

Counters and histograms are fed from the record of events, wherever the work was done, so that one server tells about all workers of a
project. They begin at zero with the process, as counters do. A look costs one transaction over what goes on now and what is new, and
serves everybody for :data:`FRESH_SECONDS`. No catalog is asked: lag is what the scheduler in this process has seen last.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal, TypeAlias

import icefloe
from icefloe import suppressed
from icefloe.config import Config
from icefloe.engine.states import RunStatus, StepStatus
from icefloe.errors import IcefloeError
from icefloe.service.serving import Service
from icefloe.service.tallies import MOST_NAMES, Counter, Distribution, Histogram, Labels, Names, largest
from icefloe.spark import server as spark_server
from icefloe.store import counts, migrations
from icefloe.store.activity import Activity, MoveRecord, last_move
from icefloe.store.captures import CaptureRecord
from icefloe.store.counts import StateCounts
from icefloe.store.database import Database
from icefloe.store.janitor import PruningRecord

FRESH_SECONDS = 5.0
MOVES_AT_ONCE = 10_000
"""What has happened beyond that is counted with the next look."""
MOST_PLACES = 100
_ENDED_RUN = {status.value for status in RunStatus if status.ended}
_ACTIVE_STEP = {status.value for status in StepStatus if status.active}
_READY_STEP = {status.value for status in StepStatus if status.ready}
Values: TypeAlias = Mapping[Labels, float] | Mapping[Labels, Distribution]


@dataclass(frozen=True, slots=True)
class Family:
    """A metric as it is documented. Names are without the ``icefloe_`` before them and the ``_total`` behind counters."""

    name: str
    kind: Literal["gauge", "counter", "histogram"]
    text: str
    labels: tuple[str, ...] = ()


FAMILIES = (
    Family("build_info", "gauge", "1, with the version as label.", ("version",)),
    Family("state_up", "gauge", "Whether the state database answers. While it does not, most of the others are missing."),
    Family("state_schema_version", "gauge", "The state database's schema."),
    Family("state_bytes", "gauge", "Size of the state file; of SQLite alone."),
    Family("runs", "gauge", "Runs that have not ended, by status.", ("workflow", "status")),
    Family("runs_ended", "counter", "Runs that have ended.", ("workflow", "status")),
    Family("run_seconds", "histogram", "From a run's beginning to its end.", ("workflow",)),
    Family("steps", "gauge", "Steps that wait for a worker or for signals, or are in a worker's hands.", ("type", "status")),
    Family("step_attempts", "counter", "Attempts of steps that have ended, by how.", ("type", "status")),
    Family("step_seconds", "histogram", "From an attempt's claim to its end.", ("type",)),
    Family("step_queue_seconds", "histogram", "From the moment a step could be claimed to its claim.", ("type",)),
    Family("oldest_ready_step_seconds", "gauge", "How long the step that has waited longest could have been claimed; 0: none waits."),
    Family("captures_open", "gauge", "Captures that are neither committed nor abandoned.", ("state",)),
    Family("captures_to_release", "gauge", "Ended captures whose pins and change tables are due to go."),
    Family("captures_ended", "counter", "Captures that were committed or abandoned.", ("consumer", "state")),
    Family("capture_seconds", "histogram", "What a capture took: from its plan to its change tables. Counted at its end.", ("consumer",)),
    Family("captured_rows", "counter", "Rows added in committed captures.", ("consumer",)),
    Family("captured_files", "counter", "Data files added in committed captures.", ("consumer",)),
    Family("captured_bytes", "counter", "Size of the data files added in committed captures.", ("consumer",)),
    Family("consumer_lag_rows", "gauge", "Rows a consumer has not captured yet, as the scheduler saw last.", ("consumer", "table")),
    Family("consumer_lag_snapshots", "gauge", "Snapshots a consumer has not captured yet.", ("consumer", "table")),
    Family("consumer_lag_seconds", "gauge", "Age of the oldest change a consumer has not captured.", ("consumer", "table")),
    Family("consumer_lag_unknown", "gauge", "1: the table cannot be read, or the history since the checkpoint is lost.", ("consumer", "table")),
    Family("freshness_goal_seconds", "gauge", "The goal of a workflow with freshness.", ("workflow",)),
    Family("freshness_behind_seconds", "gauge", "What is held against the goal: the age of the oldest change that is not captured, or of the last good run.", ("workflow",)),
    Family("watermark_timestamp_seconds", "gauge", "Through when a table is complete.", ("table",)),
    Family("workflows", "gauge", "Workflows: active, paused or deactivated.", ("state",)),
    Family("triggers", "gauge", "Triggers, by kind.", ("kind",)),
    Family("incidents_open", "gauge", "Incidents that go on.", ("kind", "workflow")),
    Family("workers", "gauge", "Workers, alive or draining.", ("status",)),
    Family("worker_slots", "gauge", "Steps that living workers can do at once."),
    Family("worker_last_seen_timestamp_seconds", "gauge", "When the worker that has been silent for longest was seen."),
    Family("schedulers", "gauge", "Schedulers that have shown up within a day and have not left."),
    Family("schedulers_in_trouble", "gauge", "Schedulers that cannot look at tables now."),
    Family("scheduler_last_seen_timestamp_seconds", "gauge", "When a scheduler was last seen."),
    Family("ready", "gauge", "What /readyz says of this server, by check.", ("check",)),
    Family("spark_server_running", "gauge", "Whether the project's own Spark server runs on this machine."),
    Family("spark_server_in_use", "gauge", "Whether anybody uses it now."),
    Family("spark_server_start_timestamp_seconds", "gauge", "When it was started."),
    Family("janitor_rounds", "counter", "Rounds of the janitor, of all processes, since the project was made."),
    Family("janitor_last_seen_timestamp_seconds", "gauge", "When the janitor was last at work."),
    Family("janitor_deleted", "counter", "What the janitor has deleted.", ("kind",)),
    Family("janitor_deleted_bytes", "counter", "Size of what the janitor has deleted.", ("kind",)),
    Family("janitor_errors", "counter", "Kinds that could not be deleted in a round.", ("kind",)),
    Family("suppressed_errors", "counter", "Errors that something has outlived, by process and place.", ("process", "place")),
    Family("openlineage_events", "counter", "OpenLineage events that this server has sent, or that the receiver refused; entries of the record that were deleted before they were sent.", ("result",)),
    Family("openlineage_behind", "gauge", "Entries of the record of events that are not looked at for OpenLineage yet. Missing where another server sends, or none does."),
    Family("activity_behind", "gauge", "Events that are not in the counters yet."),
)  # fmt: skip


class Metrics:
    """``service`` None: nothing is known of lag, nor of this process's scheduler and worker."""

    def __init__(
        self,
        config: Config,
        database: Database,
        service: Service | None = None,
        *,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._config, self._database, self._service, self._clock = config, database, service, clock
        self._lock = threading.Lock()
        self._read: tuple[float, dict[str, Values]] = (float("-inf"), {})
        self._activity: Activity | None = None
        self._workflows, self._consumers, self._types = Names(), Names(), Names()
        self._counters = {family.name: Counter() for family in FAMILIES if family.kind == "counter"}
        self._histograms = {family.name: Histogram() for family in FAMILIES if family.kind == "histogram"}

    def begin(self) -> None:
        """Count from now on; without it, from the first look on."""
        with self._lock:
            self._begin()

    def read(self) -> Mapping[str, Values]:
        """Values by the names of :data:`FAMILIES`, as they are now or were a few seconds ago."""
        with self._lock:
            at, values = self._read
            if time.monotonic() - at >= FRESH_SECONDS:
                values = self._look()
                self._read = time.monotonic(), values
            return values

    def _begin(self) -> Activity:
        if self._activity is None:
            with self._database.read() as connection:
                self._activity = Activity.from_now(connection)
        return self._activity

    def _look(self) -> dict[str, Values]:
        values: dict[str, Values] = {"build_info": _by_name({icefloe.__version__: 1}), **self._of_this_machine()}
        try:
            activity = self._begin()
            with self._database.read() as connection:
                now_there = counts.state_counts(connection, self._clock())
                moves = activity.moves(connection, MOVES_AT_ONCE)
                captures, prunings = activity.captures(connection), activity.prunings(connection)
                newest = last_move(connection)
                values["activity_behind"] = _single(float(max(newest - activity.last, 0)))
            values["state_schema_version"] = _single(float(migrations.current(self._database)))
        except IcefloeError:
            return {**values, "state_up": _single(0.0)}
        self._count_moves(moves)
        self._count_captures(captures)
        self._count_prunings(prunings)
        if now_there.janitor is not None:
            self._counters["janitor_rounds"].values[()] = float(now_there.janitor.rounds)
        values |= self._of_state(now_there) | self._of_lineage(newest)
        values["suppressed_errors"] = self._suppressed(now_there)
        counted: dict[str, Values] = {
            **{name: dict(counter.values) for name, counter in self._counters.items() if name not in values},
            **{name: dict(histogram.values) for name, histogram in self._histograms.items()},
        }
        return {**values, **counted, "state_up": _single(1.0)}

    # -- counted -----------------------------------------------------------------------------------------------------------

    def _count_moves(self, moves: list[MoveRecord]) -> None:
        self._workflows.admit(move.workflow_id for move in moves if move.step_id is None)
        self._types.admit(move.step_type.lower() for move in moves if move.step_type is not None)
        for move in moves:
            if move.step_id is None:
                self._count_run(move)
            elif move.step_type is not None and move.previous != move.status:
                self._count_step(move, self._types.of(move.step_type.lower()))

    def _count_run(self, move: MoveRecord) -> None:
        if move.status not in _ENDED_RUN or move.path:
            return
        workflow = self._workflows.of(move.workflow_id)
        self._counters["runs_ended"].add((workflow, move.status))
        if move.started_at is not None:
            self._histograms["run_seconds"].add((workflow,), move.at - move.started_at)

    def _count_step(self, move: MoveRecord, step_type: str) -> None:
        if move.status == StepStatus.STARTING and move.previous in _READY_STEP:
            # A step that became due again since then is no longer told when it was due for this claim.
            if move.available_at is not None and move.available_at <= move.at:
                self._histograms["step_queue_seconds"].add((step_type,), move.at - move.available_at)
        elif move.previous in _ACTIVE_STEP and move.status not in _ACTIVE_STEP and move.attempt_status is not None:
            self._counters["step_attempts"].add((step_type, move.attempt_status))
            if move.attempt_started_at is not None and move.attempt_ended_at is not None:
                seconds = move.attempt_ended_at - move.attempt_started_at
                self._histograms["step_seconds"].add((step_type,), seconds)

    def _count_captures(self, ended: list[CaptureRecord]) -> None:
        self._consumers.admit(record.consumer for record in ended)
        for record in ended:
            consumer = self._consumers.of(record.consumer)
            self._counters["captures_ended"].add((consumer, record.state))
            if record.built_at is not None:
                self._histograms["capture_seconds"].add((consumer,), record.built_at - record.created_at)
            if record.state == "committed":
                for name in ("rows", "files", "bytes"):
                    amount = sum((source.get("found") or {}).get(f"added_{name}") or 0 for source in record.sources)
                    self._counters[f"captured_{name}"].add((consumer,), amount)

    def _count_prunings(self, prunings: list[PruningRecord]) -> None:
        for record in prunings:
            self._counters["janitor_deleted"].add((record.kind,), record.items)
            self._counters["janitor_deleted_bytes"].add((record.kind,), record.bytes)
            self._counters["janitor_errors"].add((record.kind,), float(record.error is not None))

    # -- as it is ----------------------------------------------------------------------------------------------------------

    def _of_this_machine(self) -> dict[str, Values]:
        values: dict[str, Values] = {}
        if self._database.file is not None and self._database.file.exists():
            values["state_bytes"] = _single(float(self._database.file.stat().st_size))
        spark = spark_server.status(self._config)
        values["spark_server_running"] = _single(float(spark.running))
        values["spark_server_in_use"] = _single(float(spark.in_use))
        if spark.began is not None:
            values["spark_server_start_timestamp_seconds"] = _single(spark.began)
        return values

    def _of_state(self, state: StateCounts) -> dict[str, Values]:
        now = self._clock()
        statuses = {worker.status for worker in state.workers} | {"ALIVE"}
        opened: dict[Labels, float] = {}
        for incident in state.incidents:
            opened[incident.kind, incident.workflow_id] = opened.get((incident.kind, incident.workflow_id), 0.0) + 1
        values: dict[str, Values] = {
            "runs": largest({labels: float(number) for labels, number in state.runs.items()}),
            "steps": largest({labels: float(number) for labels, number in state.steps.items()}),
            "oldest_ready_step_seconds": _single(
                max(now - state.oldest_ready_at, 0.0) if state.oldest_ready_at is not None else 0.0
            ),
            "captures_open": _by_name(state.captures_open, ("planned", "pinned", "built")),
            "captures_to_release": _single(float(state.captures_to_release)),
            "workflows": _by_name(state.workflows),
            "triggers": _by_name(state.triggers),
            "watermark_timestamp_seconds": largest(
                {(table,): through for table, through in state.watermarks.items()}, rest_as=min
            ),
            "incidents_open": largest(opened),
            "workers": _by_name({status: sum(w.status == status for w in state.workers) for status in statuses}),
            "worker_slots": _single(float(sum(w.slots for w in state.workers if w.serves == "*"))),
            "schedulers": _single(float(len(state.schedulers))),
            "schedulers_in_trouble": _single(float(sum(one.trouble is not None for one in state.schedulers))),
            **self._lag(),
            **self._freshness(),
        }
        if state.workers:
            values["worker_last_seen_timestamp_seconds"] = _single(min(worker.seen_at for worker in state.workers))
        if state.schedulers:
            values["scheduler_last_seen_timestamp_seconds"] = _single(max(one.seen_at for one in state.schedulers))
        if state.janitor is not None:
            values["janitor_last_seen_timestamp_seconds"] = _single(state.janitor.seen_at)
        return values

    def _of_lineage(self, newest: int) -> dict[str, Values]:
        delivery = self._service.lineage if self._service is not None else None
        if delivery is None:
            return {}
        counts: dict[Labels, float] = {(name,): float(number) for name, number in asdict(delivery.counts).items()}
        values: dict[str, Values] = {"openlineage_events": counts}
        if delivery.last is not None:
            values["openlineage_behind"] = _single(float(max(newest - delivery.last, 0)))
        return values

    def _lag(self) -> dict[str, Values]:
        lags = self._service.scheduler.lags() if self._service is not None else []
        known = [lag for lag in lags if lag.known]
        return {
            "consumer_lag_rows": largest({(lag.consumer, lag.table): float(lag.rows) for lag in known}),
            "consumer_lag_snapshots": largest({(lag.consumer, lag.table): float(lag.snapshots) for lag in known}),
            "consumer_lag_seconds": largest({(lag.consumer, lag.table): lag.seconds for lag in known}, rest_as=max),
            "consumer_lag_unknown": largest({(lag.consumer, lag.table): float(not lag.known) for lag in lags}),
        }

    def _freshness(self) -> dict[str, Values]:
        goals = self._service.scheduler.goals() if self._service is not None else []
        # The same workflows in both, those that are furthest behind first.
        goals = sorted(goals, key=lambda goal: (goal.goal_seconds - (goal.behind_seconds or 0.0), goal.workflow_id))[
            :MOST_NAMES
        ]
        behind: dict[Labels, float] = {
            (goal.workflow_id,): goal.behind_seconds for goal in goals if goal.behind_seconds is not None
        }
        aims: dict[Labels, float] = {(goal.workflow_id,): goal.goal_seconds for goal in goals}
        return {"freshness_goal_seconds": aims, "freshness_behind_seconds": behind}

    def _suppressed(self, state: StateCounts) -> dict[Labels, float]:
        """Of this process, and of workers whose files can be seen from here."""
        own = self._service.worker.id if self._service is not None else "server"
        found: dict[Labels, float] = {(own, place): float(one.count) for place, one in suppressed.counts().items()}
        for worker in state.workers:
            if worker.id != own:
                told = suppressed.read(suppressed.file_beside(Path(worker.lock_file)))
                found |= {(worker.id, place): float(one.count) for place, one in told.items()}
        return largest(found, most=MOST_PLACES)


def _single(value: float) -> dict[Labels, float]:
    return {(): value}


def _by_name(values: Mapping[str, int], names: tuple[str, ...] = ()) -> dict[Labels, float]:
    return {(name,): float(number) for name, number in {**dict.fromkeys(names, 0), **values}.items()}
