"""Which answer a request deserves when the way from ``since`` to ``until`` may be lost."""

from __future__ import annotations

from icefloe.lake.errors import (
    HistoryExpiredError,
    HistoryLostError,
    HistoryRolledBackError,
    SnapshotNotFoundError,
    SnapshotOrderError,
    TableReplacedError,
)
from icefloe.lake.history import Checkpoint
from tests.oracle.brute_force import BruteForce

Answers = frozenset[type[Exception]]


def lost(truth: BruteForce, since: int, until: int, *, until_given: bool, checkpoint: Checkpoint | None) -> Answers:
    """The errors that would be right. ``checkpoint`` is what the request carried beside the snapshot's id, if anything.

    The shadow remembers snapshots that are expired, so it knows what really happened. The lake may only say what the
    metadata still shows; where that is not enough to tell the reasons apart, each reason that fits is right.
    """
    h = truth.history
    past, visible = truth.full_past(until), h.chain(until)
    other = truth.full_past(since)
    held = since in h.present
    if until in other and held and until in h.chain(since):
        return frozenset({SnapshotOrderError if until_given else HistoryRolledBackError})
    if since in past:
        return frozenset({HistoryExpiredError})
    answers: set[type[Exception]] = set()
    complete = h.commits[visible[-1]].parent is None
    if set(past) & set(other):  # a fork: since was rolled back, staged, or is on another branch
        answers.add(HistoryRolledBackError)
        fork_shown = held and set(visible) & set(h.chain(since))
        if not fork_shown:
            # v1 has no sequence numbers to tell one from the other by.
            answers |= {TableReplacedError} if complete else {HistoryExpiredError}
    else:
        answers.add(TableReplacedError)
        if not complete:
            answers.add(HistoryExpiredError)
        if until_is_older(truth, since, until):
            answers.add(HistoryRolledBackError)  # main was pointed back at a snapshot from before the replacement
    if not held and complete and checkpoint is None:
        answers = {SnapshotNotFoundError}
    elif not held and complete and checkpoint is not None and not checkpoint.sequence_number:
        answers = {HistoryLostError}  # v1 has no numbers: rolled back and replaced look alike
    return frozenset(answers)


def until_is_older(truth: BruteForce, since: int, until: int) -> bool:
    order = list(truth.history.commits)
    return order.index(truth.full_past(until)[-1]) < order.index(since)
