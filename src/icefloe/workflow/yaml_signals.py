"""Signals that steps wait for and publish, as written in YAML."""

from __future__ import annotations

from dataclasses import replace

from icefloe.workflow.document import Entry, MapNode, Node, ScalarNode, describe
from icefloe.workflow.field_types import InvalidValueError
from icefloe.workflow.fields import Fields
from icefloe.workflow.model import (
    MatchOperator,
    Param,
    SignalDependency,
    SignalMatch,
    SignalOutput,
    WatermarkDependency,
)
from icefloe.workflow.parameters import base_name, read_param, read_params
from icefloe.workflow.problems import Findings
from icefloe.workflow.reserved import choose, fold
from icefloe.workflow.values import clip


def read_dependencies(fields: Fields) -> tuple[SignalDependency, ...]:
    """``signal_dependencies: [name, {name, match_params: {key: value | {value, operator}}}]``."""
    found = []
    for item in _as_items(fields, "signal_dependencies"):
        inner = _signal(item, fields.findings)
        name = inner.text("name") if isinstance(inner, Fields) else inner
        if name is not None:
            match = read_match(inner) if isinstance(inner, Fields) else ()
            found.append(SignalDependency(name, match))
    return tuple(found)


def read_outputs(fields: Fields) -> tuple[SignalOutput, ...]:
    """``signal_outputs: [name, {name, params: {…}}]``."""
    found = []
    for item in _as_items(fields, "signal_outputs"):
        inner = _signal(item, fields.findings)
        if isinstance(inner, Fields):
            name, node = inner.text("name"), inner.map("params")
            params = read_params(node.entries.values(), fields.findings) if node is not None else ()
        else:
            name, params = inner, ()
        if name is not None:
            found.append(SignalOutput(name, params))
    return tuple(found)


def read_watermark_dependencies(fields: Fields) -> tuple[WatermarkDependency, ...]:
    """``watermark_dependencies: [{table: db.t, reached: "${DATE}"}]``."""
    found = []
    for item in _as_items(fields, "watermark_dependencies"):
        if not isinstance(item, MapNode):
            _wrong(item, "a map {table, reached}", fields.findings)
            continue
        named = {base_name(key): entry for key, entry in item.entries.items()}
        bare = {name: replace(entry, key=name) for name, entry in named.items()}
        inner = Fields(MapNode(item.position, bare), "watermark dependency", fields.findings)
        table, entry = inner.text("table"), next((named[key] for key in named if fold(key) == "reached"), None)
        reached = read_param(entry, fields.findings) if entry is not None else None
        if table is None or entry is None:
            inner.error("definition.missing-key", "a watermark dependency needs 'table' and 'reached'", item.position)
        elif reached is not None:
            found.append(WatermarkDependency(table, Param("reached", reached.type, reached.value, reached.expression)))
    return tuple(found)


def read_match(fields: Fields) -> tuple[SignalMatch, ...]:
    """``match_params``: a value to equal, or ``{value | expression, operator}``."""
    node = fields.map("match_params")
    found = []
    for entry in node.entries.values() if node is not None else ():
        match = _match(entry, fields.findings)
        if match is not None:
            found.append(match)
    return tuple(found)


def _match(entry: Entry, findings: Findings) -> SignalMatch | None:
    if not isinstance(entry.value, MapNode):
        param = read_param(entry, findings)
        return SignalMatch(param) if param is not None else None
    inner = Fields(entry.value, "match", findings)
    source = inner
    nested = inner.map("param")
    if nested is not None:
        source = Fields(nested, "match", findings)
    kind = source.text("type")
    suffix = f"<{kind}>" if kind else ""
    if "expression" in source:
        written = source.reserved["expression"]
        param = read_param(Entry(f"!{entry.key}{suffix}", written.position, written.value), findings)
    elif "value" in source:
        written = source.reserved["value"]
        param = read_param(Entry(f"{entry.key}{suffix}", written.position, written.value), findings)
    else:
        findings.error("definition.missing-key", f"'{clip(entry.key)}' needs a value or an expression", entry.position)
        return None
    return SignalMatch(param, _operator(inner, findings)) if param is not None else None


def _operator(fields: Fields, findings: Findings) -> MatchOperator:
    word = (fields.text("operator") or "=").strip()
    try:
        return choose(MatchOperator, "=" if word == "==" else word, "operator", "operators")
    except InvalidValueError as error:
        findings.error(error.code, str(error), fields.at("operator"), error.hint)
        return MatchOperator.EQ


def _as_items(fields: Fields, name: str) -> list[Node]:
    """A list; one text or map alone is a list of one."""
    node = fields.get(name)
    if isinstance(node, MapNode) or (isinstance(node, ScalarNode) and isinstance(node.value, str)):
        return [node]
    return list(fields.items(name))


def _signal(item: Node, findings: Findings) -> Fields | str | None:
    if isinstance(item, ScalarNode) and isinstance(item.value, str):
        return item.value
    if isinstance(item, MapNode):
        inner = Fields(item, "signal", findings)
        if "name" not in inner:
            inner.error("definition.missing-key", "a signal needs a name", item.position)
        return inner
    _wrong(item, "a signal's name or a map {name, match_params}", findings)
    return None


def _wrong(node: Node, expected: str, findings: Findings) -> None:
    findings.error("definition.wrong-type", f"expected {expected}, this is {describe(node)}", node.position)
