"""Graph, captures and names: what is found in a definition whose notation is right."""

from __future__ import annotations

from itertools import pairwise
from textwrap import dedent

import pytest
from hypothesis import given
from hypothesis import strategies as st

from icefloe.workflow.graph import Graph
from icefloe.workflow.model import Transition

from .reading import errors_of, jobs, problems_of, the_error, workflow_of


def codes(text: str) -> list[str]:
    return [problem.code for problem in problems_of(text)]


@pytest.mark.parametrize(
    ("dag", "circle"),
    [
        ("[a -> b -> c -> a]", "a -> b -> c -> a"),
        ("[a -> a]", "a -> a"),
        ("[a -> b, b -> c, c -> b]", "b -> c -> b"),
    ],
)
def test_steps_in_a_circle_are_an_error_that_shows_the_circle(dag: str, circle: str) -> None:
    error = the_error(jobs("a", "b", "c", more=f"  dag: {dag}\n"))
    assert error.code == "dag.cycle"
    assert circle in error.message


def test_a_circle_inside_a_foreach_is_found() -> None:
    error = the_error("""
        Workflow:
          id: w
          jobs:
            - foreach:
                id: f
                params: {i: [1]}
                jobs: [{job: {id: a, type: NoOp}}, {job: {id: b, type: NoOp}}]
                dag: [a -> b -> a]
    """)
    assert error.code == "dag.cycle"


def test_a_step_behind_a_condition_that_never_holds_is_unreachable() -> None:
    found = errors_of(jobs("a", "b", "c", more="  dag: [{a: ['IF 1 > 2 THEN b']}, b -> c]\n"))
    assert [(problem.code, "'b'" in problem.message or "'c'" in problem.message) for problem in found] == [
        ("dag.unreachable", True),
        ("dag.unreachable", True),
    ]


def test_a_condition_that_may_hold_leaves_everything_reachable() -> None:
    assert not errors_of(jobs("a", "b", more="  x: 1\n  dag: [{a: ['IF x > 2 THEN b']}]\n"))


@pytest.mark.parametrize(
    ("dag", "code"),
    [
        ("[a -> nope]", "dag.unknown-step"),
        ("{nope: [a]}", "dag.unknown-step"),
        ("[a -> ]", "dag.unknown-step"),
        ("seqential", "dag.order"),
        ("[{a: {WHEN x: b}}]", "dag.condition"),
        ("[{a: ['OTHERWISE b']}]", "dag.otherwise"),
        ("[{a: ['IF 1 > 2']}]", "dag.condition"),
        ("[{a: ['IF 1 + 1 THEN b']}]", "expression.type"),
        ("[{a: ['IF 1 + THEN b']}]", "expression.syntax"),
        ("[{a: [[b]]}]", "dag.wrong-type"),
        ("5", "dag.wrong-type"),
        ("[5]", "dag.wrong-type"),
    ],
)
def test_a_dag_that_makes_no_sense_is_an_error(dag: str, code: str) -> None:
    found = errors_of(jobs("a", "b", more=f"  dag: {dag}\n"))
    assert found[0].code == code
    assert found[0].position is not None
    assert found[0].position.line == 6


# --- captures and commits ------------------------------------------------------------------------------------------------

CAPTURE = "{job: {id: cap, type: IpCapture, ip_capture: {source_tables: [db.t]}}}"
COMMIT = "{job: {id: com, type: IpCommit, ip_commit: {capture_step: cap}}}"
WRITE = "{job: {id: wr, type: Spark, spark: {script: select 1}}}"


def flow(*items: str, dag: str) -> str:
    return f"Workflow:\n  id: w\n  jobs: [{', '.join(items)}]\n  dag: {dag}\n"


def test_capture_write_commit_in_order_is_fine() -> None:
    assert codes(flow(CAPTURE, WRITE, COMMIT, dag="sequential")) == []


def test_a_capture_that_nothing_commits_is_a_warning() -> None:
    assert codes(flow(CAPTURE, WRITE, dag="sequential")) == ["capture.uncommitted"]


def test_a_commit_that_names_no_capture_is_an_error() -> None:
    wrong = COMMIT.replace("capture_step: cap", "capture_step: cop")
    found = errors_of(flow(CAPTURE, WRITE, wrong, dag="sequential"))
    assert [(problem.code, problem.hint) for problem in found] == [("commit.without-capture", "captures: cap")]


