"""Layered layout: rows from top to bottom, few crossings, arrows that run straight where they can.

The classic three steps, kept small: long arrows get a waypoint in each row they pass; rows are ordered by the mean place
of their neighbours, a few sweeps up and down, keeping the order with the fewest crossings; boxes then move towards their
neighbours as far as there is room.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise

from icefloe.workflow.drawing.figure import Arrow, Figure

SWEEPS = 8
MOST_FOR_ORDERING = 3000


@dataclass(slots=True)
class Spot:
    """A box or a waypoint in a row; ``x`` is its centre."""

    key: str
    width: float
    x: float = 0.0
    above: list[str] = field(default_factory=list)
    below: list[str] = field(default_factory=list)


@dataclass(slots=True)
class Placed:
    """Where everything stands. ``ways`` has, per arrow, the keys it passes from its source to its target."""

    spots: Mapping[str, Spot]
    rows: list[list[str]]
    ways: list[tuple[Arrow, list[str]]]
    width: float


def place(figure: Figure, widths: Mapping[str, float], gap: float, waypoint: float) -> Placed:
    """Orders and places the boxes of one figure (not what is inside them)."""
    row_of = {key: number for number, row in enumerate(figure.rows) for key in row}
    rows = [list(row) for row in figure.rows]
    spots = {key: Spot(key, widths[key]) for key in row_of}
    ways = []
    for number, arrow in enumerate(figure.arrows):
        way = [arrow.source]
        for row in range(row_of[arrow.source] + 1, row_of[arrow.target]):
            key = f"\0{number}:{row}"
            spots[key] = Spot(key, waypoint)
            rows[row].append(key)
            way.append(key)
        way.append(arrow.target)
        ways.append((arrow, way))
        for above, below in pairwise(way):
            if row_of.get(below, 1) > row_of.get(above, 0) or "\0" in above + below:
                spots[above].below.append(below)
                spots[below].above.append(above)
    _order(rows, spots)
    _space(rows, spots, gap)
    left = min((spot.x - spot.width / 2 for spot in spots.values()), default=0.0)
    for spot in spots.values():
        spot.x -= left
    return Placed(spots, rows, ways, max((spot.x + spot.width / 2 for spot in spots.values()), default=0.0))


def _order(rows: list[list[str]], spots: Mapping[str, Spot]) -> None:
    if len(spots) > MOST_FOR_ORDERING:
        return
    best, fewest = [list(row) for row in rows], _crossings(rows, spots)
    for sweep in range(SWEEPS):
        if fewest == 0:
            break
        down = sweep % 2 == 0
        for number in range(1, len(rows)) if down else range(len(rows) - 2, -1, -1):
            fixed = {key: at for at, key in enumerate(rows[number - 1 if down else number + 1])}
            place_now = {key: at for at, key in enumerate(rows[number])}

            def centre(
                key: str, fixed: dict[str, int] = fixed, now: dict[str, int] = place_now, down: bool = down
            ) -> float:
                near = [fixed[n] for n in (spots[key].above if down else spots[key].below) if n in fixed]
                return sum(near) / len(near) if near else float(now[key])

            rows[number].sort(key=centre)
        now = _crossings(rows, spots)
        if now < fewest:
            best, fewest = [list(row) for row in rows], now
    for number, row in enumerate(best):
        rows[number][:] = row


def _crossings(rows: list[list[str]], spots: Mapping[str, Spot]) -> int:
    """Pairs of arrows that cross between neighbouring rows."""
    total = 0
    for row, following in pairwise(rows):
        place_below = {key: at for at, key in enumerate(following)}
        seen: list[int] = []
        for key in row:
            targets = sorted(place_below[target] for target in spots[key].below if target in place_below)
            total += sum(len(seen) - bisect_right(seen, target) for target in targets)
            for target in targets:
                insort(seen, target)
    return total


def _space(rows: list[list[str]], spots: Mapping[str, Spot], gap: float) -> None:
    for row in rows:
        at = 0.0
        for key in row:
            spots[key].x = at + spots[key].width / 2
            at += spots[key].width + gap
        middle = (at - gap) / 2
        for key in row:
            spots[key].x -= middle
    for sweep in range(SWEEPS if len(spots) <= MOST_FOR_ORDERING else 0):
        down = sweep % 2 == 0
        for row in rows if down else reversed(rows):
            wanted = []
            for key in row:
                near = spots[key].above if down else spots[key].below
                wanted.append(sum(spots[n].x for n in near) / len(near) if near else spots[key].x)
            _settle(row, wanted, spots, gap)


def _settle(row: list[str], wanted: list[float], spots: Mapping[str, Spot], gap: float) -> None:
    """Each box as near to where it wants to be as its neighbours allow: groups that touch move as one."""
    groups: list[tuple[float, float, list[tuple[str, float]]]] = []  # (sum of wanted starts, count, members)
    for key, target in zip(row, wanted, strict=True):
        members = [(key, 0.0)]
        total, count = target, 1.0
        while groups:
            last_total, last_count, last_members = groups[-1]
            last_key, last_offset = last_members[-1]
            room = last_offset + (spots[last_key].width + spots[key].width) / 2 + gap
            if last_total / last_count + room <= total / count:
                break
            groups.pop()
            shifted = [(member, offset + room) for member, offset in members]
            total = last_total + total - room * count
            count += last_count
            members = last_members + shifted
            key = members[0][0]
        groups.append((total, count, members))
    for total, count, members in groups:
        for key, offset in members:
            spots[key].x = total / count + offset
