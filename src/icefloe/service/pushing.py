"""From a file on disk to a pushed version, with everything it refers to."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from icefloe.config import Config
from icefloe.errors import NotFoundError
from icefloe.service.client import Client
from icefloe.service.views import Pushed
from icefloe.steps.registry import installed
from icefloe.workflow.files import FileProblem
from icefloe.workflow.loading import load
from icefloe.workflow.versions import pack


@dataclass(frozen=True, slots=True)
class DiskFiles:
    """Reads a definition's files: ``file:`` relative to its folder, ``s3:`` with the catalog's access to object storage."""

    folder: Path
    config: Config

    def read(self, key: str) -> bytes:
        kind, _, path = key.partition(":")
        try:
            if kind == "file":
                return (self.folder / path).read_bytes()
            return self._from_storage(f"s3://{path}")
        except FileProblem:
            raise
        except OSError as error:
            raise FileProblem(
                f"'{path}' cannot be read: {error.strerror or error}", hint=f"looked in {self.folder}"
            ) from error

    def _from_storage(self, address: str) -> bytes:
        from pyiceberg.io import load_file_io

        io = load_file_io(self.config.catalog.pyiceberg_properties(), address)
        try:
            with io.new_input(address).open() as stream:
                return bytes(stream.read())
        except Exception as error:
            hint = "the catalog's s3.* settings in icefloe.toml are used to reach it"
            raise FileProblem(f"{address} cannot be read: {error}", hint=hint) from error


def push_file(client: Client, file: Path) -> Pushed:
    """Load a definition with everything it refers to, and store it."""
    try:
        source = file.read_bytes()
    except OSError as error:
        raise NotFoundError(f"cannot be read: {error.strerror}", where=str(file)) from error
    types = installed().types()
    loaded = load(source, str(file), types)
    packed = pack(loaded, DiskFiles(file.resolve().parent, client.config), types)
    return client.workflows.push(
        packed,
        source=source.decode("utf-8"),
        source_name=file.name,
        warnings=tuple(str(problem) for problem in loaded.warnings),
    )
