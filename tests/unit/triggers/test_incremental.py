"""Incremental triggers in a simulated world: random commits, slow and failing runs, schedulers that look and do not look."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

import pytest

from icefloe.lake import Checkpoint
from icefloe.store.triggers import RunSummary
from icefloe.triggers import failures
from icefloe.triggers.failures import Patience
from icefloe.triggers.incremental import Ages, Situation, decide
from icefloe.triggers.pending_changes import PendingChanges
from icefloe.triggers.sources import WatchedTable
from icefloe.triggers.verdicts import VerdictKind
from icefloe.workflow.model import Backoff, IncrementalTrigger

PATIENCE = Patience(Backoff(initial=30.0, factor=2.0, maximum=3600.0), 3)


@dataclass
class World:
    """One table, one consumer. Commits are (moment, rows); ``seen`` of them are behind the checkpoint."""

    trigger: IncrementalTrigger
    now: float = 0.0
    commits: list[tuple[float, int]] = field(default_factory=list)
    seen: int = 0
    taking: int = 0
    ends_at: float = 0.0
    running: RunSummary | None = None
    ended: list[RunSummary] = field(default_factory=list)
    starts: list[float] = field(default_factory=list)
    occasions: list[str] = field(default_factory=list)
    forgiven: int = 0

    def unseen(self) -> PendingChanges:
        new = self.commits[self.seen :]
        return PendingChanges(
            "db.t",
            self.seen or None,
            Checkpoint("u", len(self.commits)) if self.commits else None,
            snapshots=len(new),
            rows=sum(rows for _, rows in new),
            files=len(new),
            oldest_ms=int(new[0][0] * 1000) if new else None,
            newest_ms=int(new[-1][0] * 1000) if new else None,
            writers=("",),
        )

    @property
    def bad(self) -> tuple[RunSummary, ...]:
        return tuple(failures.bad_in_a_row(self.ended, self.forgiven))

    def look(self) -> VerdictKind:
        one = self.unseen()
        last = self.ended[0] if self.ended else None
        situation = Situation(
            "w",
            self.running,
            self.bad,
            last if last is not None and last.status == "FAILED" else None,
            {"w/look": self.seen},
        )
        new = self.commits[self.seen :]
        ages = Ages(
            self.now - (self.bad[0].ended_at or 0) if self.bad else 0.0,
            self.now - self.starts[-1] if self.starts else None,
            {"db.t": self.now - new[0][0]} if new else {},
            {"db.t": self.now - new[-1][0]} if new else {},
        )
        verdict = decide(self.trigger, [(WatchedTable("db.t", "w/look"), one)], situation, ages, PATIENCE)
        if verdict.kind is VerdictKind.START:
            assert verdict.occasion is not None and self.running is None
            number = len(self.starts) + 1
            self.starts.append(self.now)
            self.occasions.append(verdict.occasion)
            self.taking = len(self.commits)
            self.running = RunSummary(f"w-{number}", number, "IN_PROGRESS", self.now, None, 0, None)
        return verdict.kind

    def end(self, good: bool) -> None:
        run = self.running
        assert run is not None
        status = "SUCCEEDED" if good else "FAILED"
        self.ended.insert(
            0, RunSummary(run.id, run.seq, status, run.created_at, self.now, 0, None if good else "broken")
        )
        if good:
            self.seen = self.taking
        self.running = None


def random_trigger(chance: random.Random) -> IncrementalTrigger:
    return IncrementalTrigger(
        min_rows=chance.choice((None, None, 50)),
        min_files=chance.choice((None, None, 3)),
        max_age=chance.choice((None, 300.0)),
        at_most_every=chance.choice((None, 60.0, 600.0)),
        quiet_period=chance.choice((None, None, 30.0)),
    )


@pytest.mark.parametrize("seed", range(100))
def test_whatever_happens_runs_have_a_cause_come_one_at_a_time_and_everything_is_taken_in_the_end(seed: int) -> None:
    chance = random.Random(seed)
    world = World(random_trigger(chance))
    trigger, failing = world.trigger, chance.random() * 0.6
    for _ in range(400):
        world.now += chance.choice((1.0, 5.0, 5.0, 20.0, 300.0))
        if chance.random() < 0.3:
            world.commits.append((world.now, chance.randint(1, 40)))
        if world.running is not None and chance.random() < 0.4:
            world.end(good=chance.random() > failing)
        before = len(world.starts)
        new = world.commits[world.seen :]
        kind = world.look()
        if kind is VerdictKind.START:
            assert new, "no run without cause"
            overdue = trigger.max_age is not None and world.now - new[0][0] >= trigger.max_age
            if not overdue:
                assert trigger.min_rows is None or sum(rows for _, rows in new) >= trigger.min_rows
                assert trigger.quiet_period is None or world.now - new[-1][0] >= trigger.quiet_period
            if trigger.at_most_every is not None and before:
                assert world.now - world.starts[-2] >= trigger.at_most_every
        if len(world.bad) >= PATIENCE.runs:
            assert world.look() in (VerdictKind.HELD, VerdictKind.NOTHING)
            if chance.random() < 0.05:
                world.forgiven = world.ended[0].seq
    assert len(set(world.occasions)) == len(world.occasions), "one occasion, one run"
    # Failures end, somebody resumes, and a last commit is old enough for every condition but the counts.
    if world.ended:
        world.forgiven = world.ended[0].seq
    world.commits += [(world.now, 50)] * 3
    for _ in range(10):
        world.now += 10_000
        if world.running is not None:
            world.end(good=True)
        world.look()
    assert world.seen == len(world.commits)


def test_a_stuck_workflow_costs_three_runs_however_long_it_is_looked_at() -> None:
    world = World(IncrementalTrigger())
    for _ in range(5000):
        world.now += 5
        world.commits.append((world.now, 1))
        world.look()
        if world.running is not None:
            world.end(good=False)
    assert len(world.starts) == 3
    assert world.starts[1] - world.starts[0] >= 30 and world.starts[2] - world.starts[1] >= 60
