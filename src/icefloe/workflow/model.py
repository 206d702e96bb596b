"""One typed model of a workflow, whatever notation it was written in: the only statement of what a definition may say.

Everything here is a frozen value: a :class:`Workflow` holds steps, the transitions between them, parameters and
triggers. It carries no positions, no state and no file contents (see ``versions.py`` for the files a version refers
to), so two definitions that mean the same are equal and have the same digest.

A field's annotation says what may stand there, within which limits, under which keys, and what it means
(``field_types.py``). The tables of reserved keys, the YAML readers, the writer, the JSON Schema and the Python builder
go through ``declarations.py`` and ask there; ``notation.py`` has the keys that only spell something said here.

A workflow and a foreach are both *containers*: they hold ``steps`` and the ``transitions`` between them. Step ids are
unique in the whole workflow, nested steps included.

``to_dict``, ``from_dict`` and ``digest`` are the canonical JSON form; fields that have their default are left out of
it, so that a new field with a default changes no digest.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Annotated, Any, ClassVar, TypeAlias

from icefloe.workflow.field_types import (
    Concurrency,
    Count,
    Cron,
    Delay,
    Duration,
    Factor,
    Flag,
    Interval,
    LoopConcurrency,
    Moment,
    Operations,
    Partitions,
    Requirement,
    Retries,
    Rounds,
    Text,
    Texts,
    Timeout,
    VersionText,
    Zone,
    key,
)
from icefloe.workflow.values import ParamType, Value

Json: TypeAlias = Any
"""JSON data as loaded: None, bool, int, float, str, list, dict."""

DEFAULT_TIMEOUT_SECONDS = 10 * 24 * 3600.0


class ParamMode(StrEnum):
    """Who may change a parameter, and whether a restart evaluates it again."""

    CONSTANT = "CONSTANT"  # nobody; a restart keeps the value
    IMMUTABLE = "IMMUTABLE"  # nobody; a restart evaluates again
    MUTABLE = "MUTABLE"  # run, restart and step output
    MUTABLE_ON_START = "MUTABLE_ON_START"  # run
    MUTABLE_ON_START_RESTART = "MUTABLE_ON_START_RESTART"  # run and restart
    PROVIDED = "PROVIDED"  # has no value here: whoever starts the run must give one


@dataclass(frozen=True, slots=True)
class Param:
    """A parameter's definition: a literal ``value`` (strings may hold ``${…}``), an ``expression``, or, for a MAP,
    ``members`` that are parameters themselves. A PROVIDED parameter has none of these."""

    name: str
    type: ParamType
    value: Value | None = None
    expression: str | None = None
    members: tuple[Param, ...] | None = None
    mode: ParamMode = ParamMode.MUTABLE


class FailureMode(StrEnum):
    """What a step's failure means for the run."""

    FAIL_AFTER_RUNNING = "FAIL_AFTER_RUNNING"
    FAIL_IMMEDIATELY = "FAIL_IMMEDIATELY"
    IGNORE_FAILURE = "IGNORE_FAILURE"


class RunRule(StrEnum):
    SEQUENTIAL = "SEQUENTIAL"
    STRICT_SEQUENTIAL = "STRICT_SEQUENTIAL"
    FIRST_ONLY = "FIRST_ONLY"
    LAST_ONLY = "LAST_ONLY"
    PARALLEL = "PARALLEL"


@dataclass(frozen=True, slots=True)
class RunStrategy:
    """How runs of one workflow relate. ``concurrency`` bounds PARALLEL (None: the engine's default)."""

    bare: ClassVar[str] = "rule"

    rule: Annotated[RunRule, key("how runs of this workflow relate")] = RunRule.SEQUENTIAL
    concurrency: Annotated[
        Concurrency | None, key("how many runs may be under way at once", "concurrency", name="workflow_concurrency")
    ] = None


