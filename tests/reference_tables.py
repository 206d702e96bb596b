"""The tables of docs/reference, and definitions made from them: each is refused where it is pushed, or runs."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from icefloe.service.views import RunView
from icefloe.steps.registry import installed
from icefloe.workflow.loading import inspect
from icefloe.workflow.problems import Problem, Severity
from tests.projects import Project

REFERENCE = Path(__file__).parents[1] / "docs" / "reference"
Json = dict[str, Any]


def page(name: str) -> str:
    return (REFERENCE / name).read_text(encoding="utf-8")


def table(text: str, *header: str) -> list[list[str]]:
    """The rows of the one table with this header; ``\\|`` is a character of a cell."""
    lines = text.splitlines()
    start = lines.index(f"| {' | '.join(header)} |") + 2
    rows = []
    for line in lines[start:]:
        if not line.startswith("|"):
            break
        rows.append([cell.strip().replace("\\|", "|") for cell in re.split(r"(?<!\\)\|", line)[1:-1]])
    assert rows
    return rows


def code(cell: str) -> list[str]:
    """What stands between backticks."""
    return re.findall(r"`([^`]+)`", cell)


def noop(step_id: str, **keys: Any) -> Json:
    return {"job": {"id": step_id, "type": "NoOp", **keys}}


def workflow(workflow_id: str, steps: Iterable[Json], *, dag: Any = "parallel", **keys: Any) -> Json:
    return {"Workflow": {"id": workflow_id, **keys, "jobs": list(steps), "dag": dag}}


def errors(definition: Json) -> list[Problem]:
    """What ``icefloe validate`` refuses. JSON is YAML."""
    found = inspect(json.dumps(definition), "wf.yaml", installed().types())
    return [problem for problem in found.problems if problem.severity is Severity.ERROR]


def run(project: Project, definition: Json, params: Mapping[str, Any] | None = None, **start: Any) -> RunView:
    workflow_id = project.push(json.dumps(definition))
    return project.client.work(project.client.runs.start(workflow_id, dict(params or {}), **start).run_id)


def failures(view: RunView) -> dict[str, str]:
    """The steps that did not succeed, and why."""
    return {
        step.id: f"{step.status}, attempt {step.attempts}: {(step.cause or {}).get('message')}"
        for step in view.steps
        if step.status not in ("SUCCEEDED", "UNSATISFIED")
    }
