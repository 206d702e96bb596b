"""A workflow's triggers made ready for use: each with a name that outlives versions, and what it needs computed once. Pure."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from icefloe.errors import IcefloeError, UsageError
from icefloe.triggers.sources import WatchedTable, canonical, watched_tables
from icefloe.workflow.model import (
    CronTrigger,
    IncrementalTrigger,
    IntervalTrigger,
    SignalTrigger,
    Trigger,
    WatermarkTrigger,
    Workflow,
)
from icefloe.workflow.serialization import encode_value


@dataclass(frozen=True, slots=True)
class ArmedTrigger:
    """One trigger. ``name`` depends on what makes it the same trigger to people, not on its other settings."""

    name: str
    kind: str
    trigger: Trigger
    watches: tuple[WatchedTable, ...] = ()
    problem: str | None = None
    hint: str | None = None


@dataclass(frozen=True, slots=True)
class TriggerPlan:
    workflow: Workflow
    version: int
    triggers: tuple[ArmedTrigger, ...]
    completeness: frozenset[str] = frozenset()
    """Tables whose watermarks its triggers or steps wait for."""
    reading: ArmedTrigger | None = None
    """What its captures read, to tell how far behind it is; None when nobody wants to know."""


def plan(workflow: Workflow, version: int, *, catalog: str) -> TriggerPlan:
    """Never raises: what is wrong with one trigger is said in its place, and the others go on."""
    triggers: list[ArmedTrigger] = []
    names: dict[str, int] = {}
    for trigger in workflow.triggers:
        kind = type(trigger).__name__.removesuffix("Trigger").lower()
        name = f"{kind}:{_digest(_identity(trigger))}"
        names[name] = names.get(name, 0) + 1
        if names[name] > 1:
            continue  # the same trigger written twice is one
        watches: tuple[WatchedTable, ...] = ()
        problem = hint = None
        try:
            if isinstance(trigger, IncrementalTrigger):
                watches = watched_tables(workflow, trigger, catalog=catalog)
            elif isinstance(trigger, SignalTrigger) and any(signal.join_keys for signal in trigger.signals):
                problem, hint = "join_keys are not acted on by this version", "leave them out, or use match_params"
            elif isinstance(trigger, WatermarkTrigger):
                watches = (WatchedTable(canonical(trigger.table, catalog), None),)
        except IcefloeError as error:
            problem, hint = error.message, error.hint
        triggers.append(ArmedTrigger(name, kind, trigger, watches, problem, hint))
    return TriggerPlan(
        workflow, version, tuple(triggers), _completeness(workflow, catalog), _reading(workflow, triggers, catalog)
    )


def _reading(workflow: Workflow, triggers: Sequence[ArmedTrigger], catalog: str) -> ArmedTrigger | None:
    for armed in triggers:
        if armed.watches and isinstance(armed.trigger, IncrementalTrigger):
            return armed
    if workflow.freshness is None and workflow.alerting is None:
        return None
    everything = IncrementalTrigger(operations=("append", "overwrite", "delete"))
    try:
        watches = watched_tables(workflow, everything, catalog=catalog)
    except IcefloeError:
        return None
    return ArmedTrigger("reading", "reading", everything, watches) if watches else None


def _completeness(workflow: Workflow, catalog: str) -> frozenset[str]:
    names = [trigger.table for trigger in workflow.triggers if isinstance(trigger, WatermarkTrigger)]
    names += [dependency.table for _, step in workflow.all_steps() for dependency in step.watermark_dependencies]
    tables = set()
    for name in names:
        with suppress(UsageError):  # a name that only a run knows
            tables.add(canonical(name, catalog))
    return frozenset(tables)


def _identity(trigger: Trigger) -> Any:
    match trigger:
        case CronTrigger():
            return [trigger.cron, trigger.timezone]
        case IntervalTrigger():
            return [trigger.every, trigger.start]
        case SignalTrigger():
            return encode_value(trigger.signals)
        case WatermarkTrigger():
            return [trigger.table, trigger.every, trigger.timezone]
        case IncrementalTrigger():
            return [sorted(trigger.tables), trigger.consumer, encode_value(dict(trigger.partitions))]


def _digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True, default=str).encode()).hexdigest()[:12]


def text_of(trigger: Trigger) -> str:
    """A trigger in a few words."""
    match trigger:
        case CronTrigger():
            return f"cron {trigger.cron} {trigger.timezone}"
        case IntervalTrigger():
            return f"every {trigger.every:g} s"
        case SignalTrigger():
            return "signal " + ", ".join(signal.name for signal in trigger.signals)
        case WatermarkTrigger():
            return f"watermark of {trigger.table}"
        case IncrementalTrigger():
            return "changes in " + (", ".join(trigger.tables) or "its sources")
