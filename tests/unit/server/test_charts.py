"""Drawings: well-formed, escaped, bounded, and never by colour alone."""

from __future__ import annotations

import random
import xml.etree.ElementTree as ElementTree
from itertools import pairwise

import pytest

from icefloe.server.charts import durations, graph, layout, marks, strip, timeline
from icefloe.server.charts.durations import RunTime
from icefloe.server.charts.graph import GraphArrow, GraphStep
from icefloe.server.charts.layout import Edges, Layout
from icefloe.server.charts.strip import Outcome
from icefloe.server.charts.timeline import Bar, Row

SVG = "{http://www.w3.org/2000/svg}"
HOSTILE = "<script>alert(1)</script>\"'&\x00\x1b[31m\u202eexe\ud800" + "x" * 5000
STATUSES = ("SUCCEEDED", "FAILED", "RUNNING", "PAUSED", "SKIPPED", "STOPPED", "CREATED", "TIMED_OUT")


def parsed(drawn: str) -> ElementTree.Element:
    """The drawing as XML; without anything that the pages' policy forbids or a reader could be fooled by."""
    root = ElementTree.fromstring(drawn)
    assert root.tag == f"{SVG}svg" and root.get("aria-label")
    assert root.get("role") == ("group" if root.find(f".//{SVG}a") is not None else "img")
    for element in root.iter():
        assert element.tag != f"{SVG}script"
        assert not [name for name in element.attrib if name == "style" or name.startswith("on")]
    assert "\u202e" not in drawn and "\x1b" not in drawn
    return root


def chain(count: int) -> Edges:
    return tuple((f"s{a}", f"s{b}") for a, b in pairwise(range(count)))


def tangle(count: int, seed: int) -> Edges:
    chance = random.Random(seed)
    found = {
        (f"s{source}", f"s{target}")
        for target in range(1, count)
        for source in chance.sample(range(max(0, target - 9), target), min(1 + target % 3, target))
    }
    return tuple(sorted(found))


def steps_of(edges: Edges) -> tuple[str, ...]:
    return tuple(dict.fromkeys(end for edge in edges for end in edge))


@pytest.mark.parametrize("place", [layout.by_sugiyama, layout.by_own_layout])
@pytest.mark.parametrize(
    "edges", [chain(2), chain(40), tangle(60, 1), tangle(300, 2), (("a", "b"), ("c", "d"), ("a", "d"))]
)
def test_every_layout_places_each_step_once_and_its_arrows_lead_right(place: Layout, edges: Edges) -> None:
    steps = steps_of(edges)
    placed = place(steps, edges)
    assert set(placed.points) == set(steps) and set(placed.ways) == set(edges)
    for source, target in edges:
        way = (placed.points[source], *placed.ways[source, target], placed.points[target])
        assert all(after[0] > before[0] for before, after in pairwise(way))
    columns: dict[float, list[float]] = {}
    for column, row in placed.points.values():
        assert 0 <= column < placed.columns and -0.01 <= row <= placed.rows
        columns.setdefault(column, []).append(row)
    for rows in columns.values():
        assert all(below - above > 0.7 for above, below in pairwise(sorted(rows))), "boxes do not cover each other"


def test_the_compiled_layout_crosses_no_more_arrows_than_the_own_one() -> None:
    for seed in range(3):
        edges = tangle(40, seed)
        compiled, own = layout.by_sugiyama(steps_of(edges), edges), layout.by_own_layout(steps_of(edges), edges)
        assert layout.crossings(compiled) <= layout.crossings(own) * 1.2 + 3


def test_without_the_compiled_layout_the_own_one_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(*_: object) -> object:
        raise ImportError("no wheel for this machine")

    monkeypatch.setattr(layout, "by_sugiyama", missing)
    placed = layout.layered(["u0", "u1", "u2"], [("u0", "u1"), ("u1", "u2")])
    assert [placed.points[step][0] for step in ("u0", "u1", "u2")] == [0, 1, 2]


def test_steps_without_arrows_stand_below_the_others() -> None:
    alone = [f"alone{number}" for number in range(15)]
    placed = layout.layered(["a", "b", *alone], [("a", "b"), ("a", "b"), ("a", "gone")])
    lowest = max(placed.points[step][1] for step in ("a", "b"))
    assert all(placed.points[step][1] > lowest for step in alone)
    assert len(set(placed.points.values())) == 17