@dataclass(frozen=True, slots=True)
class Backoff:
    """Seconds before the n-th retry: ``initial * factor ** (n - 1)``, at most ``maximum``. A fixed one has factor 1."""

    bare: ClassVar[str] = "initial"

    initial: Annotated[Delay, key("before the first retry", "error_retry_backoff_in_secs", "error_retry_backoff")] = (
        60.0
    )
    factor: Annotated[Factor, key("each pause is so many times the last", "error_retry_exponent", "exponent")] = 2.0
    maximum: Annotated[Delay, key("no pause is longer", "error_retry_limit_in_secs", "max")] = 24 * 3600.0

    def delay(self, retry: int) -> float:
        """Before the ``retry``-th retry, counted from 1; the caller adds jitter."""
        try:
            return min(self.maximum, self.initial * self.factor ** max(0, retry - 1))
        except OverflowError:
            return self.maximum


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How often an attempt is repeated, by kind of failure: the user's code, the platform, a timeout."""

    bare: ClassVar[str] = "error"

    error: Annotated[Retries, key("retries after the user's code failed", "error_retry_limit", "errors")] = 2
    platform: Annotated[Retries, key("retries after the platform failed", "platform_retry_limit")] = 10
    timeout: Annotated[Retries, key("retries after a timeout", "timeout_retry_limit")] = 0
    backoff: Annotated[Backoff, key("the pauses between retries")] = Backoff()


class MatchOperator(StrEnum):
    EQ = "="
    LT = "<"
    LE = "<="
    GT = ">"
    GE = ">="


@dataclass(frozen=True, slots=True)
class SignalMatch:
    """One condition on a signal's parameter. ``param`` is resolved in the waiting step's (or the run's) scope."""

    param: Annotated[Param, key("the signal's parameter and what it is compared with")]
    operator: Annotated[MatchOperator, key("how it is compared")] = MatchOperator.EQ


@dataclass(frozen=True, slots=True)
class SignalDependency:
    """A step waits until a signal of this name, matching all conditions, has been published."""

    bare: ClassVar[str] = "name"

    name: Annotated[Text, key("the signal's name")]
    match: Annotated[tuple[SignalMatch, ...], key("what its parameters must be", "match", name="match_params")] = ()


@dataclass(frozen=True, slots=True)
class WatermarkDependency:
    """A step waits until a table is complete up to ``reached`` (a timestamp or date text, or an expression)."""

    table: Annotated[Text, key("the table whose watermark is waited for")]
    reached: Annotated[Param, key("up to which it must be complete: a timestamp, a date, or an expression")]


@dataclass(frozen=True, slots=True)
class SignalOutput:
    """A signal that a step publishes when it has succeeded."""

    bare: ClassVar[str] = "name"

    name: Annotated[Text, key("the signal's name")]
    params: Annotated[tuple[Param, ...], key("what it says")] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class StepBase:
    """What every kind of step has."""

    id: Annotated[Text, key("what other steps and references call it")]
    name: Annotated[Text | None, key("a title for people")] = None
    description: Annotated[Text | None, key("what it is for")] = None
    tags: Annotated[Texts, key("words to find it by")] = ()
    params: Annotated[tuple[Param, ...], key("parameters of any name, reserved ones too")] = ()
    failure_mode: Annotated[FailureMode, key("what its failure means for the run")] = FailureMode.FAIL_AFTER_RUNNING
    retry: Annotated[
        RetryPolicy | None, key("how often it is tried again; default: as the workflow says", "retry_policy", "retries")
    ] = None
    timeout: Annotated[Timeout | None, key("an attempt may take so long; default: 10 days")] = None
    signal_dependencies: Annotated[tuple[SignalDependency, ...], key("signals it waits for")] = ()
    watermark_dependencies: Annotated[tuple[WatermarkDependency, ...], key("tables it waits for")] = ()
    signal_outputs: Annotated[tuple[SignalOutput, ...], key("signals it publishes when it has succeeded")] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class NoOpStep(StepBase):
    """Does nothing; a place to branch and join."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TypedStep(StepBase):
    """A job of a registered type. ``settings`` is as the user wrote it, with the keys' canonical names, unresolved:
    resolve with ``resolution.resolve_settings`` and check with the type's schema before starting it."""

    type: Annotated[Text, key("what kind of job it is")]
    type_version: Annotated[VersionText | None, key("which version of a type from outside")] = None
    settings: Annotated[Mapping[str, Json], key("under the type's own key")] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class SubworkflowStep(StepBase):
    """Runs another workflow. ``sync`` waits for its end. With ``explicit_params`` only the step's own parameters are
    handed over, otherwise the step's parameters go on top of everything visible at the step."""

    workflow_id: Annotated[Text, key("the workflow to run; default: the step's id", "subworkflow_id")]
    version: Annotated[VersionText, key("default (the active one), latest, or a number", "subworkflow_version")] = (
        "default"
    )
    sync: Annotated[Flag, key("wait for its end")] = True
    explicit_params: Annotated[Flag, key("hand over only the step's own parameters")] = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ForeachStep(StepBase):
    """Runs its steps once per combination of the loop parameters' elements (all arrays crossed, the first varies
    fastest, as in Maestro). Inside, each loop parameter holds the iteration's element, and ``loop_index`` its number
    from 0. ``resolution.resolve_loop`` computes it."""

    concurrency: Annotated[LoopConcurrency | None, key("how many iterations may run at once", "job_concurrency")] = None
    loop_params: Annotated[tuple[Param, ...], key("lists to walk over, crossed")] = ()
    steps: Annotated[tuple[Step, ...], key("the steps of an iteration", name="jobs")] = ()
    transitions: Annotated[tuple[Transition, ...], key("their order", name="dag")] = ()


