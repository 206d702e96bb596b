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
from icefloe.triggers import completeness, incremental, time_events
from icefloe.triggers.clocks import Sightings
from icefloe.triggers.failures import Patience
from icefloe.triggers.fire_times import FireTimes
from icefloe.triggers.incremental import Ages, Situation
from icefloe.triggers.next_fires import times_of
from icefloe.triggers.plans import Armed
from icefloe.triggers.run_start import TriggerEvent
from icefloe.triggers.signals import boundaries, boundary, look
from icefloe.triggers.sources import Watched
from icefloe.triggers.table_watch import Question
from icefloe.triggers.time_events import Delay
from icefloe.triggers.unseen import Unseen
from icefloe.triggers.verdicts import Verdict, VerdictKind, held, nothing, wait
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
class Signals:
    """Reads signals and watermarks, and what tables say of themselves."""

    database: Database
    properties: completeness.Properties

    def after(self, name: str, seq: int) -> list[SignalRecord]:
        with self.database.read() as connection:
            return stored_signals.after(connection, name, seq)

    def watermark(self, table: str) -> float | None:
        with self.database.read() as connection:
            found = stored_signals.watermark(connection, table)
        return None if found is None else found.valid_through


Answers = Callable[[Question], Unseen | None]
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
    maintenance: tuple[tuple[Watched, Unseen], ...] = ()


def judge(
    standing: WorkflowSnapshot,
    armed: Armed,
    *,
    now: float,
    settings: SchedulerSettings,
    sightings: Sightings,
    answer: Answers,
    lineage: Lineages,
    signals: Signals,
) -> Judgement:
    """``answer`` knows the tables as of the last look, ``lineage`` which runs led to a run."""
    record = standing.record
    if armed.problem is not None:
        return Judgement(held(armed.problem, armed.hint))
    if not record.active:
        return Judgement(held("the workflow is deactivated", f"icefloe activate {record.id}"))
    if record.paused:
        return Judgement(held("the workflow is paused", f"icefloe resume {record.id}"))
    if armed.name not in standing.rows:
        return Judgement(wait("no scheduler has looked at it yet"))
    match armed.trigger:
        case CronTrigger() | IntervalTrigger():
            return _time(standing, armed, armed.trigger, now, settings)
        case IncrementalTrigger():
            return _incremental(standing, armed, armed.trigger, now, settings, sightings, answer, lineage)
        case SignalTrigger():
            return _signal(standing, armed, armed.trigger, signals)
        case WatermarkTrigger():
            return _watermark(standing, armed, armed.trigger, signals)


def first_state(connection: Connection, armed: Armed, since: float) -> dict[str, Any]:
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


def _times_of(standing: WorkflowSnapshot, armed: Armed) -> tuple[FireTimes, Delay]:
    trigger = armed.trigger
    assert isinstance(trigger, CronTrigger | IntervalTrigger)
    times = times_of(trigger, standing.rows[armed.name].since)
    return times, Delay(f"{standing.record.id}/{armed.name}", trigger.fuzzy_max_delay)


def _time(
    standing: WorkflowSnapshot,
    armed: Armed,
    trigger: CronTrigger | IntervalTrigger,
    now: float,
    settings: SchedulerSettings,
) -> Judgement:
    times, delay = _times_of(standing, armed)
    cursor = float(standing.rows[armed.name].state["at"])
    found = time_events.due(times, cursor, now, catch_up=trigger.catch_up, grace=settings.grace_seconds, delay=delay)
    if found is None:
        fire = time_events.next_fire(times, cursor, delay)
        if fire is None:
            return Judgement(nothing("it fires no more"))
        return Judgement(wait(f"it fires next at {_when(fire)}", fire - now, next_fire=fire), again=fire)
    if found.starts and trigger.catch_up is not CatchUp.ALL and standing.waiting is not None:
        # Never a queue of stale runs: the one that waits will take what has gathered.
        reason = f"run {standing.waiting.id} waits for its turn; a further one would add nothing"
        return Judgement(wait(reason), again=now + settings.tick_seconds)
    occasions = tuple(
        TriggerEvent(
            f"{armed.name}:{time_events.name_of(fire)}",
            {"at": fire},
            f"{armed.kind} at {_when(fire)}",
            trigger.params,
            _run_values(standing, trigger, fire),
        )
        for fire in found.starts
    )
    if not occasions:
        missed = {"at": found.cursor, "problem": f"the fire at {_when(found.cursor)} was missed (catch_up: none)"}
        return Judgement(nothing(str(missed["problem"])), state=missed)
    return Judgement(Verdict(VerdictKind.START, occasions[-1].reason, occasion=occasions[-1].name), occasions)


def _run_values(standing: WorkflowSnapshot, trigger: CronTrigger | IntervalTrigger, fire: float) -> dict[str, Any]:
    """A run for a fire runs *as of* the fire, however late it starts."""
    values: dict[str, Any] = {"RUN_TS": int(fire * 1000)}
    if isinstance(trigger, CronTrigger):
        values["WORKFLOW_CRON_TIMEZONE"] = trigger.timezone
    own = {param.name for param in (*standing.plan.workflow.params, *trigger.params)}
    return {name: value for name, value in values.items() if name not in own}