def test_a_commit_that_names_a_step_of_another_type_is_an_error() -> None:
    wrong = COMMIT.replace("capture_step: cap", "capture_step: wr")
    assert "commit.without-capture" in codes(flow(CAPTURE, WRITE, wrong, dag="sequential"))


def test_a_commit_that_does_not_come_after_its_capture_is_an_error() -> None:
    assert "commit.before-capture" in codes(flow(CAPTURE, WRITE, COMMIT, dag="[cap -> wr]"))


def test_a_commit_on_another_level_than_its_capture_is_an_error() -> None:
    text = f"""
        Workflow:
          id: w
          jobs:
            - {CAPTURE}
            - foreach: {{id: f, params: {{i: [1]}}, jobs: [{COMMIT}]}}
          dag: sequential
    """
    assert "commit.elsewhere" in codes(text)


def test_a_writing_step_that_the_commit_does_not_wait_for_is_a_warning() -> None:
    found = problems_of(flow(CAPTURE, WRITE, COMMIT, dag="[cap -> com, cap -> wr]"))
    assert [problem.code for problem in found] == ["commit.uncovered-write"]
    assert "wr -> com" in str(found[0].hint)


def test_several_short_forms_whose_followers_meet_share_one_commit() -> None:
    workflow = workflow_of("""
        workflow:
          name: w
          steps:
            - {name: a, type: ICDC, sourceTable: db.a}
            - {name: b, type: ICDC, sourceTable: db.b}
            - {name: join, type: spark, script: select 1, dependsOn: [a, b]}
            - {name: c, type: ICDC, sourceTable: db.c}
    """)
    commits = {step.id: step.settings["capture_step"] for step in workflow.steps if step.id.endswith("_commit")}  # type: ignore[union-attr]
    assert commits == {"a_commit": ["a", "b"], "c_commit": "c"}
    assert Transition("join", "a_commit") in workflow.transitions
    assert Transition("c", "c_commit") in workflow.transitions


def test_a_short_form_with_its_own_commit_gets_no_second_one() -> None:
    workflow = workflow_of("""
        workflow:
          name: w
          steps:
            - {name: a, type: ICDC, sourceTable: db.a}
            - {name: done, type: IpCommit, capture_step: a, dependsOn: [a]}
    """)
    assert [step.id for step in workflow.steps] == ["a", "done"]


# --- names ---------------------------------------------------------------------------------------------------------------


def one(script: str, more: str = "", params: str = "") -> str:
    return dedent(f"""
        Workflow:
          id: w
          TARGET_TABLE: db.t
          {params}
          jobs:
            - job: {{id: first, type: Shell, shell: {{script: "true"}}}}
            - job: {{id: second, type: Shell, {more} shell: {{script: "{script}"}}}}
            - job: {{id: third, type: NoOp}}
          dag: sequential
    """)


@pytest.mark.parametrize(
    "script",
    ["${TARGET_TABLE}", "${first__rows}", "${RUN_DATE} ${workflow_id} ${run_id}", "$${HOME}", "${own}", "$ENV{PW}"],
)
def test_what_a_step_can_see_is_no_finding(script: str) -> None:
    assert codes(one(script, more="own: 1,")) == []


@pytest.mark.parametrize(
    ("script", "code"),
    [
        ("${TARGET_TABEL}", "param.unknown"),
        ("${third__rows}", "param.step-order"),
        ("${second__rows}", "param.step-order"),
        ("${frist__rows}", "param.unknown-step"),
        ("${SOMETHING_ELSE}", "param.undefined"),
    ],
)
def test_what_a_step_cannot_see_is_a_finding(script: str, code: str) -> None:
    found = problems_of(one(script))
    assert [problem.code for problem in found] == [code]
    assert found[0].hint


def test_a_declared_parameter_that_the_run_gives_is_no_finding() -> None:
    assert codes(one("${SOMETHING_ELSE}", params="'SOMETHING_ELSE(provided)':")) == []


