"""Parameters as written in YAML: ``name: value``, and the key notation ``'!name<type>(mode)': value``.

``!`` makes the value an expression. ``<type>`` is ``string``, ``long``, ``double``, ``boolean``, ``array<…>`` of these,
``map`` (of strings) or ``pmap`` (a map whose leaves are parameters). ``(mode)`` is one of :class:`ParamMode`.

Maestro's long form, ``name: {value: 3, type: LONG, mode: CONSTANT}`` or with ``expression``, is the same parameter. A map
that happens to have these keys is told apart by its key: ``'name<map>'`` and ``'name<pmap>'`` are always maps.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from icefloe.workflow.document import Entry, ListNode, MapNode, Node, ScalarNode, describe, to_json
from icefloe.workflow.identifiers import is_param_name
from icefloe.workflow.model import Param, ParamMode
from icefloe.workflow.problems import Findings, Position, suggestion
from icefloe.workflow.reserved import fold
from icefloe.workflow.values import Mismatch, ParamType, clip, conform, type_of

_KEY = re.compile(r"(?P<expression>!)?\s*(?P<name>[^<>()!]*?)\s*(?:<(?P<type>.*)>)?\s*(?:\((?P<mode>[^()]*)\))?\s*\Z")
_TYPES = {kind.value.lower(): kind for kind in ParamType} | {kind.notation: kind for kind in ParamType}


def read_params(entries: Iterable[Entry], findings: Findings) -> tuple[Param, ...]:
    """The parameters that stand in the given entries, each name once."""
    params: dict[str, Param] = {}
    for entry in entries:
        param = read_param(entry, findings)
        if param is None:
            continue
        if param.name in params:
            findings.error("param.duplicate", f"the parameter '{clip(param.name)}' is given twice", entry.position)
            continue
        params[param.name] = param
    return tuple(params.values())


def read_param(entry: Entry, findings: Findings) -> Param | None:
    key = _KEY.match(entry.key.strip())
    if key is None or not is_param_name(key["name"]):
        findings.error(
            "param.name",
            f"'{clip(entry.key)}' cannot name a parameter",
            entry.position,
            "a name has letters, digits, _ . -; with type and mode: '!name<long>(constant)'",
        )
        return None
    name = key["name"]
    kind = _type(key["type"], entry, findings)
    mode = _mode(key["mode"], entry, findings)
    if kind is _WRONG or mode is None:
        return None
    if key["expression"]:
        return _expression(name, kind, mode, entry.value, findings)
    if kind is None and isinstance(entry.value, MapNode) and _is_long_form(entry.value):
        return _long_form(name, mode if key["mode"] else None, entry.value, findings)
    return _literal(name, kind, mode, entry.value, findings)


_DEFINITION_KEYS = frozenset({"value", "expression", "type", "mode"})


def has_definition_keys(keys: Iterable[str]) -> bool:
    """Could a map with these keys be taken for one parameter's definition? ``{type: …}`` and ``{mode: …}`` alone cannot."""
    names = {fold(key) for key in keys}
    return bool(names & {"value", "expression"}) or {"type", "mode"} <= names


def _is_long_form(node: MapNode) -> bool:
    """A map that has other keys too is a map, unless its ``type`` is a parameter's."""
    if not has_definition_keys(node.entries):
        return False
    if all(fold(key) in _DEFINITION_KEYS for key in node.entries):
        return True
    kind = next((entry.value for key, entry in node.entries.items() if fold(key) == "type"), None)
    return isinstance(kind, ScalarNode) and kind.text.strip().lower() in _TYPES


def _long_form(name: str, mode: ParamMode | None, node: MapNode, findings: Findings) -> Param | None:
    fields = {fold(entry.key): entry for entry in node.entries.values()}
    either = f"a map of these keys is written '{name}<pmap>'"
    problem: str | None = None
    position, hint = node.position, either
    other = next((entry for key, entry in fields.items() if key not in _DEFINITION_KEYS), None)
    if other is not None:
        problem, position = f"'{clip(other.key)}' is not part of a parameter's definition", other.position
        hint = f"it has value or expression, type and mode; {either}"
    elif not fields.keys() & {"type", "mode"}:
        shorter = f"'!{name}': …" if "expression" in fields else f"{name}: …"
        problem = f"the parameter '{name}' could be a map, or a definition that lacks its type"
        hint = f"add type:, or write {shorter}; {either}"
    elif "value" in fields and "expression" in fields:
        problem = f"the parameter '{name}' has a value and an expression"
    elif mode is not None and "mode" in fields:
        problem, position = f"the mode of the parameter '{name}' is given twice", fields["mode"].position
        hint = "keep the one in the key, or the one below it"
    if problem is not None:
        findings.error("param.form", problem, position, hint)
        return None
    kind = _word(fields, "type", findings, either)
    said = _word(fields, "mode", findings, either)
    if kind is _WRONG or said is _WRONG:
        return None
    if kind is not None:
        # Maestro's MAP holds parameters; between < and > that is ``pmap``, and ``map`` one of strings.
        known = ParamType.__members__.get(kind.strip().upper())
        kind = known.notation if known is not None else kind
        if re.sub(r"\s+", "", kind).lower() not in _TYPES:
            meant = suggestion(kind, [member.value for member in ParamType], "types")
            message = f"'{clip(kind)}' is no parameter type"
            findings.error("param.type", message, fields["type"].value.position, f"{meant}; {either}")
            return None
    how = said or (mode.value if mode is not None else None)
    notation = (f"<{kind}>" if kind else "") + (f"({how})" if how else "")
    written = (
        fields.get("expression") or fields.get("value") or Entry("", node.position, ScalarNode(node.position, None, ""))
    )
    sign = "!" if "expression" in fields else ""
    return read_param(Entry(f"{sign}{name}{notation}", written.position, written.value), findings)


