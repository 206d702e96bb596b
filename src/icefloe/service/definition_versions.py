"""Every version of a workflow's definition: which there are, what one says, what differs between two."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from icefloe.errors import NotFoundError
from icefloe.steps.registry import installed
from icefloe.store import definitions
from icefloe.store.definitions import VersionRecord
from icefloe.workflow.diff import Diff, diff
from icefloe.workflow.model import Workflow
from icefloe.workflow.versions import WorkflowVersion

if TYPE_CHECKING:
    from icefloe.service.client import Client

MOST = 200


@dataclass(frozen=True, slots=True)
class VersionLine:
    version: int
    pushed_at: float
    pushed_by: str
    source_name: str

    def to_dict(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.__slots__}


@dataclass(frozen=True, slots=True)
class Comparison:
    """``before`` and ``after`` are version numbers."""

    workflow_id: str
    before: int
    after: int
    diff: Diff

    def to_dict(self) -> dict[str, Any]:
        return {"workflow_id": self.workflow_id, "before": self.before, "after": self.after, **self.diff.to_dict()}


def versions(client: Client, workflow_id: str) -> list[VersionLine]:
    """The newest first."""
    with client.database.read() as connection:
        found = [VersionLine(*each) for each in definitions.versions(connection, workflow_id, MOST)]
    if not found:
        raise NotFoundError(f"there is no workflow {workflow_id!r}", hint="icefloe workflows")
    return found


def compare(client: Client, workflow_id: str, before: int, after: int) -> Comparison:
    old, new = (_parsed(client.workflows.version(workflow_id, number)) for number in (before, after))
    names = (f"version {before}", f"version {after}")
    return Comparison(workflow_id, before, after, diff(old, new, installed().types(), names))


def _parsed(record: VersionRecord) -> WorkflowVersion:
    return WorkflowVersion.from_dict(json.loads(record.definition))


def workflow_of(client: Client, workflow_id: str, version: int) -> Workflow:
    with client.database.read() as connection:
        return client.conductor.definitions.get(connection, workflow_id, version).workflow
