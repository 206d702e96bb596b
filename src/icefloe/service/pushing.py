"""From a file on disk to a pushed version."""

from __future__ import annotations

from pathlib import Path

from icefloe.errors import NotFoundError
from icefloe.service.client import Client
from icefloe.service.views import Pushed
from icefloe.steps.registry import installed
from icefloe.workflow.loading import load


def push_file(client: Client, file: Path) -> Pushed:
    """Load a definition with everything it refers to, and store it."""
    try:
        source = file.read_bytes()
    except OSError as error:
        raise NotFoundError(f"cannot be read: {error.strerror}", where=str(file)) from error
    loaded = load(source, str(file), installed().types())
    return client.workflows.push(
        loaded.workflow,
        source=source.decode("utf-8"),
        source_name=file.name,
        warnings=tuple(str(problem) for problem in loaded.warnings),
    )
