"""Which step types exist here: those of this package, and those that installed packages add by entry point.

A package adds a type with, in its ``pyproject.toml``::

    [project.entry-points."icefloe.steps"]
    dbt = "my_package.dbt_step:DbtStep"
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from importlib.metadata import entry_points

from icefloe.errors import MissingComponentError
from icefloe.steps.contract import StepRuntime
from icefloe.workflow.reserved import fold
from icefloe.workflow.step_types import BUILTIN, StepTypes

GROUP = "icefloe.steps"


class UnknownStepTypeError(MissingComponentError):
    code = "step.type-missing"


class Registry:
    """Step runtimes by any of their names."""

    def __init__(self, runtimes: Iterable[StepRuntime]) -> None:
        self._runtimes: dict[str, StepRuntime] = {}
        for runtime in runtimes:
            for name in runtime.type.names():
                self._runtimes.setdefault(fold(name), runtime)

    def find(self, name: str) -> StepRuntime:
        found = self._runtimes.get(fold(name))
        if found is None:
            known = ", ".join(sorted({runtime.type.name for runtime in self._runtimes.values()}))
            raise UnknownStepTypeError(
                f"no step type {name!r} is installed on this worker (there are {known})",
                hint="install the package that brings it where the worker runs, then: icefloe restart RUN",
            )
        return found

    def instant(self) -> frozenset[str]:
        """Every spelling of the types that cost nothing."""
        return frozenset(name for r in self._runtimes.values() if r.instant for name in r.type.names())

    def types(self) -> StepTypes:
        """For the loader: the built-in descriptions, and those of the types added from outside."""
        return BUILTIN.extended(runtime.type for runtime in self._runtimes.values())


@cache
def installed() -> Registry:
    from icefloe.steps.http import HttpStep
    from icefloe.steps.ip_capture import IpCaptureStep
    from icefloe.steps.ip_commit import IpCommitStep
    from icefloe.steps.noop import NoOpStep
    from icefloe.steps.python import PythonStep
    from icefloe.steps.shell import ShellStep
    from icefloe.steps.spark import SparkStep

    added = [point.load()() for point in entry_points(group=GROUP)]
    return Registry(
        [NoOpStep(), ShellStep(), PythonStep(), HttpStep(), IpCaptureStep(), IpCommitStep(), SparkStep(), *added]
    )
