"""What is a parameter, what is a typo of a reserved key, and Maestro's long form of a parameter."""

from __future__ import annotations

import json

import pytest

from icefloe.workflow.loading import load
from icefloe.workflow.model import ForeachStep, Param, ParamMode
from icefloe.workflow.reserved import LEVELS
from icefloe.workflow.values import ParamType
from icefloe.workflow.yaml_writer import to_yaml

from .reading import jobs, the_error, workflow_of

LEVELS_WITH_PARAMETERS = [level for level in LEVELS.values() if level.open]


def with_param(line: str) -> str:
    return jobs("a").replace("id: wf", f"id: wf\n  {line}")


@pytest.mark.parametrize("level", LEVELS_WITH_PARAMETERS, ids=lambda level: level.name)
def test_a_numbered_or_lettered_reserved_key_is_a_parameter(level) -> None:
    for name in level.keys:
        for key in (f"{name}1", f"{name}_2", f"{name}10", f"{name.rstrip('s')}1", f"{name}_b", f"{name}B"):
            assert level.match(key) is None, key
            assert level.near_miss(key) is None, key


def test_param1_is_a_parameter_and_parms_a_mistake() -> None:
    assert workflow_of(with_param("param1: 5")).params == (Param("param1", ParamType.LONG, 5),)
    assert the_error(with_param("parms: {x: 5}")).code == "definition.misspelt-key"


@pytest.mark.parametrize("numbered", ["day2", "day_1x2"])
def test_a_reference_to_another_number_is_no_misspelt_name(numbered: str) -> None:
    """The run may give ``day2`` although the definition has ``day1``."""
    workflow_of(with_param(f'day1: 5\n  text: "${{{numbered}}}"'))


FORMS = {
    "x: {value: 3, type: LONG}": Param("x", ParamType.LONG, 3),
    "x: {Type: long, Value: 3}": Param("x", ParamType.LONG, 3),
    "x: {value: 3, type: DOUBLE, mode: constant}": Param("x", ParamType.DOUBLE, 3.0, mode=ParamMode.CONSTANT),
    "x: {value: a, type: STRING}": Param("x", ParamType.STRING, "a"),
    "x: {value: [1, 2], type: LONG_ARRAY}": Param("x", ParamType.LONG_ARRAY, (1, 2)),
    "x: {value: [], type: 'array<double>'}": Param("x", ParamType.DOUBLE_ARRAY, ()),
    "x: {value: {a: b}, type: STRING_MAP}": Param("x", ParamType.STRING_MAP, {"a": "b"}),
    "x: {value: {a: {value: 1, type: LONG}}, type: MAP}": Param(
        "x", ParamType.MAP, members=(Param("a", ParamType.LONG, 1),)
    ),
    "x: {a: {value: 1, type: LONG}, b: text}": Param(
        "x", ParamType.MAP, members=(Param("a", ParamType.LONG, 1), Param("b", ParamType.STRING, "text"))
    ),
    "x: {expression: 1 + 2, type: LONG}": Param("x", ParamType.LONG, expression="1 + 2"),
    "x: {expression: '''a''', mode: immutable}": Param(
        "x", ParamType.STRING, expression="'a'", mode=ParamMode.IMMUTABLE
    ),
    "x: {type: LONG, mode: PROVIDED}": Param("x", ParamType.LONG, mode=ParamMode.PROVIDED),
    "'x(constant)': {value: 3, type: LONG}": Param("x", ParamType.LONG, 3, mode=ParamMode.CONSTANT),
    "'x<pmap>': {value: 3, type: LONG}": Param(
        "x", ParamType.MAP, members=(Param("value", ParamType.LONG, 3), Param("type", ParamType.STRING, "LONG"))
    ),
    "'x<map>': {value: '3', type: LONG}": Param("x", ParamType.STRING_MAP, {"value": "3", "type": "LONG"}),
    "x: {type: csv, value: a, header: b}": Param(
        "x", ParamType.STRING_MAP, {"type": "csv", "value": "a", "header": "b"}
    ),
    "x: {type: LONG}": Param("x", ParamType.STRING_MAP, {"type": "LONG"}),
}


@pytest.mark.parametrize("line", FORMS)
def test_the_long_form_is_read_as_a_typed_parameter_and_a_map_as_a_map(line: str) -> None:
    workflow = workflow_of(with_param(line))
    assert workflow.params == (FORMS[line],)
    assert load(to_yaml(workflow)).workflow == workflow


def test_the_long_form_is_read_wherever_parameters_stand_and_from_json() -> None:
    form = {"value": [1, 2], "type": "LONG_ARRAY"}
    job = {"id": "a", "type": "NoOp", "p": form, "params": {"q": form}}
    loop = {"id": "f", "params": {"p": form}, "job_params": {"q": form}, "r": form, "jobs": [{"job": job}]}
    call = {"id": "s", "workflow_id": "other", "p": form, "params": {"q": form}}
    document = {
        "Trigger": {"cron": "@daily", "params": {"p": form}},
        "Workflow": {"id": "wf", "p": form, "params": {"q": form}, "jobs": [{"foreach": loop}, {"subworkflow": call}]},
    }
    workflow = load(json.dumps(document)).workflow
    foreach = workflow.step("f")
    assert isinstance(foreach, ForeachStep)
    read = [workflow.params, workflow.step("a").params, workflow.step("s").params, workflow.triggers[0].params]
    read += [foreach.params, foreach.loop_params]
    assert [[param.name for param in params] for params in read] == [
        ["p", "q"], ["p", "q"], ["p", "q"], ["p"], ["r", "q"], ["p"],
    ]  # fmt: skip
    assert {(param.type, param.value) for params in read for param in params} == {(ParamType.LONG_ARRAY, (1, 2))}


@pytest.mark.parametrize(
    ("line", "code", "part"),
    [
        ("x: {value: 3}", "param.form", "lacks its type"),
        ("x: {expression: 1 + 2}", "param.form", "lacks its type"),
        ("x: {value: 3, expression: '3', type: LONG}", "param.form", "a value and an expression"),
        ("x: {value: 3, type: LONG, tags: [a]}", "param.form", "'tags' is not part"),
        ("x: {value: 3, type: [LONG]}", "param.form", "'type' must be a parameter's type"),
        ("'x(constant)': {value: 3, type: LONG, mode: MUTABLE}", "param.form", "given twice"),
        ("x: {value: 3, type: LNG}", "param.type", "'LNG' is no parameter type"),
        ("x: {value: 3, type: LONG, mode: FIXED}", "param.mode", "'FIXED' is no mode"),
        ("x: {value: three, type: LONG}", "param.value", "'three' is not a LONG"),
        ("x: {type: LONG, mode: MUTABLE}", "param.null", "has no value"),
    ],
)
def test_a_malformed_long_form_is_refused_with_place_reason_and_hint(line: str, code: str, part: str) -> None:
    error = the_error(with_param(line))
    assert (error.code, error.position.line) == (code, 3)
    assert part in error.message
    assert error.hint or code == "param.value"