def _when(fire: float) -> str:
    return datetime.fromtimestamp(int(fire), UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


# -- changes -----------------------------------------------------------------------------------------------------------------


def _incremental(
    standing: WorkflowSnapshot,
    armed: Armed,
    trigger: IncrementalTrigger,
    now: float,
    settings: SchedulerSettings,
    sightings: Sightings,
    answer: Answers,
    lineage: Lineages,
) -> Judgement:
    sights = standing.sights(armed, answer)
    if sights is None:
        return Judgement(wait("its tables have not been looked at yet"))
    row, workflow_id = standing.rows[armed.name], standing.record.id
    behind = _behind(sights, lineage)
    readings, consumers = standing.readings, {watched.consumer for watched in armed.watches if watched.consumer}
    versions = {name: readings[name].version if name in readings else 0 for name in consumers}
    situation = Situation(workflow_id, standing.running, standing.bad, standing.failed, versions, behind)
    ages = _ages(standing, armed, sights, sightings, settings)
    patience = Patience(
        Backoff(settings.failure_pause_seconds, 2.0, settings.failure_pause_most_seconds), settings.failures_before_hold
    )
    verdict = incremental.decide(trigger, sights, situation, ages, patience)
    idle = standing.running is None
    maintenance = tuple((watched, one) for watched, one in sights if idle and watched.consumer and one.only_maintenance)
    if verdict.kind is VerdictKind.START and row.state.get("occasion") == verdict.occasion:
        why = f"run {row.last_run} was started for this already, and did not move the checkpoint"
        verdict = nothing(str(row.state.get("problem", why)))
    if verdict.kind is not VerdictKind.START:
        again = None if verdict.after is None else now + verdict.after
        return Judgement(verdict, again=again, maintenance=maintenance)
    assert verdict.occasion is not None
    seen = {w.table: asdict(one.end) for w, one in sights if w.consumer is None and one.end is not None}
    before = {
        w.table: asdict(point) for w, _ in sights if w.consumer is None and (point := standing.position(armed, w))
    }
    occasion = TriggerEvent(
        verdict.occasion,
        {"occasion": verdict.occasion, "seen": seen, "before": before},
        verdict.reason,
        trigger.params,
        lineage={**behind, workflow_id: behind.get(workflow_id, 0) + 1},
        alone=True,
    )
    return Judgement(verdict, (occasion,), maintenance=maintenance)


def _behind(sights: list[tuple[Watched, Unseen]], lineage: Lineages) -> dict[str, int]:
    """Whose runs wrote what is unseen. Nobody's, as soon as anything of it came from outside."""
    writers = {writer for _, one in sights for writer in one.writers}
    if not writers or "" in writers:
        return {}
    known = lineage(writers)
    if writers - known.keys():
        return {}
    found: dict[str, int] = {}
    for counts in known.values():
        for workflow_id, count in counts.items():
            found[workflow_id] = max(found.get(workflow_id, 0), count)
    return found


def _ages(
    standing: WorkflowSnapshot,
    armed: Armed,
    sights: list[tuple[Watched, Unseen]],
    sightings: Sightings,
    settings: SchedulerSettings,
) -> Ages:
    name, row, bad = (standing.record.id, armed.name), standing.rows[armed.name], standing.bad
    slack = settings.tick_seconds
    oldest, newest = {}, {}
    for _, one in sights:
        if one.oldest_ms is not None and one.newest_ms is not None:
            oldest[one.table] = sightings.age(
                ("oldest", name, one.table), one.oldest_ms, one.oldest_ms / 1000, slack=slack
            )
            newest[one.table] = sightings.age(
                ("newest", name, one.table), one.newest_ms, one.newest_ms / 1000, slack=slack
            )
    return Ages(
        sightings.age(("failure", name), (bad[0].id, bad[0].restarts), bad[0].ended_at) if bad else 0.0,
        sightings.age(("start", name), row.last_run, row.last_at) if row.last_run is not None else None,
        oldest,
        newest,
    )


# -- signals and watermarks --------------------------------------------------------------------------------------------------


def _signal(standing: WorkflowSnapshot, armed: Armed, trigger: SignalTrigger, signals: Signals) -> Judgement:
    found = look(standing.plan.workflow, trigger, standing.rows[armed.name].state, signals.after)
    if not found.moved:
        return Judgement(nothing(f"no signal {', '.join(found.missing)} since it last looked that fits"))
    if not found.fires:
        return Judgement(nothing(f"a signal came, and {found.passed_over}"), state=found.state)
    names = ", ".join(f"{one.name} by {one.publisher}" for one in found.fires)
    occasion = TriggerEvent(
        f"{armed.name}:" + ",".join(one.id for one in found.fires),
        found.state,
        f"signal {names}",
        trigger.params,
        signals=found.params,
    )
    return Judgement(Verdict(VerdictKind.START, occasion.reason, occasion=occasion.name), (occasion,))


def _watermark(standing: WorkflowSnapshot, armed: Armed, trigger: WatermarkTrigger, signals: Signals) -> Judgement:
    table, passed = armed.watches[0].table, standing.rows[armed.name].state.get("passed")
    valid_through = signals.watermark(table)
    found = [] if valid_through is None else boundaries(trigger, passed, valid_through, time_events.MOST_AT_ONCE)
    if not found:
        own = completeness.said(table, signals.properties)
        if isinstance(own, completeness.Unreadable):
            return Judgement(held(own.message, own.hint))
        if valid_through is None:
            return Judgement(nothing(f"nobody has said yet how far {table} is complete"))
        return Judgement(nothing(f"{table} is complete up to {_when(valid_through)}"))
    named = {param.name for param in (*standing.plan.workflow.params, *trigger.params)}
    occasions = tuple(
        TriggerEvent(
            f"{armed.name}:{time_events.name_of(at)}",
            {"passed": at},
            f"{table} is complete up to {_when(at)}",
            trigger.params,
            {} if "RUN_TS" in named else {"RUN_TS": int(at * 1000)},
        )
        for at in found
    )
    return Judgement(Verdict(VerdictKind.START, occasions[-1].reason, occasion=occasions[-1].name), occasions)
