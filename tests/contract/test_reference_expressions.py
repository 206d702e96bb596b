"""Every expression, call and method of docs/reference/expressions.md, in definitions that are validated and run.

Nothing here depends on the state database, so SQLite stands for both."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

from icefloe.service.triggers import Triggers
from icefloe.workflow.expressions import ExpressionError, check, kinds
from icefloe.workflow.expressions.library import CLASSES, CONSTRUCTORS, FIELDS, METHODS, VARIADIC, Function
from icefloe.workflow.model import Param
from icefloe.workflow.resolution import literal, resolve_params
from icefloe.workflow.scope import Scope
from icefloe.workflow.values import ParamType, TypedValue
from tests.projects import Project, make_project
from tests.reference_tables import Json, code, errors, failures, noop, page, run, table, workflow

PAGE = page("expressions.md")
TYPES = {
    kinds.STRING: "<string>",
    kinds.LONG: "<long>",
    kinds.DOUBLE: "<double>",
    kinds.BOOLEAN: "<boolean>",
    kinds.MAP: "<pmap>",
    **{array: f"<array<{element.lower()}>>" for element, array in kinds.ARRAYS.items()},
}


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    made = make_project(tmp_path_factory.mktemp("reference") / "project")
    yield made
    made.client.close()


def computed(step_id: str, expression: str, kind: str, **keys: Any) -> Json:
    return noop(step_id, **{f"!x{TYPES.get(kind, '')}": expression}, **keys)


def test_every_expression_with_a_value_has_it_in_a_run(project: Project) -> None:
    rows = table(PAGE, "expression", "value")
    shown = {
        f"s{at}": (code(left)[0], json.loads(code(right)[0].replace("'", '"'))) for at, (left, right) in enumerate(rows)
    }
    steps = [computed(step, text, check(text, {}).kind) for step, (text, _) in shown.items()]
    view = run(project, workflow("values", steps))
    assert failures(view) == {}
    assert {step.id: step.params["x"] for step in view.steps} == {step: value for step, (_, value) in shown.items()}


CALLS = [call for cell, _ in table(PAGE, "call", "gives") for call in code(cell)]
EXPECTED = {
    "params.get('x')": "own",
    "params.containsKey('x')": "true",
    "params.getFromStep('step', 'x')": "of step",
    "params.getFromStep('x')": "own",
    "params.getFromSignal('signal', 'x')": "of signal",
    "params.getFromSignal('x')": "of signal",
    "params.getFromSignalOrDefault('signal', 'x', 'y')": "of signal",
    "params.getFromSignalDependency('0', 'x')": "waited for",
    "params.getFromForeach('loop', 'step', 'x')": ["of step", "of step"],
    "params.getFromSubworkflow('step', 'inner', 'x')": "of inner",
    "params.getFromInstance('INITIATOR_TYPE')": "SIGNAL",
    "params.nextUniqueId()": None,
}


def test_every_documented_call_has_an_expected_value() -> None:
    assert set(CALLS) == set(EXPECTED)


@pytest.mark.parametrize("call", CALLS)
def test_every_call_on_params_gives_what_the_table_says_in_a_parameter_and_in_a_condition(
    project: Project, call: str
) -> None:
    """The definition has what the call asks for: a step, signal, loop or subworkflow with these very names."""
    step = noop("step", x="of step")
    if "getFromForeach" in call:
        step = {"foreach": {"id": "loop", "params": {"n": [1, 2]}, "jobs": [step]}}
    elif "getFromSubworkflow" in call:
        project.push(json.dumps(workflow("child", [noop("inner", x="of inner")])))
        step = {"subworkflow": {"id": "step", "workflow_id": "child"}}
    name = re.sub(r"\W+", "_", call)
    array = isinstance(EXPECTED[call], list)
    reader = noop("reader", x="own", **{"!y<array<string>>" if array else "!y": call})
    condition = f"{call}.length == 2" if array else f"'' + {call} != ''"
    if "getFromSignalDependency" in call:
        reader["job"]["signal_dependencies"] = [{"name": "awaited"}]
        condition = "y == 'waited for'"  # a condition reads what the step has made of it
        Triggers(project.config, project.client.database).signal("awaited", {"x": "waited for"})
    reader["job"]["transition"] = [f"IF {condition} THEN after", "OTHERWISE never"]
    definition = workflow(
        name,
        [step, reader, noop("after"), noop("never")],
        dag={"loop" if "foreach" in step else "step": "reader"},
    )
    definition["Trigger"] = {"signal": {"name": "signal"}}
    view = run(
        project,
        definition,
        initiator={"kind": "trigger", "by": "signal:signal"},
        signals={"signal": {"x": "of signal"}},
    )
    assert failures(view) == {}
    found = {one.id: one for one in view.steps}
    value = found["reader"].params["y"]
    assert value == EXPECTED[call] if EXPECTED[call] is not None else int(value) >= 0
    assert (found["after"].status, found["never"].status) == ("SUCCEEDED", "UNSATISFIED")


# -- methods ---------------------------------------------------------------------------------------------------------------

MOMENT = "new DateTime(RUN_TS)"
GIVEN: dict[str, Any] = {
    "empty": "", "text": "a-b.c", "digits": "20240131", "pattern": "yyyy-MM-dd", "zone": "Europe/Berlin", "wait": "5m",
    "zero": 0, "three": 3, "day": 20240131, "minus": -1, "huge": 9223372036854775807, "half": 0.5, "vast": -1e300,
    "yes": True, "cell": {"k": "v"}, "texts": ["a", "b"], "numbers": [1, 2], "halves": [0.5], "flags": [True],
}  # fmt: skip
VALUES: dict[str, list[str]] = {
    kinds.STRING: ["text", "empty", "digits", "pattern", "zone", "wait", "'[x]+'", "'%d'"],
    kinds.LONG: ["three", "zero", "minus", "day", "huge"],
    kinds.DOUBLE: ["half", "vast", "three"],
    kinds.BOOLEAN: ["yes"],
    kinds.MAP: ["cell"],
    kinds.NUMBER: ["three", "half", "huge", "vast"],
    kinds.DIGITS: ["day", "digits", "minus", "text"],
    kinds.ANY: ["text", "three", "half", "yes", "texts", "cell"],
    kinds.DATETIME: [MOMENT, "new DateTime(zero)"],
    kinds.FORMATTER: ["DateTimeFormat.forPattern('yyyyMMdd')", "DateTimeFormat.forPattern(text)"],
    kinds.ZONE: ["DateTimeZone.UTC", "DateTimeZone.forID(zone)"],
    kinds.DAYS: [f"Days.daysBetween({MOMENT}, {MOMENT}.plusDays(three))"],
    kinds.PROPERTY: [f"{MOMENT}.dayOfWeek()", f"{MOMENT}.year()"],
    kinds.IDENTIFIER: ["UUID.randomUUID()"],
    VARIADIC: ["three", "text", "texts"],
    **{array: ["texts", "numbers", "halves", "flags"][at : at + 1] for at, array in enumerate(kinds.ARRAYS.values())},
}
"""Values of each kind, a sensible one first. Most are parameters, so that nothing is known of them when pushed."""
SENSIBLE = {
    "split": ["'-'", "three"], "replaceAll": ["'-'", "'+'"], "charAt": ["zero"], "substring": ["zero", "three"],
    "parseLong": ["digits"], "parseInt": ["digits"], "parseDouble": ["digits"], "forID": ["zone"],
    "forPattern": ["pattern"], "parse": ["digits", "DateTimeFormat.forPattern('yyyyMMdd')"], "toString": ["pattern"],
    "format": ["'%05d'", "three"], "join": ["text", "texts"], "dateIntHourToTs": ["day", "three", "zone", "zero", "zero"],
    "dateIntsBetween": ["day", "20240202", "three"], "timeoutForDateTimeDeadline": [MOMENT, "wait"],
    "timeoutForDateIntDeadline": ["day", "wait"], "valueOf": ["digits"],
}  # fmt: skip
"""What a method needs instead of the first value of its kinds; used where a signature has as many arguments."""
AS_PARAMETER = {
    kinds.DATETIME: ".getMillis()",
    kinds.FORMATTER: ".print(RUN_TS)",
    kinds.ZONE: ".toString()",
    kinds.DAYS: ".getDays()",
    kinds.PROPERTY: ".get()",
    kinds.IDENTIFIER: ".toString()",
}
SIGNATURES = [
    *(
        (owner, name, function)
        for (owner, name), functions in METHODS.items()
        if owner != kinds.PARAMS
        for function in functions
    ),
    *(("new", name, function) for name, functions in CONSTRUCTORS.items() for function in functions),
]


def call_of(owner: str, name: str, receiver: str, arguments: tuple[str, ...], gives: str) -> str:
    start = f"new {name}" if owner == "new" else f"{receiver}.{name}"
    return f"{start}({', '.join(arguments)}){AS_PARAMETER.get(gives, '')}"


def calls_of(owner: str, name: str, function: Function) -> Iterator[str]:
    """A sensible call, then others with whatever is of the right kind."""
    receivers = [owner] if owner in CLASSES or owner == "new" else VALUES[owner]
    options = [VALUES[kind] for kind in function.takes]
    sensible = SENSIBLE.get(name, [])
    if name == "get" and owner == kinds.MAP:
        sensible = ["'k'"]
    first = [*sensible[: len(options)], *(choice[0] for choice in options[len(sensible) :])]
    if name.startswith("with") and function.takes == (kinds.LONG,):
        first = ["2"]
    yield call_of(owner, name, receivers[0], tuple(first), function.gives)
    for receiver, *arguments in itertools.islice(itertools.product(receivers, *options), 60):
        yield call_of(owner, name, receiver, tuple(arguments), function.gives)


def test_a_sensible_call_of_every_method_runs(project: Project) -> None:
    calls = [next(calls_of(*signature)) for signature in SIGNATURES]
    types = {name: literal(name, value).type for name, value in GIVEN.items()} | {"RUN_TS": ParamType.LONG}
    steps = [computed(f"s{at}", call, check(call, types).kind) for at, call in enumerate(calls)]
    refused = [str(problem) for problem in errors(workflow("methods", steps, params=GIVEN))]
    assert refused == []
    view = run(project, workflow("methods", steps, params=GIVEN))
    assert {calls[int(step[1:])]: why for step, why in failures(view).items()} == {}


def test_any_other_call_has_a_value_of_the_kind_foretold_or_ends_in_an_error_of_ours() -> None:
    """Without the engine: thousands of calls. What it does with such an error is tried below."""
    values = {name: TypedValue.of(tuple(v) if isinstance(v, list) else v) for name, v in {**GIVEN, "RUN_TS": 0}.items()}
    scope = Scope(params={name: item.value for name, item in values.items()})
    types = {name: item.type for name, item in values.items()}
    wrong = []
    for call in (call for signature in SIGNATURES for call in calls_of(*signature)):
        checked = check(call, types)
        if checked.problems or checked.kind not in TYPES:
            continue
        param = Param("x", ParamType(checked.kind), expression=call)
        try:
            resolve_params([param], scope)
        except ExpressionError:
            continue
        except Exception as error:
            wrong.append(f"{call}, a {checked.kind}: {type(error).__name__}: {error}")
    assert wrong == []


def test_every_method_named_in_the_list_exists() -> None:
    listed = PAGE[PAGE.index("## Methods") : PAGE.index("## Limits")]
    names = {name for _, name in (*METHODS, *FIELDS)} | CLASSES | set(CONSTRUCTORS)
    words = {word for text in code(listed) for word in re.findall(r"(?:^|\.)([a-z]\w{3,})\b", text)}
    assert words - names - {"long", "double", "boolean"} == set()


FAILING = {
    "text.charAt(three + 50)": "index",
    "three / zero": "division by zero",
    "text.split(other)[zero]": "is a pattern",
    "Long.parseLong(text)": "is no whole number",
    "new DateTime(huge).toString()": "",
    "params.get(text)": "there is no parameter",
    "params.getFromStep(text, 'x')": "",
    "cell['other']": "the map has no",
    "numbers[three]": "index",
    "String.format(other, three)": "format",
    "DateTimeZone.forID(text)  + ''": "there is no time zone",
    "'' + params.get('nowhere')": "there is no parameter",
    "params.get('x') == null": "refers to itself",
}


@pytest.mark.parametrize("expression", FAILING)
def test_an_expression_that_fails_in_a_run_fails_its_step_once_with_place_and_reason(
    project: Project, expression: str
) -> None:
    definition = workflow(
        "failing", [noop("only", **{"!x": expression}, retry={"error": 3, "platform": 3})], params=GIVEN, other="[x]+%"
    )
    refused = errors(definition)
    if refused:
        assert FAILING[expression] in refused[0].message
        assert refused[0].position is not None
        return
    (step,) = run(project, definition).steps
    assert (step.status, step.attempts) == ("FATALLY_FAILED", 1)
    message = (step.cause or {})["message"]
    assert "parameter 'x'" in message
    assert FAILING[expression] in message