Step: TypeAlias = TypedStep | SubworkflowStep | ForeachStep | NoOpStep


@dataclass(frozen=True, slots=True)
class Transition:
    """An edge. The target runs when all its predecessors have ended and any incoming condition holds; ``condition``
    None always holds. ``otherwise`` only remembers how the condition was written: it is the negation of the others."""

    source: str
    target: str
    condition: str | None = None
    otherwise: bool = False


class CatchUp(StrEnum):
    """What happens to the occasions that passed while no scheduler ran."""

    NONE = "none"
    LAST = "last"
    ALL = "all"


@dataclass(frozen=True, slots=True, kw_only=True)
class TriggerBase:
    """What every trigger has: parameters that go on top of the definition's for the runs it starts."""

    params: Annotated[tuple[Param, ...], key("parameters of the runs it starts")] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleBase(TriggerBase):
    """What every trigger by the clock has."""

    fuzzy_max_delay: Annotated[Delay, key("each run begins up to so much later, by chance", "jitter")] = 0.0
    start: Annotated[Moment | None, key("not before", "start_date", "from")] = None
    end: Annotated[Moment | None, key("not after", "end_date", "until")] = None
    catch_up: Annotated[CatchUp, key("which of the missed occasions are made up for")] = CatchUp.LAST


@dataclass(frozen=True, slots=True, kw_only=True)
class CronTrigger(ScheduleBase):
    """``cron`` in 5, 6 or 7 fields (Quartz form for more than 5), or ``@daily`` and friends."""

    bare: ClassVar[str] = "cron"

    cron: Annotated[Cron, key("5, 6 or 7 fields, or @daily", "expression")]
    timezone: Annotated[Zone, key("whose clock it follows", "time_zone", "tz")] = "UTC"


@dataclass(frozen=True, slots=True, kw_only=True)
class IntervalTrigger(ScheduleBase):
    """Every so many seconds, counted from ``start`` or from when it was pushed."""

    bare: ClassVar[str] = "every"

    every: Annotated[Interval, key("the time between runs", "interval")]


