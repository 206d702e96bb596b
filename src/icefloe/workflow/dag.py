"""The order of steps as written: ``sequential``, ``parallel``, chains ``a -> b``, maps, ``IF … THEN x``, ``OTHERWISE x``.

Everything becomes a list of transitions. An ``OTHERWISE`` becomes the negation of the conditions beside it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from icefloe.workflow.document import ListNode, MapNode, Node, ScalarNode, describe
from icefloe.workflow.model import Transition
from icefloe.workflow.problems import Findings, Position, suggestion
from icefloe.workflow.values import clip

_IF = re.compile(r"\s*IF(?=[\s(!])(.+)\Z", re.IGNORECASE | re.DOTALL)
_OTHERWISE = re.compile(r"\s*OTHERWISE(?=[\s:]|\Z)[\s:]*(.*)\Z", re.IGNORECASE | re.DOTALL)
_THEN = re.compile(r"(?<=[\s)])THEN\s", re.IGNORECASE)


@dataclass(slots=True)
class DagReader:
    """Reads the notations of one container. ``steps`` are the ids that may stand in it, in order."""

    steps: Sequence[str]
    findings: Findings
    edges: dict[Transition, Position] = field(default_factory=dict)

    def read_dag(self, node: Node, own: frozenset[str] = frozenset()) -> None:
        """The ``dag:`` value. Steps in ``own`` have transitions of their own, which win over these."""
        mine = DagReader(self.steps, self.findings)
        mine._dag(node)
        for edge, position in mine.edges.items():
            if edge.source not in own:
                self.edges.setdefault(edge, position)

    def read_transition(self, source: str, node: Node) -> None:
        """The ``transition:`` value of a job."""
        self._targets(source, node)

    def read_depends_on(self, target: str, node: Node) -> None:
        items = node.items if isinstance(node, ListNode) else [node]
        for item in items:
            if isinstance(item, ScalarNode) and item.value is not None:
                if self._known(item.text, item.position):
                    self._edge(item.text, target, item.position)
            else:
                self._wrong(item, "the id of a step")

    def _dag(self, node: Node) -> None:
        if isinstance(node, ScalarNode) and isinstance(node.value, str):
            word = node.value.strip().lower()
            if word == "sequential":
                for source, target in zip(self.steps, self.steps[1:], strict=False):
                    self._edge(source, target, node.position)
            elif word != "parallel":
                self._order_or_chain(node)
        elif isinstance(node, ListNode):
            for item in node.items:
                self._dag_item(item)
        elif isinstance(node, MapNode):
            self._dag_item(node)
        else:
            self._wrong(node, "sequential, parallel, a list of chains 'a -> b', or a map")

    def _order_or_chain(self, node: ScalarNode) -> None:
        word = str(node.value)
        if "->" in word or word.strip() in self.steps:
            self._chain(None, word, node.position)
            return
        self.findings.error(
            "dag.order",
            f"'{clip(word)}' is no order of steps",
            node.position,
            suggestion(word, ["sequential", "parallel"], "orders: a chain 'a -> b', or one of"),
        )

    def _dag_item(self, item: Node) -> None:
        if isinstance(item, ScalarNode) and isinstance(item.value, str):
            self._chain(None, item.value, item.position)
        elif isinstance(item, MapNode):
            for entry in item.entries.values():
                if self._known(entry.key, entry.position):
                    self._targets(entry.key, entry.value)
        else:
            self._wrong(item, "a chain 'a -> b' or a map 'step: [targets]'")

    def _targets(self, source: str, node: Node) -> None:
        """Where a step leads: a chain, a list of chains and conditions, or a map of conditions."""
        conditions: list[str] = []
        for clause, chain, position in self._clauses(node):
            self._clause(source, clause, chain, position, conditions)

    def _clauses(self, node: Node) -> list[tuple[str | None, Node, Position]]:
        """(condition clause or None, chain, place) in order."""
        if isinstance(node, ScalarNode):
            return [(None, node, node.position)]
        if isinstance(node, MapNode):
            return [(entry.key, entry.value, entry.position) for entry in node.entries.values()]
        found = []
        for item in node.items:
            if isinstance(item, ListNode):
                self._wrong(item, "a step, a chain or a condition")
            else:
                found.extend(self._clauses(item))
        return found

    def _clause(self, source: str, clause: str | None, chain: Node, position: Position, conditions: list[str]) -> None:
        if isinstance(chain, ListNode):
            for item in chain.items:
                self._clause(source, clause, item, position, conditions)
            return
        if not isinstance(chain, ScalarNode) or isinstance(chain.value, bool):
            self._wrong(chain, "a step or a chain 'a -> b'")
            return
        words = "" if chain.value is None else chain.text
        if clause is None:
            clause, words = _split(words)
            if clause is None:
                if words.strip():
                    self._chain(source, words, chain.position)
                return
        if not words.strip():
            self.findings.error(
                "dag.condition", "a condition must lead to a step", position, "IF <expression> THEN step"
            )
            return
        otherwise = _OTHERWISE.match(clause)
        found = _IF.match(clause)
        if otherwise and not otherwise.group(1).strip():
            self._otherwise(source, words, position, conditions)
        elif found:
            condition = normal_condition(found.group(1))
            if condition not in conditions:
                conditions.append(condition)
            self._chain(source, words, chain.position, condition)
        else:
            self.findings.error(
                "dag.condition",
                f"'{clip(clause)}' is neither a condition nor a step's id here",
                position,
                "write 'IF <expression>: step' or 'OTHERWISE: step'",
            )

    def _otherwise(self, source: str, words: str, position: Position, conditions: list[str]) -> None:
        if not conditions:
            self.findings.error("dag.otherwise", "OTHERWISE needs an IF before it", position)
            return
        negated = "!(" + " || ".join(f"({condition})" for condition in conditions) + ")"
        self._chain(source, words, position, negated, otherwise=True)

    def _chain(
        self, source: str | None, words: str, position: Position, condition: str | None = None, otherwise: bool = False
    ) -> None:
        for name in (part.strip() for part in words.split("->")):
            if not self._known(name, position):
                return
            if source is not None:
                self._edge(source, name, position, condition, otherwise)
            source, condition, otherwise = name, None, False

    def _known(self, name: str, position: Position) -> bool:
        if name in self.steps:
            return True
        words = f"there is no step '{clip(name)}' here" if name else "a chain has an empty place"
        self.findings.error("dag.unknown-step", words, position, suggestion(name, self.steps, "steps"))
        return False

    def _edge(
        self, source: str, target: str, position: Position, condition: str | None = None, otherwise: bool = False
    ) -> None:
        self.edges.setdefault(Transition(source, target, condition, otherwise), position)

    def _wrong(self, node: Node, expected: str) -> None:
        self.findings.error("dag.wrong-type", f"expected {expected}, this is {describe(node)}", node.position)


def _split(words: str) -> tuple[str | None, str]:
    """``IF c THEN a`` -> (``IF c``, ``a``); ``OTHERWISE a`` -> (``OTHERWISE``, ``a``); ``a -> b`` -> (None, ``a -> b``)."""
    otherwise = _OTHERWISE.match(words)
    if otherwise and otherwise.group(1).strip() and not otherwise.group(1).lstrip().startswith("->"):
        return "OTHERWISE", otherwise.group(1)
    if _IF.match(words):
        thens = list(_THEN.finditer(words))
        if thens:
            return words[: thens[-1].start()], words[thens[-1].end() :]
        return words, ""
    return None, words


def normal_condition(words: str) -> str:
    """A condition's text without what would break its negation."""
    bare = words.strip().rstrip(";").rstrip()
    return bare[6:].lstrip() if re.match(r"return[\s(]", bare) else bare
