"""``type: NoOp`` and ``Join``: a place to branch and join."""

from __future__ import annotations

from typing import ClassVar

from icefloe.steps.contract import Done, Outcome, OutcomeKind, Progress, StepContext, StepRuntime
from icefloe.workflow.step_types import StepType


class NoOpStep(StepRuntime):
    type: ClassVar[StepType] = StepType("NoOp", "noop", aliases=("Join",))
    blocking: ClassVar[bool] = False
    instant: ClassVar[bool] = True

    def start(self, context: StepContext) -> Progress:
        return Done(Outcome(OutcomeKind.SUCCEEDED))
