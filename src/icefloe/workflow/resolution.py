"""Parameters from definitions to values: who may override what, in which order they are computed, what they become.

The engine merges the layers once per run (:func:`merge`), then resolves the workflow's parameters in the run's scope and
each step's in the step's (:func:`resolve_params`), and fills the results into the step's settings
(:func:`resolve_settings`). All of it is pure; secrets stay references throughout.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

from icefloe.errors import UsageError
from icefloe.workflow import durations
from icefloe.workflow.expressions import ExpressionError, check, evaluate
from icefloe.workflow.expressions.library import as_text
from icefloe.workflow.field_types import Timeout
from icefloe.workflow.interpolation import interpolate, interpolate_json, names_in, whole_reference
from icefloe.workflow.model import ForeachStep, Param, ParamMode
from icefloe.workflow.problems import suggestion
from icefloe.workflow.scope import Scope, UnknownNameError
from icefloe.workflow.values import Mismatch, ParamType, TypedValue, Value, clip, conform, parse_text, type_of

MAX_ITERATIONS = 100_000
LOOP_INDEX = "loop_index"


class ParamError(UsageError):
    """A parameter cannot have the value, or cannot be given, as asked."""

    code = "param.invalid"


class Layer(IntEnum):
    """Where a parameter's definition comes from; later layers win."""

    DEFAULTS = 0
    DEFINITION = 1
    TRIGGER = 2
    RUN = 3
    RESTART = 4
    OUTPUT = 5


_MAY_CHANGE = {
    ParamMode.CONSTANT: (),
    ParamMode.IMMUTABLE: (),
    ParamMode.MUTABLE: (Layer.TRIGGER, Layer.RUN, Layer.RESTART, Layer.OUTPUT),
    ParamMode.MUTABLE_ON_START: (Layer.TRIGGER, Layer.RUN),
    ParamMode.MUTABLE_ON_START_RESTART: (Layer.TRIGGER, Layer.RUN, Layer.RESTART),
    ParamMode.PROVIDED: (Layer.TRIGGER, Layer.RUN, Layer.RESTART),
}


def may_change(mode: ParamMode, layer: Layer) -> bool:
    """May a parameter of this mode be overridden from this layer? A definition may always override a default."""
    return layer <= Layer.DEFINITION or layer in _MAY_CHANGE[mode]


def merge(layers: Iterable[tuple[Layer, Sequence[Param]]]) -> tuple[Param, ...]:
    """One list of definitions out of the layers, in their order. Raises :class:`ParamError`."""
    merged: dict[str, Param] = {}
    for layer, params in sorted(layers, key=lambda item: item[0]):
        for param in params:
            known = merged.get(param.name)
            merged[param.name] = param if known is None else _override(known, param, layer)
    return tuple(merged.values())


def _override(known: Param, given: Param, layer: Layer) -> Param:
    if layer <= Layer.DEFINITION:
        return given
    if not may_change(known.mode, layer):
        raise ParamError(
            f"the parameter '{known.name}' is {known.mode.value} and cannot be changed by the {layer.name.lower()}"
        )
    if given.type is not known.type:
        given = _converted(known, given)
    if known.members is not None and given.members is not None:
        return dataclasses.replace(known, members=merge(((layer, known.members), (layer, given.members))))
    return dataclasses.replace(given, mode=known.mode)


def _converted(known: Param, given: Param) -> Param:
    """An override that has another type is fine when nothing is lost: a LONG for a DOUBLE, an empty list, a map."""
    maps = (ParamType.MAP, ParamType.STRING_MAP)
    if known.type in maps and given.type in maps:
        return given
    if given.expression is not None:
        return dataclasses.replace(given, type=known.type)
    try:
        return dataclasses.replace(given, type=known.type, value=conform(known.type, given.value))
    except Mismatch as error:
        raise ParamError(f"the parameter '{known.name}' is a {known.type.value}: {error}") from None


def param_from_text(name: str, text: str, known: Param | None = None) -> Param:
    """``name=value`` as typed on a command line, by the type of the definition it overrides."""
    kind = known.type if known is not None else ParamType.STRING
    try:
        if kind in (ParamType.MAP, ParamType.STRING_MAP):
            return literal(name, json.loads(text))
        return Param(name, kind, value=parse_text(kind, text))
    except (Mismatch, json.JSONDecodeError, RecursionError) as error:
        raise ParamError(f"{clip(name)}={clip(text)}: {error}", hint=f"{clip(name)} is a {kind.value}") from None


def literal(name: str, value: object) -> Param:
    """A parameter from a Python or JSON value. Raises :class:`Mismatch`."""
    kind = type_of(value)
    if kind is ParamType.MAP and isinstance(value, Mapping):
        return Param(name, kind, members=tuple(literal(str(key), item) for key, item in value.items()))
    return Param(name, kind, value=conform(kind, value))


def references(param: Param) -> frozenset[str]:
    """The parameters that a definition refers to by name."""
    return frozenset(_references(param))


