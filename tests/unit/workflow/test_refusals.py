"""What no run could make sense of is refused when it is pushed: with the place, the reason and what to write instead."""

from __future__ import annotations

import pytest

from .reading import problems_of

WORKFLOW = """
Workflow:
  id: w
  region: eu
  'target(provided)':
  {more}
  jobs:
    - job: {{id: first, type: NoOp, known: 1}}
    - subworkflow: {{id: call, workflow_id: other, sync: false}}
    - foreach: {{id: loop, params: {{day: [1]}}, jobs: [{{job: {{id: inner, type: NoOp}}}}]}}
    - {step}
  dag: sequential
"""
NOOP = "job: {id: last, type: NoOp}"


def refusals(more: str = "", step: str = NOOP) -> list[tuple[str, str, bool]]:
    problems = problems_of(WORKFLOW.format(more=more, step=step))
    return [(p.code, p.message, p.position is not None) for p in problems if p.severity.value == "error"]


EXPRESSIONS = {
    "params.get('x') == null": "refers to itself",
    "x + 1": "refers to itself",
    "params.getFromStep('x')": "refers to itself",
    "params.getFromStep('steq_id')": "has no 'steq_id' of its own",
    "params.getFromStep('first', 'unknown')": "has no 'unknown'",
    "first__unknown": "has no 'unknown'",
    "params.getFromInstance('INITIATOR')": "a run has no 'INITIATOR'",
    "params.getFromInstance('owner')": "the workflow has no owner",
    "params.getFromSignal('a', 'b')": "no signal starts this workflow",
    "params.getFromSignal('b')": "no signal starts this workflow",
    "params.getFromSignalDependency('0', 'b')": "the step waits for no signal",
    "params.getFromForeach('first', 'inner', 'x')": "is not a foreach",
    "params.getFromForeach('loop', 'iner', 'x')": "has no step 'iner'",
    "params.getFromSubworkflow('first', 'a', 'x')": "is not a subworkflow",
    "params.getFromSubworkflow('call', 'a', 'x')": "nobody waits for the subworkflow",
    "region.split('[0-9]')": "is a pattern",
    "region.split('')": "needs a separator",
    "region.replaceAll('a+', 'b')": "is a pattern",
    "String.format('%d', region)": "%d needs a LONG",
    "String.format('%s %s', region)": "more values than are given",
    "new DateTime(RUN_TS).toString('QQ')": "means nothing in a date pattern",
    "region + DateTimeZone.forID('No/Where')": "there is no time zone",
    "region + 'abc'.charAt(5)": "index 5",
    "region + 1 / (2 - 2)": "division by zero",
}


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_an_expression_that_fails_in_every_run_is_refused(expression: str) -> None:
    step = f"job: {{id: last, type: NoOp, '!x': \"{expression}\"}}"
    found = refusals(step=step)
    assert len(found) == 1, found
    assert EXPRESSIONS[expression] in found[0][1]
    assert found[0][2]


STEPS = {
    'subworkflow: {id: s, workflow_id: "${region}"}': "the workflow '${region}' cannot depend on a parameter",
    "subworkflow: {id: s, workflow_id: 'a b'}": "cannot be a workflow's id",
    'subworkflow: {id: s, workflow_id: a, version: "${region}"}': "cannot depend on a parameter",
    "subworkflow: {id: s, workflow_id: a, version: newest}": "'newest' is no version",
    "subworkflow: {id: s, workflow_id: a, version: 0}": "'0' is no version",
    'job: {id: s, type: NoOp, signal_dependencies: ["${region}_done"]}': "the signal '${region}_done' cannot depend",
    'job: {id: s, type: NoOp, signal_outputs: ["${region}_done"]}': "the signal '${region}_done' cannot depend",
    "job: {id: s, type: NoOp, signal_outputs: [{name: a, params: {m: {x: y}}}]}": "is a map",
    'job: {id: s, type: NoOp, watermark_dependencies: [{table: "${region}", reached: 20260101}]}': "cannot depend on",
    'foreach: {id: s, params: {d: "x${region}"}, jobs: [{job: {id: i, type: NoOp}}]}': "must be a list",
    'foreach: {id: s, params: {d: "${region}"}, jobs: [{job: {id: i, type: NoOp}}]}': "'region' is a STRING",
    "job: {id: s, type: NoOp, '!x': \"params.getFromSignalDependency('0', 'n')\", "
    "signal_dependencies: [{name: a, match_params: {n: '${x}'}}]}": "which is read from that signal",
}


@pytest.mark.parametrize("step", STEPS)
def test_a_step_that_no_run_could_start_is_refused(step: str) -> None:
    found = refusals(step=step)
    assert len(found) == 1, found
    assert STEPS[step] in found[0][1]


TRIGGERS = {
    "signals: [{name: a, join_keys: [day]}, {name: b, join_keys: [day]}]": "join_keys are not supported",
    'signal: {name: "${region}"}': "cannot depend on a parameter",
    "signals: [a, a]": "twice",
    'signal: {name: a, match_params: {day: "${target}"}}': "before there is a run",
    'signal: {name: a, match_params: {day: "${run_id}"}}': "before there is a run",
    "signal: {name: a, condition: \"params.getFromStep('first', 'known') > 1\"}": "before there is a run",
    "signal: {name: a, condition: \"params.getFromSignal('b', 'n') > 1\"}": "no trigger waits for the signal 'b'",
    'signal: {name: a, dedup: "new DateTime(n)"}': "must give a",
    "watermark: {table: '${region}'}": "cannot depend on a parameter",
    "incremental: {tables: ['db.${target}']}": "before there is a run",
    "incremental: {tables: [db.t], consumer: '${region}'}": "cannot depend on a parameter",
    "incremental: {tables: [db.t], partitions: {day: '${RUN_DATE}'}}": "cannot depend on a parameter",
    "{cron: '@daily', params: {region: 5}}": "the parameter 'region' is a STRING",
    "{cron: '@daily', params: {'x(provided)': }}": "is given none",
}


@pytest.mark.parametrize("trigger", TRIGGERS)
def test_a_trigger_that_could_start_no_run_is_refused(trigger: str) -> None:
    inner = trigger if trigger.startswith("{") else "{" + trigger + "}"
    found = refusals(more=f"trigger: {inner}")
    assert {message for _, message, _ in found if TRIGGERS[trigger] in message}, found
    assert len({message for _, message, _ in found}) == 1, found


def test_a_workflows_own_parameter_cannot_mean_one_outside() -> None:
    assert [code for code, _, _ in refusals(more="x: '${x}'")] == ["param.cycle"]
    assert [code for code, _, _ in refusals(more="x: '${step_id}'")] == ["param.unknown"]


def test_a_step_may_hand_on_what_the_run_is_given_and_ask_whether_there_is_one() -> None:
    assert refusals(step='job: {id: last, type: NoOp, x: "${x}"}') == []
    assert refusals(step="job: {id: last, type: NoOp, '!x<boolean>': \"params.containsKey('x')\"}") == []
    assert refusals(step="job: {id: last, type: NoOp, '!region': \"region + '1'\"}") == []
