"""A workflow run beside production, from its file: consumers of its own, targets on a branch of their own.

The file's workflow is stored under another id (``dev.playback.agg``) with these changes: no triggers, every consumer named
anew, every Spark step published to the branch ``dev`` of its targets, and every source that has such a branch read there, so
that a stage sees what the stage before it made in the same environment. Production's checkpoints and the main branches are not
touched. What it does not do: steps that are not Spark steps run as they are written, wherever they write to.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from icefloe.errors import IcefloeError, UsageError
from icefloe.lake import Lake
from icefloe.service.client import Client
from icefloe.service.pushing import ready_workflows
from icefloe.service.views import Pushed
from icefloe.workflow.model import ForeachStep, Step, SubworkflowStep, TypedStep, Workflow
from icefloe.workflow.versions import Packed


class BesideProductionError(UsageError):
    """What cannot be run beside production."""

    code = "environment"


def push_for(client: Client, file: Path, env: str) -> Pushed:
    """Store a file's workflow for an environment."""
    if not re.fullmatch(r"[a-z][a-z0-9_]*", env) or env == "main":
        raise BesideProductionError(
            f"{env!r} is no name for an environment", hint="small letters and digits, as in: dev"
        )
    found = ready_workflows(client, file)
    if len(found) != 1:
        raise BesideProductionError(f"{file} holds {len(found)} workflows", hint="one file for each")
    (one,) = found
    lake = Lake.open(client.config)
    workflow = beside(one.loaded.workflow, env, lambda table: _has_branch(lake, table, env))
    packed = Packed(replace(one.packed.version, workflow=workflow), one.packed.contents)
    return client.workflows.push(packed, source=one.source, source_name=one.source_name)


def beside(workflow: Workflow, env: str, has_branch: Callable[[str], bool]) -> Workflow:
    """The workflow as it runs in an environment. Pure but for the question which sources have the branch."""
    return replace(
        workflow,
        id=f"{env}.{workflow.id}",
        triggers=(),
        steps=tuple(_step(step, env, has_branch) for step in workflow.steps),
    )


def _step(step: Step, env: str, has_branch: Callable[[str], bool]) -> Step:
    step = replace(step, signal_outputs=())
    if isinstance(step, SubworkflowStep):
        raise BesideProductionError(
            f"step {step.id} starts the workflow {step.workflow_id}, which would run in production",
            hint=f"run that workflow's own file with --env {env}",
        )
    if isinstance(step, ForeachStep):
        return replace(step, steps=tuple(_step(inner, env, has_branch) for inner in step.steps))
    if not isinstance(step, TypedStep):
        return step
    if step.type == "IpCapture":
        return replace(step, settings=_capture(step.settings, env, has_branch))
    if step.type == "Spark":
        return replace(step, settings={**step.settings, "target_branch": env})
    return step


def _capture(settings: Mapping[str, Any], env: str, has_branch: Callable[[str], bool]) -> dict[str, Any]:
    changed = dict(settings)
    if settings.get("consumer"):
        changed["consumer"] = f"{env}.{settings['consumer']}"
    if settings.get("target_table"):
        changed["target_table"] = f"{settings['target_table']}_{env}"
    tables = settings.get("source_tables", ())
    named = [tables] if isinstance(tables, str) else list(tables)
    if "ref" not in settings and named and all(has_branch(str(table)) for table in named):
        changed["ref"] = env
    return changed


def _has_branch(lake: Lake, table: str, env: str) -> bool:
    try:
        return env in lake.table(table).metadata.refs
    except IcefloeError:
        return False  # a name that only a run can fill in, or a table that is not there yet
