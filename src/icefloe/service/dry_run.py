"""What a run would do, without doing it: what each capture would take, and every step's text as it would run.

Reads the definition, the checkpoints and the sources' metadata. It moves nothing and writes nothing: no run, no pin, no change
table, and no Spark. Where a text refers to something that only a running step knows, the reference stays as it is written.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from icefloe.capture import published
from icefloe.capture.sources import Source
from icefloe.engine.evaluation import run_params, run_values
from icefloe.errors import IcefloeError
from icefloe.lake import Lake
from icefloe.service.client import Client
from icefloe.service.next_capture import next_capture, source_tables
from icefloe.service.pushing import ready_workflows
from icefloe.service.runs import typed
from icefloe.steps.ip_capture import range_columns_of
from icefloe.store import definitions
from icefloe.workflow.consumers import consumer_name
from icefloe.workflow.files import script_key
from icefloe.workflow.graph import Graph
from icefloe.workflow.model import ForeachStep, Step, SubworkflowStep, TypedStep, Workflow, walk
from icefloe.workflow.resolution import Layer, resolve_params, resolve_settings
from icefloe.workflow.scope import Scope
from icefloe.workflow.step_types import BUILTIN, IpCaptureSettings
from icefloe.workflow.values import Value, plain

NOT_YET = "…"
"""Stands for the part of a change table's name that is drawn when it is made."""


@dataclass(frozen=True, slots=True)
class WouldCapture:
    """``adopts``: the open capture that a run would take over as it is. ``problem``: what it would fail with."""

    step: str
    consumer: str
    adopts: str | None = None
    sources: tuple[dict[str, Any], ...] = ()
    has_changes: bool = False
    problem: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class WouldRun:
    """A step as it would run: ``text`` is its script, or its settings when it has none."""

    step: str
    type: str
    text: str


@dataclass(frozen=True, slots=True)
class DryRun:
    workflow_id: str
    captures: tuple[WouldCapture, ...]
    steps: tuple[WouldRun, ...]

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def dry_run(client: Client, file: Path, texts: Mapping[str, str] | None = None) -> list[DryRun]:
    """Every workflow of a file, with the parameters as typed on a command line."""
    lake = Lake.open(client.config)
    found = []
    for one in ready_workflows(client, file):
        contents = {
            reference.key: one.packed.contents[reference.digest].decode("utf-8", "replace")
            for reference in one.packed.version.files
        }
        found.append(_Rehearsal(client, lake, one.loaded.workflow, contents).hold(texts or {}))
    return found


def dry_run_of(client: Client, workflow_id: str) -> DryRun:
    """What a run of a pushed workflow would do if it started now, with the parameters that it has by itself."""
    definition = client.workflows.latest(workflow_id)
    with client.database.read() as connection:
        contents = {
            key: (definitions.file(connection, digest) or b"").decode("utf-8", "replace")
            for key, digest in definition.files.items()
        }
    return _Rehearsal(client, client.table_metadata.lake, definition.workflow, contents).hold({})


@dataclass
class _Rehearsal:
    client: Client
    lake: Lake
    workflow: Workflow
    files: Mapping[str, str]
    results: dict[str, dict[str, Value]] = field(default_factory=dict)
    """What the captures would publish."""

    def hold(self, texts: Mapping[str, str]) -> DryRun:
        workflow = self.workflow
        run = run_values("dry-run", workflow.id, 0, workflow.owner)
        given = typed(workflow, texts)
        params = run_params(workflow, {Layer.RUN: given}, run, self.files)
        known: dict[str, Value] = {**run, **{name: item.value for name, item in params.items()}}
        takes, runs = [], []
        for path, step in _in_order(workflow):
            scope = Scope(params=_Known(known, self.results), run=run, files=self.files)
            own = resolve_params(step.params, scope) if step.params else {}
            inner = {**known, **{name: item.value for name, item in own.items()}}
            scope = replace(scope, params=_Known(inner, self.results))
            if isinstance(step, TypedStep) and step.type == "IpCapture":
                takes.append(self._capture(path, step, scope))
            elif isinstance(step, TypedStep) and step.type != "IpCommit":
                runs.append(self._step(path, step, scope))
            elif isinstance(step, SubworkflowStep):
                runs.append(WouldRun("/".join(path), "subworkflow", step.workflow_id))
        return DryRun(workflow.id, tuple(takes), tuple(runs))

    def _step(self, path: tuple[str, ...], step: TypedStep, scope: Scope) -> WouldRun:
        settings = resolve_settings(step.settings, scope)
        script = settings.get("script")
        key = script_key(script) if isinstance(script, str) else None
        text = self.files.get(key, script) if key is not None else script
        if not isinstance(text, str):
            text = json.dumps(plain(settings), ensure_ascii=False)
        return WouldRun("/".join(path), step.type, text)

    def _capture(self, path: tuple[str, ...], step: TypedStep, scope: Scope) -> WouldCapture:
        name = "/".join(path)
        consumer = str(step.settings.get("consumer") or consumer_name(self.workflow.id, path))
        try:
            step_type = BUILTIN.find("ip_capture")
            assert step_type is not None
            settings = step_type.parse(resolve_settings(step.settings, scope), where=f"step {name}")
            assert isinstance(settings, IpCaptureSettings)
            consumer = settings.consumer or consumer
            ranges = range_columns_of(settings, self.lake, source_tables(self.lake, settings))
            adopts, sources = next_capture(self.client, self.lake, settings, consumer, ranges, suffix=NOT_YET)
        except IcefloeError as error:
            return WouldCapture(name, consumer, problem=error.to_dict())
        outputs = published.parameters(
            sources, capture_id=adopts or NOT_YET, catalog=self.lake.tables.name, range_columns=ranges
        )
        self.results[step.id] = {key: item.value for key, item in outputs.items()}
        changed = any(source.has_changes for source in sources)
        return WouldCapture(name, consumer, adopts, tuple(_told(source) for source in sources), changed)


class _Known(Mapping[str, Value]):
    """What is known before anything runs; any other name stands for itself."""

    def __init__(self, params: Mapping[str, Value], results: Mapping[str, Mapping[str, Value]]) -> None:
        self._params = params
        self._results = results

    def __contains__(self, name: object) -> bool:
        return True

    def __getitem__(self, name: str) -> Value:
        if name in self._params:
            return self._params[name]
        step, _, param = name.partition("__")
        return self._results.get(step, {}).get(param, f"${{{name}}}")

    def __iter__(self) -> Iterator[str]:
        return iter(self._params)

    def __len__(self) -> int:
        return len(self._params)


def _in_order(workflow: Workflow) -> Iterator[tuple[tuple[str, ...], Step]]:
    """Steps in an order that respects the edges; what stands inside a foreach follows it."""
    position = {step: number for number, step in enumerate(Graph.of(workflow).order())}
    for path, step in sorted(walk(workflow), key=lambda one: position.get(one[0][0], 0)):
        if not isinstance(step, ForeachStep):
            yield path, step


def _told(source: Source) -> dict[str, Any]:
    found = source.found
    return {
        "table": source.table,
        "from_snapshot": source.start.snapshot_id if source.start else None,
        "to_snapshot": source.end.snapshot_id if source.end else None,
        "rows": found.get("added_rows") or 0,
        "files": found.get("added_files") or 0,
        "bytes": found.get("added_bytes") or 0,
        "skipped_operations": found.get("skipped_operations") or {},
        "ranges": found.get("ranges") or {},
    }
