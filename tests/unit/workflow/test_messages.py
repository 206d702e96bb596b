"""Errors say where, why and what was probably meant, all of a file at once."""

from __future__ import annotations

import pytest

from icefloe.workflow.loading import load
from icefloe.workflow.problems import DefinitionError
from icefloe.workflow.reserved import LEVELS, is_near

from .reading import errors_of, jobs, problems_of, the_error, workflow_of


def test_all_errors_of_a_file_are_told_at_once_each_with_its_place() -> None:
    text = """
        Workflow:
          id: wf
          timout: 5m
          jobs:
            - job: {id: a, type: Sprak}
            - job: {id: b, type: Spark, spark: {scrip: select 1}}
            - job: {id: a, type: NoOp}
          dag: [a -> c]
    """
    found = [(problem.code, problem.position and problem.position.line, problem.hint) for problem in errors_of(text)]
    assert found == [
        ("definition.misspelt-key", 4, "did you mean 'timeout'? A parameter of this name goes under params:"),
        ("step.unknown-type", 6, "did you mean 'Spark'?"),
        ("step.settings", 7, None),
        ("step.settings", 7, "did you mean 'script'?"),
        ("step.duplicate-id", 8, "give each step its own id"),
        ("dag.unknown-step", 9, "steps: a, b"),
    ]


def test_the_raised_error_carries_every_problem_and_counts_them() -> None:
    with pytest.raises(DefinitionError) as caught:
        load("Workflow:\n  id: x\n  ownr: me\n  tgas: [x]\n  jobs: [{job: {id: a, type: NoOp}}]\n", "my.yaml")
    assert len(caught.value.problems) == 2
    assert str(caught.value) == "my.yaml:3:3: 'ownr' is no workflow key (and 1 more)"
    assert caught.value.exit_code == 2
    listed = caught.value.to_dict()["problems"]
    assert isinstance(listed, list)
    assert listed[1]["line"] == 4


@pytest.mark.parametrize("key", ["runStrategy", "RunStrategy", "run_strategy", "Run-Strategy", "RUNstrategy"])
def test_reserved_keys_are_matched_in_any_spelling(key: str) -> None:
    workflow = workflow_of(jobs("a").replace("id: wf", f"id: wf\n  {key}: FIRST_ONLY"))
    assert workflow.run_strategy.rule.value == "FIRST_ONLY"
    assert workflow.params == ()


@pytest.mark.parametrize("key", ["ID", "TIMEOUT", "DAG", "JOBS", "TIMOUT"])
def test_an_all_caps_key_is_always_a_parameter(key: str) -> None:
    workflow = workflow_of(jobs("a").replace("id: wf", f"id: wf\n  {key}: 5"))
    assert [param.name for param in workflow.params] == [key]


@pytest.mark.parametrize(
    "key", ["time", "date", "region", "query", "game", "same", "country", "hour", "my_query", "path"]
)
def test_ordinary_names_are_parameters(key: str) -> None:
    workflow = workflow_of(jobs("a").replace("id: wf", f"id: wf\n  {key}: 5"))
    assert [param.name for param in workflow.params] == [key]


@pytest.mark.parametrize(
    ("key", "meant"),
    [
        ("timout", "timeout"),
        ("ownr", "owner"),
        ("descripton", "description"),
        ("run_stratgy", "run_strategy"),
        ("workflow_concurency", "workflow_concurrency"),
        ("freshnes", "freshness"),
        ("job", "jobs"),
        ("tag", "tags"),
        ("parms", "params"),
        ("alertting", "alerting"),
        ("triger", "trigger"),
    ],
)
def test_a_near_miss_of_a_reserved_key_is_an_error(key: str, meant: str) -> None:
    error = the_error(jobs("a").replace("id: wf", f"id: wf\n  {key}: 5"))
    assert error.code == "definition.misspelt-key"
    assert f"'{meant}'" in str(error.hint)


def test_under_params_any_name_may_stand() -> None:
    workflow = workflow_of(jobs("a").replace("id: wf", "id: wf\n  params: {timout: 5, jobs: 6}"))
    assert [(param.name, param.value) for param in workflow.params] == [("timout", 5), ("jobs", 6)]


def test_no_reserved_key_is_a_near_miss_of_another_on_its_level() -> None:
    for level in LEVELS.values():
        words = [word for name, others in level.keys.items() for word in (name, *others)]
        for word in words:
            assert level.match(word) is not None
    assert is_near("timout", "timeout")
    assert not is_near("time", "timeout")


@pytest.mark.parametrize(
    ("entry", "part"),
    [
        ("timeout: soon", "'soon' is not a duration"),
        ("timeout: [1]", "'timeout' must be a duration"),
        ("timeout: -5", "between 0 and 100 years"),
        ("run_strategy: paralel", "is no run_strategy"),
        ("workflow_concurrency: 0", "at least 1"),
        ("workflow_concurrency: many", "must be a whole number"),
        ("owner: [a]", "'owner' must be a text"),
        ("owner: true", "'owner' must be a text"),
        ("tags: {a: b}", "holds texts"),
        ("retry: often", "a number of retries or a map"),
        ("retry: {errors: 3, timout: 5}", "'timout' is no retry key"),
        ("retry: {backoff: {factor: 0.5}}", "between 1 and 1000"),
        ("alerting: {events: [failre]}", "is no alert event"),
        ("freshness: 0", "longer than 0"),
        ("id: 'a b'", ""),
    ],
)
def test_a_wrong_value_is_named_with_what_was_expected(entry: str, part: str) -> None:
    text = jobs("a").replace("id: wf", entry if entry.startswith("id") else f"id: wf\n  {entry}")
    error = the_error(text)
    assert part in error.message


