"""One typed model of a workflow, whatever notation it was written in.

Everything here is a frozen value: a :class:`Workflow` holds steps, the transitions between them, parameters and
triggers. It carries no positions, no state and no file contents (see ``versions.py`` for the files a version refers
to), so two definitions that mean the same are equal and have the same digest.

A workflow and a foreach are both *containers*: they hold ``steps`` and the ``transitions`` between them. Step ids are
unique in the whole workflow, nested steps included.

``to_dict``, ``from_dict`` and ``digest`` are the canonical JSON form; fields that have their default are left out of
it, so that a new field with a default changes no digest.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, TypeAlias

from icefloe.workflow.values import ParamType, Value

Json: TypeAlias = Any
"""JSON data as loaded: None, bool, int, float, str, list, dict."""

Timeout: TypeAlias = float | str
"""Seconds; or a text with ``${…}`` that ``resolution.resolve_timeout`` turns into seconds when the step starts."""

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

    rule: RunRule = RunRule.SEQUENTIAL
    concurrency: int | None = None


@dataclass(frozen=True, slots=True)
class Backoff:
    """Seconds before the n-th retry: ``initial * factor ** (n - 1)``, at most ``maximum``. A fixed one has factor 1."""

    initial: float = 60.0
    factor: float = 2.0
    maximum: float = 24 * 3600.0

    def delay(self, retry: int) -> float:
        """Before the ``retry``-th retry, counted from 1; the caller adds jitter."""
        try:
            return min(self.maximum, self.initial * self.factor ** max(0, retry - 1))
        except OverflowError:
            return self.maximum


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How often an attempt is repeated, by kind of failure: the user's code, the platform, a timeout."""

    error: int = 2
    platform: int = 10
    timeout: int = 0
    backoff: Backoff = Backoff()


class MatchOperator(StrEnum):
    EQ = "="
    LT = "<"
    LE = "<="
    GT = ">"
    GE = ">="


@dataclass(frozen=True, slots=True)
class SignalMatch:
    """One condition on a signal's parameter. ``param`` is resolved in the waiting step's (or the run's) scope."""

    param: Param
    operator: MatchOperator = MatchOperator.EQ


@dataclass(frozen=True, slots=True)
class SignalDependency:
    """A step waits until a signal of this name, matching all conditions, has been published."""

    name: str
    match: tuple[SignalMatch, ...] = ()


@dataclass(frozen=True, slots=True)
class WatermarkDependency:
    """A step waits until a table is complete up to ``reached`` (a timestamp or date text, or an expression)."""

    table: str
    reached: Param


