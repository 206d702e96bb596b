"""Counters and histograms that go up while this process lives, with a bounded number of names in each."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

OTHER = "other"
MOST_NAMES = 50
"""So many workflows, consumers or tables have lines of their own; what is left is summed up as ``other``."""
SECONDS = (0.01, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 900.0, 3600.0)
Labels: TypeAlias = tuple[str, ...]


class Names:
    """Who has a line of its own. Whoever has one keeps it, so that counters never go down; the first come, the largest first."""

    def __init__(self, most: int = MOST_NAMES) -> None:
        self._most = most
        self._known: set[str] = set()

    def admit(self, names: Iterable[str]) -> None:
        """Those that occur most come first, where there is not room for all."""
        counted: dict[str, int] = defaultdict(int)
        for name in names:
            if name not in self._known:
                counted[name] += 1
        room = max(self._most - len(self._known), 0)
        self._known.update(sorted(counted, key=lambda name: (-counted[name], name))[:room])

    def of(self, name: str) -> str:
        return name if name in self._known else OTHER


@dataclass(slots=True)
class Counter:
    values: dict[Labels, float] = field(default_factory=dict)

    def add(self, labels: Labels, amount: float = 1.0) -> None:
        self.values[labels] = self.values.get(labels, 0.0) + amount


@dataclass(slots=True)
class Distribution:
    """How often each bucket of :data:`SECONDS` was hit, the last one for all above; not yet cumulated."""

    counts: list[int] = field(default_factory=lambda: [0] * (len(SECONDS) + 1))
    total: float = 0.0

    def add(self, seconds: float) -> None:
        seconds = max(seconds, 0.0)
        self.counts[bisect_left(SECONDS, seconds)] += 1
        self.total += seconds

    def buckets(self) -> list[tuple[str, float]]:
        """Cumulated, with each bucket's upper end as text."""
        found, sum_so_far = [], 0
        for end, count in zip((*map(str, SECONDS), "+Inf"), self.counts, strict=True):
            sum_so_far += count
            found.append((end, float(sum_so_far)))
        return found


@dataclass(slots=True)
class Histogram:
    values: dict[Labels, Distribution] = field(default_factory=dict)

    def add(self, labels: Labels, seconds: float) -> None:
        self.values.setdefault(labels, Distribution()).add(seconds)


def largest(
    values: Mapping[Labels, float], rest_as: Callable[[Iterable[float]], float] = sum, most: int = MOST_NAMES
) -> dict[Labels, float]:
    """The largest values by their labels; all others as one: their sum, or the largest of them."""
    ordered = sorted(values, key=lambda labels: (-values[labels], labels))
    kept = {labels: values[labels] for labels in ordered[:most]}
    if rest := ordered[most:]:
        kept[tuple(OTHER for _ in rest[0])] = rest_as(values[labels] for labels in rest)
    return kept
