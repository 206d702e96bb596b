"""What a workflow waits for, trigger by trigger, each with the few things that would help it on."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from icefloe.service.triggers import Why
from icefloe.service.workflow_overview import WorkflowOverview
from icefloe.triggers.explanation import Explanation
from icefloe.triggers.plans import ArmedTrigger
from icefloe.triggers.verdicts import VerdictKind
from icefloe.workflow.model import MatchOperator, SignalTrigger, WatermarkTrigger
from icefloe.workflow.values import plain

if TYPE_CHECKING:
    from icefloe.service.client import Client


@dataclass(frozen=True, slots=True)
class Help:
    """``verb``: activate, resume, restart, signal, watermark. ``fields``: what its form begins with."""

    verb: str
    label: str
    fields: dict[str, str] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        return {"verb": self.verb, "label": self.label, "fields": dict(self.fields)}


@dataclass(frozen=True, slots=True)
class Wait:
    """One trigger: what it is, what it waits for, what helps."""

    explanation: Explanation
    helps: tuple[Help, ...]

    def to_dict(self) -> dict[str, Any]:
        return {**self.explanation.to_dict(), "helps": [each.to_dict() for each in self.helps]}


@dataclass(frozen=True, slots=True)
class Waiting:
    why: Why
    waits: tuple[Wait, ...]

    def to_dict(self) -> dict[str, Any]:
        return {**self.why.to_dict(), "triggers": [wait.to_dict() for wait in self.waits]}


def waiting(client: Client, overview: WorkflowOverview) -> Waiting:
    """Looks at the tables that triggers watch: it may take as long as the catalog does."""
    why = client.triggers.why(overview.id)
    armed = {each.name: each for each in overview.armed}
    waits = tuple(Wait(each, _helps(overview, each, armed.get(each.name))) for each in why.triggers)
    return Waiting(why, waits)


def _helps(overview: WorkflowOverview, explanation: Explanation, armed: ArmedTrigger | None) -> tuple[Help, ...]:
    if not overview.active:
        return (Help("activate", "Activate"),)
    if overview.paused:
        return (Help("resume", "Resume"),)
    verdict = explanation.verdict
    helps = []
    run = verdict.details.get("run")
    if run and verdict.kind in (VerdictKind.HELD, VerdictKind.WAIT):
        helps.append(Help("restart", f"Restart {run}", {"run": str(run)}))
    if run and verdict.kind is VerdictKind.HELD:
        helps.append(Help("resume", "Let the next run start anyway"))
    trigger = armed.trigger if armed is not None else None
    if isinstance(trigger, SignalTrigger) and verdict.kind is not VerdictKind.START:
        for signal in trigger.signals:
            wanted = {
                match.param.name: plain(match.param.value)
                for match in signal.match
                if match.operator is MatchOperator.EQ and match.param.value is not None
            }
            helps.append(Help("signal", signal.name, {"name": signal.name, "params": json.dumps(wanted)}))
    if isinstance(trigger, WatermarkTrigger) and verdict.kind is not VerdictKind.START:
        helps.append(Help("watermark", trigger.table, {"table": trigger.table}))
    return tuple(helps)
