"""From a file on disk to pushed versions, with everything they refer to."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from icefloe.config import Config
from icefloe.service.client import Client
from icefloe.service.definitions import LocalFiles, load_file
from icefloe.service.views import Pushed
from icefloe.steps.registry import installed
from icefloe.workflow.files import FileProblem
from icefloe.workflow.versions import pack


@dataclass(frozen=True, slots=True)
class DiskFiles:
    """Reads a definition's files: ``file:`` from its folder, ``s3:`` with the catalog's access to object storage."""

    folder: Path
    config: Config

    def read(self, key: str) -> bytes:
        kind, _, path = key.partition(":")
        return LocalFiles(self.folder).read(key) if kind == "file" else self._from_storage(f"s3://{path}")

    def _from_storage(self, address: str) -> bytes:
        from pyiceberg.io import load_file_io

        try:
            io = load_file_io(self.config.catalog.pyiceberg_properties(), address)
            with io.new_input(address).open() as stream:
                return bytes(stream.read())
        except Exception as error:
            hint = "the catalog's s3.* settings in icefloe.toml are used to reach it"
            raise FileProblem(f"{address} cannot be read: {error}", hint=hint) from error


def push_file(client: Client, file: Path) -> list[Pushed]:
    """Load the workflows of a YAML or Python file with everything they refer to, and store them."""
    types = installed().types()
    reader = DiskFiles(file.resolve().parent, client.config)
    packed = [(loaded, pack(loaded, reader, types)) for loaded in load_file(file, types)]
    source = file.read_bytes().decode("utf-8", "replace")
    return [
        client.workflows.push(
            version, source=source, source_name=file.name, warnings=tuple(str(problem) for problem in loaded.warnings)
        )
        for loaded, version in packed
    ]
