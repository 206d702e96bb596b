"""``explain``: what the next run of a workflow would do to its targets, and why. Looks at metadata, runs and writes nothing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from icefloe.capture.sources import Source
from icefloe.engine.definitions import Definition
from icefloe.engine.evaluation import run_params, run_values
from icefloe.errors import NotFoundError
from icefloe.lake import Lake
from icefloe.planner import logic, shadow
from icefloe.planner.analysis import Analysis
from icefloe.planner.inputs import Column
from icefloe.planner.logic import PARAMETER, Logic, LogicChange
from icefloe.planner.plan import Plan
from icefloe.service.client import Client
from icefloe.service.next_capture import next_capture, source_tables
from icefloe.spark.launch import local_cores
from icefloe.steps.ip_capture import range_columns_of
from icefloe.steps.write import ranges
from icefloe.steps.write.columns import ResultColumn
from icefloe.steps.write.defined_select import defined_select
from icefloe.steps.write.facts import UTC, Facts
from icefloe.steps.write.ranges import RangeOrder
from icefloe.steps.write.versions import LogicOrder
from icefloe.steps.write.write_job import work
from icefloe.steps.write.write_plan import WritePreparation
from icefloe.steps.write.write_record import chosen_for, ref_of, target_key, versions_of
from icefloe.store import definitions as stored
from icefloe.store import logic_versions
from icefloe.workflow import write_ranges
from icefloe.workflow.consumers import consumer_name
from icefloe.workflow.files import script_key
from icefloe.workflow.model import TypedStep
from icefloe.workflow.resolution import Layer, resolve_params, resolve_settings
from icefloe.workflow.scope import Scope
from icefloe.workflow.step_types import BUILTIN, IpCaptureSettings, SparkSettings, WriteSettings
from icefloe.workflow.values import TypedValue

BRANCH = "attempt"
"""How the attempt's branch is called in what is shown: a real one has the attempt's own name."""


@dataclass(frozen=True, slots=True)
class Explained:
    """One step with ``write:``."""

    step: str
    target: str
    plan: Plan
    shadow: str | None = None
    """What is compared before it is published; ``None``: shadow mode is off."""
    logic: LogicNote | None = None
    """The SELECT is another than what filled the target."""

    def to_dict(self) -> dict[str, Any]:
        logic = asdict(self.logic) if self.logic is not None else None
        own = {"step": self.step, "target": self.target, "shadow": self.shadow}
        return {**own, **self.plan.to_dict(), "logic": logic}


@dataclass(frozen=True, slots=True)
class LogicNote:
    """``difference`` in lines, and what a run would do about it. Columns are not compared here: only Spark knows them."""

    since_run: str
    difference: tuple[str, ...]
    then: str


class Explaining:
    """Plans what a run would plan if it started now; an open capture is taken as the run would take it."""

    def __init__(self, client: Client, lake: Lake) -> None:
        self._client = client
        self._lake = lake

    def explain(self, workflow_id: str, params: Mapping[str, Any] | None = None) -> list[Explained]:
        definition = self._client.workflows.latest(workflow_id)
        scope = self._scope(definition, workflow_id, params or {})
        sources = self._sources(definition, scope)
        found = []
        for step_id, step in definition.steps.items():
            settings = self._settings(step, "spark", scope)
            if isinstance(settings, SparkSettings) and settings.write is not None:
                found.append(self._step(definition, step_id, settings, sources, scope))
        if not found:
            raise NotFoundError(
                f"no step of {workflow_id!r} has write:, so there is nothing to plan",
                hint="write: {table: db.target, keys: […]} on a Spark step whose script is one SELECT",
            )
        return found

    def _step(
        self, definition: Definition, step_id: str, settings: SparkSettings, sources: Sequence[Source], scope: Scope
    ) -> Explained:
        write = settings.write
        assert write is not None
        where = f"workflow {definition.workflow.id}, step {step_id}"
        order = self._logic(definition, step_id, settings, scope)
        text = self._script(definition, settings.script)
        asked = work(settings, text, sources, where, order, self._anew(write, scope, where))
        conf = self._conf(settings)
        utc = conf["spark.sql.session.timeZone"] in UTC
        preparation = WritePreparation(self._lake, asked, utc=utc, cores=self._cores(settings))
        facts = preparation.facts(branch=BRANCH, base=preparation.head(ref_of(settings)))
        exists = facts.target.exists
        change = self._change(order, preparation, facts) if exists else None
        columns = _result_columns(preparation.analysis, order)
        typed = columns if columns is not None else facts.target.columns
        consumers = self._consumers(definition, scope)
        place = "/".join(definition.paths[step_id])
        span = preparation.span(typed, facts if exists else None, consumers=consumers, place=place)
        if not exists:
            prefix = f"spark.sql.catalog.{self._lake.tables.name}.table-default."
            defaults = {name.removeprefix(prefix): value for name, value in conf.items() if name.startswith(prefix)}
            facts = preparation.as_made(facts, typed, span, defaults)
        names = tuple(column.name for column in columns) if columns is not None else None
        plan = preparation.prepared(facts, names, span, change).plan()
        compared = shadow.describe(plan, settings.shadow)
        note = _logic_note(change, order, plan) if change is not None else None
        return Explained(step_id, facts.target.name, plan, compared, note)

    def _conf(self, settings: SparkSettings) -> dict[str, str]:
        """Of the session that would run the step."""
        own = {name: str(value) for name, value in settings.conf.items()}
        return {**self._client.config.spark_conf(reveal=False), **own}

    def _cores(self, settings: SparkSettings) -> int | None:
        """Of the server that would run the step, if that is the project's own."""
        spark = self._client.config.spark
        if settings.submit != "connect" or settings.remote is not None or spark.remote is not None:
            return None
        return local_cores(spark.master)

    def _scope(self, definition: Definition, workflow_id: str, params: Mapping[str, Any]) -> Scope:
        workflow = definition.workflow
        run = run_values(f"{workflow_id}-next", workflow_id, None, workflow.owner)
        files = {key: self._file(digest) for key, digest in definition.files.items()}
        values = run_params(workflow, {Layer.RUN: params}, run, files)
        return Scope(params={**run, **{name: item.value for name, item in values.items()}}, run=run, files=files)

    def _file(self, digest: str) -> str:
        with self._client.database.read() as connection:
            content = stored.file(connection, digest)
        return (content or b"").decode("utf-8", "replace")

    def _script(self, definition: Definition, setting: str) -> str:
        key = script_key(setting)
        return setting if key is None else self._file(definition.files.get(key, key))

    def _logic(self, definition: Definition, step_id: str, settings: SparkSettings, scope: Scope) -> LogicOrder:
        step = definition.steps[step_id]
        assert isinstance(step, TypedStep) and settings.write is not None
        workflow_id, place = definition.workflow.id, "/".join(definition.paths[step_id])
        own = resolve_params(step.params, scope)
        values = {**scope.params, **{name: item.value for name, item in own.items()}}
        text = defined_select(definition.workflow, step, values, lambda key: self._file(definition.files.get(key, key)))
        target = target_key(self._client.config.catalog.name, settings.write)
        with self._client.database.read() as connection:
            known = logic_versions.known(connection, workflow_id, place, target, ref_of(settings))
        given = scope.params.get(PARAMETER)
        chosen = chosen_for(TypedValue.of(given) if given is not None else None, settings, f"workflow {workflow_id}")
        return LogicOrder(f"{workflow_id}/{place}", text, chosen, tuple(versions_of(known)))

    def _anew(self, write: WriteSettings, scope: Scope, where: str) -> RangeOrder | None:
        given = scope.params.get(write_ranges.PARAMETER)
        return ranges.order(TypedValue.of(given) if given is not None else None, write.range, where)

    def _change(self, order: LogicOrder, preparation: WritePreparation, facts: Facts) -> LogicChange | None:
        last = order.last(preparation.past(facts))
        return logic.change(last, Logic(order.text)) if last is not None else None

    def _settings(self, step: object, key: str, scope: Scope) -> object:
        if not isinstance(step, TypedStep):
            return None
        kind = BUILTIN.find(step.type)
        if kind is None or kind.key != key:
            return None
        own = resolve_params(step.params, scope)
        inner = replace(scope, params={**scope.params, **{name: item.value for name, item in own.items()}})
        return kind.parse(resolve_settings(step.settings, inner), where=step.id)

    def _captures(self, definition: Definition, scope: Scope) -> Iterator[tuple[str, IpCaptureSettings]]:
        """Each capture step's consumer and settings."""
        for step_id, step in definition.steps.items():
            settings = self._settings(step, "ip_capture", scope)
            if isinstance(settings, IpCaptureSettings):
                own = consumer_name(definition.workflow.id, definition.paths[step_id])
                yield settings.consumer or own, settings

    def _consumers(self, definition: Definition, scope: Scope) -> list[str]:
        return [consumer for consumer, _ in self._captures(definition, scope)]

    def _sources(self, definition: Definition, scope: Scope) -> list[Source]:
        found: list[Source] = []
        for consumer, settings in self._captures(definition, scope):
            columns = range_columns_of(settings, self._lake, source_tables(self._lake, settings))
            found += next_capture(self._client, self._lake, settings, consumer, columns, suffix="next")[1]
        return found


def _result_columns(analysis: Analysis, order: LogicOrder) -> list[Column] | None:
    """As the SELECT is traced; else as Spark saw them when it was last run. ``None``: nobody knows yet."""
    if analysis.influence is not None:
        return [Column(one.name, one.type or "") for one in analysis.influence.relation.columns]
    for version in order.known:
        if version.logic is not None and version.logic.columns and logic.change(version, Logic(order.text)) is None:
            return [Column(name, ResultColumn(name, kind).iceberg) for name, kind in version.logic.columns]
    return None


def _logic_note(change: LogicChange, order: LogicOrder, plan: Plan) -> LogicNote:
    if not plan.statements:
        then = "nothing is written, so nothing is mixed"
    elif plan.pattern == "full":
        then = "everything is computed anew, with the new SELECT"
    elif order.on_change == "ask":
        then = f"the run would stop and ask; choose with {PARAMETER}=from_now_on or {PARAMETER}=rebuild, or on_logic_change"
    else:
        then = "rows that do not change stay as the old SELECT made them"
    return LogicNote(change.since.run, change.lines, then)
