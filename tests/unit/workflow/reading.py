"""Short ways to load a definition in a test and to look at what was wrong with it."""

from __future__ import annotations

from textwrap import dedent

from icefloe.workflow.loading import inspect, load
from icefloe.workflow.model import Workflow
from icefloe.workflow.problems import Problem, Severity


def workflow_of(text: str) -> Workflow:
    return load(dedent(text)).workflow


def problems_of(text: str | bytes) -> list[Problem]:
    """Errors and warnings, in the order of the file."""
    return list(inspect(dedent(text) if isinstance(text, str) else text, "wf.yaml").problems)


def errors_of(text: str | bytes) -> list[Problem]:
    return [problem for problem in problems_of(text) if problem.severity is Severity.ERROR]


def the_error(text: str | bytes) -> Problem:
    """The one error of a definition that has exactly one."""
    found = errors_of(text)
    assert len(found) == 1, [str(problem) for problem in found]
    return found[0]


def jobs(*lines: str, more: str = "") -> str:
    """A workflow with NoOp jobs of these ids."""
    listed = "\n".join(f"    - job: {{id: {name}, type: NoOp}}" for name in lines)
    return f"Workflow:\n  id: wf\n  jobs:\n{listed}\n{more}"
