"""Parameters and conditions, with what a run knows at the moment (interim: literals only)."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from icefloe.engine.events import RunState, StepState
from icefloe.engine.images import Image
from icefloe.workflow.model import ForeachStep, Step, TypedStep
from icefloe.workflow.values import TypedValue


@dataclass(frozen=True, slots=True)
class Evaluated:
    """A step's parameters and settings, resolved. ``secrets`` must not be shown."""

    params: Mapping[str, TypedValue]
    settings: Mapping[str, Any]
    secrets: tuple[str, ...] = ()
    timeout: float | None = None


class Evaluation:
    def __init__(self, images: Callable[[str], Image], image: Image) -> None:
        self._images = images
        self._image = image

    def holds(self, condition: str, run: RunState) -> bool:
        match = re.fullmatch(r"\s*params\.getFromStep\('(\w+)',\s*'(\w+)'\)\s*==\s*'(\w+)'\s*", condition)
        assert match
        return run.steps[match[1]].status == match[3]

    def step(self, step: Step) -> Evaluated:
        values = {name: item["value"] for name, item in self._image.record.params.items()}
        for param in (*self._image.definition.workflow.params, *step.params):
            if param.value is not None:
                values.setdefault(param.name, param.value)
        params = {name: TypedValue.of(tuple(v) if isinstance(v, list) else v) for name, v in values.items()}
        settings = dict(step.settings) if isinstance(step, TypedStep) else {}
        settings = {
            k: re.sub(r"\$\{(\w+)\}", lambda m: str(values.get(m[1], m[0])), v) if isinstance(v, str) else v
            for k, v in settings.items()
        }
        timeout = step.timeout if isinstance(step.timeout, float) else None
        return Evaluated(params, settings, (), timeout)

    def loop_total(self, step: ForeachStep, params: Mapping[str, TypedValue]) -> int:
        return min(len(params[p.name].value) for p in step.loop_params)  # type: ignore[arg-type]

    def iteration_params(self, step: ForeachStep, state: StepState, number: int) -> Mapping[str, TypedValue]:
        found = {}
        for param in step.loop_params:
            values = (state.params or {})[param.name].value
            found[param.name] = TypedValue.of(values[number])  # type: ignore[index]
        return found


__all__ = ["Evaluated", "Evaluation", "replace"]