def test_inside_a_foreach_the_loops_values_and_the_steps_before_the_loop_are_seen() -> None:
    text = """
        Workflow:
          id: w
          jobs:
            - job: {id: cap, type: Shell, shell: {script: "true"}}
            - foreach:
                id: loop
                flavour: x
                params: {day: "${cap__days}"}
                jobs:
                  - job: {id: work, type: Shell, shell: {script: "${day} ${loop_index} ${flavour} ${cap__n}"}}
                  - job: {id: next, type: Shell, shell: {script: "${work__rows}"}}
                dag: sequential
            - job: {id: after, type: Shell, shell: {script: "${day}"}}
          dag: sequential
    """
    assert codes(text) == ["param.undefined"]


def test_a_workflows_parameter_cannot_use_a_steps_result() -> None:
    assert codes(one("x", params="early: ${first__rows}")) == ["param.step-order"]


@pytest.mark.parametrize(
    ("entry", "code"),
    [
        ("'!n<long>': \"'text'\"", "param.type"),
        ("'!n<array<long>>': '1'", "param.type"),
        ("'!n': \"new DateTime(0)\"", "param.type"),
        ("'!n<long>': '1 +'", "expression.syntax"),
        ("'!n<long>': \"'a' * 2\"", "expression.type"),
        ("'!n<long>': TARGET_TABLE", "param.type"),
        ("'!n<long>': \"params.getFromStep('nope', 'x')\"", "param.unknown-step"),
    ],
)
def test_an_expression_that_cannot_give_its_parameters_type_is_an_error(entry: str, code: str) -> None:
    assert codes(one("x", params=entry)) == [code]


def test_parameters_in_a_circle_are_an_error() -> None:
    assert codes(one("x", params="a: ${b}\n          b: ${a}")) == ["param.cycle"]


# --- the graph itself ----------------------------------------------------------------------------------------------------

edges = st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), max_size=25)


def graph(pairs: list[tuple[int, int]]) -> Graph:
    steps = tuple(str(i) for i in range(10))
    return Graph(steps, tuple(Transition(str(a), str(b)) for a, b in pairs))


@given(edges)
def test_ancestors_and_descendants_mirror_each_other(pairs: list[tuple[int, int]]) -> None:
    found = graph(pairs)
    for one_step in found.steps:
        for other in found.descendants(one_step):
            assert one_step in found.ancestors(other)


@given(edges)
def test_a_graph_has_a_full_order_exactly_when_it_has_no_circle(pairs: list[tuple[int, int]]) -> None:
    found = graph(pairs)
    cycle = found.cycle()
    if cycle is None:
        order = found.order()
        assert sorted(order) == sorted(found.steps)
        assert all(order.index(str(a)) < order.index(str(b)) for a, b in pairs)
        assert all(step not in found.ancestors(step) for step in found.steps)
    else:
        assert cycle[0] == cycle[-1]
        arrows = {(edge.source, edge.target) for edge in found.edges}
        assert all(arrow in arrows for arrow in pairwise(cycle))


@given(edges)
def test_layers_hold_every_step_once_and_arrows_point_down(pairs: list[tuple[int, int]]) -> None:
    found = graph(pairs)
    layers = found.layers()
    assert sorted(step for layer in layers for step in layer) == sorted(found.steps)
    if found.cycle() is None:
        row = {step: number for number, layer in enumerate(layers) for step in layer}
        assert all(row[edge.source] < row[edge.target] for edge in found.edges)


@pytest.mark.parametrize("reached", ["soon", "2026-13-01", "''", "17", "true", "[1]"])
def test_a_step_cannot_wait_for_a_moment_that_is_none(reached: str) -> None:
    error = the_error(
        f"Workflow: {{id: w, jobs: [{{job: {{id: a, type: NoOp, watermark_dependencies: [{{table: db.t, reached: {reached}}}]}}}}]}}"
    )
    assert error.code == "watermark.moment"
    assert error.hint is not None


@pytest.mark.parametrize("reached", ["20260301", "'2026-03-01T06:00:00Z'", "1772409600000", "'${DAY}'"])
def test_a_step_may_wait_for_a_moment_or_for_one_that_is_known_later(reached: str) -> None:
    assert not errors_of(
        f"Workflow: {{id: w, DAY: 20260301, jobs: [{{job: {{id: a, type: NoOp, watermark_dependencies: [{{table: db.t, reached: {reached}}}]}}}}]}}"
    )
