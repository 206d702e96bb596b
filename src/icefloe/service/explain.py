"""``explain``: what the next run of a workflow would do to its targets, and why. Looks at metadata, runs and writes nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from icefloe.capture import building, planning
from icefloe.capture.building import Wish
from icefloe.capture.planning import Bounds
from icefloe.capture.sources import Source
from icefloe.engine.definitions import Definition
from icefloe.engine.evaluation import run_params, run_values
from icefloe.errors import NotFoundError
from icefloe.lake import Lake, history
from icefloe.planner import choice, logic, shadow
from icefloe.planner.analysis import Analysis
from icefloe.planner.inputs import Column
from icefloe.planner.logic import PARAMETER, Change, Logic
from icefloe.planner.plan import Plan
from icefloe.planner.spans import Span
from icefloe.service.client import Client
from icefloe.spark.launch import local_cores
from icefloe.steps.writing import ranges
from icefloe.steps.writing.defined_select import defined_select
from icefloe.steps.writing.facts import UTC, Facts, Observer
from icefloe.steps.writing.ranges import RangeOrder
from icefloe.steps.writing.recording import chosen_for, ref_of, target_key, versions_of
from icefloe.steps.writing.versions import LogicOrder, rebuilding
from icefloe.steps.writing.work import request
from icefloe.store import captures, logic_versions
from icefloe.store import definitions as stored
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
        sources = self._sources(definition, workflow_id, scope)
        found = []
        for step_id, step in definition.steps.items():
            settings = self._settings(step, "spark", scope)
            if isinstance(settings, SparkSettings) and settings.write is not None:
                text = self._script(definition, settings.script)
                asked = request(settings.write, text, f"workflow {workflow_id}, step {step_id}")
                zone = self._client.config.spark_conf(reveal=False)["spark.sql.session.timeZone"]
                utc = settings.conf.get("spark.sql.session.timeZone", zone) in UTC
                observer = Observer(self._lake, asked, sources, utc=utc)
                analysis = observer.analysis()
                facts = observer.facts(analysis, branch=BRANCH, base=observer.head())
                order = self._logic(definition, step_id, settings, scope)
                change = self._change(order, facts)
                if change is not None and order.on_change == "rebuild":
                    analysis = rebuilding(analysis, change)
                span, anew = None, self._anew(settings.write, scope, asked.where)
                if anew is not None:
                    span = self._span(anew, analysis, sources, facts)
                    analysis = ranges.everything(analysis, anew) if span is None else analysis
                plan = choice.plan(analysis, facts.target, facts.contents, span=span, cores=self._cores(settings))
                if settings.shadow != "off":
                    shadow.refuse_unrepeatable(analysis.query, asked.where)
                compared = shadow.describe(plan, settings.shadow)
                note = _logic_note(change, order, plan) if change is not None else None
                found.append(Explained(step_id, facts.target.name, plan, compared, note))
        if not found:
            raise NotFoundError(
                f"no step of {workflow_id!r} has write:, so there is nothing to plan",
                hint="write: {table: db.target, keys: […]} on a Spark step whose script is one SELECT",
            )
        return found

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

    def _span(self, anew: RangeOrder, analysis: Analysis, sources: Sequence[Source], facts: Facts) -> Span | None:
        """The range as a run would write it, refused where a run would refuse it. Types are the target's, or as far as they are known."""
        if not sources and facts.base is not None:
            past = history.ancestors(self._lake.table(facts.target.name).metadata, facts.base)
            ranges.refuse_foreign(past, anew, consumers=(), place="", target=facts.target.name)
        found = analysis.influence
        traced = [Column(one.name, one.type or "") for one in found.relation.columns] if found is not None else []
        given = {name.lower() for name in analysis.columns or ()}
        there = [one for one in facts.target.columns if found is None or one.name.lower() in given]
        return ranges.span(self._lake, anew.asked, analysis, sources, there or traced)

    def _change(self, order: LogicOrder, facts: Facts) -> Change | None:
        if not facts.target.exists:
            return None
        metadata = self._lake.table(facts.target.name).metadata
        last = order.last(history.ancestors(metadata, facts.base) if facts.base is not None else ())
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

    def _sources(self, definition: Definition, workflow_id: str, scope: Scope) -> list[Source]:
        found: list[Source] = []
        for step_id, step in definition.steps.items():
            settings = self._settings(step, "ip_capture", scope)
            if isinstance(settings, IpCaptureSettings):
                consumer = settings.consumer or consumer_name(workflow_id, definition.paths[step_id])
                found += self._captured(consumer, settings)
        return found

    def _captured(self, consumer: str, settings: IpCaptureSettings) -> list[Source]:
        """What is open already, else what a capture would take now."""
        with self._client.database.read() as connection:
            held = captures.open_capture(connection, consumer)
            known = captures.checkpoints_of(connection, consumer)
        if held is not None and held.state == "built":
            return [Source.from_json(one) for one in held.sources]
        wish = Wish(
            operations=tuple(settings.data_operations),
            on_other_operations=settings.on_other_operations,
            on_gap=settings.on_gap,
            columns={},
            pin=settings.pin,
            keep_seconds=0,
            change_tables=True,
            skip_empty=True,
            alias=None,
        )
        bounds = Bounds(settings.max_snapshots, settings.max_files, settings.max_rows, settings.max_bytes)
        found = []
        for name in settings.source_tables:
            table = self._lake.canonical_name(name)
            planned = planning.plan(
                self._lake,
                table,
                ref=settings.ref,
                checkpoint=known.get(table),
                start=settings.start,
                bounds=bounds,
            )
            changes = building.find(self._lake, planned, wish)
            short = table.rsplit(".", 1)[-1].strip("`")
            change_table = ".".join((*self._lake.change_table_namespace, f"{short}_next"))
            found.append(replace(planned, change_table=change_table, found=changes.to_dict()))
        return found


def _logic_note(change: Change, order: LogicOrder, plan: Plan) -> LogicNote:
    if not plan.statements:
        then = "nothing is written, so nothing is mixed"
    elif plan.pattern == "full":
        then = "everything is computed anew, with the new SELECT"
    elif order.on_change == "ask":
        then = f"the run would stop and ask; choose with {PARAMETER}=from_now_on or {PARAMETER}=rebuild, or on_logic_change"
    else:
        then = "rows that do not change stay as the old SELECT made them"
    return LogicNote(change.since.run, change.lines, then)
