"""Whether an incremental trigger starts a run: its conditions over what is unseen of its tables. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from icefloe.store.triggers import RunSummary
from icefloe.triggers import failures
from icefloe.triggers.failures import Patience
from icefloe.triggers.pending_changes import PendingChanges
from icefloe.triggers.sources import WatchedTable
from icefloe.triggers.verdicts import Verdict, VerdictKind, blocked, nothing, wait
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
    observed: Sequence[tuple[WatchedTable, PendingChanges]],
    situation: Situation,
    ages: Ages,
    patience: Patience,
) -> Verdict:
    """``observed``: each table as each consumer of it has seen it."""
    lost = [pending for watched, pending in observed if pending.lost and watched.on_gap == "fail"]
    if lost:
        return blocked(
            f"{lost[0].table}: the history since the checkpoint is lost ({lost[0].lost})",
            "set on_gap: full or on_gap: diff on the capture step and push",
            lost_history=lost[0].table,
        )
    changed = [pending for watched, pending in observed if pending.snapshots or pending.lost]
    if not changed:
        return _nothing(observed)
    if situation.running is not None:
        run = situation.running
        return wait(f"run {run.id} is {run.status}; the next takes what has gathered until then", run=run.id)
    back = failures.verdict(situation.bad, ages.failure, patience, situation.workflow_id)
    if back is not None:
        return back
    rounds, allowed = situation.lineage.get(situation.workflow_id, 0), trigger.allow_cycle or 0
    if rounds > allowed:
        return blocked(
            f"its own output triggered it {rounds} times in a row" if allowed else "its own output would trigger it",
            "allow_cycle on the trigger allows more rounds; changes from elsewhere start it as ever",
        )
    waiting = _conditions(trigger, observed, changed, ages)
    if waiting is not None:
        return waiting
    occasion = "incremental:" + ",".join(sorted({pending.range for _, pending in observed if pending.moved}))
    # A consumer that was rewound by hand reads the same range again, with another version.
    occasion += "".join(f"+{name}={version}" for name, version in sorted(situation.versions.items()))
    if situation.failed is not None:
        # The same range once more: an occasion of its own, since a run has been started for the range itself.
        occasion += f"+after:{situation.failed.id}"
        occasion += f":{situation.failed.restarts}" if situation.failed.restarts else ""
    return Verdict(VerdictKind.START, _sum(changed), occasion=occasion)


def _conditions(
    trigger: IncrementalTrigger,
    observed: Sequence[tuple[WatchedTable, PendingChanges]],
    changed: Sequence[PendingChanges],
    ages: Ages,
) -> Verdict | None:
    tables = {watched.table for watched, _ in observed}
    missing = sorted(tables - {pending.table for pending in changed})
    if trigger.require == "all" and missing:
        return wait(f"{', '.join(missing)}: nothing new yet (require: all)")
    oldest = max((ages.oldest.get(pending.table, 0.0) for pending in changed), default=0.0)
    newest = min((ages.newest.get(pending.table, 0.0) for pending in changed), default=0.0)
    overdue = trigger.max_age is not None and oldest >= trigger.max_age
    if not overdue:
        until_overdue = trigger.max_age - oldest if trigger.max_age is not None else None
        for name, least in (("rows", trigger.min_rows), ("files", trigger.min_files), ("bytes", trigger.min_bytes)):
            have = sum(getattr(pending, name) for pending in changed)
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


def _nothing(observed: Sequence[tuple[WatchedTable, PendingChanges]]) -> Verdict:
    troubles = [f"{pending.table}: {pending.problem}" for _, pending in observed if pending.problem]
    if troubles:
        return wait("; ".join(troubles))
    others = [pending for _, pending in observed if pending.others]
    if others:
        return nothing(
            f"{others[0].table} has {others[0].others} commits of operations or partitions that do not count"
        )
    return nothing("nothing new in " + ", ".join(dict.fromkeys(pending.table for _, pending in observed)))


def _sum(changed: Sequence[PendingChanges]) -> str:
    parts = [
        f"{pending.table}: "
        + (f"{pending.snapshots} commits, {pending.rows} rows" if not pending.lost else "history lost")
        for pending in changed
    ]
    return "; ".join(dict.fromkeys(parts))