def _references(param: Param) -> Iterator[str]:
    if param.expression is not None:
        try:
            found = check(param.expression, {})
        except ExpressionError:
            return
        yield from found.names
        yield from found.optional
        yield from found.fields
    for text in texts(param.value):
        yield from names_in(text)
    for member in param.members or ():
        yield from _references(member)


def texts(value: Value | None) -> Iterator[str]:
    """Every text in a literal value."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, tuple):
        yield from (item for item in value if isinstance(item, str))
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from texts(item)


def find_cycle(params: Sequence[Param]) -> tuple[str, ...] | None:
    """Names of parameters that refer to each other in a circle. A parameter that refers to its own name means the
    outer one, which is no circle."""
    known = {param.name: references(param) for param in params}
    state: dict[str, int] = {}
    for start in known:
        path: list[str] = []
        stack: list[tuple[str, Iterator[str]]] = []
        if start not in state:
            stack.append((start, iter(sorted(known[start]))))
            state[start] = 1
            path.append(start)
        while stack:
            name, rest = stack[-1]
            for target in rest:
                if target == name or target not in known:
                    continue
                if state.get(target) == 1:
                    return (*path[path.index(target) :], target)
                if target not in state:
                    state[target] = 1
                    path.append(target)
                    stack.append((target, iter(sorted(known[target]))))
                    break
            else:
                state[name] = 2
                path.pop()
                stack.pop()
    return None


def resolve_params(params: Sequence[Param], scope: Scope, *, own: bool = False) -> dict[str, TypedValue]:
    """The values of definitions in a scope, each after those it refers to; inner definitions hide the scope's.

    ``own``: they are the parameters of the scope's present step, so ``getFromStep('x')`` sees them.
    Raises :class:`ParamError`, :class:`UnknownNameError` or :class:`ExpressionError`, with the parameter's name.
    """
    return _Resolver(params, scope, own).all()


def scope_of_step(params: Sequence[Param], scope: Scope) -> Scope:
    """The scope with a step's parameters on top, each computed when it is asked for, and only then."""
    return _Resolver(params, scope, own=True).inner


class _Resolver:
    def __init__(self, params: Sequence[Param], scope: Scope, own: bool) -> None:
        self._params = {param.name: param for param in params}
        self._outer = scope
        self._done: dict[str, TypedValue] = {}
        self._busy: list[str] = []
        this_step = _Own(self, scope.this_step) if own else scope.this_step
        self.inner = dataclasses.replace(scope, params=_Visible(self), this_step=this_step)

    def all(self) -> dict[str, TypedValue]:
        for name in self._order(self._params):
            self.resolve(name)
        return {name: self._done[name] for name in self._params}

    def on_demand(self, name: str) -> Value:
        """One of them, asked for from outside or while another is being resolved."""
        if not self._busy and name not in self._done:
            for needed in self._order([name]):
                self.resolve(needed)
        return self.resolve(name).value

    def _order(self, starts: Iterable[str]) -> list[str]:
        """Those referred to first, without recursion: a chain of parameters may be long."""
        cycle = find_cycle(tuple(self._params.values()))
        if cycle is not None:
            raise ParamError(f"parameters refer to each other in a circle: {' -> '.join(cycle)}")
        order: dict[str, None] = {}
        needs = {
            name: sorted(target for target in references(param) if target in self._params and target != name)
            for name, param in self._params.items()
        }
        for start in starts:
            stack = [start]
            while stack:
                name = stack[-1]
                waiting = next((target for target in needs[name] if target not in order), None)
                if waiting is not None:
                    stack.append(waiting)
                else:
                    order[name] = None
                    stack.pop()
        return list(order)

    def resolve(self, name: str) -> TypedValue:
        if name not in self._done:
            if name in self._busy or len(self._busy) > 20:
                raise ParamError(f"parameters refer to each other in a circle: {' -> '.join((*self._busy, name))}")
            self._busy.append(name)
            try:
                self._done[name] = self._value(self._params[name])
            except (ExpressionError, UnknownNameError, ParamError) as error:
                if error.where is None or not error.where.startswith("parameter"):
                    error.where = f"parameter '{name}'" + (f", {error.where}" if error.where else "")
                raise
            finally:
                self._busy.pop()
        return self._done[name]

    def visible(self, name: str) -> Value:
        """A name as seen from the definition that is being resolved: its own name means the outer one."""
        if self.defines(name) and name not in self._busy[-1:]:
            return self.on_demand(name)
        return self._outer.params[name]

    def knows(self, name: object) -> bool:
        return (name in self._params and name not in self._busy[-1:]) or name in self._outer.params

    def defines(self, name: object) -> bool:
        return name in self._params

    def own_names(self) -> set[str]:
        return set(self._params)

    def names(self) -> set[str]:
        return {*(name for name in self._params if self.knows(name)), *self._outer.params}

    def _value(self, param: Param) -> TypedValue:
        if param.members is not None:
            return TypedValue(ParamType.MAP, {member.name: self._value(member).value for member in param.members})
        try:
            if param.expression is not None:
                found = evaluate(param.expression, self.inner)
                return TypedValue(param.type, _as_declared(param.type, found))
            if param.value is None:
                return self._provided(param)
            return TypedValue(param.type, conform(param.type, _filled(param.value, self.inner)))
        except Mismatch as error:
            raise ParamError(f"it is a {param.type.value}: {error}") from None

    def _provided(self, param: Param) -> TypedValue:
        if param.name not in self._outer.params:
            raise ParamError("whoever starts the run must give it a value", hint=f"icefloe run WORKFLOW {param.name}=…")
        return TypedValue(param.type, conform(param.type, self._outer.params[param.name]))


