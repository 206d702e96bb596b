"""What expressions and ``${…}`` can see at one place: parameters, other steps' results, signals, the run.

The engine builds a scope for each step; mappings may be lazy. A scope holds values only, so nothing beyond them can be
reached from a definition.
"""

from __future__ import annotations

import random
import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from icefloe.errors import UsageError
from icefloe.workflow.problems import did_you_mean, suggestion
from icefloe.workflow.values import Value, clip

Values = Mapping[str, Value]


class UnknownNameError(UsageError):
    """A parameter, step, signal or file that is referred to does not exist here."""

    code = "param.unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """``params``: visible by bare name, innermost definition wins. ``steps``: results of steps that have ended, by step
    id; a foreach step's inner steps are in ``foreach`` as arrays over the iterations. ``files``: the contents of the
    files of the version, by reference (``$FILE{a.sql}`` is ``file:a.sql``, ``$S3{b/k}`` is ``s3:b/k``)."""

    params: Values = field(default_factory=dict)
    steps: Mapping[str, Values] = field(default_factory=dict)
    this_step: Values = field(default_factory=dict)
    signals: Mapping[str, Values] = field(default_factory=dict)
    signal_dependencies: Mapping[str, Values] = field(default_factory=dict)
    foreach: Mapping[str, Mapping[str, Values]] = field(default_factory=dict)
    subworkflows: Mapping[str, Mapping[str, Values]] = field(default_factory=dict)
    run: Values = field(default_factory=dict)
    files: Mapping[str, str] = field(default_factory=dict)
    now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000
    random: Callable[[], float] = random.random
    new_uuid: Callable[[], str] = lambda: str(uuid.uuid4())
    unique_id: Callable[[], int] = lambda: uuid.uuid4().int >> 65

    def has_param(self, name: str) -> bool:
        return name in self.params or self._split(name) is not None

    def param(self, name: str) -> Value:
        """A parameter by name; ``step__param`` is another step's."""
        if name in self.params:
            return self.params[name]
        found = self._split(name)
        if found is not None:
            return self.steps[found[0]][found[1]]
        raise UnknownNameError(f"there is no parameter '{clip(name)}'", hint=self._hint(name))

    def _split(self, name: str) -> tuple[str, str] | None:
        at = name.find("__")
        while at > 0:
            step, param = name[:at], name[at + 2 :]
            if param in self.steps.get(step, ()):
                return step, param
            at = name.find("__", at + 1)
        return None

    def _hint(self, name: str) -> str | None:
        meant = did_you_mean(name, self.params)
        return f"did you mean '{meant}'?" if meant else f"give it when starting the run: {clip(name)}=…"

    def from_step(self, step: str, name: str) -> Value:
        return _pick(self.steps, step, name, "step")

    def from_this_step(self, name: str) -> Value:
        if not self.this_step:
            raise UnknownNameError("there is no present step here", hint="params.getFromStep('step', 'name')")
        return _value(self.this_step, name, "this step")

    def from_signal(self, signal: str, name: str) -> Value:
        return _pick(self.signals, signal, name, "signal")

    def from_any_signal(self, name: str) -> Value:
        for values in self.signals.values():
            if name in values:
                return values[name]
        raise UnknownNameError(f"no signal that started this run has '{clip(name)}'")

    def from_signal_dependency(self, signal: str, name: str) -> Value:
        return _pick(self.signal_dependencies, signal, name, "signal dependency")

    def from_foreach(self, foreach: str, step: str, name: str) -> Value:
        return _pick(_inner(self.foreach, foreach, "foreach"), step, name, "step")

    def from_subworkflow(self, subworkflow: str, step: str, name: str) -> Value:
        return _pick(_inner(self.subworkflows, subworkflow, "subworkflow"), step, name, "step")

    def from_run(self, name: str) -> Value:
        return _value(self.run, name, "the run")


def _pick(table: Mapping[str, Values], key: str, name: str, what: str) -> Value:
    return _value(_inner(table, key, what), name, f"{what} '{clip(key)}'")


def _inner(table: Mapping[str, Any], key: str, what: str) -> Any:
    if key not in table:
        raise UnknownNameError(f"there is no {what} '{clip(key)}' here", hint=suggestion(key, table, f"{what}s"))
    return table[key]


def _value(values: Values, name: str, what: str) -> Value:
    if name not in values:
        raise UnknownNameError(f"{what} has no '{clip(name)}'", hint=suggestion(name, values, "it has"))
    return values[name]
