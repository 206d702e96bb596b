"""Signals that steps wait for and publish, as written in YAML."""

from __future__ import annotations

from collections.abc import Iterator
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
    signals = _signals(fields, "signal_dependencies")
    return tuple(SignalDependency(name, read_match(inner) if inner else ()) for name, inner in signals)


def read_outputs(fields: Fields) -> tuple[SignalOutput, ...]:
    """``signal_outputs: [name, {name, params: {…}}]``."""
    signals = _signals(fields, "signal_outputs")
    return tuple(SignalOutput(name, read_nested_params(inner) if inner else ()) for name, inner in signals)


def read_watermark_dependencies(fields: Fields) -> tuple[WatermarkDependency, ...]:
    """``watermark_dependencies: [{table: db.t, reached: "${DATE}"}]``."""
    dependencies = []
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
            dependencies.append(
                WatermarkDependency(table, Param("reached", reached.type, reached.value, reached.expression))
            )
    return tuple(dependencies)


def read_match(fields: Fields) -> tuple[SignalMatch, ...]:
    """``match_params``: a value to equal, or ``{value | expression, operator}``."""
    node = fields.map("match_params")
    matches = []
    for entry in node.entries.values() if node is not None else ():
        match = _match(entry, fields.findings)
        if match is not None:
            matches.append(match)
    return tuple(matches)


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


def _signals(fields: Fields, key: str) -> Iterator[tuple[str, Fields | None]]:
    """The names under a key, each with what its map says further."""
    for item in _as_items(fields, key):
        if isinstance(item, ScalarNode) and isinstance(item.value, str):
            yield item.value, None
        elif isinstance(item, MapNode):
            inner = Fields(item, "signal", fields.findings)
            name = inner.text("name")
            if name is not None:
                yield name, inner
            elif "name" not in inner:
                inner.error("definition.missing-key", "a signal needs a name", item.position)
        else:
            _wrong(item, "a signal's name or a map {name, match_params}", fields.findings)


def read_nested_params(fields: Fields) -> tuple[Param, ...]:
    """What stands under ``params:``, where nothing else is a parameter."""
    node = fields.map("params")
    return read_params(node.entries.values(), fields.findings) if node is not None else ()


def _wrong(node: Node, expected: str, findings: Findings) -> None:
    findings.error("definition.wrong-type", f"expected {expected}, this is {describe(node)}", node.position)
