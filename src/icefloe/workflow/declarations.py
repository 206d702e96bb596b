"""What the model's classes say about their fields: keys, types, limits, defaults, meaning.

The one place where annotations are taken apart. Whoever derives something from the model (reserved keys, reading,
writing, JSON Schema, the Python builder, tests) goes through :func:`declared`.
"""

from __future__ import annotations

import dataclasses
import types
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from typing import Any, Union, get_args, get_origin, get_type_hints

from pydantic import AliasChoices, TypeAdapter, ValidationError
from pydantic.fields import FieldInfo

from icefloe.workflow.field_types import DURATION, reason

_REQUIRED: Any = object()


@dataclass(frozen=True, slots=True, eq=False)
class FieldDeclaration:
    """One field: ``name`` in Python, ``key`` and ``others`` in YAML. ``type`` is ``int``, ``str``, an enum, a class of the
    model, ``tuple[…]``; ``element`` is what a tuple holds; ``metadata`` has its limits, and ``annotation`` both. None among
    the types is left out."""

    name: str
    key: str
    others: tuple[str, ...]
    doc: str
    type: Any
    element: Any
    metadata: tuple[Any, ...]
    annotation: Any
    default: Any

    @property
    def is_required(self) -> bool:
        return self.default is _REQUIRED

    @property
    def is_choice(self) -> bool:
        return isinstance(self.type, type) and issubclass(self.type, StrEnum)

    @property
    def is_simple(self) -> bool:
        """Is it a text, a number, a choice or a list of texts, and no part that is made of more?"""
        return self.type in (bool, int, float, str) or self.is_choice or self.is_duration or self.element is str

    @property
    def is_duration(self) -> bool:
        return DURATION in self.metadata

    @property
    def is_positive(self) -> bool:
        return self._limit("gt") is not None

    @property
    def limits(self) -> dict[str, Any]:
        """``least`` and ``most``, where there are such."""
        limits = {"least": self._limit("ge"), "most": self._limit("le")}
        return {name: limit for name, limit in limits.items() if limit is not None}

    def _limit(self, name: str) -> Any:
        return next((limit for item in self.metadata if (limit := getattr(item, name, None)) is not None), None)

    def is_default(self, value: Any) -> bool:
        return not self.is_required and type(value) is type(self.default) and bool(value == self.default)

    def checked(self, value: Any) -> Any:
        """The value as the model holds it. Raises :class:`InvalidValueError`, or ValueError with a reason."""
        try:
            return _adapter(self).validate_python(value)
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            cause = first.get("ctx", {}).get("error")
            raise cause if isinstance(cause, ValueError) else ValueError(reason(first)) from None


@cache
def _adapter(item: FieldDeclaration) -> TypeAdapter[Any]:
    return TypeAdapter(item.annotation)


def declared(cls: type) -> tuple[FieldDeclaration, ...]:
    """The fields of a class of the model, or of a notation's keys, in the order in which they are written: what every
    such thing has before what is its own (unless a bare value is one of its own), and parameters last."""
    key: Any = cls  # mypy 1.18 does not take a class for Hashable
    return _declared(key)


@cache
def _declared(cls: Any) -> tuple[FieldDeclaration, ...]:
    hints = get_type_hints(cls, include_extras=True)
    names = [name for name in hints if name != "bare"]
    if "bare" in cls.__dict__:
        own = cls.__annotations__
        names.sort(key=lambda name: name not in own)
    names.sort(key=lambda name: name == "params")
    defaults = {item.name: _default(item) for item in dataclasses.fields(cls)} if dataclasses.is_dataclass(cls) else {}
    return tuple(_declaration(name, hints[name], defaults.get(name)) for name in names)


def declaration(cls: type, name: str) -> FieldDeclaration:
    """The declaration of one field, by its Python name."""
    return next(item for item in declared(cls) if item.name == name)


def _declaration(name: str, hint: Any, default: Any) -> FieldDeclaration:
    info = _info(hint)
    others = info.validation_alias.choices if isinstance(info.validation_alias, AliasChoices) else ()
    optional = get_origin(info.annotation) in (Union, types.UnionType) and types.NoneType in get_args(info.annotation)
    annotation = next(part for part in get_args(info.annotation) if part is not types.NoneType) if optional else hint
    inner = _info(annotation)
    return FieldDeclaration(
        name=name,
        key=info.alias or name,
        others=tuple(map(str, others)),
        doc=info.description or "",
        type=inner.annotation,
        element=_info(get_args(inner.annotation)[0]).annotation if get_origin(inner.annotation) is tuple else None,
        metadata=tuple(inner.metadata),
        annotation=annotation,
        default=default,
    )


def _default(item: dataclasses.Field[Any]) -> Any:
    if item.default_factory is not dataclasses.MISSING:
        return item.default_factory()
    return _REQUIRED if item.default is dataclasses.MISSING else item.default


def _info(annotation: Any) -> FieldInfo:
    return FieldInfo.from_annotation(annotation)
