"""One trigger, looked at: what is to be started, and if nothing, why. Decided by pure functions over what was read."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any

from sqlalchemy.engine import Connection

from icefloe.config import SchedulerSettings
from icefloe.store import signals as stored_signals
from icefloe.store.database import Database
from icefloe.store.signals import SignalRecord
from icefloe.triggers import incremental, table_watermarks, time_events
from icefloe.triggers.clocks import AgeTracker
from icefloe.triggers.failures import Patience
from icefloe.triggers.fire_times import FireTimes
from icefloe.triggers.incremental import Ages, Situation
from icefloe.triggers.next_fires import times_of
from icefloe.triggers.pending_changes import PendingChanges
from icefloe.triggers.plans import ArmedTrigger
from icefloe.triggers.run_start import TriggerEvent
from icefloe.triggers.signals import boundaries, boundary, match_signals
from icefloe.triggers.sources import WatchedTable
from icefloe.triggers.table_watch import Question
from icefloe.triggers.time_events import Delay
from icefloe.triggers.verdicts import Verdict, VerdictKind, blocked, nothing, wait
from icefloe.triggers.workflow_snapshots import WorkflowSnapshot
from icefloe.workflow.model import (
    Backoff,
    CatchUp,
    CronTrigger,
    IncrementalTrigger,
    IntervalTrigger,
    SignalTrigger,
    WatermarkTrigger,
)


@dataclass(frozen=True, slots=True)
class SignalReader:
    """Reads signals and watermarks, and what tables say of themselves."""

    database: Database
    properties: table_watermarks.Properties

    def after(self, name: str, seq: int) -> list[SignalRecord]:
        with self.database.read() as connection:
            return stored_signals.after(connection, name, seq)

    def watermark(self, table: str) -> float | None:
        with self.database.read() as connection:
            record = stored_signals.watermark(connection, table)
        return None if record is None else record.valid_through


Answers = Callable[[Question], PendingChanges | None]
Lineages = Callable[[Iterable[str]], Mapping[str, Mapping[str, int]]]


@dataclass(frozen=True, slots=True)
class Judgement:
    """``occasions`` are started in order. ``state`` moves the cursor without a run. ``again``: when to look, on the wall clock.

    ``maintenance``: ranges that hold no change, over which a consumer's checkpoint may move.
    """

    verdict: Verdict
    occasions: tuple[TriggerEvent, ...] = ()
    state: Mapping[str, Any] | None = None
    again: float | None = None
    maintenance: tuple[tuple[WatchedTable, PendingChanges], ...] = ()


def judge(
    snapshot: WorkflowSnapshot,
    armed: ArmedTrigger,
    *,
    now: float,
    settings: SchedulerSettings,
    tracker: AgeTracker,
    answer: Answers,
    lineage: Lineages,
    signals: SignalReader,
) -> Judgement:
    """``answer`` knows the tables as of the last look, ``lineage`` which runs led to a run."""
    record = snapshot.record
    if armed.problem is not None:
        return Judgement(blocked(armed.problem, armed.hint))
    if not record.active:
        return Judgement(blocked("the workflow is deactivated", f"icefloe activate {record.id}"))
    if record.paused:
        return Judgement(blocked("the workflow is paused", f"icefloe resume {record.id}"))
    if armed.name not in snapshot.rows:
        return Judgement(wait("no scheduler has looked at it yet"))
    match armed.trigger:
        case CronTrigger() | IntervalTrigger():
            return _time(snapshot, armed, armed.trigger, now, settings)
        case IncrementalTrigger():
            return _incremental(snapshot, armed, armed.trigger, now, settings, tracker, answer, lineage)
        case SignalTrigger():
            return _signal(snapshot, armed, armed.trigger, signals)
        case WatermarkTrigger():
            return _watermark(snapshot, armed, armed.trigger, signals)


def first_state(connection: Connection, armed: ArmedTrigger, since: float) -> dict[str, Any]:
    """The cursor of a trigger that is new: it looks at what comes from its push on."""
    match armed.trigger:
        case CronTrigger() | IntervalTrigger():
            return {"at": since}
        case SignalTrigger():
            return {"after": [stored_signals.last_before(connection, since)] * len(armed.trigger.signals)}
        case WatermarkTrigger():
            held_at = stored_signals.watermark(connection, armed.watches[0].table) if armed.watches else None
            old = held_at is not None and held_at.set_at < since
            return {"passed": boundary(armed.trigger, held_at.valid_through)} if held_at and old else {}
        case _:
            return {}


# -- time --------------------------------------------------------------------------------------------------------------------


def _times_of(snapshot: WorkflowSnapshot, armed: ArmedTrigger) -> tuple[FireTimes, Delay]:
    trigger = armed.trigger
    assert isinstance(trigger, CronTrigger | IntervalTrigger)
    times = times_of(trigger, snapshot.rows[armed.name].since)
    return times, Delay(f"{snapshot.record.id}/{armed.name}", trigger.fuzzy_max_delay)


def _time(
    snapshot: WorkflowSnapshot,
    armed: ArmedTrigger,
    trigger: CronTrigger | IntervalTrigger,
    now: float,
    settings: SchedulerSettings,
) -> Judgement:
    times, delay = _times_of(snapshot, armed)
    cursor = float(snapshot.rows[armed.name].state["at"])
    due = time_events.due(times, cursor, now, catch_up=trigger.catch_up, grace=settings.grace_seconds, delay=delay)
    if due is None:
        fire = time_events.next_fire(times, cursor, delay)
        if fire is None:
            return Judgement(nothing("it fires no more"))
        return Judgement(wait(f"it fires next at {_when(fire)}", fire - now, next_fire=fire), again=fire)
    if due.starts and trigger.catch_up is not CatchUp.ALL and snapshot.waiting is not None:
        # Never a queue of stale runs: the one that waits will take what has gathered.
        reason = f"run {snapshot.waiting.id} waits for its turn; a further one would add nothing"
        return Judgement(wait(reason), again=now + settings.tick_seconds)
    occasions = tuple(
        TriggerEvent(
            f"{armed.name}:{time_events.name_of(fire)}",
            {"at": fire},
            f"{armed.kind} at {_when(fire)}",
            trigger.params,
            _run_values(snapshot, trigger, fire),
        )
        for fire in due.starts
    )
    if not occasions:
        missed = {"at": due.cursor, "problem": f"the fire at {_when(due.cursor)} was missed (catch_up: none)"}
        return Judgement(nothing(str(missed["problem"])), state=missed)
    return Judgement(Verdict(VerdictKind.START, occasions[-1].reason, occasion=occasions[-1].name), occasions)


def _run_values(snapshot: WorkflowSnapshot, trigger: CronTrigger | IntervalTrigger, fire: float) -> dict[str, Any]:
    """A run for a fire runs *as of* the fire, however late it starts."""
    values: dict[str, Any] = {"RUN_TS": int(fire * 1000)}
    if isinstance(trigger, CronTrigger):
        values["WORKFLOW_CRON_TIMEZONE"] = trigger.timezone
    own = {param.name for param in (*snapshot.plan.workflow.params, *trigger.params)}
    return {name: value for name, value in values.items() if name not in own}


def _when(fire: float) -> str:
    return datetime.fromtimestamp(int(fire), UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


# -- changes -----------------------------------------------------------------------------------------------------------------


def _incremental(
    snapshot: WorkflowSnapshot,
    armed: ArmedTrigger,
    trigger: IncrementalTrigger,
    now: float,
    settings: SchedulerSettings,
    tracker: AgeTracker,
    answer: Answers,
    lineage: Lineages,
) -> Judgement:
    observed = snapshot.observed(armed, answer)
    if observed is None:
        return Judgement(wait("its tables have not been looked at yet"))
    row, workflow_id = snapshot.rows[armed.name], snapshot.record.id
    behind = _behind(observed, lineage)
    readings, consumers = snapshot.readings, {watched.consumer for watched in armed.watches if watched.consumer}
    versions = {name: readings[name].version if name in readings else 0 for name in consumers}
    situation = Situation(workflow_id, snapshot.running, snapshot.bad, snapshot.failed, versions, behind)
    ages = _ages(snapshot, armed, observed, tracker, settings)
    patience = Patience(
        Backoff(settings.failure_pause_seconds, 2.0, settings.failure_pause_most_seconds), settings.failures_before_hold
    )
    verdict = incremental.decide(trigger, observed, situation, ages, patience)
    idle = snapshot.running is None
    maintenance = tuple(
        (watched, pending) for watched, pending in observed if idle and watched.consumer and pending.only_maintenance
    )
    if verdict.kind is VerdictKind.START and row.state.get("occasion") == verdict.occasion:
        why = f"run {row.last_run} was started for this already, and did not move the checkpoint"
        verdict = nothing(str(row.state.get("problem", why)))
    if verdict.kind is not VerdictKind.START:
        again = None if verdict.after is None else now + verdict.after
        return Judgement(verdict, again=again, maintenance=maintenance)
    assert verdict.occasion is not None
    positions = {
        w.table: asdict(pending.end) for w, pending in observed if w.consumer is None and pending.end is not None
    }
    before = {
        w.table: asdict(point) for w, _ in observed if w.consumer is None and (point := snapshot.position(armed, w))
    }
    occasion = TriggerEvent(
        verdict.occasion,
        {"occasion": verdict.occasion, "seen": positions, "before": before},
        verdict.reason,
        trigger.params,
        lineage={**behind, workflow_id: behind.get(workflow_id, 0) + 1},
        alone=True,
    )
    return Judgement(verdict, (occasion,), maintenance=maintenance)


def _behind(observed: list[tuple[WatchedTable, PendingChanges]], lineage: Lineages) -> dict[str, int]:
    """Whose runs wrote what is unseen. Nobody's, as soon as anything of it came from outside."""
    writers = {writer for _, pending in observed for writer in pending.writers}
    if not writers or "" in writers:
        return {}
    known = lineage(writers)
    if writers - known.keys():
        return {}
    behind: dict[str, int] = {}
    for counts in known.values():
        for workflow_id, count in counts.items():
            behind[workflow_id] = max(behind.get(workflow_id, 0), count)
    return behind


