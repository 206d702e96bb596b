"""Pushed definitions as the engine uses them: parsed once per version, with their graphs."""

from __future__ import annotations

import json
from collections import OrderedDict
from dataclasses import dataclass, field
from functools import cached_property

from sqlalchemy.engine import Connection

from icefloe.engine.graph import FOREACH, NOOP, SUBWORKFLOW, Edge, Graph, Node
from icefloe.errors import NotFoundError
from icefloe.store import definitions
from icefloe.workflow.model import Container, ForeachStep, NoOpStep, RetryPolicy, Step, SubworkflowStep, Workflow
from icefloe.workflow.versions import WorkflowVersion

# Failures inside have been tried again where they happened; the step around them is only if its definition says so.
_STARTS_RUNS_RETRY = RetryPolicy(error=0, platform=10, timeout=0)


@dataclass(frozen=True)
class Definition:
    """One version of a workflow."""

    stored: WorkflowVersion
    version: int
    secrets: frozenset[str] = frozenset()
    """Environment variables that the definition itself refers to; no others are ever revealed to its steps."""
    _graphs: dict[str, Graph] = field(default_factory=dict, compare=False, repr=False)

    @property
    def workflow(self) -> Workflow:
        return self.stored.workflow

    @cached_property
    def files(self) -> dict[str, str]:
        """Names used in the definition -> digests of their contents."""
        return {file.key: file.digest for file in self.stored.files}

    @cached_property
    def steps(self) -> dict[str, Step]:
        """Every step at any depth, by id."""
        return {step.id: step for _, step in self.workflow.all_steps()}

    @cached_property
    def paths(self) -> dict[str, tuple[str, ...]]:
        return {step.id: path for path, step in self.workflow.all_steps()}

    def container(self, path: str) -> Container:
        """What a run executes: the whole workflow, or the body of one foreach."""
        if not path:
            return self.workflow
        step = self.steps[path]
        assert isinstance(step, ForeachStep), path
        return step

    def graph(self, path: str) -> Graph:
        if path not in self._graphs:
            container = self.container(path)
            nodes = [_node(step, self.workflow) for step in container.steps]
            edges = [Edge(edge.source, edge.target, edge.condition) for edge in container.transitions]
            self._graphs[path] = Graph.of(nodes, edges)
        return self._graphs[path]


def _node(step: Step, workflow: Workflow) -> Node:
    waits = bool(step.signal_dependencies or step.watermark_dependencies)
    kind = _kind(step)
    if kind in (FOREACH, SUBWORKFLOW):
        retry = step.retry or _STARTS_RUNS_RETRY
    else:
        retry = step.retry or workflow.retry or RetryPolicy()
    return Node(step.id, kind, step.failure_mode, retry, waits)


def _kind(step: Step) -> str:
    if isinstance(step, ForeachStep):
        return FOREACH
    if isinstance(step, SubworkflowStep):
        return SUBWORKFLOW
    return NOOP if isinstance(step, NoOpStep) else step.type


class Definitions:
    """Reads versions from the store, and keeps the most recently used."""

    MOST = 256

    def __init__(self) -> None:
        self._cache: OrderedDict[tuple[str, int], Definition] = OrderedDict()

    def get(self, connection: Connection, workflow_id: str, version: int) -> Definition:
        key = (workflow_id, version)
        definition = self._cache.get(key)
        if definition is None:
            record = definitions.version(connection, workflow_id, version)
            if record is None:
                raise NotFoundError(f"workflow {workflow_id} has no version {version}", hint="icefloe workflows")
            stored = WorkflowVersion.from_dict(json.loads(record.definition))
            secrets = stored.secrets(lambda digest: definitions.file(connection, digest) or b"")
            definition = Definition(stored, version, secrets)
            self._cache[key] = definition
            if len(self._cache) > self.MOST:
                self._cache.popitem(last=False)
        else:
            self._cache.move_to_end(key)
        return definition

    def latest(self, connection: Connection, workflow_id: str) -> Definition:
        record = definitions.load(connection, workflow_id)
        if record is None or record.latest_version == 0:
            raise NotFoundError(
                f"there is no workflow {workflow_id!r}", hint="icefloe workflows, or push it: icefloe push FILE"
            )
        return self.get(connection, workflow_id, record.latest_version)