@dataclass(frozen=True, slots=True)
class SignalCondition:
    """One of the signals a trigger waits for."""

    bare: ClassVar[str] = "name"

    name: Annotated[Text, key("the signal's name")]
    match: Annotated[tuple[SignalMatch, ...], key("what its parameters must be", "match", name="match_params")] = ()
    join_keys: Annotated[Texts, key("refused: compare the signals in condition")] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SignalTrigger(TriggerBase):
    """Fires when all its signals have been published since it last fired. ``condition`` and ``dedup`` are
    expressions that see the signals' parameters."""

    bare: ClassVar[str] = "signals"

    signals: Annotated[tuple[SignalCondition, ...], key("the signals it waits for", "signal", "definitions")]
    condition: Annotated[Text | None, key("an expression that must hold")] = None
    dedup: Annotated[Text | None, key("an expression: no second run for the same value", "dedup_expr")] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class WatermarkTrigger(TriggerBase):
    """Fires each time a table's watermark has passed a further boundary of ``every`` seconds (a day, in ``timezone``)."""

    bare: ClassVar[str] = "table"

    table: Annotated[Text, key("the table whose watermark starts runs")]
    every: Annotated[Duration, key("a run for each further period that is complete")] = 24 * 3600.0
    timezone: Annotated[Zone, key("where the day begins", "tz")] = "UTC"


@dataclass(frozen=True, slots=True, kw_only=True)
class IncrementalTrigger(TriggerBase):
    """Fires when a source has changes that the consumer has not seen; all conditions come from metadata alone.

    The conditions ``min_rows``, ``min_files`` and ``min_bytes`` must hold together; ``max_age`` (seconds since the
    oldest unseen change) fires in spite of them. ``tables`` empty means the sources of the workflow's capture steps.
    """

    bare: ClassVar[str] = "tables"

    tables: Annotated[Texts, key("the tables to watch; default: what the captures read", "table", "source_tables")] = ()
    consumer: Annotated[Text | None, key("whose checkpoint says what is new")] = None
    min_rows: Annotated[Count | None, key("not before so many new rows")] = None
    min_files: Annotated[Count | None, key("not before so many new files")] = None
    min_bytes: Annotated[Count | None, key("not before so many new bytes")] = None
    max_age: Annotated[Duration | None, key("in spite of these once the oldest change is so old")] = None
    at_most_every: Annotated[Duration | None, key("the shortest time between two runs")] = None
    quiet_period: Annotated[Duration | None, key("only when nothing has come for so long", "quiet")] = None
    operations: Annotated[Operations, key("which changes count", "data_operations")] = ("append",)
    partitions: Annotated[
        Partitions, key("only changes in these partitions count: column: value, or a list of values")
    ] = field(default_factory=dict)
    require: Annotated[Requirement, key("changes in any of the tables, or in all")] = "any"
    allow_cycle: Annotated[
        Rounds | None, key("at most so many rounds for a workflow that feeds itself through its tables")
    ] = None


Trigger: TypeAlias = CronTrigger | IntervalTrigger | SignalTrigger | WatermarkTrigger | IncrementalTrigger

STEP_KINDS: Mapping[str, type[Step]] = {
    "job": TypedStep,
    "noop": NoOpStep,
    "subworkflow": SubworkflowStep,
    "foreach": ForeachStep,
}
TRIGGER_KINDS: Mapping[str, type[Trigger]] = {
    "cron": CronTrigger,
    "interval": IntervalTrigger,
    "signal": SignalTrigger,
    "watermark": WatermarkTrigger,
    "incremental": IncrementalTrigger,
}
"""By the word that tells them apart, in YAML and in the stored form."""


class AlertEvent(StrEnum):
    FAILURE = "failure"
    LATE = "late"
    LAG = "lag"
    LOST_HISTORY = "lost_history"
    WATERMARK = "watermark"


@dataclass(frozen=True, slots=True)
class MaxLag:
    """Beyond any of these the consumer's lag is an incident."""

    snapshots: Annotated[Count | None, key("so many snapshots behind")] = None
    rows: Annotated[Count | None, key("so many rows behind")] = None
    seconds: Annotated[Duration | None, key("so long behind", "seconds", "age", name="time")] = None


