"""The settings that let somebody else's Spark join: a notebook, a ``spark-submit``, a cluster.

The same configuration as the project's own server, with jars, written the way Spark's tools read it.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path

from icefloe.config import Config
from icefloe.credentials import names_a_secret

_HIDDEN = "***"


def for_joining(config: Config, jars: Sequence[Path], *, reveal: bool) -> dict[str, str]:
    """All settings. Without ``reveal``, secrets stay references to the environment, and secrets written in the file are hidden."""
    extra = [str((config.root / jar).resolve()) for jar in config.spark.extra_jars]
    paths = [*map(str, jars), *extra]
    settings = {"spark.jars": ",".join(paths), **config.spark_conf(reveal=reveal)}
    return settings if reveal else {key: _shown(key, value) for key, value in settings.items()}


def hidden(settings: Mapping[str, str]) -> list[str]:
    """The keys whose values have to be filled in before the settings work."""
    return [key for key, value in settings.items() if value == _HIDDEN or "$ENV{" in value]


def as_json(settings: Mapping[str, str]) -> str:
    return json.dumps(settings, indent=2)


def as_properties(settings: Mapping[str, str]) -> str:
    """For ``spark-defaults.conf`` or ``--properties-file``: Java's properties syntax."""
    escaped = {key: value.replace("\\", "\\\\").replace("\n", "\\n") for key, value in settings.items()}
    return "\n".join(f"{key}={value}" for key, value in escaped.items())


def as_arguments(settings: Mapping[str, str]) -> str:
    """For the command line of ``spark-submit``, ``spark-sql`` or ``pyspark``, quoted for a shell."""
    return " \\\n  ".join(f"--conf {shlex.quote(f'{key}={value}')}" for key, value in settings.items())


def _shown(key: str, value: str) -> str:
    if "$ENV{" in value:
        return value
    return _HIDDEN if names_a_secret(key) else value
