"""Definitions that were sent, not found on this machine's disk: YAML as text, with the files it refers to beside it.

Nothing of this machine's disk is read, whatever a definition names, and no code of the sender is run: pipelines in Python are turned into
YAML where they are written.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from icefloe.config import Config
from icefloe.errors import NotFoundError
from icefloe.service.definitions import installed_types
from icefloe.service.pushing import read_from_storage
from icefloe.service.refused_secrets import refused_secrets
from icefloe.service.views import Pushed
from icefloe.service.workflows import Workflows
from icefloe.workflow.diff import Diff, diff
from icefloe.workflow.files import FileProblem
from icefloe.workflow.loading import Inspected, Loaded, inspect
from icefloe.workflow.model import Workflow
from icefloe.workflow.problems import DefinitionError, Problem, Severity
from icefloe.workflow.versions import Packed, WorkflowVersion, pack


@dataclass(frozen=True, slots=True)
class SentFiles:
    """Reads ``file:`` from what was sent, and ``s3:`` with the catalog's access to object storage."""

    files: Mapping[str, bytes]
    config: Config

    def read(self, key: str) -> bytes:
        kind, _, path = key.partition(":")
        if kind != "file":
            return read_from_storage(self.config, f"s3://{path}")
        if key not in self.files:
            raise FileProblem(
                f"'{path}' was not sent", hint="send the files that the definition names together with it"
            )
        return self.files[key]


@dataclass(frozen=True, slots=True)
class SentDefinition:
    """``yaml`` is what is read. ``source`` is what its author has written, if that is something else: a pipeline in Python."""

    yaml: str
    name: str = "workflow.yaml"
    files: Mapping[str, bytes] = field(default_factory=dict)
    source: str | None = None


@dataclass(frozen=True, slots=True)
class DefinitionReport:
    """What is wrong with a definition. ``workflow`` None: none could be made out."""

    valid: bool
    workflow: str | None
    problems: tuple[Problem, ...]

    def to_dict(self) -> dict[str, Any]:
        problems = [problem.to_dict() for problem in self.problems]
        return {"valid": self.valid, "workflow": self.workflow, "problems": problems}


def report(config: Config, sent: SentDefinition) -> DefinitionReport:
    inspected = inspect_sent(sent)
    problems = list(inspected.problems)
    if inspected.workflow is not None and inspected.is_valid:
        try:
            packed = _packed(config, sent, Loaded(inspected.workflow, (), inspected.places))
            problems += refused_secrets(config, packed, Path(sent.name), inspected.places, sent.yaml)
        except DefinitionError as error:
            problems += error.problems
    valid = inspected.workflow is not None and not any(one.severity is Severity.ERROR for one in problems)
    return DefinitionReport(valid, inspected.workflow.id if inspected.workflow else None, tuple(problems))


def push(
    config: Config, workflows: Workflows, sent: SentDefinition, *, by: str | None = None, seen: str | None = None
) -> Pushed:
    """Store a definition as the workflow's next version. Raises :class:`DefinitionError` with all that is wrong."""
    loaded, packed = ready(config, sent)
    return workflows.push(
        packed,
        source=sent.yaml if sent.source is None else sent.source,
        source_name=sent.name,
        by=by,
        warnings=tuple(str(problem) for problem in loaded.warnings),
        seen=seen,
    )


def difference(config: Config, workflows: Workflows, sent: SentDefinition) -> tuple[str, Diff | None]:
    """The workflow, and what pushing it would change; None: it has never been pushed."""
    loaded, packed = ready(config, sent)
    workflow_id = loaded.workflow.id
    try:
        number = workflows.latest(workflow_id).version
    except NotFoundError:
        return workflow_id, None
    pushed = WorkflowVersion.from_dict(json.loads(workflows.version(workflow_id, number).definition))
    return workflow_id, diff(pushed, packed.version, installed_types())


def ready(config: Config, sent: SentDefinition) -> tuple[Loaded, Packed]:
    inspected = inspect_sent(sent)
    if inspected.workflow is None or not inspected.is_valid:
        raise DefinitionError(inspected.problems)
    loaded = Loaded(inspected.workflow, inspected.problems, inspected.places)
    packed = _packed(config, sent, loaded)
    if problems := tuple(refused_secrets(config, packed, Path(sent.name), inspected.places, sent.yaml)):
        raise DefinitionError(problems)
    return loaded, packed


def usable(sent: SentDefinition) -> Workflow:
    """The workflow, whether or not it could be pushed."""
    inspected = inspect_sent(sent)
    if inspected.workflow is None:
        raise DefinitionError(inspected.problems)
    return inspected.workflow


def inspect_sent(sent: SentDefinition) -> Inspected:
    # As bytes: what is measured and decoded there is measured here, too.
    return inspect(sent.yaml.encode("utf-8", "replace"), sent.name, installed_types())


def _packed(config: Config, sent: SentDefinition, loaded: Loaded) -> Packed:
    return pack(loaded, SentFiles(sent.files, config), installed_types())
