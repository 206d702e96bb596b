"""Pictures of workflows, also of those that somebody wrote to break pictures."""

from __future__ import annotations

import re
import time
from pathlib import Path
from xml.etree import ElementTree

import pytest
from hypothesis import HealthCheck, given, settings

from icefloe.workflow.drawing import to_mermaid, to_svg, to_terminal
from icefloe.workflow.drawing.figure import cells, printable, shortened
from icefloe.workflow.loading import load
from icefloe.workflow.model import NoOpStep, SubworkflowStep, Transition, TypedStep, Workflow

from .models import workflows

SEEDS = Path(__file__).parent / "seeds"
HOSTILE = [
    "<script>alert(1)</script>",
    '"]; click n0 "javascript:alert(1)"',
    "</text><image href='http://example.com/x'/>",
    "a\x00b\x1b[31mred\x07",
    "\u202eevil\u202c",
    "]]>&amp;&lt;",
    "line\nbreak\r\ttab",
    "%%{init: {'theme':'x'}}%%",
    "end",
    "x" * 500,
]


def seed(name: str) -> Workflow:
    return load((SEEDS / f"{name}.yaml").read_bytes()).workflow


def test_the_terminal_shows_steps_in_order_with_their_conditions() -> None:
    lines = to_terminal(seed("auto_remediation")).splitlines()
    order = [
        next(i for i, line in enumerate(lines) if f"│ {name} " in line)
        for name in ("normal_workflow", "check_status", "recovery", "re_run", "end")
    ]
    assert order == sorted(order)
    assert any("check_status → end  otherwise" in line for line in lines)
    assert any("▼" in line for line in lines)


def test_the_short_forms_commit_is_visible_in_every_picture() -> None:
    workflow = seed("playback_daily")
    for picture in (to_terminal(workflow), to_mermaid(workflow), to_svg(workflow)):
        assert "capture_icdc_commit" in picture


def test_the_simplest_chain_looks_like_this() -> None:
    workflow = load(
        "Workflow: {id: w, jobs: [{job: {id: a, type: NoOp}}, {job: {id: bb, type: NoOp}}], dag: sequential}"
    ).workflow
    drawn = [line.strip() for line in to_terminal(workflow).splitlines()]
    assert drawn == ["╭───╮", "│ a │", "╰─┬─╯", "▼", "╭────╮", "│ bb │", "╰────╯"]


def test_mermaid_has_one_line_per_step_and_arrow() -> None:
    text = to_mermaid(seed("incremental_processing"))
    assert text.splitlines()[0] == "flowchart TD"
    assert len(re.findall(r"-->", text)) == 2
    assert len(re.findall(r"^ +n\d+\W", text, re.MULTILINE)) == 5


def hostile_workflow(word: str) -> Workflow:
    steps = (
        NoOpStep(id=word),
        TypedStep(id="job", type=word, settings={"script": word, "write": {"table": word}}),
        SubworkflowStep(id="sub", workflow_id=word),
    )
    return Workflow(id=word, steps=steps, transitions=(Transition(word, "job", word), Transition("job", "sub")))


@pytest.mark.parametrize("word", HOSTILE)
def test_hostile_names_stay_text_in_svg(word: str) -> None:
    root = ElementTree.fromstring(to_svg(hostile_workflow(word)))
    tags = {element.tag.rsplit("}", 1)[1] for element in root.iter()}
    assert tags <= {"svg", "title", "style", "defs", "marker", "path", "rect", "circle", "text", "g"}
    for element in root.iter():
        assert not any(name.startswith("on") or "href" in name for name in element.attrib)


@pytest.mark.parametrize("word", HOSTILE)
def test_hostile_names_stay_labels_in_mermaid(word: str) -> None:
    for line in to_mermaid(hostile_workflow(word)).splitlines()[1:]:
        assert re.fullmatch(r'    n\d+(?:\W{1,2}"[^"]*"\W{1,2}| -->(?:\|"[^"]*"\|)? n\d+)', line), line


@pytest.mark.parametrize("word", HOSTILE)
def test_hostile_names_cannot_steer_a_terminal(word: str) -> None:
    text = to_terminal(hostile_workflow(word))
    assert all(letter == "\n" or letter.isprintable() for letter in text)


@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None, max_examples=40)
@given(workflows())
def test_every_workflow_can_be_drawn(workflow: Workflow) -> None:
    ElementTree.fromstring(to_svg(workflow))
    assert to_mermaid(workflow).startswith("flowchart TD\n")
    for width in (40, 120):
        to_terminal(workflow, width)


def test_a_workflow_with_a_circle_can_be_drawn_all_the_same() -> None:
    steps = tuple(NoOpStep(id=name) for name in "abc")
    edges = (Transition("a", "b"), Transition("b", "c"), Transition("c", "b"), Transition("a", "a"))
    workflow = Workflow(id="w", steps=steps, transitions=edges)
    ElementTree.fromstring(to_svg(workflow))
    to_terminal(workflow)
    to_mermaid(workflow)


def test_a_thousand_steps_are_drawn_in_seconds() -> None:
    steps = tuple(NoOpStep(id=f"s{i}") for i in range(1000))
    edges = tuple(Transition(f"s{i}", f"s{i + j}") for i in range(0, 990) for j in (1, 7))
    workflow = Workflow(id="w", steps=steps, transitions=edges)
    began = time.process_time()
    to_svg(workflow)
    to_terminal(workflow)
    assert time.process_time() - began < 20


def test_texts_are_measured_in_cells_and_cut_to_fit() -> None:
    assert cells("日本") == 4
    assert shortened("日本語テキスト", 7) == "日本語…"
    assert printable("a\x00\u202eb\n c") == "ab  c"