def _word(fields: dict[str, Entry], key: str, findings: Findings, hint: str) -> str | None:
    """The type or mode in a parameter's long form; what it may be is checked where the notation is read."""
    entry = fields.get(key)
    if entry is None:
        return None
    node = entry.value
    if isinstance(node, ScalarNode) and isinstance(node.value, str) and not set(node.value) & set("()!"):
        return node.value
    findings.error("param.form", f"'{key}' must be a parameter's {key}, this is {describe(node)}", node.position, hint)
    return _WRONG


def base_name(key: str) -> str:
    """The name in a key, without its notation."""
    found = _KEY.match(key.strip())
    return found["name"] if found else key


_WRONG = "wrong"


def _type(word: str | None, entry: Entry, findings: Findings) -> ParamType | str | None:
    if word is None:
        return None
    kind = _TYPES.get(re.sub(r"\s+", "", word).lower())
    if kind is None:
        findings.error(
            "param.type",
            f"'{clip(word)}' is no parameter type",
            entry.position,
            suggestion(word, [kind.notation for kind in ParamType], "types"),
        )
        return _WRONG
    return kind


def _mode(word: str | None, entry: Entry, findings: Findings) -> ParamMode | None:
    if word is None:
        return ParamMode.MUTABLE
    try:
        return ParamMode(word.strip().upper())
    except ValueError:
        names = [mode.value.lower() for mode in ParamMode]
        findings.error("param.mode", f"'{clip(word)}' is no mode", entry.position, suggestion(word, names, "modes"))
        return None


def _expression(
    name: str, kind: ParamType | str | None, mode: ParamMode, node: Node, findings: Findings
) -> Param | None:
    if not isinstance(node, ScalarNode) or node.value is None:
        findings.error("param.expression", f"'{name}' must be an expression, this is {describe(node)}", node.position)
        return None
    declared = kind if isinstance(kind, ParamType) else ParamType.STRING
    return Param(name, declared, expression=node.text, mode=mode)


def _literal(name: str, kind: ParamType | str | None, mode: ParamMode, node: Node, findings: Findings) -> Param | None:
    declared = kind if isinstance(kind, ParamType) else None
    if isinstance(node, ScalarNode) and node.value is None:
        if mode is ParamMode.PROVIDED:
            return Param(name, declared or ParamType.STRING, mode=mode)
        findings.error(
            "param.null",
            f"the parameter '{name}' has no value",
            node.position,
            f"give one, or say that the run gives it: '{name}(provided)':",
        )
        return None
    if isinstance(node, MapNode) and declared is not ParamType.STRING_MAP:
        return _map(name, declared, mode, node, findings)
    try:
        value = to_json(node)
        found = declared or type_of(value)
        return Param(name, found, value=conform(found, value), mode=mode)
    except Mismatch as error:
        findings.error(
            "param.value", f"the parameter '{name}': {error}", _first_wrong(node, declared), _hint(name, node)
        )
        return None


def _first_wrong(node: Node, declared: ParamType | None) -> Position:
    """The list item that does not fit, or the node."""
    if isinstance(node, ListNode):
        for item in node.items:
            try:
                conform(
                    declared.element if declared and declared.is_array else type_of(to_json(node.items[0])),
                    to_json(item),
                )
            except Mismatch:
                return item.position
    return node.position


def _hint(name: str, node: Node) -> str | None:
    if isinstance(node, ScalarNode) and isinstance(node.value, str) and "${" in node.value:
        return f"to compute it, make it an expression: '!{name}<long>': \"params.get('other')\""
    return None


def _map(name: str, declared: ParamType | None, mode: ParamMode, node: MapNode, findings: Findings) -> Param | None:
    if declared not in (None, ParamType.MAP):
        findings.error("param.value", f"the parameter '{name}': a map is not a {declared}", node.position)
        return None
    if declared is None and node.entries and all(_is_text(entry) for entry in node.entries.values()):
        strings = {entry.key: str(to_json(entry.value)) for entry in node.entries.values()}
        return Param(name, ParamType.STRING_MAP, value=strings, mode=mode)
    members = read_params(node.entries.values(), findings)
    return Param(name, ParamType.MAP, members=members, mode=mode)


def _is_text(entry: Entry) -> bool:
    plain_key = not any(letter in entry.key for letter in "!<>()")
    return plain_key and isinstance(entry.value, ScalarNode) and isinstance(entry.value.value, str)
