"""``explain``: what the next run of a workflow would do to its targets, and why. Looks at metadata, runs and writes nothing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from icefloe.capture import building, planning
from icefloe.capture.building import Wish
from icefloe.capture.planning import Bounds
from icefloe.capture.sources import Source
from icefloe.engine.definitions import Definition
from icefloe.engine.evaluation import run_params, run_values
from icefloe.errors import NotFoundError
from icefloe.lake import Lake
from icefloe.planner import choice, shadow
from icefloe.planner.plan import Plan
from icefloe.service.client import Client
from icefloe.steps.writing.facts import UTC, Observer
from icefloe.steps.writing.work import request
from icefloe.store import captures
from icefloe.store import definitions as stored
from icefloe.workflow.consumers import consumer_name
from icefloe.workflow.files import script_key
from icefloe.workflow.model import TypedStep
from icefloe.workflow.resolution import Layer, resolve_params, resolve_settings
from icefloe.workflow.scope import Scope
from icefloe.workflow.step_types import BUILTIN, IpCaptureSettings, SparkSettings

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

    def to_dict(self) -> dict[str, Any]:
        return {"step": self.step, "target": self.target, "shadow": self.shadow, **self.plan.to_dict()}


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
                plan = choice.plan(analysis, facts.target, facts.contents)
                if settings.shadow != "off":
                    shadow.refuse_unrepeatable(analysis.query, asked.where)
                found.append(Explained(step_id, facts.target.name, plan, shadow.describe(plan, settings.shadow)))
        if not found:
            raise NotFoundError(
                f"no step of {workflow_id!r} has write:, so there is nothing to plan",
                hint="write: {table: db.target, keys: […]} on a Spark step whose script is one SELECT",
            )
        return found

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