def test_a_graph_says_each_steps_status_in_words_and_marks_what_matters() -> None:
    steps = [GraphStep(f"s{number}", "detail", status, "/runs/x") for number, status in enumerate(STATUSES)]
    arrows = [GraphArrow("s0", "s1"), GraphArrow("s1", "s2", "a < b && c")]
    root = parsed(graph.draw(steps, arrows, "Graph of 8 steps", focus="s1"))
    titles = [element.text or "" for element in root.iter(f"{SVG}title")]
    for number, status in enumerate(STATUSES):
        assert any(f"s{number}: {marks.words(status)}" in title for title in titles)
    assert "if a < b && c" in titles
    assert len([element for element in root.iter(f"{SVG}g") if "data-focus" in element.attrib]) == 1
    assert len({marks.sign(status) for status in STATUSES}) >= 6


def test_hostile_names_stay_names_in_every_drawing() -> None:
    target = "/runs/" + HOSTILE[:40].encode("ascii", "ignore").decode()
    drawn = [
        graph.draw([GraphStep(HOSTILE, HOSTILE, "FAILED", target), GraphStep("b", "")], [GraphArrow(HOSTILE, "b", HOSTILE)], HOSTILE),
        timeline.draw([Row(HOSTILE, "FAILED", (Bar("FAILED", 0.0, 1.0, HOSTILE),), target)], 2.0, HOSTILE),
        strip.draw([Outcome(HOSTILE, "FAILED", HOSTILE, target)], HOSTILE),
        durations.draw([RunTime(HOSTILE, "FAILED", 0.0, 1.0, target)], HOSTILE),
    ]  # fmt: skip
    for each in drawn:
        clean = each.replace("\x00", "").replace("\x1b", "")
        parsed(clean)
        assert "<script" not in each and len(each) < 20_000


def test_nothing_to_draw_is_nothing_drawn() -> None:
    assert not graph.draw([], [], "none")
    assert not timeline.draw([Row("a", "CREATED", ())], 1.0, "none")
    assert not durations.draw([], "none")
    parsed(strip.draw([], "none"))


def test_very_much_is_cut() -> None:
    many = [GraphStep(f"s{number}", "") for number in range(graph.MOST + 1)]
    assert not graph.draw(many, [], "too many")
    rows = [Row(f"s{number}", "SUCCEEDED", (Bar("SUCCEEDED", 0.0, 1.0, "x"),)) for number in range(2000)]
    assert len(list(parsed(timeline.draw(rows, 2.0, "long")).iter(f"{SVG}title"))) == timeline.MOST
    runs = [RunTime(f"r{number}", "SUCCEEDED", float(number), 1.0, "/") for number in range(3000)]
    assert len(list(parsed(durations.draw(runs, "long")).iter(f"{SVG}circle"))) == durations.MOST


def test_a_timeline_stays_in_its_frame() -> None:
    bars = (Bar("USER_FAILED", 100.0, 130.0, "one"), Bar("RUNNING", 150.0, None, "two"))
    rows = [Row("a", "RUNNING", bars), Row("b", "CREATED", (Bar("CREATED", 200.0, 400.0, "to come", expected=True),))]
    root = parsed(timeline.draw(rows, 200.0, "two steps"))
    width = float(root.get("width") or 0)
    for element in root.iter(f"{SVG}rect"):
        x, wide = float(element.get("x") or 0), float(element.get("width") or 0)
        assert x >= timeline.LABELS and x + wide <= width
    titles = [element.text for element in root.iter(f"{SVG}title")]
    assert titles == ["one: 30 s", "two: 50 s", "to come: about 3 min 20 s"]


@pytest.mark.parametrize("seconds", [0.0, 0.001, 0.5, 3.0, 59.0, 4000.0, 86_400.0, 40 * 86_400.0])
def test_durations_of_every_size_have_an_axis(seconds: float) -> None:
    runs = [RunTime("a", "SUCCEEDED", 0.0, seconds, "/"), RunTime("b", "FAILED", 10.0, seconds / 2, "/")]
    root = parsed(durations.draw(runs, "two runs"))
    assert 2 <= len(list(root.iter(f"{SVG}line"))) <= 10


def test_steps_to_come_follow_what_they_wait_for_as_far_as_it_is_known() -> None:
    order = ["a", "b", "c", "d", "e"]
    arrows = [("a", "b"), ("b", "c"), ("c", "d"), ("b", "e")]
    usual = {"b": 10.0, "c": 5.0, "e": 1.0}
    found = timeline.expected_bars(order, arrows, {"a": 120.0}, usual, now=100.0)
    assert found == {"b": (120.0, 130.0), "c": (130.0, 135.0), "e": (130.0, 131.0)}
