"""Workflows of a server elsewhere. See :class:`icefloe.service.workflows.Workflows` for what the verbs do."""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from icefloe.errors import NotFoundError
from icefloe.service.definitions import LocalFiles, installed_types, load_file
from icefloe.service.remote.connection import Connection, segment
from icefloe.service.remote.values import value
from icefloe.service.views import Pushed, WorkflowView
from icefloe.store.definitions import VersionRecord
from icefloe.workflow.diff import Change, Diff
from icefloe.workflow.loading import Loaded
from icefloe.workflow.step_types import StepTypes
from icefloe.workflow.versions import pack
from icefloe.workflow.yaml_writer import to_yaml


class RemoteWorkflows:
    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def listing(self, after: str | None = None, most: int | None = None) -> list[WorkflowView]:
        return [value(WorkflowView, each) for each in self.documents(after, most)]

    def documents(self, after: str | None = None, most: int | None = None) -> list[dict[str, Any]]:
        """As the server sends them: with ``next_fire``."""
        return list(self._connection.pages("/workflows", "workflows", most, after=after))

    def exists(self, workflow_id: str) -> bool:
        try:
            self.show(workflow_id)
        except NotFoundError:
            return False
        return True

    def show(self, workflow_id: str) -> WorkflowView:
        return value(WorkflowView, self._connection.get(f"/workflows/{segment(workflow_id)}"))

    def version(self, workflow_id: str, number: int) -> VersionRecord:
        found = self._connection.get(f"/workflows/{segment(workflow_id)}/definition", version=number)
        stored = {"workflow": found["definition"], "files": found["files"]}
        return value(VersionRecord, {**found, "definition": json.dumps(stored)}, digest="")

    def set_paused(self, workflow_id: str, paused: bool, *, seen: str | None = None) -> None:
        self._connection.post(f"/workflows/{segment(workflow_id)}/{'pause' if paused else 'resume'}", seen=seen)

    def set_active(self, workflow_id: str, active: bool, *, seen: str | None = None) -> None:
        self._connection.post(f"/workflows/{segment(workflow_id)}/{'activate' if active else 'deactivate'}", seen=seen)

    # -- files of this machine ---------------------------------------------------------------------------------------------

    def push_files(self, files: Sequence[Path]) -> list[Pushed]:
        """All are read, and checked by the server, before the first is stored."""
        bodies = [body for file in files for body in _bodies(file)]
        for body in bodies:
            self._connection.post("/definitions/diff", body)
        return [value(Pushed, self._connection.post("/workflows", body)) for body in bodies]

    def diff_file(self, file: Path) -> dict[str, Diff | None]:
        found: dict[str, Diff | None] = {}
        for body in _bodies(file):
            answer = self._connection.post("/definitions/diff", body)
            changes = tuple(value(Change, each) for each in answer["changes"])
            found[answer["workflow"]] = Diff(changes, answer["text"]) if answer["pushed"] else None
        return found


def _bodies(file: Path) -> list[dict[str, Any]]:
    """What is sent of a file: YAML as it is, pipelines in Python as the YAML that they come to."""
    types = installed_types()
    loaded = load_file(file, types)
    text = file.read_text(encoding="utf-8-sig")
    reader = LocalFiles(file.resolve().parent)
    bodies = []
    for each in loaded:
        is_python = file.suffix == ".py"
        body: dict[str, Any] = {
            "yaml": to_yaml(each.workflow, types) if is_python else text,
            "name": file.name,
            "files": _files(each, reader, types),
        }
        bodies.append(body | ({"source": text} if is_python else {}))
    return bodies


def _files(loaded: Loaded, reader: LocalFiles, types: StepTypes) -> dict[str, str]:
    """What a definition names beside it. Object storage is read by the server."""
    packed = pack(loaded, reader, types)
    return {
        file.key: base64.b64encode(packed.contents[file.digest]).decode("ascii")
        for file in packed.version.files
        if file.key.startswith("file:")
    }
