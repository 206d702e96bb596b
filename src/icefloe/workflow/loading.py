"""Text in, workflow out: the front door of this package.

``load`` gives a checked workflow or raises one :class:`DefinitionError` that carries everything that is wrong.
``inspect`` gives whatever could be understood together with all findings, for editors and ``validate``.
"""

from __future__ import annotations

from dataclasses import dataclass

from icefloe.workflow import document
from icefloe.workflow.model import Workflow
from icefloe.workflow.places import Places
from icefloe.workflow.problems import DefinitionError, Findings, Problem, Severity
from icefloe.workflow.step_types import BUILTIN, StepTypes
from icefloe.workflow.validation import validate
from icefloe.workflow.yaml_workflow import read_workflow


@dataclass(frozen=True, slots=True)
class Loaded:
    """A workflow that may be used, the warnings about it, and where its parts stand in the text."""

    workflow: Workflow
    warnings: tuple[Problem, ...]
    places: Places


@dataclass(frozen=True, slots=True)
class Inspected:
    """What could be understood of a definition, and everything there is to say about it."""

    workflow: Workflow | None
    problems: tuple[Problem, ...]
    places: Places

    @property
    def is_valid(self) -> bool:
        return self.workflow is not None and not any(p.severity is Severity.ERROR for p in self.problems)


def load(source: str | bytes, file: str = "workflow.yaml", types: StepTypes = BUILTIN) -> Loaded:
    """The workflow in a YAML definition. Raises :class:`DefinitionError` with all problems of the file."""
    found = inspect(source, file, types)
    if found.workflow is None or not found.is_valid:
        raise DefinitionError(found.problems)
    return Loaded(found.workflow, found.problems, found.places)


def inspect(source: str | bytes, file: str = "workflow.yaml", types: StepTypes = BUILTIN) -> Inspected:
    """Reads as far as it can and never raises for what stands in the text."""
    findings, places = Findings(), Places()
    text = document.decode(source, file, findings) if isinstance(source, bytes) else source
    root = document.read(text, file, findings) if text is not None else None
    workflow = read_workflow(root, types, findings, places) if root is not None else None
    if workflow is not None:
        validate(workflow, findings, places)
    if workflow is None and not findings.has_errors:
        findings.error("definition.empty", "there is no workflow in this file", places.workflow)
    return Inspected(workflow, findings.ordered(), places)
