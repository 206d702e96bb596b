"""Signal and watermark triggers: which occasions there are. Pure, over signals that were read before."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from icefloe.errors import IcefloeError
from icefloe.store.signals import SignalRecord
from icefloe.triggers import zones
from icefloe.triggers.sources import workflow_values
from icefloe.workflow import matching
from icefloe.workflow.expressions import evaluate, evaluate_condition
from icefloe.workflow.model import SignalTrigger, WatermarkTrigger, Workflow
from icefloe.workflow.scope import Scope
from icefloe.workflow.values import TypedValue, plain

REMEMBERED = 100
"""So many values of ``dedup`` are kept in mind."""
_DAY = 86400

After = Callable[[str, int], Sequence[SignalRecord]]
"""Signals of a name with a higher number, oldest first."""


@dataclass(frozen=True, slots=True)
class SignalMatch:
    """What the signals since the cursor come to. ``fires``: a run is to be started, for these signals."""

    state: Mapping[str, Any]
    fires: tuple[SignalRecord, ...] = ()
    missing: tuple[str, ...] = ()
    passed_over: str | None = None
    params: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    @property
    def moved(self) -> bool:
        return bool(self.fires or self.passed_over)


def match_signals(workflow: Workflow, trigger: SignalTrigger, state: Mapping[str, Any], after: After) -> SignalMatch:
    """The oldest signals since the cursor that satisfy each of the trigger's conditions; all of them together fire."""
    cursors: list[int] = list(state["after"])
    chosen: list[SignalRecord] = []
    missing: list[str] = []
    scope: Scope | None = None
    for index, condition in enumerate(trigger.signals):
        scanned = cursors[index]
        match = None
        while match is None:
            batch = after(condition.name, scanned)
            if not batch:
                break
            scope = scope or Scope(params=workflow_values(workflow))
            wanted = matching.wanted(condition.match, scope)
            match = next((signal for signal in batch if matching.satisfies(signal.params, wanted)), None)
            scanned = batch[-1].seq
        if match is None:
            missing.append(condition.name)
        else:
            chosen.append(match)
    if missing:
        return SignalMatch(state, missing=tuple(missing))
    values = {signal.name: dict(signal.params) for signal in chosen}
    moved = {**state, "after": [signal.seq for signal in chosen]}
    moved.pop("problem", None)
    try:
        return _checked(trigger, chosen, values, moved)
    except IcefloeError as error:
        return SignalMatch({**moved, "problem": error.message}, passed_over=error.message, params=values)


def _checked(
    trigger: SignalTrigger, chosen: list[SignalRecord], values: Mapping[str, Mapping[str, Any]], moved: dict[str, Any]
) -> SignalMatch:
    by_signal = {
        name: {key: TypedValue.of(_value(item)).value for key, item in params.items()}
        for name, params in values.items()
    }
    flat = {key: item for params in by_signal.values() for key, item in params.items()}
    scope = Scope(params=flat, signals=by_signal)
    if trigger.condition is not None and not evaluate_condition(trigger.condition, scope):
        return SignalMatch(moved, passed_over="its condition does not hold", params=values)
    if trigger.dedup is not None:
        key = json.dumps(plain(evaluate(trigger.dedup, scope).value), sort_keys=True, default=str)
        known = list(moved.get("dedup", ()))
        if key in known:
            return SignalMatch(moved, passed_over=f"one with {key} was there before (dedup)", params=values)
        moved = {**moved, "dedup": [*known, key][-REMEMBERED:]}
    return SignalMatch(moved, tuple(chosen), params=values)


def _value(item: Any) -> Any:
    return tuple(item) if isinstance(item, list) else item


def boundaries(trigger: WatermarkTrigger, passed: float | None, valid_through: float, most: int) -> list[float]:
    """The boundaries that a watermark has passed since ``passed``, oldest first; with None only the last of them."""
    last = boundary(trigger, valid_through)
    if passed is None:
        return [last]
    fires: list[float] = []
    at = passed
    while len(fires) < most:
        at = boundary(trigger, _beyond(trigger, at))
        if at > last:
            break
        fires.append(at)
    return fires


def boundary(trigger: WatermarkTrigger, moment: float) -> float:
    """The last boundary at or before a moment: midnights of the zone for whole days, else multiples of ``every``."""
    every = int(trigger.every)
    if every % _DAY:
        return float(int(moment // trigger.every) * trigger.every)
    wall = int(moment) + zones.offset(trigger.timezone, int(moment))
    return float(zones.first_instant(trigger.timezone, wall // every * every))


def _beyond(trigger: WatermarkTrigger, at: float) -> float:
    """A moment behind the next boundary and before the one after it, whatever the clocks do."""
    return at + trigger.every + trigger.every / 4
