"""Which step types exist here: those of this package, and those that installed packages add by entry point.

A package adds a type with, in its ``pyproject.toml``::

    [project.entry-points."icefloe.steps"]
    dbt = "my_package.dbt_step:DbtStep"
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache
from importlib import import_module
from importlib.metadata import entry_points

from icefloe.errors import MissingComponentError
from icefloe.steps.contract import StepRuntime
from icefloe.workflow.reserved import fold
from icefloe.workflow.step_types import BUILTIN, StepTypes

GROUP = "icefloe.steps"


class UnknownStepTypeError(MissingComponentError):
    code = "step.type-missing"


OWN = {
    "noop": "icefloe.steps.noop:NoOpStep",
    "shell": "icefloe.steps.shell:ShellStep",
    "python": "icefloe.steps.python:PythonStep",
    "http": "icefloe.steps.http:HttpStep",
    "ip_capture": "icefloe.steps.ip_capture:IpCaptureStep",
    "ip_commit": "icefloe.steps.ip_commit:IpCommitStep",
    "spark": "icefloe.steps.spark:SparkStep",
}
"""This package's own types, imported when a step of the type is first met: PyIceberg alone takes a second."""


class Registry:
    """Step runtimes by any of their names; ``own`` are imported on need."""

    def __init__(self, runtimes: Iterable[StepRuntime], own: Mapping[str, str] | None = None) -> None:
        self._runtimes: dict[str, StepRuntime] = {}
        self._own: dict[str, str] = {}
        self._added = tuple(runtimes)
        for key, place in (own or {}).items():
            described = BUILTIN.find(key)
            for name in described.names() if described is not None else (key,):
                self._own[fold(name)] = place
        for runtime in self._added:
            self._add(runtime)
        self.instant = frozenset(name for r in self._runtimes.values() if r.instant for name in r.type.names())
        """Every spelling of the types that cost nothing."""

    def _add(self, runtime: StepRuntime) -> StepRuntime:
        for name in runtime.type.names():
            if fold(name) not in self._own or type(runtime).__module__ == self._own[fold(name)].partition(":")[0]:
                self._runtimes.setdefault(fold(name), runtime)
        return runtime

    def find(self, name: str) -> StepRuntime:
        step_runtime = self._runtimes.get(fold(name))
        if step_runtime is None and fold(name) in self._own:
            module, _, class_name = self._own[fold(name)].partition(":")
            step_runtime = self._add(getattr(import_module(module), class_name)())
        if step_runtime is None:
            known = ", ".join(sorted({*OWN, *(runtime.type.name for runtime in self._added)}))
            raise UnknownStepTypeError(
                f"no step type {name!r} is installed on this worker (there are {known})",
                hint="install the package that brings it where the worker runs, then: icefloe restart RUN",
            )
        return step_runtime

    def types(self) -> StepTypes:
        """For the loader: the built-in descriptions, and those of the types added from outside."""
        return BUILTIN.extended(runtime.type for runtime in self._added)


@cache
def installed() -> Registry:
    from icefloe.steps.noop import NoOpStep

    return Registry([NoOpStep(), *(point.load()() for point in entry_points(group=GROUP))], OWN)