@dataclass(frozen=True, slots=True)
class SignalOutput:
    """A signal that a step publishes when it has succeeded."""

    name: str
    params: tuple[Param, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class StepBase:
    """What every kind of step has."""

    id: str
    name: str | None = None
    description: str | None = None
    tags: tuple[str, ...] = ()
    params: tuple[Param, ...] = ()
    failure_mode: FailureMode = FailureMode.FAIL_AFTER_RUNNING
    retry: RetryPolicy | None = None  # None: the workflow's, else the defaults of RetryPolicy
    timeout: Timeout | None = None  # None: DEFAULT_TIMEOUT_SECONDS
    signal_dependencies: tuple[SignalDependency, ...] = ()
    watermark_dependencies: tuple[WatermarkDependency, ...] = ()
    signal_outputs: tuple[SignalOutput, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class NoOpStep(StepBase):
    """Does nothing; a place to branch and join."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TypedStep(StepBase):
    """A job of a registered type. ``settings`` is as the user wrote it, with the keys' canonical names, unresolved:
    resolve with ``resolution.resolve_settings`` and check with the type's schema before starting it."""

    type: str
    type_version: str | None = None
    settings: Mapping[str, Json] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class SubworkflowStep(StepBase):
    """Runs another workflow. ``sync`` waits for its end. With ``explicit_params`` only the step's own parameters are
    handed over, otherwise the step's parameters go on top of everything visible at the step."""

    workflow_id: str
    version: str = "default"  # default (= active), latest, or a number
    sync: bool = True
    explicit_params: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ForeachStep(StepBase):
    """Runs its steps once per combination of the loop parameters' elements (all arrays crossed, the first varies
    fastest, as in Maestro). Inside, each loop parameter holds the iteration's element, and ``loop_index`` its number
    from 0. ``resolution.resolve_loop`` computes it."""

    loop_params: tuple[Param, ...] = ()
    concurrency: int | None = None
    steps: tuple[Step, ...] = ()
    transitions: tuple[Transition, ...] = ()


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

    params: tuple[Param, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CronTrigger(TriggerBase):
    """``cron`` in 5, 6 or 7 fields (Quartz form for more than 5), or ``@daily`` and friends."""

    cron: str
    timezone: str = "UTC"
    fuzzy_max_delay: float = 0.0
    start: str | None = None
    end: str | None = None
    catch_up: CatchUp = CatchUp.LAST


@dataclass(frozen=True, slots=True, kw_only=True)
class IntervalTrigger(TriggerBase):
    """Every so many seconds, counted from ``start`` or from when it was pushed."""

    every: float
    fuzzy_max_delay: float = 0.0
    start: str | None = None
    end: str | None = None
    catch_up: CatchUp = CatchUp.LAST


@dataclass(frozen=True, slots=True)
class SignalCondition:
    """One of the signals a trigger waits for."""

    name: str
    match: tuple[SignalMatch, ...] = ()
    join_keys: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SignalTrigger(TriggerBase):
    """Fires when all its signals have been published since it last fired. ``condition`` and ``dedup`` are
    expressions that see the signals' parameters."""

    signals: tuple[SignalCondition, ...]
    condition: str | None = None
    dedup: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class WatermarkTrigger(TriggerBase):
    """Fires each time a table's watermark has passed a further boundary of ``every`` seconds (a day, in ``timezone``)."""

    table: str
    every: float = 24 * 3600.0
    timezone: str = "UTC"


@dataclass(frozen=True, slots=True, kw_only=True)
class IncrementalTrigger(TriggerBase):
    """Fires when a source has changes that the consumer has not seen; all conditions come from metadata alone.

    The conditions ``min_rows``, ``min_files`` and ``min_bytes`` must hold together; ``max_age`` (seconds since the
    oldest unseen change) fires in spite of them. ``tables`` empty means the sources of the workflow's capture steps.
    """

    tables: tuple[str, ...] = ()
    consumer: str | None = None
    min_rows: int | None = None
    min_files: int | None = None
    min_bytes: int | None = None
    max_age: float | None = None
    at_most_every: float | None = None
    quiet_period: float | None = None
    operations: tuple[str, ...] = ("append",)
    partitions: Mapping[str, Json] = field(default_factory=dict)
    require: str = "any"  # any | all of the tables have changes
    allow_cycle: int | None = None  # at most so many rounds for a workflow that feeds itself through its tables


Trigger: TypeAlias = CronTrigger | IntervalTrigger | SignalTrigger | WatermarkTrigger | IncrementalTrigger


class AlertEvent(StrEnum):
    FAILURE = "failure"
    LATE = "late"
    LAG = "lag"
    LOST_HISTORY = "lost_history"
    WATERMARK = "watermark"


@dataclass(frozen=True, slots=True)
class MaxLag:
    """Beyond any of these the consumer's lag is an incident."""

    snapshots: int | None = None
    rows: int | None = None
    seconds: float | None = None


@dataclass(frozen=True, slots=True)
class Alerting:
    """Who is told of what. Channels are apprise addresses or names from the configuration; secrets in them are
    written as ``$ENV{…}``. ``templates`` maps an event to the text of its message."""

    channels: tuple[str, ...] = ()
    events: tuple[AlertEvent, ...] = tuple(AlertEvent)
    templates: Mapping[str, str] = field(default_factory=dict)
    max_lag: MaxLag | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Workflow:
    """A workflow's definition: what it is called, what it runs, in which order, and what starts it."""

    id: str
    name: str | None = None
    description: str | None = None
    owner: str | None = None
    tags: tuple[str, ...] = ()
    criticality: str | None = None
    run_strategy: RunStrategy = RunStrategy()
    step_concurrency: int | None = None
    timeout: Timeout | None = None
    retry: RetryPolicy | None = None
    freshness: float | None = None
    alerting: Alerting | None = None
    params: tuple[Param, ...] = ()
    steps: tuple[Step, ...] = ()
    transitions: tuple[Transition, ...] = ()
    triggers: tuple[Trigger, ...] = ()

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
