"""Drawings of tables: well-formed, escaped, bounded, and never empty of words."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest
from markupsafe import Markup

from icefloe.server.charts.bars import Bar, bars
from icefloe.server.charts.heat_map import MOST, heat_map, level
from icefloe.server.charts.lineage import LineageBox, acyclic, lineage_graph
from icefloe.server.charts.paired_days import DayPair, paired_days
from icefloe.server.charts.snapshot_line import SnapshotMark, snapshot_line

SVG = "{http://www.w3.org/2000/svg}"
HOSTILE = "<script>alert(1)</script>\"'&\x1b[31m\u202egnp\x00\ud800" + "x" * 5000


def parsed(drawing: Markup) -> ElementTree.Element:
    """As XML, with what every drawing must have."""
    root = ElementTree.fromstring(str(drawing))
    assert root.tag == f"{SVG}svg"
    has_links = any(element.tag.endswith("}a") for element in root.iter())
    assert root.get("role") == ("group" if has_links else "img")
    assert root.get("aria-label")
    assert not any("style" in element.attrib for element in root.iter())
    assert not list(root.iter(f"{SVG}script"))
    return root


def texts(root: ElementTree.Element) -> list[str]:
    return [element.text or "" for element in root.iter(f"{SVG}text")]


def heat(cells: dict[tuple[int, int], int], name: str = "label") -> Markup:
    return heat_map(cells, column=lambda x: f"day {x}", row=lambda y: f"event {y}", label=name)


def box(name: str, chosen: bool = False) -> LineageBox:
    return LineageBox(name, name, "1 h old", f"/lineage?table={name}", "good", True, chosen)


def test_each_cell_says_what_it_counts_and_on_time_is_framed() -> None:
    root = parsed(heat({(10, 10): 1000, (10, 8): 3, (11, 10): 0}))
    titles = [element.text for element in root.iter(f"{SVG}title")]
    assert "day 10 brought 1,000 rows of event 10" in titles
    assert "day 10 brought 3 rows of event 8" in titles
    assert not any("day 11" in (title or "") for title in titles)
    framed = [one.get("class") or "" for one in root.iter(f"{SVG}rect") if "on-time" in (one.get("class") or "")]
    assert len(framed) == 2  # the cell, and the legend's


def test_a_heat_map_of_years_is_cut_and_loses_no_row() -> None:
    cells = {(day, event): 7 for day in range(0, 3000, 50) for event in range(-1000, 3000, 50)}
    root = parsed(heat(cells))
    told = [element.text or "" for element in root.iter(f"{SVG}title")]
    assert len(list(root.iter(f"{SVG}rect"))) <= (MOST + 1) ** 2 + 10
    assert sum(int(text.split("brought ")[1].split(" rows")[0].replace(",", "")) for text in told) == 7 * len(cells)
    assert "earlier" in texts(root)
    assert "older" in texts(root)


def test_levels_go_by_magnitude_and_one_row_is_seen() -> None:
    levels = [level(count, 1_000_000) for count in (0, 1, 10, 1000, 30_000, 1_000_000)]
    assert levels == sorted(levels)
    assert (levels[0], levels[1], levels[-1]) == (0, 1, 5)
    assert level(1, 1) == 5


@pytest.mark.parametrize(
    "drawing",
    [
        heat({}, HOSTILE),
        heat_map({(1, 1): 1}, column=lambda _: HOSTILE, row=lambda _: HOSTILE, label=HOSTILE),
        bars([Bar(HOSTILE, 3)], label=HOSTILE),
        snapshot_line([SnapshotMark(0, HOSTILE, 1, True, HOSTILE, "/x?a=1&b=<")], label=HOSTILE),
        snapshot_line([SnapshotMark(1e300, "append", 0, False, "far")], label="far"),
        paired_days([DayPair(HOSTILE, 1, 2)], inner=HOSTILE, outer=HOSTILE, label=HOSTILE, amount=str),
        lineage_graph([LineageBox(HOSTILE, HOSTILE, HOSTILE, "/x?a=1&b=<", "bad", False, True)], [], label=HOSTILE),
    ],
)
def test_a_hostile_text_is_only_a_text(drawing: Markup) -> None:
    root = parsed(drawing)
    assert len(str(drawing)) < 40_000
    assert "\u202e" not in str(drawing)
    assert all("\x1b" not in text for text in texts(root))


@pytest.mark.parametrize(
    "drawing",
    [
        bars([], label="x"),
        snapshot_line([], label="x"),
        paired_days([], inner="a", outer="b", label="x", amount=str),
        lineage_graph([], [], label="x"),
    ],
)
def test_a_drawing_of_nothing_says_so(drawing: Markup) -> None:
    assert texts(parsed(drawing))


def test_bars_are_bounded_and_their_numbers_exact() -> None:
    root = parsed(bars([Bar(f"{n} days late", 10**n) for n in range(12)], label="late"))
    assert any(text.startswith("100,000,000,000 · ") for text in texts(root))
    assert any(text == "1 · under 0.01 %" for text in texts(root))
    assert len(list(parsed(bars([Bar("x", 1)] * 5000, label="late")).iter(f"{SVG}rect"))) == 40


def test_snapshots_are_in_the_lane_of_their_operation_and_lead_to_their_capture() -> None:
    marks = [
        SnapshotMark(100, "append", 10, True, "append 1", "/captures/c1"),
        SnapshotMark(200, "replace", 0, False, "replace 2"),
        SnapshotMark(300, "odd", 0, False, "odd 3"),
    ]
    root = parsed(snapshot_line(marks, label="db.events"))
    assert [text for text in texts(root) if "UTC" not in text] == ["append", "replace", "odd"]
    assert len({circle.get("cy") for circle in root.iter(f"{SVG}circle")}) == 3
    assert [link.get("href") for link in root.iter(f"{SVG}a")] == ["/captures/c1"]
    many = [SnapshotMark(n, "append", n, False, str(n)) for n in range(5000)]
    assert len(list(parsed(snapshot_line(many, label="many")).iter(f"{SVG}circle"))) == 200


def test_days_are_bounded_and_nothing_is_drawn_for_nothing() -> None:
    days = [DayPair(f"day {n}", n, 10 * n) for n in range(4000)]
    root = parsed(paired_days(days, inner="was read", outer="instead", label="x", amount=str))
    assert len(list(root.iter(f"{SVG}rect"))) == 2 + 2 * 120
    parsed(paired_days([DayPair("2026-03-01", 0, 0)], inner="a", outer="b", label="x", amount=str))


def test_a_circle_of_tables_is_drawn_with_all_its_edges() -> None:
    edges = [("a", "b"), ("b", "c"), ("c", "a"), ("a", "a"), ("a", "b"), ("x", "a")]
    root = parsed(lineage_graph([box("a", chosen=True), box("b"), box("c")], edges, label="circle"))
    lines = [one for one in root.iter(f"{SVG}path") if "edge" in (one.get("class") or "")]
    assert len(lines) == 3
    kept = acyclic(["a", "b", "c"], edges)
    assert len(kept) == 2
    assert set(kept) < {("a", "b"), ("b", "c"), ("c", "a")}


def test_a_graph_without_circles_keeps_every_edge_and_a_giant_one_is_not_drawn() -> None:
    names = [f"t{n}" for n in range(120)]
    edges = [(names[n], names[m]) for n in range(120) for m in (n + 1, n + 7) if m < 120]
    assert set(acyclic(names, edges)) == set(edges)
    root = parsed(lineage_graph([box(name) for name in names], edges, label="all"))
    assert len([one for one in root.iter(f"{SVG}path") if one.get("class") == "edge"]) == len(edges)
    assert "too much to draw" in texts(parsed(lineage_graph([box(str(n)) for n in range(301)], [], label="x")))
