"""``type: IpCommit``: the checkpoints of the captures it names move, all of them or none.

They move in the very transaction that records this step's success, so a commit is never half done and never done by a worker
that has lost its claim. Before that it looks at every step between capture and commit: while one of them failed or was
skipped, also where the definition ignores that, the checkpoint stays.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Sequence
from typing import ClassVar

from sqlalchemy.engine import Connection

from icefloe.capture import commits, release
from icefloe.capture.errors import CommitRefusedError, NoCaptureError
from icefloe.errors import IcefloeError
from icefloe.faults import fault
from icefloe.lake import Lake
from icefloe.steps.contract import Cause, Done, Outcome, OutcomeKind, Progress, StepContext, StepRuntime, builtin
from icefloe.store import captures, definitions
from icefloe.store.captures import CaptureRecord
from icefloe.workflow.graph import Graph
from icefloe.workflow.model import Workflow, containers
from icefloe.workflow.step_types import IpCommitSettings, StepType
from icefloe.workflow.values import TypedValue
from icefloe.workflow.versions import WorkflowVersion

_GOOD = ("SUCCEEDED", "UNSATISFIED")


class IpCommitStep(StepRuntime):
    """Outputs: ``committed`` (how many captures), ``capture_ids``."""

    type: ClassVar[StepType] = builtin("ip_commit")

    def start(self, context: StepContext) -> Progress:
        settings = context.parsed(self.type)
        assert isinstance(settings, IpCommitSettings)
        try:
            records = [_captured(context, name) for name in settings.capture_step]
            if not settings.allow_ignored:
                _refuse_after_failures(context, settings.capture_step)
            context.check()
        except IcefloeError as error:
            return Done(Outcome(OutcomeKind.PLATFORM if error.retryable else OutcomeKind.FATAL, cause=Cause.of(error)))
        todo = [record for record in records if record.state == "built"]

        def move(connection: Connection) -> None:
            fault("commit.in_transaction")
            commits.commit(connection, todo, time.time())

        def settle() -> None:
            # A checkpoint is ahead of its tag for this moment. Its snapshot cannot expire meanwhile: the capture's pins
            # stay for its keep time, and the next commit that finds the tag behind moves it.
            fault("commit.after_transaction")
            lake = Lake.open(context.config)
            consumers = {record.consumer for record in records}
            release.settle(lake, context.database, records, time.time())
            fault("commit.after_tag")
            release.sweep(lake, context.database, time.time(), consumers=consumers, most=release.MOST_AT_ONCE)

        for record in records:
            context.log(f"capture {record.id}: the checkpoint of {record.consumer} moves with this step's success")
        outputs = {
            "committed": TypedValue.of(len(records)),
            "capture_ids": TypedValue.of(tuple(record.id for record in records)),
        }
        return Done(Outcome(OutcomeKind.SUCCEEDED, outputs), in_transaction=move, after_commit=settle)


def _captured(context: StepContext, step_id: str) -> CaptureRecord:
    """The capture that a step of this run holds, or has committed already."""
    with context.database.read() as connection:
        records = captures.captures_of_run(connection, context.root_run_id, step_id)
    for record in reversed(records):
        if record.state in ("built", "committed"):
            return record
    raise NoCaptureError(
        f"capture_step: {step_id} has captured nothing in this run",
        where=f"run {context.key.run_id}, step {context.key.step_id}",
        hint="name the IpCapture step that runs before this commit",
    )


def _refuse_after_failures(context: StepContext, capture_steps: Sequence[str]) -> None:
    statuses = context.steps()
    for step_id in sorted(_between(_definition(context), capture_steps, context.key.step_id)):
        status = statuses.get(step_id)
        if status is not None and status not in _GOOD:
            raise CommitRefusedError(
                f"step {step_id} used the capture and is {status}: the checkpoint stays where it is",
                where=f"run {context.key.run_id}, step {context.key.step_id}",
                hint=f"mend it and type: icefloe restart {context.key.run_id}; or set allow_ignored: true on the commit",
            )


def _definition(context: StepContext) -> Workflow:
    with context.database.read() as connection:
        version = definitions.version(connection, context.workflow_id, context.version)
    assert version is not None, "a run's version is never deleted"
    return WorkflowVersion.from_dict(json.loads(version.definition)).workflow


def _between(workflow: Workflow, capture_steps: Iterable[str], commit: str) -> frozenset[str]:
    """The steps that may use the captures: behind a capture, and not behind the commit."""
    for container in containers(workflow):
        if any(step.id == commit for step in container.steps):
            graph = Graph.of(container)
            behind = frozenset[str]().union(*(graph.descendants(step_id) for step_id in capture_steps))
            return behind - graph.descendants(commit) - {commit}
    return frozenset()
