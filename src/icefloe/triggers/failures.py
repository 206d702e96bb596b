"""Failed runs hold an incremental trigger back: first for a while, longer each time, then until somebody acts. Pure.

Without this a source with new rows and a workflow with a fault would start a run at every tick.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from icefloe.store.triggers import RunSummary
from icefloe.triggers.verdicts import Verdict, blocked, wait
from icefloe.workflow.model import Backoff

_BAD = ("FAILED", "TIMED_OUT", "STOPPED")
LOOK_BACK = 20


@dataclass(frozen=True, slots=True)
class Patience:
    """How long after the n-th failed run in a row the next one starts, and after how many none does."""

    backoff: Backoff
    runs: int


def bad_in_a_row(ended: Sequence[RunSummary], forgiven: int) -> list[RunSummary]:
    """Of the ended runs, newest first: those since the last good one, and since failures were last forgiven."""
    bad = []
    for run in ended:
        if run.status not in _BAD or run.seq <= forgiven:
            break
        bad.append(run)
    return bad


def verdict(bad: Sequence[RunSummary], age: float, patience: Patience, workflow_id: str) -> Verdict | None:
    """None: nothing holds it back. ``age``: seconds since the last of them ended, as far as the caller can tell."""
    if not bad:
        return None
    last = bad[0]
    again = f"icefloe restart {last.id}, or push a mended version, or: icefloe resume {workflow_id}"
    if last.status == "STOPPED":
        return blocked(f"run {last.id} was stopped", again, run=last.id)
    if len(bad) >= patience.runs:
        return blocked(f"the last {len(bad)} runs failed, {last.id} with: {last.cause}", again, run=last.id)
    delay = patience.backoff.delay(len(bad))
    if age < delay:
        return wait(f"run {last.id} failed ({last.cause}); the next follows after a pause", delay - age, run=last.id)
    return None
