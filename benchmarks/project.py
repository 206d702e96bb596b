"""A project in a temporary folder, for a benchmark's own tables."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from icefloe import config
from icefloe.config import Config
from icefloe.service import project


@contextmanager
def temporary_project() -> Iterator[Config]:
    with tempfile.TemporaryDirectory(prefix="icefloe-bench-") as folder:
        project.init(Path(folder))
        yield config.load(Path(folder) / config.FILE_NAME, env={})
