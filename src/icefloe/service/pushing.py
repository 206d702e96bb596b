"""From a file on disk to a pushed version, with everything it refers to."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from icefloe.config import Config
from icefloe.errors import NotFoundError
from icefloe.service.client import Client
from icefloe.service.definitions import LocalFiles, load_file
from icefloe.service.refused_secrets import refused_secrets
from icefloe.service.views import Pushed
from icefloe.steps.registry import installed
from icefloe.workflow.diff import Diff, diff
from icefloe.workflow.files import FileProblem
from icefloe.workflow.loading import Loaded
from icefloe.workflow.problems import DefinitionError
from icefloe.workflow.versions import Packed, WorkflowVersion, pack


@dataclass(frozen=True, slots=True)
class DiskFiles:
    """Reads a definition's files: ``file:`` relative to its folder, ``s3:`` with the catalog's access to object storage."""

    folder: Path
    config: Config

    def read(self, key: str) -> bytes:
        kind, _, path = key.partition(":")
        if kind == "file":
            return LocalFiles(self.folder).read(key)
        return read_from_storage(self.config, f"s3://{path}")


def read_from_storage(config: Config, address: str) -> bytes:
    """A file that a definition names in object storage, with the catalog's access to it."""
    from pyiceberg.io import load_file_io

    try:
        io = load_file_io(config.catalog.pyiceberg_properties(), address)
        with io.new_input(address).open() as stream:
            return bytes(stream.read())
    except Exception as error:
        hint = "the catalog's s3.* settings in icefloe.toml are used to reach it"
        raise FileProblem(f"{address} cannot be read: {error}", hint=hint) from error


@dataclass(frozen=True, slots=True)
class Ready:
    """A workflow of a file with everything it refers to."""

    loaded: Loaded
    packed: Packed
    source: str
    source_name: str


def push_files(client: Client, files: Sequence[Path]) -> list[Pushed]:
    """Store every workflow in the files, YAML or Python. All are read and checked before the first is stored."""
    ready = [each for file in files for each in ready_workflows(client, file)]
    return [
        client.workflows.push(
            each.packed,
            source=each.source,
            source_name=each.source_name,
            warnings=tuple(str(problem) for problem in each.loaded.warnings),
        )
        for each in ready
    ]


def diff_file(client: Client, file: Path) -> dict[str, Diff | None]:
    """What pushing a file would change, by workflow; None for one that has never been pushed."""
    found: dict[str, Diff | None] = {}
    for each in ready_workflows(client, file):
        workflow_id = each.loaded.workflow.id
        try:
            number = client.workflows.latest(workflow_id).version
        except NotFoundError:
            found[workflow_id] = None
            continue
        pushed = WorkflowVersion.from_dict(json.loads(client.workflows.version(workflow_id, number).definition))
        found[workflow_id] = diff(pushed, each.packed.version, installed().types())
    return found


def ready_workflows(client: Client, file: Path) -> list[Ready]:
    """The workflows of a file, checked, with everything they refer to. Stores nothing."""
    types = installed().types()
    reader = DiskFiles(file.resolve().parent, client.config)
    workflows = load_file(file, types)
    source = file.read_text(encoding="utf-8-sig")
    ready = [Ready(loaded, pack(loaded, reader, types), source, file.name) for loaded in workflows]
    problems = [
        problem for each in ready for problem in refused_secrets(client.config, each.packed, file, each.loaded.places)
    ]
    if problems:
        raise DefinitionError(tuple(problems))
    return ready