def _ages(
    snapshot: WorkflowSnapshot,
    armed: ArmedTrigger,
    observed: list[tuple[WatchedTable, PendingChanges]],
    tracker: AgeTracker,
    settings: SchedulerSettings,
) -> Ages:
    name, row, bad = (snapshot.record.id, armed.name), snapshot.rows[armed.name], snapshot.bad
    slack = settings.tick_seconds
    oldest, newest = {}, {}
    for _, pending in observed:
        if pending.oldest_ms is not None and pending.newest_ms is not None:
            oldest[pending.table] = tracker.age(
                ("oldest", name, pending.table), pending.oldest_ms, pending.oldest_ms / 1000, slack=slack
            )
            newest[pending.table] = tracker.age(
                ("newest", name, pending.table), pending.newest_ms, pending.newest_ms / 1000, slack=slack
            )
    return Ages(
        tracker.age(("failure", name), (bad[0].id, bad[0].restarts), bad[0].ended_at) if bad else 0.0,
        tracker.age(("start", name), row.last_run, row.last_at) if row.last_run is not None else None,
        oldest,
        newest,
    )


# -- signals and watermarks --------------------------------------------------------------------------------------------------


def _signal(
    snapshot: WorkflowSnapshot, armed: ArmedTrigger, trigger: SignalTrigger, signals: SignalReader
) -> Judgement:
    matched = match_signals(snapshot.plan.workflow, trigger, snapshot.rows[armed.name].state, signals.after)
    if not matched.moved:
        return Judgement(nothing(f"no signal {', '.join(matched.missing)} since it last looked that fits"))
    if not matched.fires:
        return Judgement(nothing(f"a signal came, and {matched.passed_over}"), state=matched.state)
    names = ", ".join(f"{signal.name} by {signal.publisher}" for signal in matched.fires)
    occasion = TriggerEvent(
        f"{armed.name}:" + ",".join(signal.id for signal in matched.fires),
        matched.state,
        f"signal {names}",
        trigger.params,
        signals=matched.params,
    )
    return Judgement(Verdict(VerdictKind.START, occasion.reason, occasion=occasion.name), (occasion,))


