"""A project in a temporary folder, for a benchmark's own tables; how a benchmark on a warm Spark server begins and ends."""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from icefloe import config
from icefloe.config import Config
from icefloe.service import project
from icefloe.spark import server
from icefloe.spark.session import connect


@contextmanager
def temporary_project() -> Iterator[Config]:
    with tempfile.TemporaryDirectory(prefix="icefloe-bench-") as folder:
        project.init(Path(folder))
        yield config.load(Path(folder) / config.FILE_NAME, env={})


@contextmanager
def warm_server(say: Callable[[str], None]) -> Iterator[tuple[Any, Config]]:
    """A session on a server of its own, in such a project."""
    with temporary_project() as made:
        spark = connect(made, note=say)
        try:
            yield spark, made
        finally:
            with suppress(Exception):
                spark.stop()
            server.stop(made)


def measure_warm(
    parser: argparse.ArgumentParser, measure: Callable[[argparse.Namespace, Any, Config], dict[str, Any]]
) -> int:
    """The figures as one JSON line, last. What is not ``equal`` is a failure."""
    asked = parser.parse_args()
    with warm_server(say) as (spark, config):
        figures = {**measure(asked, spark, config), "cpus": os.cpu_count()}
    print(json.dumps(figures))
    return 0 if figures["equal"] else 1


def say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
