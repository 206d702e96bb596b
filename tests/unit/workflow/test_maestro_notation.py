"""The notations of Maestro's own YAML, each in a small definition of its own."""

from __future__ import annotations

import pytest

from icefloe.workflow.model import (
    ForeachStep,
    NoOpStep,
    Param,
    ParamMode,
    RunRule,
    RunStrategy,
    SubworkflowStep,
    Transition,
    TypedStep,
)
from icefloe.workflow.values import ParamType

from .reading import errors_of, the_error, workflow_of


def test_properties_stand_beside_the_workflows_parameters() -> None:
    workflow = workflow_of("""
        workflow:
          id: sales-rollup
          name: Sales rollup
          description: Sums of yesterday
          owner: analytics
          run_strategy: parallel
          workflow_concurrency: 5
          tags: [nightly]
          timeout: 2h
          criticality: HIGH
          source_path: s3://bucket/raw
          '!doubled<long>(constant)': "2 * 21"
          '!month': "new DateTime(1569018000000).withZone(DateTimeZone.forID('UTC')).monthOfYear().getAsText();"
          jobs:
            - job: {id: extract, type: NoOp}
    """)
    assert workflow.run_strategy == RunStrategy(RunRule.PARALLEL, 5)
    assert workflow.timeout == 7200.0
    assert workflow.criticality == "HIGH"
    assert workflow.params == (
        Param("source_path", ParamType.STRING, value="s3://bucket/raw"),
        Param("doubled", ParamType.LONG, expression="2 * 21", mode=ParamMode.CONSTANT),
        Param(
            "month",
            ParamType.STRING,
            expression="new DateTime(1569018000000).withZone(DateTimeZone.forID('UTC')).monthOfYear().getAsText();",
        ),
    )


def test_transitions_may_stand_in_the_jobs_with_conditions_in_any_case() -> None:
    workflow = workflow_of("""
        Workflow:
          id: branches
          limit: 15
          jobs:
            - job: {id: job.1, type: NoOp, transition: [job.2]}
            - job:
                id: job.2
                type: NoOp
                amount: 15
                transition:
                  - IF amount < 0 THEN job.3
                  - OTHERWISE job.4
            - job:
                id: job.3
                type: NoOp
                transition:
                  - if params.getFromStep('job.2', 'amount') > 0 then job.4
            - job: {id: job.4, type: NoOp, '!copy': "params.get('limit')"}
    """)
    assert workflow.transitions == (
        Transition("job.1", "job.2"),
        Transition("job.2", "job.3", "amount < 0"),
        Transition("job.2", "job.4", "!((amount < 0))", otherwise=True),
        Transition("job.3", "job.4", "params.getFromStep('job.2', 'amount') > 0"),
    )


def test_an_http_jobs_settings_may_be_written_as_a_map_parameter() -> None:
    workflow = workflow_of("""
        Workflow:
          id: calls
          run_strategy: parallel
          payload: |
            Workflow:
              id: inner
          dag: sequential
          jobs:
            - job:
                id: job.1
                type: http
                'http<pmap>':
                  url: "http://localhost:8080/api"
                  method: PUT
                  headers: {Content-Type: application/yaml, user: tester}
                  body: ${payload}
                state_expr: |
                  if (status_code == 404) return "DONE";
                  else return "FATAL_ERROR";
            - job: {id: job.2, type: http, 'http<pmap>': {url: "http://localhost:8080/x"}}
    """)
    first = workflow.step("job.1")
    assert isinstance(first, TypedStep)
    assert first.type == "Http"
    assert first.settings["method"] == "PUT"
    assert [param.name for param in first.params] == ["state_expr"]


