"""The graph of one container: order, ancestors, cycles. Pure functions on ids and edges, without recursion."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from icefloe.workflow.model import Container, Transition


@dataclass(frozen=True)
class Graph:
    """Steps and transitions of a workflow or a foreach. Transitions to unknown steps are left out."""

    steps: tuple[str, ...]
    edges: tuple[Transition, ...]

    @classmethod
    def of(cls, container: Container) -> Graph:
        steps = tuple(dict.fromkeys(step.id for step in container.steps))
        known = set(steps)
        return cls(steps, tuple(e for e in container.transitions if e.source in known and e.target in known))

    @cached_property
    def successors(self) -> Mapping[str, tuple[str, ...]]:
        return self._targets((edge.source, edge.target) for edge in self.edges)

    @cached_property
    def predecessors(self) -> Mapping[str, tuple[str, ...]]:
        return self._targets((edge.target, edge.source) for edge in self.edges)

    def _targets(self, pairs: Iterable[tuple[str, str]]) -> dict[str, tuple[str, ...]]:
        found: dict[str, dict[str, None]] = {step: {} for step in self.steps}
        for source, target in pairs:
            found[source][target] = None
        return {step: tuple(targets) for step, targets in found.items()}

    def descendants(self, step: str) -> frozenset[str]:
        """Every step that can come after this one."""
        return _reach(step, self.successors)

    def ancestors(self, step: str) -> frozenset[str]:
        """Every step that can come before this one."""
        found = self._ancestors.get(step)
        return found if found is not None else _reach(step, self.predecessors)

    @cached_property
    def _ancestors(self) -> Mapping[str, frozenset[str]]:
        """For the steps that are on no circle, all at once: asked one by one, a long chain costs its square."""
        found: dict[str, frozenset[str]] = {}
        for step in self.order():
            before = self.predecessors[step]
            found[step] = frozenset(before).union(*(found[each] for each in before))
        return found

    def cycle(self) -> tuple[str, ...] | None:
        """Steps that lead back to the first of them, or None."""
        remaining = self._beyond_order()
        if not remaining:
            return None
        # Every step that is left has a predecessor that is left: walking back from any must close a circle.
        path = [next(step for step in self.steps if step in remaining)]
        while True:
            before = next(step for step in self.predecessors[path[-1]] if step in remaining)
            if before in path:
                return (before, *reversed(path[path.index(before) :]))
            path.append(before)

    def _beyond_order(self) -> set[str]:
        """The steps on circles and behind them."""
        return set(self.steps) - set(self.order())

    def order(self) -> tuple[str, ...]:
        """The steps in an order that respects the edges, as far as there is one; ties in the order of definition."""
        waiting = {step: len(self.predecessors[step]) for step in self.steps}
        ready = [step for step in self.steps if waiting[step] == 0]
        found: list[str] = []
        while ready:
            step = ready.pop(0)
            found.append(step)
            for target in self.successors[step]:
                waiting[target] -= 1
                if waiting[target] == 0:
                    ready.append(target)
        return tuple(found)

    def layers(self) -> tuple[tuple[str, ...], ...]:
        """Steps by their longest way from a start; steps on circles come last."""
        depth: dict[str, int] = {}
        order = self.order()
        for step in order:
            depth[step] = 1 + max((depth[before] for before in self.predecessors[step]), default=-1)
        last = max(depth.values(), default=-1) + 1
        for step in self.steps:
            depth.setdefault(step, last)
        rows: list[list[str]] = [[] for _ in range(max(depth.values(), default=-1) + 1)]
        for step in (*order, *(step for step in self.steps if step not in set(order))):
            rows[depth[step]].append(step)
        return tuple(tuple(row) for row in rows)


def _reach(start: str, edges: Mapping[str, Sequence[str]]) -> frozenset[str]:
    seen: set[str] = set()
    queue = list(edges.get(start, ()))
    while queue:
        step = queue.pop()
        if step not in seen:
            seen.add(step)
            queue.extend(edges[step])
    return frozenset(seen)
