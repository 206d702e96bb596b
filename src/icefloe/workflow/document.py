"""YAML text as a tree with positions, safely.

The tree is built from the parser's event stream, one event at a time, so that limits hold while reading: text size,
nesting, number of nodes after aliases are followed. No tag constructs anything; a plain scalar is text, a whole number, a
number, true/false or null by YAML 1.2's core rules (so ``yes``, ``on``, ``2024-01-01`` and ``01`` stay text, as written).
Aliases and ``<<`` work. Duplicate keys, unknown tags and several documents in one file are errors.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import yaml

from icefloe.workflow.problems import Findings, Position
from icefloe.workflow.values import clip

MAX_BYTES = 1024 * 1024
MAX_DEPTH = 40
MAX_NODES = 50_000

INT = re.compile(r"[-+]?(?:0|[1-9][0-9]*)\Z|0x[0-9a-fA-F]+\Z")
FLOAT = re.compile(
    r"[-+]?(?:\.[0-9]+|(?:0|[1-9][0-9]*)(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?\Z|[-+]?\.(?:inf|Inf|INF)\Z|\.(?:nan|NaN|NAN)\Z"
)
BOOLS = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}
NULLS = frozenset(("", "~", "null", "Null", "NULL"))

_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_TAGS = {
    "tag:yaml.org,2002:str": "str",
    "tag:yaml.org,2002:int": "plain",
    "tag:yaml.org,2002:float": "plain",
    "tag:yaml.org,2002:bool": "plain",
    "tag:yaml.org,2002:null": "plain",
    "tag:yaml.org,2002:seq": "seq",
    "tag:yaml.org,2002:map": "map",
    "!": "str",
}


@dataclass(frozen=True, slots=True)
class ScalarNode:
    position: Position
    value: str | int | float | bool | None
    text: str


@dataclass(slots=True)
class ListNode:
    position: Position
    items: list[Node] = field(default_factory=list)


@dataclass(slots=True)
class MapNode:
    position: Position
    entries: dict[str, Entry] = field(default_factory=dict)


Node: TypeAlias = ScalarNode | ListNode | MapNode


@dataclass(frozen=True, slots=True)
class Entry:
    """One key of a map with the place of the key, which is where most errors point."""

    key: str
    position: Position
    value: Node


def to_json(node: Node) -> Any:
    """The node as plain data: None, bool, int, float, str, list, dict."""
    if isinstance(node, ScalarNode):
        return node.value
    if isinstance(node, ListNode):
        return [to_json(item) for item in node.items]
    return {key: to_json(entry.value) for key, entry in node.entries.items()}


def describe(node: Node) -> str:
    """What a node is, for messages about what it should have been."""
    if isinstance(node, ListNode):
        return "a list"
    if isinstance(node, MapNode):
        return "a map"
    if node.value is None:
        return "nothing"
    if isinstance(node.value, str):
        return f"the text '{clip(node.value)}'"
    return f"'{clip(node.text)}'"


def as_map(node: Node) -> MapNode | None:
    """A map; also a list of one-key maps, which is how slides show one."""
    if isinstance(node, MapNode):
        return node
    if isinstance(node, ListNode) and node.items and all(isinstance(item, MapNode) for item in node.items):
        joined: dict[str, Entry] = {}
        for item in node.items:
            assert isinstance(item, MapNode)
            if joined.keys() & item.entries.keys():
                return None
            joined |= item.entries
        return MapNode(node.position, joined)
    return None


def plain_scalar(text: str) -> str | int | float | bool | None:
    """What an unquoted scalar means."""
    if text in NULLS:
        return None
    if text in BOOLS:
        return BOOLS[text]
    # Longer ones are no number in bounds; int() of a megabyte of digits would take minutes.
    if len(text) <= 400:
        if INT.match(text):
            return int(text, 16) if text.startswith("0x") else int(text)
        if FLOAT.match(text):
            return float(
                text.replace(".inf", "inf")
                .replace(".Inf", "inf")
                .replace(".INF", "inf")
                .replace(".nan", "nan")
                .replace(".NaN", "nan")
                .replace(".NAN", "nan")
            )
    return text


class _Stop(Exception):  # noqa: N818 - ends the reading; the finding has been recorded
    pass


def decode(data: bytes, file: str, findings: Findings) -> str | None:
    """Bytes of a definition as text; a finding and None when that cannot be."""
    start = Position(file, 1, 1)
    if len(data) > MAX_BYTES:
        findings.error(
            "yaml.too-large",
            f"the file has more than the {MAX_BYTES:,} bytes that a definition may have",
            start,
            "keep long SQL in its own file and refer to it: script: my_query.sql",
        )
        return None
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        before = data[: error.start]
        line = before.count(b"\n") + 1
        column = len(before) - (before.rfind(b"\n") + 1) + 1
        findings.error(
            "yaml.not-utf8",
            f"byte 0x{data[error.start]:02x} is not UTF-8",
            Position(file, line, column),
            "save the file as UTF-8",
        )
        return None


def read(text: str, file: str, findings: Findings) -> Node | None:
    """The document in ``text``; None when it could not be read (the findings say why)."""
    if len(text) > MAX_BYTES:
        decode(b" " * (MAX_BYTES + 1), file, findings)
        return None
    try:
        return _Builder(file, findings).build(text)
    except _Stop:
        return None
    except yaml.MarkedYAMLError as error:
        _syntax_finding(error, text, file, findings)
    except yaml.reader.ReaderError as error:
        findings.error(
            "yaml.character",
            f"character #x{_code(error.character):04x} is not allowed in YAML",
            _at(text, error.position, file),
        )
    except (yaml.YAMLError, ValueError) as error:
        findings.error("yaml.syntax", clip(str(error), 200), Position(file, 1, 1))
    return None


def _code(character: object) -> int:
    return character if isinstance(character, int) else ord(str(character)[:1] or "\0")


def _at(text: str, index: int, file: str) -> Position:
    before = text[:index]
    return Position(file, before.count("\n") + 1, index - (before.rfind("\n") + 1) + 1)


def _syntax_finding(error: yaml.MarkedYAMLError, text: str, file: str, findings: Findings) -> None:
    mark = error.problem_mark or error.context_mark
    line, column = (mark.line, mark.column) if mark else (0, 0)
    lines = text.splitlines()
    source = lines[line] if line < len(lines) else ""
    message = error.problem or error.context or "not YAML"
    hint = None
    if "\t" in source[: column + 1]:
        message, hint = "a tab cannot be used for indentation", "indent with spaces"
    elif "mapping values are not allowed" in message:
        hint = "a text with ': ' in it needs quotes, or a block: key: |"
    elif "anchor" in message or "alias" in message:
        hint = "a text that begins with * or & needs quotes"
    elif error.context:
        message = f"{message} ({error.context})"
    findings.error("yaml.syntax", message, Position(file, line + 1, column + 1), hint)


class _Builder:
    """Builds one document's tree from events."""

    def __init__(self, file: str, findings: Findings) -> None:
        self._file = file
        self._findings = findings
        self._anchors: dict[str, tuple[Node, int]] = {}
        self._open: set[str] = set()
        self._count = 0

    def build(self, text: str) -> Node | None:
        events = iter(yaml.parse(text, Loader=_Loader))
        root: Node | None = None
        documents = 0
        for event in events:
            if isinstance(event, yaml.DocumentStartEvent):
                documents += 1
                if documents > 1:
                    self._fail(
                        "yaml.documents",
                        "a file holds one definition; this is a second document",
                        event,
                        "put it into a file of its own",
                    )
                root = self._node(next(events), events, 1)
        if root is None:
            self._findings.error("yaml.empty", "the file is empty", Position(self._file, 1, 1))
        return root

    def _fail(self, code: str, message: str, event: Any, hint: str | None = None) -> None:
        self._findings.error(code, message, self._position(event), hint)
        raise _Stop

    def _position(self, event: Any) -> Position:
        return Position(self._file, event.start_mark.line + 1, event.start_mark.column + 1)

    def _spend(self, nodes: int, event: Any) -> None:
        self._count += nodes
        if self._count > MAX_NODES:
            self._fail(
                "yaml.too-many-nodes",
                f"more than {MAX_NODES:,} values, aliases followed",
                event,
                "aliases multiply: write less by reference",
            )

    def _node(self, event: Any, events: Iterator[Any], depth: int) -> Node:
        if depth > MAX_DEPTH:
            self._fail("yaml.too-deep", f"nested deeper than {MAX_DEPTH} levels", event)
        if isinstance(event, yaml.AliasEvent):
            return self._alias(event)
        self._spend(1, event)
        before = self._count
        anchor = event.anchor
        if anchor is not None:
            self._open.add(anchor)
        kind = self._kind(event)
        node: Node
        if isinstance(event, yaml.ScalarEvent):
            node = self._scalar(event, kind)
        elif isinstance(event, yaml.SequenceStartEvent):
            node = self._list(event, events, depth)
        else:
            node = self._map(event, events, depth)
        if anchor is not None:
            self._open.discard(anchor)
            self._anchors[anchor] = (node, self._count - before + 1)
        return node

    def _kind(self, event: Any) -> str | None:
        if event.tag is None:
            return None
        kind = _TAGS.get(event.tag)
        if kind is None:
            self._fail(
                "yaml.tag", f"the tag '{clip(str(event.tag))}' is not allowed in a definition", event, "remove it"
            )
        return kind

    def _alias(self, event: Any) -> Node:
        if event.anchor in self._open:
            self._fail("yaml.recursive", f"the alias *{clip(event.anchor)} contains itself", event)
        if event.anchor not in self._anchors:
            self._fail(
                "yaml.alias",
                f"there is no anchor &{clip(event.anchor)} before this",
                event,
                "a text that begins with * needs quotes",
            )
        node, size = self._anchors[event.anchor]
        self._spend(size, event)
        return node

    def _scalar(self, event: Any, kind: str | None) -> ScalarNode:
        plain = kind == "plain" or (kind is None and event.implicit[0])
        value = plain_scalar(event.value) if plain else event.value
        return ScalarNode(self._position(event), value, event.value)

    def _list(self, event: Any, events: Iterator[Any], depth: int) -> ListNode:
        node = ListNode(self._position(event))
        for inner in events:
            if isinstance(inner, yaml.SequenceEndEvent):
                break
            node.items.append(self._node(inner, events, depth + 1))
        return node

    def _map(self, event: Any, events: Iterator[Any], depth: int) -> MapNode:
        node = MapNode(self._position(event))
        merged: list[Node] = []
        for inner in events:
            if isinstance(inner, yaml.MappingEndEvent):
                break
            key = self._node(inner, events, depth + 1)
            value = self._node(next(events), events, depth + 1)
            if isinstance(key, ScalarNode) and key.text == "<<" and key.value == "<<":
                merged.append(value)
            elif isinstance(key, ScalarNode) and key.value is not None:
                self._enter(node, key, value)
            else:
                self._findings.error("yaml.key", f"a key must be a word, this is {describe(key)}", key.position)
        for value in merged:
            self._merge(node, value)
        return node

    def _enter(self, node: MapNode, key: ScalarNode, value: Node) -> None:
        earlier = node.entries.get(key.text)
        if earlier is not None:
            self._findings.error(
                "yaml.duplicate-key",
                f"'{clip(key.text)}' is already given in line {earlier.position.line}",
                key.position,
                "remove one of them",
            )
            return
        node.entries[key.text] = Entry(key.text, key.position, value)

    def _merge(self, node: MapNode, value: Node) -> None:
        sources = value.items if isinstance(value, ListNode) else [value]
        for source in sources:
            if not isinstance(source, MapNode):
                self._findings.error("yaml.merge", f"'<<' merges maps, this is {describe(source)}", source.position)
                continue
            for key, entry in source.entries.items():
                self._count += 1
                node.entries.setdefault(key, entry)
