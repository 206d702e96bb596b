"""Whether an incremental trigger starts a run: its conditions over what is unseen of its tables. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from icefloe.store.triggers import RunSummary
from icefloe.triggers import failures
from icefloe.triggers.failures import Patience
from icefloe.triggers.sources import Watched
from icefloe.triggers.unseen import Unseen
from icefloe.triggers.verdicts import Verdict, VerdictKind, held, nothing, wait
from icefloe.workflow.model import IncrementalTrigger


@dataclass(frozen=True, slots=True)
class Ages:
    """Seconds since something, as far as this scheduler can tell: by its own clock since it first saw it."""

    failure: float = 0.0
    start: float | None = None
    """Since the trigger last started a run; None: it never has."""
    oldest: Mapping[str, float] = field(default_factory=dict)
    """By table: since the oldest unseen change."""
    newest: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Situation:
    """The workflow at this moment. ``bad``: its last runs that ended badly in a row, newest first."""

    workflow_id: str
    running: RunSummary | None = None
    bad: tuple[RunSummary, ...] = ()
    failed: RunSummary | None = None
    """Its last run, if that ended badly, forgiven or not."""
    versions: Mapping[str, int] = field(default_factory=dict)
    """Of the consumers: one more with each commit."""
    lineage: Mapping[str, int] = field(default_factory=dict)
    """How often runs of which workflows led to what is unseen. Empty: it came from outside, at least in part."""


def decide(
    trigger: IncrementalTrigger,
    sights: Sequence[tuple[Watched, Unseen]],
    situation: Situation,
    ages: Ages,
    patience: Patience,
) -> Verdict:
    """``sights``: each table as each consumer of it has seen it."""
    lost = [one for watched, one in sights if one.lost and watched.on_gap == "fail"]
    if lost:
        return held(
            f"{lost[0].table}: the history since the checkpoint is lost ({lost[0].lost})",
            "set on_gap: full or on_gap: diff on the capture step and push",
            lost_history=lost[0].table,
        )
    found = [one for watched, one in sights if one.snapshots or one.lost]
    if not found:
        return _nothing(sights)
    if situation.running is not None:
        run = situation.running
        return wait(f"run {run.id} is {run.status}; the next takes what has gathered until then", run=run.id)
    back = failures.verdict(situation.bad, ages.failure, patience, situation.workflow_id)
    if back is not None:
        return back
    rounds, allowed = situation.lineage.get(situation.workflow_id, 0), trigger.allow_cycle or 0
    if rounds > allowed:
        return held(
            f"its own output triggered it {rounds} times in a row" if allowed else "its own output would trigger it",
            "allow_cycle on the trigger allows more rounds; changes from elsewhere start it as ever",
        )
    waiting = _conditions(trigger, sights, found, ages)
    if waiting is not None:
        return waiting
    occasion = "incremental:" + ",".join(sorted({one.range for _, one in sights if one.moved}))
    # A consumer that was rewound by hand reads the same range again, with another version.
    occasion += "".join(f"+{name}={version}" for name, version in sorted(situation.versions.items()))
    if situation.failed is not None:
        # The same range once more: an occasion of its own, since a run has been started for the range itself.
        occasion += f"+after:{situation.failed.id}"
        occasion += f":{situation.failed.restarts}" if situation.failed.restarts else ""
    return Verdict(VerdictKind.START, _sum(found), occasion=occasion)


def _conditions(
    trigger: IncrementalTrigger, sights: Sequence[tuple[Watched, Unseen]], found: Sequence[Unseen], ages: Ages
) -> Verdict | None:
    tables = {watched.table for watched, _ in sights}
    missing = sorted(tables - {one.table for one in found})
    if trigger.require == "all" and missing:
        return wait(f"{', '.join(missing)}: nothing new yet (require: all)")
    oldest = max((ages.oldest.get(one.table, 0.0) for one in found), default=0.0)
    newest = min((ages.newest.get(one.table, 0.0) for one in found), default=0.0)
    overdue = trigger.max_age is not None and oldest >= trigger.max_age
    if not overdue:
        until_overdue = trigger.max_age - oldest if trigger.max_age is not None else None
        for name, least in (("rows", trigger.min_rows), ("files", trigger.min_files), ("bytes", trigger.min_bytes)):
            have = sum(getattr(one, name) for one in found)
            if least is not None and have < least:
                return wait(f"{have} of {least} {name} so far (min_{name})", until_overdue)
        if trigger.quiet_period is not None and newest < trigger.quiet_period:
            left = trigger.quiet_period - newest
            return wait(
                f"the last commit was {newest:.0f} s ago (quiet_period)",
                left if until_overdue is None else min(left, until_overdue),
            )
    if trigger.at_most_every is not None and ages.start is not None and ages.start < trigger.at_most_every:
        return wait(f"it started {ages.start:.0f} s ago (at_most_every)", trigger.at_most_every - ages.start)
    return None


def _nothing(sights: Sequence[tuple[Watched, Unseen]]) -> Verdict:
    troubles = [f"{one.table}: {one.problem}" for _, one in sights if one.problem]
    if troubles:
        return wait("; ".join(troubles))
    others = [one for _, one in sights if one.others]
    if others:
        return nothing(
            f"{others[0].table} has {others[0].others} commits of operations or partitions that do not count"
        )
    return nothing("nothing new in " + ", ".join(dict.fromkeys(one.table for _, one in sights)))


def _sum(found: Sequence[Unseen]) -> str:
    parts = [
        f"{one.table}: " + (f"{one.snapshots} commits, {one.rows} rows" if not one.lost else "history lost")
        for one in found
    ]
    return "; ".join(dict.fromkeys(parts))