def _watermark(
    snapshot: WorkflowSnapshot, armed: ArmedTrigger, trigger: WatermarkTrigger, signals: SignalReader
) -> Judgement:
    table, passed = armed.watches[0].table, snapshot.rows[armed.name].state.get("passed")
    valid_through = signals.watermark(table)
    fires = [] if valid_through is None else boundaries(trigger, passed, valid_through, time_events.MOST_AT_ONCE)
    if not fires:
        own = table_watermarks.stated_watermark(table, signals.properties)
        if isinstance(own, table_watermarks.UnreadableWatermark):
            return Judgement(blocked(own.message, own.hint))
        if valid_through is None:
            return Judgement(nothing(f"nobody has said yet how far {table} is complete"))
        return Judgement(nothing(f"{table} is complete up to {_when(valid_through)}"))
    named = {param.name for param in (*snapshot.plan.workflow.params, *trigger.params)}
    occasions = tuple(
        TriggerEvent(
            f"{armed.name}:{time_events.name_of(at)}",
            {"passed": at},
            f"{table} is complete up to {_when(at)}",
            trigger.params,
            {} if "RUN_TS" in named else {"RUN_TS": int(at * 1000)},
        )
        for at in fires
    )
    return Judgement(Verdict(VerdictKind.START, occasions[-1].reason, occasion=occasions[-1].name), occasions)
