"""The part of a definition that decisions need: nodes, edges, and what happens when a node fails."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

from icefloe.workflow.model import FailureMode, RetryPolicy

FOREACH = "foreach"
SUBWORKFLOW = "subworkflow"
NOOP = "noop"
DEFAULT_RETRY = RetryPolicy()


@dataclass(frozen=True, slots=True)
class Edge:
    source: str
    target: str
    condition: str | None = None


@dataclass(frozen=True, slots=True)
class Node:
    """One step as the engine sees it."""

    id: str
    type: str
    failure_mode: FailureMode = FailureMode.FAIL_AFTER_RUNNING
    retry: RetryPolicy = DEFAULT_RETRY
    waits_for_signals: bool = False

    @property
    def starts_runs(self) -> bool:
        """Its work is done by other runs, not by a worker."""
        return self.type in (FOREACH, SUBWORKFLOW)


@dataclass(frozen=True)
class Graph:
    """Nodes in the order of the definition, and edges. Free of cycles: the loader has seen to that."""

    nodes: Mapping[str, Node]
    edges: tuple[Edge, ...] = ()

    @staticmethod
    def of(nodes: Iterable[Node], edges: Iterable[Edge]) -> Graph:
        return Graph({node.id: node for node in nodes}, tuple(edges))

    @cached_property
    def incoming(self) -> Mapping[str, tuple[Edge, ...]]:
        edges_to: dict[str, list[Edge]] = {node: [] for node in self.nodes}
        for edge in self.edges:
            edges_to[edge.target].append(edge)
        return {node: tuple(edges) for node, edges in edges_to.items()}

    @cached_property
    def successors(self) -> Mapping[str, tuple[str, ...]]:
        targets_of: dict[str, dict[str, None]] = {node: {} for node in self.nodes}
        for edge in self.edges:
            targets_of[edge.source][edge.target] = None
        return {node: tuple(targets) for node, targets in targets_of.items()}

    @cached_property
    def positions(self) -> Mapping[str, int]:
        return {node: position for position, node in enumerate(self.nodes)}

    def descendants(self, start: Iterable[str]) -> set[str]:
        """All that is reachable from ``start``, without ``start`` itself unless reachable."""
        reached: set[str] = set()
        stack = [target for node in start for target in self.successors[node]]
        while stack:
            node = stack.pop()
            if node not in reached:
                reached.add(node)
                stack.extend(self.successors[node])
        return reached