@pytest.mark.parametrize(
    ("job", "code", "part"),
    [
        ("{type: NoOp}", "definition.missing-key", "needs an id"),
        ("{id: 'x y', type: NoOp}", "step.id", "cannot be a step's id"),
        ("{id: a__b, type: NoOp}", "step.id", "separates a step from its parameter"),
        ("{id: a, type: Spark}", "step.settings", "'spark.script' is required"),
        ("{id: a, type: Spark, script: select 1}", "step.settings", "'script' is a setting of Spark"),
        ("{id: a, type: Spark, spark: [1]}", "definition.wrong-type", "'spark' must be a map"),
        ("{id: a, type: Spark, spark: {script: ''}}", "step.settings", "must not be empty"),
        (
            "{id: a, type: Spark, spark: {script: x, write: {table: t, pattern: mrge}}}",
            "step.settings",
            "must be 'auto'",
        ),
        ("{id: a, type: Spark, spark: {script: x, conf: 5}}", "step.settings", "must be a map"),
        ("{id: a, type: IpCapture, ip_capture: {source_tables: []}}", "step.settings", "source_tables"),
        (
            "{id: a, type: IpCapture, ip_capture: {source_tables: [t], on_gap: guess}}",
            "step.settings",
            "'fail', 'full'",
        ),
        ("{id: a, type: Http, http: {url: u, method: GTE}}", "step.settings", "must be 'GET'"),
        ("{id: a, type: Shell, shell: {script: x, env: {A: [1]}}}", "step.settings", "must be a text"),
        ("{id: a, x: 1}", "definition.missing-key", "has no type"),
        ("{id: a, type: NoOp, failure_mode: IGNORE}", "definition.unknown-value", "is no failure_mode"),
        ("{id: a, type: NoOp, tiemout: 5}", "definition.misspelt-key", "is no job key"),
        ("{id: a, type: ICDC}", "step.settings", "needs its source"),
        ("[1, 2]", "definition.wrong-type", "must be a map"),
    ],
)
def test_a_wrong_job_is_named_with_its_reason(job: str, code: str, part: str) -> None:
    found = [problem for problem in errors_of(f"Workflow: {{id: w, jobs: [{{job: {job}}}]}}") if problem.code == code]
    assert found, [str(problem) for problem in problems_of(f"Workflow: {{id: w, jobs: [{{job: {job}}}]}}")]
    assert part in found[0].message


def test_settings_that_wait_for_a_parameter_are_not_judged_before_it_is_known() -> None:
    workflow = workflow_of("""
        Workflow:
          id: w
          HOW: merge
          jobs:
            - job: {id: a, type: Spark, spark: {script: x, write: {table: "${HOW}", pattern: "${HOW}"}, publish: "${HOW}"}}
    """)
    assert workflow.steps[0].id == "a"


@pytest.mark.parametrize(
    ("trigger", "code"),
    [
        ("{cron: '* * *'}", "trigger.cron"),
        ("{cron: '99 3 * * *'}", "trigger.cron"),
        ("{cron: '@fortnightly'}", "trigger.cron"),
        ("{cron: '@daily', timezone: Mars/Olympus}", "trigger.timezone"),
        ("{cron: '@daily', timezone: ../../etc/passwd}", "trigger.timezone"),
        ("{cron: '@daily', start: tomorrow}", "trigger.date"),
        ("{cron: '@daily', catch_up: some}", "definition.unknown-value"),
        ("{every: 0}", "definition.out-of-range"),
        ("{every: 0.5s}", "trigger.interval"),
        ("{corn: '@daily'}", "trigger.kind"),
        ("{cron: '@daily', every: 5m, jitter: 1m}", "trigger.kind"),
        ("{signal: {match_params: {a: 1}}}", "trigger.signal"),
        ("{signal: {name: s, match_params: {a: {value: 1, operator: '~'}}}}", "definition.unknown-value"),
        ("{signal: {name: s, condition: '1 +'}}", "expression.syntax"),
        ("{signal: {name: s, condition: '1 + 1'}}", "expression.type"),
        ("{incremental: }", "trigger.tables"),
        ("{incremental: {tables: [t], min_rows: 0}}", "definition.out-of-range"),
        ("{incremental: {tables: [t], operations: [upsert]}}", "definition.unknown-value"),
        ("{incremental: {tables: [t], at_most_evry: 5m}}", "definition.unknown-key"),
        ("{watermark: {every: 1d}}", "trigger.watermark"),
        ("5", "definition.wrong-type"),
    ],
)
def test_a_wrong_trigger_is_an_error(trigger: str, code: str) -> None:
    assert [problem.code for problem in errors_of(f"Trigger: {trigger}\n{jobs('a')}")][:1] == [code]


def test_a_thousand_and_one_parameters_are_too_many() -> None:
    many = "".join(f"  k{number}: v\n" for number in range(20_000))
    assert "definition.too-many-keys" in [problem.code for problem in errors_of(jobs("a", more=many))]