def test_a_foreach_walks_over_lists_and_ranges_and_nests() -> None:
    workflow = workflow_of("""
        workflow:
          id: loops
          jobs:
            - foreach:
                id: partitions
                params: {date: [20200101, 20200102]}
                ranges: {hour: {from: 0, to: 24}, step_of: {to: 10, increment: 5}}
                concurrency: 4
                flavour: bar
                jobs:
                  - foreach:
                      id: inner
                      params: {region: [eu, us]}
                      jobs:
                        - job: {id: work, type: shell, shell: {script: "echo ${date} ${hour} ${region} ${flavour}"}}
                  - subworkflow: {id: check, version: latest, explicit_params: true, sync: false, flavour: x}
                dag: parallel
    """)
    (outer,) = workflow.steps
    assert isinstance(outer, ForeachStep)
    assert outer.loop_params == (
        Param("date", ParamType.LONG_ARRAY, value=(20200101, 20200102)),
        Param("hour", ParamType.LONG_ARRAY, expression="Util.intsBetween(0, 24, 1)"),
        Param("step_of", ParamType.LONG_ARRAY, expression="Util.intsBetween(0, 10, 5)"),
    )
    assert outer.concurrency == 4
    assert outer.params == (Param("flavour", ParamType.STRING, value="bar"),)
    inner, check = outer.steps
    assert isinstance(inner, ForeachStep)
    assert isinstance(check, SubworkflowStep)
    assert (check.workflow_id, check.version, check.sync, check.explicit_params) == ("check", "latest", False, True)
    assert [path for path, _ in workflow.all_steps()] == [
        ("partitions",),
        ("partitions", "inner"),
        ("partitions", "inner", "work"),
        ("partitions", "check"),
    ]


def test_a_dag_may_be_a_map_from_job_to_targets() -> None:
    workflow = workflow_of("""
        workflow:
          id: map
          count: 3
          jobs:
            - job: {id: a, type: NoOp}
            - job: {id: b, type: NoOp}
            - job: {id: c, type: NoOp}
          dag:
            a:
              - IF count > 0 Then b
              - c
    """)
    assert workflow.transitions == (Transition("a", "b", "count > 0"), Transition("a", "c"))


def test_a_jobs_own_transition_wins_over_the_dag() -> None:
    workflow = workflow_of("""
        workflow:
          id: own
          jobs:
            - job: {id: a, type: NoOp, transition: [c]}
            - job: {id: b, type: NoOp}
            - job: {id: c, type: NoOp}
          dag: sequential
    """)
    assert workflow.transitions == (Transition("a", "c"), Transition("b", "c"))


def test_several_conditions_share_one_otherwise() -> None:
    workflow = workflow_of("""
        workflow:
          id: several
          p: 1
          jobs:
            - job: {id: a, type: NoOp, transition: ["IF p > 0 THEN b", "IF p < 10 THEN c", "OTHERWISE d"]}
            - job: {id: b, type: NoOp}
            - job: {id: c, type: NoOp}
            - job: {id: d, type: NoOp}
    """)
    assert workflow.transitions[-1] == Transition("a", "d", "!((p > 0) || (p < 10))", otherwise=True)


def test_join_is_a_noop() -> None:
    workflow = workflow_of("workflow: {id: j, jobs: [{job: {id: a, type: Join}}]}")
    assert isinstance(workflow.steps[0], NoOpStep)


def test_a_while_step_is_refused_with_a_way_out() -> None:
    error = the_error("""
        workflow:
          id: w
          jobs:
            - job: {id: a, type: NoOp}
            - while: {id: loop, condition: "x < 10", jobs: []}
    """)
    assert error.code == "step.while"
    assert "foreach" in str(error.hint)


def test_properties_may_stand_in_a_map_of_their_own() -> None:
    workflow = workflow_of("""
        properties: {owner: tester, run_strategy: FIRST_ONLY}
        workflow: {id: p, jobs: [{step: {id: a, type: NoOp}}]}
    """)
    assert (workflow.owner, workflow.run_strategy) == ("tester", RunStrategy(RunRule.FIRST_ONLY))


