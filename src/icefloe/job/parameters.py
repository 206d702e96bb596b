"""A step's parameters as Python values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import date, datetime
from decimal import Decimal, InvalidOperation
from typing import Any

from icefloe.errors import UsageError


class ParameterError(UsageError):
    """A parameter is not there, or is not what the code asks for."""

    code = "job.parameter"


class Parameters(Mapping[str, Any]):
    """Parameters by name. Values are what the definition says they are: str, int, float, bool, lists and maps of them."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        self._values = dict(values)

    def __getitem__(self, name: str) -> Any:
        if name not in self._values:
            known = ", ".join(sorted(self._values)) or "none"
            raise ParameterError(f"there is no parameter {name!r}", hint=f"this step sees: {known}")
        return self._values[name]

    def __contains__(self, name: object) -> bool:
        return name in self._values

    def get(self, name: str, default: Any = None) -> Any:
        return self._values.get(name, default)

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def get_as(self, name: str, kind: Any) -> Any:
        """A parameter as ``kind``; ``None`` takes it as it is."""
        return converted(name, self[name], kind)


_PLAIN = {"str": str, "int": int, "float": float, "bool": bool, "list": list, "dict": dict}


def converted(name: str, value: Any, kind: Any) -> Any:
    """A value as the type a function's annotation names. What is no plain type is handed over as it is."""
    if isinstance(kind, str):  # annotations under `from __future__ import annotations`
        kind = {**_PLAIN, "date": date, "datetime": datetime, "Decimal": Decimal}.get(kind)
    try:
        if kind is datetime and isinstance(value, str):
            return datetime.fromisoformat(value)
        if kind is date and isinstance(value, str | int):
            return date.fromisoformat(str(value))  # also 20260301, the slides' way to write a day
        if kind is Decimal and isinstance(value, str | int | float) and not isinstance(value, bool):
            return Decimal(str(value))
    except (ValueError, InvalidOperation):
        raise _mismatch(name, value, kind) from None
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if kind in (str, int, float, bool, list, dict) and (
        not isinstance(value, kind) or (kind is int and isinstance(value, bool))
    ):
        raise _mismatch(name, value, kind)
    return value


def _mismatch(name: str, value: Any, kind: Any) -> ParameterError:
    shown = repr(value) if len(repr(value)) < 60 else repr(value)[:59] + "…"
    return ParameterError(f"parameter {name!r} is {shown}, and the code asks for a {kind.__name__}")
