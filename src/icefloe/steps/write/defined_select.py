"""The SELECT as the definition has it: its constants filled in, and what each run decides for itself left as ``${name}``.

Otherwise a SELECT with the run's date in it would be another one in every run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from icefloe.workflow.files import script_key
from icefloe.workflow.interpolation import files_in, interpolate, names_in
from icefloe.workflow.model import Param, TypedStep, Workflow
from icefloe.workflow.scope import Scope
from icefloe.workflow.values import Value

_HIDDEN = "***"


def defined_select(
    workflow: Workflow,
    step: TypedStep,
    values: Mapping[str, Value],
    read: Callable[[str], str],
    secrets: Iterable[str] = (),
) -> str:
    """``values`` are the run's parameters as they are now, ``read`` gives a file of the version by its key."""
    raw = str(step.settings.get("script", ""))
    key = script_key(raw)
    if key is not None:
        return read(key)
    known = _constants((*workflow.params, *step.params))
    filled: Any = _ParamsOfSelect({name: values[name] for name in known if name in values})
    text = interpolate(raw, Scope(params=filled, files={name: read(name) for name in files_in(raw)}))
    return hidden(text, secrets)


def hidden(text: str, secrets: Iterable[str]) -> str:
    """What goes on record holds no secret."""
    for secret in secrets:
        text = text.replace(secret, _HIDDEN)
    return text


def _constants(params: Iterable[Param]) -> set[str]:
    """Parameters with a value in the definition, made of nothing but such parameters."""
    made_of = {param.name: set(names_in(str(param.value))) for param in params if param.value is not None}
    constants: set[str] = set()
    while True:
        more = {name for name, parts in made_of.items() if name not in constants and parts <= constants}
        if not more:
            return constants
        constants |= more


class _ParamsOfSelect(Mapping[str, Value]):
    """The constants; any other name stands for itself."""

    def __init__(self, values: Mapping[str, Value]) -> None:
        self._values = values

    def __contains__(self, name: object) -> bool:
        return True

    def __getitem__(self, name: str) -> Value:
        return self._values.get(name, f"${{{name}}}")

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)