@pytest.mark.parametrize(
    ("key", "value", "param"),
    [
        ("plain", "foo", Param("plain", ParamType.STRING, value="foo")),
        ("'!e'", "1 + 1", Param("e", ParamType.STRING, expression="1 + 1")),
        ("'n<long>'", "100", Param("n", ParamType.LONG, value=100)),
        ("'d<double>'", "1.23", Param("d", ParamType.DOUBLE, value=1.23)),
        ("'d<double>'", "1", Param("d", ParamType.DOUBLE, value=1.0)),
        ("'b<boolean>'", "true", Param("b", ParamType.BOOLEAN, value=True)),
        ("'m(constant)'", "bar", Param("m", ParamType.STRING, value="bar", mode=ParamMode.CONSTANT)),
        ("'c<long>(immutable)'", "100", Param("c", ParamType.LONG, value=100, mode=ParamMode.IMMUTABLE)),
        ("'!t<long>(constant)'", "1 * 2", Param("t", ParamType.LONG, expression="1 * 2", mode=ParamMode.CONSTANT)),
        ("list", "[a, b]", Param("list", ParamType.STRING_ARRAY, value=("a", "b"))),
        ("longs", "[1, 2]", Param("longs", ParamType.LONG_ARRAY, value=(1, 2))),
        ("mixed", "[1, 2.5]", Param("mixed", ParamType.DOUBLE_ARRAY, value=(1.0, 2.5))),
        ("bools", "[true, false]", Param("bools", ParamType.BOOLEAN_ARRAY, value=(True, False))),
        ("empty", "[]", Param("empty", ParamType.STRING_ARRAY, value=())),
        ("'el<array<long>>'", "[]", Param("el", ParamType.LONG_ARRAY, value=())),
        ("sm", "{k: v}", Param("sm", ParamType.STRING_MAP, value={"k": "v"})),
        ("'forced<map>'", "{k: v}", Param("forced", ParamType.STRING_MAP, value={"k": "v"})),
        ("em", "{}", Param("em", ParamType.MAP, members=())),
        ("'pm<pmap>'", "{k: v}", Param("pm", ParamType.MAP, members=(Param("k", ParamType.STRING, value="v"),))),
        ("'given(provided)'", "", Param("given", ParamType.STRING, mode=ParamMode.PROVIDED)),
        ("'given<long>(PROVIDED)'", "", Param("given", ParamType.LONG, mode=ParamMode.PROVIDED)),
    ],
)
def test_a_parameters_key_may_carry_its_kind(key: str, value: str, param: Param) -> None:
    workflow = workflow_of(f"workflow:\n  id: k\n  {key}: {value}\n  jobs: [{{job: {{id: a, type: NoOp}}}}]\n")
    assert workflow.params == (param,)


def test_maps_nest_and_their_leaves_are_parameters() -> None:
    workflow = workflow_of("""
        workflow:
          id: n
          conf: {outer: {bar: 123, '!e<long>': "1 + 1"}, flag: true}
          jobs: [{job: {id: a, type: NoOp}}]
    """)
    assert workflow.params == (
        Param(
            "conf",
            ParamType.MAP,
            members=(
                Param(
                    "outer",
                    ParamType.MAP,
                    members=(
                        Param("bar", ParamType.LONG, value=123),
                        Param("e", ParamType.LONG, expression="1 + 1"),
                    ),
                ),
                Param("flag", ParamType.BOOLEAN, value=True),
            ),
        ),
    )


@pytest.mark.parametrize(
    ("entry", "code"),
    [
        ("'foo(invalid)': bar", "param.mode"),
        ("'foo<unknown>': 1", "param.type"),
        ("'num<long>': text", "param.value"),
        ("'num<long>': 1.5", "param.value"),
        ("'s<string>': 5", "param.value"),
        ("mixed: [1, a]", "param.value"),
        ("nested: [[1]]", "param.value"),
        ("nothing:", "param.null"),
        ("big: 9223372036854775808", "param.value"),
        ("huge: 1e999", "param.value"),
        ("odd: .nan", "param.value"),
        ("'a b': 1", "param.name"),
        ("'!e': [1]", "param.expression"),
    ],
)
def test_a_parameter_that_makes_no_sense_is_an_error(entry: str, code: str) -> None:
    found = errors_of(f"workflow:\n  id: k\n  {entry}\n  jobs: [{{job: {{id: a, type: NoOp}}}}]\n")
    assert [problem.code for problem in found] == [code]
    assert found[0].position is not None
    assert found[0].position.line == 3