class _Visible(Mapping[str, Value]):
    """The parameters seen while resolving: inner ones are computed when asked for."""

    def __init__(self, resolver: _Resolver) -> None:
        self._resolver = resolver

    def __getitem__(self, name: str) -> Value:
        return self._resolver.visible(name)

    def __contains__(self, name: object) -> bool:
        return self._resolver.knows(name)

    def __iter__(self) -> Iterator[str]:
        return iter(self._resolver.names())

    def __len__(self) -> int:
        return len(self._resolver.names())


class _Own(Mapping[str, Value]):
    """The present step's fields and its own parameters."""

    def __init__(self, resolver: _Resolver, fields: Mapping[str, Value]) -> None:
        self._resolver = resolver
        self._fields = fields

    def __getitem__(self, name: str) -> Value:
        return self._resolver.on_demand(name) if self._resolver.defines(name) else self._fields[name]

    def __contains__(self, name: object) -> bool:
        return self._resolver.defines(name) or name in self._fields

    def __iter__(self) -> Iterator[str]:
        return iter({*self._resolver.own_names(), *self._fields})

    def __len__(self) -> int:
        return sum(1 for _ in self)


def _as_declared(kind: ParamType, found: TypedValue) -> Value:
    """An expression's value as the declared type. The untyped ``'!x'`` is a STRING, and takes any scalar as text."""
    if kind is ParamType.STRING and found.type in (ParamType.LONG, ParamType.DOUBLE, ParamType.BOOLEAN):
        return as_text(found.value)
    return conform(kind, found.value)


def _filled(value: Value, scope: Scope) -> Any:
    if isinstance(value, str):
        return interpolate(value, scope)
    if isinstance(value, tuple):
        return tuple(interpolate(item, scope) if isinstance(item, str) else item for item in value)
    if isinstance(value, Mapping):
        return {key: _filled(item, scope) for key, item in value.items()}
    return value


def resolve_settings(settings: Mapping[str, Any], scope: Scope) -> dict[str, Any]:
    """A typed step's settings with every reference filled in; ``$ENV{…}`` stays."""
    resolved = interpolate_json(settings, scope)
    assert isinstance(resolved, dict)
    return resolved


def resolve_timeout(timeout: Timeout | None, scope: Scope, default: float) -> float:
    """A timeout in seconds."""
    if timeout is None:
        return default
    if not isinstance(timeout, str):
        return timeout
    words = interpolate(timeout, scope)
    try:
        return durations.parse(words)
    except ValueError as error:
        raise ParamError(f"timeout '{clip(timeout)}': {error}") from None


@dataclass(frozen=True, slots=True)
class Iterations:
    """The iterations of a foreach, computed on demand."""

    arrays: dict[str, TypedValue]
    length: int

    def iteration(self, index: int) -> dict[str, TypedValue]:
        """The loop parameters of one iteration, ``loop_index`` included."""
        if not 0 <= index < self.length:
            raise IndexError(index)
        values = {LOOP_INDEX: TypedValue(ParamType.LONG, index)}
        rest = index
        for name, array in self.arrays.items():
            assert isinstance(array.value, tuple)
            rest, at = divmod(rest, len(array.value))
            values[name] = TypedValue(array.type.element, array.value[at])
        return values


def resolve_loop(step: ForeachStep, scope: Scope) -> Iterations:
    """What a foreach walks over. A loop parameter ``"${x}"`` takes the array that ``x`` is."""
    plain_params = [param for param in step.loop_params if _whole(param) is None]
    arrays: dict[str, TypedValue] = resolve_params(plain_params, scope)
    for param in step.loop_params:
        name = _whole(param)
        if name is not None:
            value = scope.param(name)
            arrays[param.name] = TypedValue.of(tuple(value) if isinstance(value, list) else value)
    ordered = {param.name: arrays[param.name] for param in step.loop_params}
    length = 1 if ordered else 0
    for name, array in ordered.items():
        if not array.type.is_array or not isinstance(array.value, tuple):
            hint = suggestion(name, [n for n, a in ordered.items() if a.type.is_array], "lists")
            raise ParamError(f"the loop parameter '{name}' is a {array.type.value}, not a list", hint=hint)
        length *= len(array.value)
    if length > MAX_ITERATIONS:
        raise ParamError(f"the foreach '{step.id}' has {length:,} iterations, it may have {MAX_ITERATIONS:,}")
    return Iterations(ordered, length)


def _whole(param: Param) -> str | None:
    is_text = param.type is ParamType.STRING and isinstance(param.value, str)
    return whole_reference(param.value) if is_text and isinstance(param.value, str) else None