@dataclass(frozen=True, slots=True)
class Alerting:
    """Who is told of what. Channels are apprise addresses or names from the configuration; secrets in them are
    written as ``$ENV{…}``. ``templates`` maps an event to the text of its message."""

    bare: ClassVar[str] = "channels"

    channels: Annotated[Texts, key("who is told", "channel")] = ()
    events: Annotated[tuple[AlertEvent, ...], key("what of; default: everything", "on")] = tuple(AlertEvent)
    templates: Annotated[Mapping[str, str], key("the text of the message, by event")] = field(default_factory=dict)
    max_lag: Annotated[MaxLag | None, key("beyond this a source's lag is an incident")] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Workflow:
    """A workflow's definition: what it is called, what it runs, in which order, and what starts it."""

    id: Annotated[Text, key("what it is pushed and run as")]
    name: Annotated[Text | None, key("a title for people")] = None
    description: Annotated[Text | None, key("what it is for")] = None
    owner: Annotated[Text | None, key("who answers for it")] = None
    tags: Annotated[Texts, key("words to find it by")] = ()
    criticality: Annotated[Text | None, key("how much depends on it, in your own words")] = None
    run_strategy: Annotated[RunStrategy, key("how its runs relate")] = RunStrategy()
    step_concurrency: Annotated[
        Concurrency | None, key("how many steps of a run may be under way at once", "job_concurrency")
    ] = None
    timeout: Annotated[Timeout | None, key("a run may take so long")] = None
    retry: Annotated[RetryPolicy | None, key("how often steps are tried again", "retry_policy", "retries")] = None
    freshness: Annotated[Duration | None, key("results may be so old before it is late")] = None
    alerting: Annotated[Alerting | None, key("who is told of what", "alerts")] = None
    params: Annotated[tuple[Param, ...], key("parameters of any name, reserved ones too")] = ()
    steps: Annotated[tuple[Step, ...], key("what it runs", name="jobs")] = ()
    transitions: Annotated[tuple[Transition, ...], key("in which order", name="dag")] = ()
    triggers: Annotated[tuple[Trigger, ...], key("what starts runs", "triggers", name="trigger")] = ()

    def all_steps(self) -> Iterator[tuple[tuple[str, ...], Step]]:
        """Every step with its path (the ids from the outermost foreach down to itself), outer before inner."""
        yield from walk(self)

    def step(self, step_id: str) -> Step:
        """The step of this id, at any depth. Raises KeyError."""
        for _, step in walk(self):
            if step.id == step_id:
                return step
        raise KeyError(step_id)

    def to_dict(self) -> dict[str, Json]:
        from icefloe.workflow import serialization

        return serialization.encode_workflow(self)

    @classmethod
    def from_dict(cls, data: Mapping[str, Json]) -> Workflow:
        from icefloe.workflow import serialization

        return serialization.decode_workflow(data)

    def digest(self) -> str:
        """sha256 of the canonical JSON form, in hex."""
        from icefloe.workflow import serialization

        return serialization.digest(self.to_dict())


Container: TypeAlias = Workflow | ForeachStep


def walk(container: Container, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Step]]:
    """Every step of a container with its path, outer before inner."""
    for step in container.steps:
        here = (*path, step.id)
        yield here, step
        if isinstance(step, ForeachStep):
            yield from walk(step, here)


def containers(workflow: Workflow) -> Iterator[Container]:
    """The workflow itself and every foreach in it."""
    yield workflow
    for _, step in walk(workflow):
        if isinstance(step, ForeachStep):
            yield step


def in_order(transitions: Iterable[Transition], steps: Sequence[Step]) -> tuple[Transition, ...]:
    """Transitions as every loader keeps them: each once, by the position of their source, else as written."""
    position = {step.id: index for index, step in reversed(list(enumerate(steps)))}
    return tuple(sorted(dict.fromkeys(transitions), key=lambda edge: position.get(edge.source, len(position))))


def predecessors(container: Container, step_id: str) -> tuple[Transition, ...]:
    return tuple(edge for edge in container.transitions if edge.target == step_id)


def successors(container: Container, step_id: str) -> tuple[Transition, ...]:
    return tuple(edge for edge in container.transitions if edge.source == step_id)
