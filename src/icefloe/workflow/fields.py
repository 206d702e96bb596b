"""Reading one map of a definition: reserved keys matched, values checked, what is wrong recorded with its place."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import StrEnum
from itertools import islice
from typing import Any

from icefloe.workflow import durations
from icefloe.workflow.declarations import FieldDeclaration, declaration, declared
from icefloe.workflow.document import Entry, ListNode, MapNode, Node, ScalarNode, as_map, describe
from icefloe.workflow.field_types import InvalidValueError
from icefloe.workflow.problems import Findings, Position, suggestion
from icefloe.workflow.reserved import LEVELS, choose
from icefloe.workflow.values import LONG_MAX, clip

MAX_KEYS = 1000


class Fields:
    """The entries of a map, sorted into reserved ones (by canonical name) and, on open levels, parameters."""

    def __init__(self, node: MapNode, level: str, findings: Findings, more: Iterable[str] = ()) -> None:
        self.node = node
        self.findings = findings
        self.level = LEVELS[level]
        self.reserved: dict[str, Entry] = {}
        self.params: list[Entry] = []
        more = tuple(more)
        if len(node.entries) > MAX_KEYS:
            message = f"a {self.level.name} may have {MAX_KEYS:,} keys, this one has {len(node.entries):,}"
            self.error("definition.too-many-keys", message, node.position)
        for entry in islice(node.entries.values(), MAX_KEYS):
            self._sort(entry, more)
        # ``owner:`` with nothing behind it is the same as no owner.
        self.reserved = {name: entry for name, entry in self.reserved.items() if not _is_nothing(entry.value)}

    def _sort(self, entry: Entry, more: tuple[str, ...]) -> None:
        name = self.level.match(entry.key, more)
        if name is not None:
            if name in self.reserved:
                other = self.reserved[name]
                self.error(
                    "definition.duplicate-key",
                    f"'{clip(entry.key)}' says the same as '{clip(other.key)}' in line {other.position.line}",
                    entry.position,
                    "remove one of them",
                )
            else:
                self.reserved[name] = entry
            return
        near = self.level.near_miss(entry.key, more)
        if self.level.open and near is None:
            self.params.append(entry)
        elif self.level.open:
            self.error(
                "definition.misspelt-key",
                f"'{clip(entry.key)}' is no {self.level.name} key",
                entry.position,
                f"did you mean '{near}'? A parameter of this name goes under params:",
            )
        else:
            self.error(
                "definition.unknown-key",
                f"'{clip(entry.key)}' is no {self.level.name} key",
                entry.position,
                f"did you mean '{near}'?" if near else suggestion(entry.key, self.level.names(more), "known keys"),
            )

    @property
    def position(self) -> Position:
        return self.node.position

    def error(self, code: str, message: str, position: Position, hint: str | None = None) -> None:
        self.findings.error(code, message, position, hint)

    def __contains__(self, name: str) -> bool:
        return name in self.reserved

    def get(self, name: str) -> Node | None:
        entry = self.reserved.get(name)
        return entry.value if entry is not None else None

    def at(self, name: str) -> Position:
        """Where a key stands, or the map when it is absent."""
        entry = self.reserved.get(name)
        return entry.position if entry is not None else self.position

    def values(self, cls: type) -> dict[str, Any]:
        """The fields of a class of the model that stand here, as its arguments. What is absent or wrong is left out, so
        that the model's default holds. Only texts, numbers, choices and lists of texts: parts that are made of more have
        readers of their own."""
        values = {}
        for item in declared(cls):
            value = self._value(item, item.key) if item.key in self.reserved and item.is_simple else None
            if value is not None and value != ():
                values[item.name] = value
        return values

    def bare(self, name: str, cls: Any) -> dict[str, Any]:
        """The same for a value that stands in place of a map: it is the class's ``bare`` field."""
        value = self._value(declaration(cls, cls.bare), name)
        return {cls.bare: value} if value is not None else {}

    def _value(self, item: FieldDeclaration, key: str) -> Any:
        if item.type is bool:
            return self.flag(key)
        if item.type is int:
            return self.whole(key, **item.limits)
        if item.is_choice:
            return self.choice(key, item.type)
        if item.is_duration and item.type is not float:
            return self.timeout(key)
        if item.type is float and not item.is_duration:
            return self.number(key, **item.limits)
        if item.element is str:
            return tuple(word for text in self.texts(key) for word in self._checked(item, key, (text,)) or ())
        text = self.text(key) if item.type is str else self.duration(key, positive=item.is_positive)
        return self._checked(item, key, text) if text is not None else None

    def _checked(self, item: FieldDeclaration, key: str, value: Any) -> Any:
        """The value as the model takes it; None, and a finding, if it does not."""
        try:
            return item.checked(value)
        except InvalidValueError as error:
            self.error(error.code, str(error), self.at(key), error.hint)
            return None

    def wrong(self, name: str, expected: str) -> None:
        node = self.get(name)
        assert node is not None
        self.error("definition.wrong-type", f"'{name}' must be {expected}, this is {describe(node)}", node.position)

    def text(self, name: str, *, allow_number: bool = True) -> str | None:
        """A text. A bare number is taken as it was written (``version: 1``)."""
        node = self.get(name)
        if node is None:
            return None
        if isinstance(node, ScalarNode):
            if isinstance(node.value, str):
                return node.value
            if allow_number and isinstance(node.value, int | float) and not isinstance(node.value, bool):
                return node.text
        self.wrong(name, "a text")
        return None

    def flag(self, name: str) -> bool | None:
        node = self.get(name)
        if node is None:
            return None
        if isinstance(node, ScalarNode) and isinstance(node.value, bool):
            return node.value
        self.wrong(name, "true or false")
        return None

    def whole(self, name: str, *, least: int = 0, most: int = LONG_MAX) -> int | None:
        node = self.get(name)
        if node is None:
            return None
        if isinstance(node, ScalarNode) and isinstance(node.value, int) and not isinstance(node.value, bool):
            if least <= node.value <= most:
                return node.value
            bound = f"at least {least}" if node.value < least else f"at most {most:,}"
            self.error("definition.out-of-range", f"'{name}' must be {bound}", node.position)
            return None
        self.wrong(name, "a whole number")
        return None

    def number(self, name: str, *, least: float = 0.0, most: float = 1e12) -> float | None:
        node = self.get(name)
        if node is None:
            return None
        if isinstance(node, ScalarNode) and isinstance(node.value, int | float) and not isinstance(node.value, bool):
            if least <= node.value <= most:
                return float(node.value)
            self.error("definition.out-of-range", f"'{name}' must be between {least:g} and {most:g}", node.position)
            return None
        self.wrong(name, "a number")
        return None

    def duration(self, name: str, *, positive: bool = True) -> float | None:
        node = self.get(name)
        if node is None:
            return None
        if not isinstance(node, ScalarNode):
            self.wrong(name, "a duration such as 15m")
            return None
        try:
            seconds = durations.parse(node.value)
        except ValueError as error:
            self.error("definition.duration", f"'{name}': {error}", node.position)
            return None
        if positive and seconds == 0:
            self.error("definition.out-of-range", f"'{name}' must be longer than 0", node.position)
            return None
        return seconds

    def timeout(self, name: str = "timeout") -> float | str | None:
        """A duration, or a text that becomes one when its ``${…}`` are filled in."""
        node = self.get(name)
        if isinstance(node, ScalarNode) and isinstance(node.value, str) and "${" in node.value:
            return node.value
        return self.duration(name)

    def choice(self, name: str, kind: type[StrEnum]) -> StrEnum | None:
        node = self.get(name)
        if node is None:
            return None
        if isinstance(node, ScalarNode) and isinstance(node.value, str):
            try:
                return choose(kind, node.value, name)
            except InvalidValueError as error:
                self.error(error.code, str(error), node.position, error.hint)
                return None
        self.wrong(name, "one of " + ", ".join(option.value for option in kind))
        return None

    def texts(self, name: str) -> tuple[str, ...]:
        """A list of texts; one text alone is a list of one."""
        node = self.get(name)
        if node is None:
            return ()
        items = node.items if isinstance(node, ListNode) else [node]
        texts = []
        for item in items:
            if isinstance(item, ScalarNode) and item.value is not None and not isinstance(item.value, bool):
                texts.append(item.text)
            else:
                self.error("definition.wrong-type", f"'{name}' holds texts, this is {describe(item)}", item.position)
        return tuple(texts)

    def map(self, name: str) -> MapNode | None:
        node = self.get(name)
        if node is None:
            return None
        if isinstance(node, ScalarNode) and node.value is None:
            return MapNode(node.position)
        map_node = as_map(node)
        if map_node is not None:
            return map_node
        self.wrong(name, "a map")
        return None

    def items(self, name: str) -> Iterator[Node]:
        """The items of a list."""
        node = self.get(name)
        if node is None or (isinstance(node, ScalarNode) and node.value is None):
            return
        if isinstance(node, ListNode):
            yield from node.items
        else:
            self.wrong(name, "a list")


def _is_nothing(node: Node) -> bool:
    return isinstance(node, ScalarNode) and node.value is None
