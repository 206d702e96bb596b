"""Keys of the YAML notations that spell what the model says elsewhere, or in another form. They are declared as the model
is, and nothing is ever an instance of these classes.

The deep-dive form has ``transition`` at each step, the slides' form ``dag``, the short form ``dependsOn``: all become the
model's transitions.
"""

from __future__ import annotations

from typing import Annotated

from icefloe.workflow.field_types import Concurrency, Text, Texts, key
from icefloe.workflow.model import (
    CronTrigger,
    IncrementalTrigger,
    IntervalTrigger,
    Json,
    Param,
    SignalTrigger,
    Step,
    Trigger,
    WatermarkTrigger,
    Workflow,
)


class Document:
    """The keys of a file."""

    workflow: Annotated[Workflow, key("the workflow itself")]
    description: Annotated[Text, key("what it is for")]
    triggers: Annotated[tuple[Trigger, ...], key("what starts runs", "triggers", name="trigger")]
    properties: Annotated[Json, key("Maestro's place for owner, run strategy and the like")]


class WorkflowKeys:
    """Beside a workflow's own."""

    workflow_concurrency: Annotated[Concurrency, key("how many runs may be under way at once", "concurrency")]
    short_steps: Annotated[tuple[Step, ...], key("the short form's jobs", name="steps")]


class StepKeys:
    """Beside a step's own."""

    transition: Annotated[Json, key("where it leads; wins over the dag", "transitions")]
    depends_on: Annotated[Texts, key("what it follows")]


class ForeachKeys:
    """Beside a loop's own, whose ``params`` are the lists it walks over."""

    job_params: Annotated[tuple[Param, ...], key("the loop's own parameters; params: are what it walks over")]
    ranges: Annotated[Json, key("numbers to walk over: {hour: {from: 0, to: 24, increment: 1}}")]


class Range:
    """One of a loop's ranges."""

    start: Annotated[Json, key("the first number", "start", name="from")]
    end: Annotated[Json, key("the number that is no longer in it", "end", name="to")]
    increment: Annotated[Json, key("the step", "step")]


class BackoffKeys:
    """Maestro's kinds of backoff."""

    type: Annotated[Text, key("FixedBackoff: every pause is the first")]


class MatchKeys:
    """How a condition on a signal's parameter says its value."""

    value: Annotated[Json, key("to be compared with")]
    expression: Annotated[Json, key("what computes it")]
    type: Annotated[Text, key("its type, as between < and > in a parameter's key")]


class TriggerKeys:
    """The kinds of triggers."""

    cron: Annotated[CronTrigger, key("by the clock")]
    interval: Annotated[IntervalTrigger, key("every so often", "every")]
    signal: Annotated[SignalTrigger, key("when signals are published", "signals")]
    watermark: Annotated[WatermarkTrigger, key("when a table is complete up to a further point")]
    incremental: Annotated[IncrementalTrigger, key("when tables have changes that the workflow has not seen")]
