"""Every key, type, mode, default, reference and setting of docs/reference/definitions.md, in definitions that are validated and run.

Nothing here depends on the state database, so SQLite stands for both. Captures, Spark and Http have suites of their own; here
their settings are tried with values that they cannot take."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

from icefloe.errors import UsageError
from icefloe.workflow.default_params import STEP_FIELDS
from tests.projects import Project, make_project, wait_until
from tests.reference_tables import Json, code, errors, failures, noop, page, run, table, workflow

PAGE = page("definitions.md")


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    made = make_project(tmp_path_factory.mktemp("reference") / "project")
    made.push(json.dumps(workflow("child", [noop("inner", x="of inner")])))
    made.push(json.dumps(workflow("detached", [noop("inner")])))
    yield made
    made.client.close()


# -- parameters ------------------------------------------------------------------------------------------------------------

PARTS = {code(part)[0]: meaning for part, meaning in table(PAGE, "part", "meaning")}
LITERALS: dict[str, tuple[Any, str]] = {
    "string": ("a", "'a' + 'b'"),
    "long": (3, "1 + 2"),
    "double": (0.5, "1 / 2.0"),
    "boolean": (True, "1 < 2"),
    "array<string>": (["a"], "new String[]{'a'}"),
    "array<long>": ([1, 2], "new long[]{1}"),
    "array<double>": ([0.5], "new double[]{0.5}"),
    "array<boolean>": ([True], "new boolean[]{true}"),
    "map": ({"k": "v"}, "m"),
    "pmap": ({"k": 1, "l": {"m": [1]}}, "m"),
}
SCALARS = ("string", "long", "double", "boolean")


def test_every_type_is_tried() -> None:
    listed = [name for name in code(PARTS["<type>"]) if name != "array<…>"]
    assert sorted([*listed, *(f"array<{scalar}>" for scalar in SCALARS)]) == sorted(LITERALS)


def test_a_parameter_of_every_type_has_its_value_in_workflow_step_expression_loop_and_subworkflow(
    project: Project,
) -> None:
    for kind, (value, expression) in LITERALS.items():
        keys = {f"w<{kind}>": value, "m<map>": {"k": "v"}, f"!e<{kind}>": expression}
        steps = [
            noop("own", **{f"x<{kind}>": value, f"!y<{kind}>": expression, "whole": "${w}", f"!z<{kind}>": "w"}),
            noop("later", text="${own__x}", **{f"!again<{kind}>": "params.getFromStep('own', 'y')"}),
            {"subworkflow": {"id": "call", "workflow_id": "child", f"x<{kind}>": value} if kind == "string" else
             {"id": "call", "workflow_id": "child", f"other<{kind}>": value}},
        ]  # fmt: skip
        if kind in SCALARS:
            loop = {"id": "loop", "params": {f"v<array<{kind}>>": [value, value]}, "jobs": [noop("each", text="${v}")]}
            steps.append({"foreach": loop})
        view = run(project, workflow("types", steps, dag="sequential", **keys))
        assert (kind, failures(view)) == (kind, {})
        own = view.steps[0].params
        assert (own["x"], own["z"]) == (value, value)
        assert own["y"] == view.steps[1].params["again"]


@pytest.mark.parametrize("kind", LITERALS)
def test_a_value_of_another_type_is_refused_at_its_place(kind: str) -> None:
    wrong = "a" if kind != "string" else [1]
    for key in (f"x<{kind}>", f"!x<{kind}>"):
        given = "new DateTime(1)" if key.startswith("!") else wrong
        (problem,) = errors(workflow("w", [noop("only", **{key: given})]))
        assert problem.position is not None, problem


MODES = code(PARTS["(mode)"])
CHANGED_BY = {
    "constant": (),
    "immutable": (),
    "mutable_on_start": ("run",),
    "mutable_on_start_restart": ("run",),
    "mutable": ("run",),
    "provided": ("run",),
}


@pytest.mark.parametrize("mode", MODES)
def test_a_parameter_of_every_mode_is_changed_by_a_run_or_refuses_that(project: Project, mode: str) -> None:
    value = None if mode == "provided" else "old"
    definition = workflow("modes", [noop("only", y="${x}")], **{f"x({mode})": value})
    if CHANGED_BY[mode]:
        assert run(project, definition, {"x": "new"}).steps[0].params["y"] == "new"
    else:
        with pytest.raises(UsageError, match="'x'"):
            run(project, definition, {"x": "new"})
    if mode == "provided":
        with pytest.raises(UsageError, match="'x'"):
            run(project, definition)
    else:
        assert run(project, definition).steps[0].params["y"] == "old"


# -- names that every workflow has -----------------------------------------------------------------------------------------

DEFAULTS = code(re.search(r"and these defaults: (.*?)\. ", PAGE).group(1))  # type: ignore[union-attr]


@pytest.mark.parametrize("name", DEFAULTS)
def test_a_default_parameter_has_one_value_wherever_a_definition_may_name_it(project: Project, name: str) -> None:
    of_step = name in STEP_FIELDS
    text = f"'' + {name}"
    first = noop(
        "first",
        x=f"${{{name}}}",
        **{"!y": text},
        signal_outputs=[{"name": f"{name}_there", "params": {"n": f"${{{name}}}"}}],
        transition=[f"IF {text} == first__x THEN second", "OTHERWISE never"],
    )
    waits = (
        {} if of_step else {"signal_dependencies": [{"name": f"{name}_there", "match_params": {"n": f"${{{name}}}"}}]}
    )
    second = noop("second", x=f"${{{name}}}", **waits)
    loop = {
        "id": "loop",
        "params": {"!v<array<string>>": f"new String[]{{{text}}}"},
        "jobs": [noop("each", x=f"${{{name}}}", v2="${v}", transition=[f"IF {text} != '' THEN then"]), noop("then")],
    }
    call = {"id": "call", "workflow_id": "child", "x": f"${{{name}}}", "sync": True}
    keys: Json = {"owner": "me"} if of_step else {"owner": "me", "w": f"${{{name}}}", "!u": text}
    steps = [first, second, noop("never"), {"foreach": loop}, {"subworkflow": call}]
    if not of_step:
        steps.append(noop("end", transition=[f"IF w == ('' + {name}) && u == w THEN last", "OTHERWISE never"]))
        steps.append(noop("last"))
    definition = workflow("defaults", steps, dag=["second -> loop -> call" + ("" if of_step else " -> end")], **keys)
    view = run(project, definition)
    assert failures(view) == {}
    found = {step.id: step for step in view.steps}
    assert found["never"].status == "UNSATISFIED"
    assert found["second"].status == "SUCCEEDED"
    assert str(found["first"].params["x"]) == found["first"].params["y"] != ""
    if not of_step:
        assert found["last"].status == "SUCCEEDED"


@pytest.mark.parametrize("name", STEP_FIELDS)
def test_what_only_a_step_has_is_refused_in_the_workflows_own_parameters(name: str) -> None:
    for key, value in {"w": f"${{{name}}}", "!w": name}.items():
        (problem,) = errors(workflow("w", [noop("only")], **{key: value}))
        assert problem.position is not None
        assert name in problem.message


# -- references ------------------------------------------------------------------------------------------------------------

REFERENCES = {
    "${name}": ("${n}", "3"),
    "${step__name}": ("${first__x}", "of first"),
    "$$": ("$${HOME}", "${HOME}"),
    "$FILE{path}": ("$FILE{note.txt}", "from a file"),
    "$ENV{NAME}": ("$ENV{REFERENCE_SECRET}", "$ENV{REFERENCE_SECRET}"),
}


def test_every_reference_becomes_what_the_table_says(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REFERENCE_SECRET", "hidden")
    (project.root / "note.txt").write_text("from a file", encoding="utf-8")
    shown = {code(written)[0] for written, _ in table(PAGE, "written", "becomes")}
    assert shown == {*REFERENCES, "$S3{bucket/key}"}  # which needs an object store
    keys = {f"x{at}": text for at, (text, _) in enumerate(REFERENCES.values())}
    view = run(project, workflow("refs", [noop("first", x="of first"), noop("second", **keys)], dag="sequential", n=3))
    assert failures(view) == {}
    assert list(view.steps[1].params.values()) == [value for _, value in REFERENCES.values()]


# -- keys ------------------------------------------------------------------------------------------------------------------

KEYS = {level: code(cell) for level, cell in table(PAGE, "level", "reserved keys")}
BODY = [noop("inner")]
SAMPLES: dict[str, dict[str, Any]] = {
    "workflow": {
        "id": "keyed", "name": "Keyed", "description": "d", "owner": "me", "tags": ["a"], "criticality": "high",
        "run_strategy": "parallel", "workflow_concurrency": 2, "step_concurrency": 2, "timeout": "5m", "retry": 1,
        "freshness": "1h", "alerting": {"channels": ["log://"], "events": ["failure"]}, "params": {"p": 1},
        "trigger": {"cron": "@daily"}, "jobs": [noop("only")], "steps": [noop("only")], "dag": "sequential",
    },
    "every step": {
        "id": "step", "name": "Step", "description": "d", "tags": ["a"], "failure_mode": "IGNORE_FAILURE", "retry": 2,
        "timeout": "${span}", "transition": ["after"], "depends_on": ["before"], "params": {"p": 1},
        "signal_dependencies": [{"name": "never", "match_params": {"n": 1}}],
        "watermark_dependencies": [{"table": "db.t", "reached": "${RUN_DATE}"}],
        "signal_outputs": [{"name": "s", "params": {"p": "${span}"}}],
    },
    "job": {"type": "NoOp", "type_version": "1", "spark": None, "shell": {"script": "true"}},
    "subworkflow": {"workflow_id": "child", "version": "latest", "sync": False, "explicit_params": True},
    "foreach": {
        "params": {"v": [1]}, "loop_params": {"v": [1]}, "ranges": {"v": {"from": 0, "to": 4, "increment": 2}},
        "concurrency": 2, "jobs": BODY, "dag": "sequential", "job_params": {"p": 1},
    },
}  # fmt: skip
STEPS: dict[str, Json] = {
    "job": {"type": "NoOp"},
    "subworkflow": {"workflow_id": "child"},
    "foreach": {"loop_params": {"w": [1]}, "jobs": BODY},
}


def test_every_reserved_key_is_tried() -> None:
    assert {level: sorted(keys) for level, keys in KEYS.items() if level != "file"} == {
        level: sorted(samples) for level, samples in SAMPLES.items()
    }


def with_step(kind: str, keys: Json) -> Json:
    step = {kind: {"id": "step", **STEPS[kind], **keys}}
    return workflow("keyed", [noop("before"), step, noop("after")], dag=["before -> step"], span="5m")


def key_cases() -> Iterator[Any]:
    for key, value in SAMPLES["workflow"].items():
        body = {} if key in ("jobs", "steps") else {"jobs": [noop("only")]}
        yield pytest.param({"Workflow": {"id": "keyed", **body, key: value}}, id=f"workflow-{key}")
    waiting = ("signal_dependencies", "watermark_dependencies")
    for kind in STEPS:
        for key, value in SAMPLES["every step"].items():
            if key not in waiting and (kind, key) != ("foreach", "params"):
                yield pytest.param(with_step(kind, {key: value}), id=f"{kind}-{key}")
        for key, value in SAMPLES[kind].items():
            if value is not None:
                # Nobody here works for a run that nobody waits for, and the next of its workflow waits for it.
                extra = {"type": "Shell"} if key == "shell" else {"workflow_id": "detached"} if key == "sync" else {}
                yield pytest.param(with_step(kind, {**extra, key: value}), id=f"{kind}-{key}")


@pytest.mark.parametrize("definition", list(key_cases()))
def test_a_definition_with_each_reserved_key_runs(project: Project, definition: Json) -> None:
    assert errors(definition) == []
    view = run(project, definition)
    assert (view.status, failures(view)) == ("SUCCEEDED", {})


@pytest.mark.parametrize("key", ["signal_dependencies", "watermark_dependencies"])
@pytest.mark.parametrize("kind", STEPS)
def test_a_step_of_every_kind_waits_for_signals_and_watermarks(project: Project, kind: str, key: str) -> None:
    workflow_id = project.push(json.dumps(with_step(kind, {key: SAMPLES["every step"][key]})))
    run_id = project.start(workflow_id)
    with project.worker():
        wait_until(lambda: project.statuses(run_id)["step"] == "WAITING_FOR_SIGNALS")
        project.client.runs.skip(run_id, "step")
        wait_until(lambda: project.show(run_id).status == "SUCCEEDED")


# -- settings --------------------------------------------------------------------------------------------------------------

WRONG: Json = {"nonsense": {"deeper": 1}}
"""No setting takes this: not even those that take maps, whose values are texts or have names of their own."""


def settings_of() -> Iterator[Any]:
    for kinds, keys, settings in table(PAGE, "type", "key", "settings"):
        if keys:
            outside = re.sub(r"\([^()]*\)", "", re.sub(r"\]\([^)]*\)", "", settings).replace("[", ""))
            for setting in code(outside):
                if setting == "body":
                    continue  # anything can be a body
                yield pytest.param(
                    code(kinds)[0], code(keys)[0], setting.partition(":")[0], id=f"{code(kinds)[0]}-{setting[:20]}"
                )


REQUIRED: dict[str, Json] = {
    "IpCapture": {"source_tables": ["db.t"]},
    "IpCommit": {"capture_step": "look"},
    "Spark": {"script": "SELECT 1"},
    "Shell": {"script": "true"},
    "Python": {"script": "pass"},
    "Http": {"url": "http://localhost:1/"},
}


@pytest.mark.parametrize(("kind", "key", "setting"), list(settings_of()))
def test_a_setting_with_a_value_it_cannot_take_is_refused_where_it_is_pushed_or_fails_its_step_once(
    project: Project, kind: str, key: str, setting: str
) -> None:
    def definition(value: Any) -> Json:
        step = {
            "job": {
                "id": "step",
                "type": kind,
                key: {**REQUIRED[kind], setting: value},
                "retry": {"error": 2, "platform": 2},
            }
        }
        look = {
            "job": {
                "id": "look",
                "type": "IpCapture",
                "ip_capture": {"source_tables": ["db.t"], "on_missing_source": "wait"},
            }
        }
        steps = [step, noop("other")] if kind != "IpCommit" else [noop("other"), look, step]
        return workflow(
            "settings", steps, dag="sequential" if kind == "IpCommit" else "parallel", params={"wrong": WRONG}
        )

    refused = errors(definition(WRONG))
    assert refused
    assert all(problem.position is not None and setting in problem.message for problem in refused), refused
    at_run = definition("${wrong}")
    refused = errors(at_run)
    if refused:
        assert all(problem.position is not None for problem in refused)
    elif kind != "IpCommit":  # a capture of a real table would have to come before it
        step = next(step for step in run(project, at_run).steps if step.id == "step")
        cause = step.cause or {}
        assert (step.status, step.attempts) == ("FATALLY_FAILED", 1), cause
        assert setting in cause["message"]


# -- triggers --------------------------------------------------------------------------------------------------------------

TRIGGERS: dict[str, dict[str, Any]] = {
    "cron": {
        "cron": "0 3 * * *", "timezone": "Europe/Berlin", "fuzzy_max_delay": "5m", "start": "2026-01-01",
        "end": "2027-01-01", "catch_up": "last",
    },
    "every": {"every": "15m"},
    "signal": {"name": "a", "match_params": {"n": 1}, "signals": ["b", "c"], "condition": "n > 1", "dedup": "n"},
    "watermark": {"table": "db.t", "every": "1h", "timezone": "UTC"},
    "incremental": {
        "tables": ["db.t"], "min_rows": 1, "min_files": 1, "min_bytes": 1, "max_age": "1h", "at_most_every": "5m",
        "quiet_period": "1m", "operations": ["append"], "partitions": {"day": [1]}, "require": "all", "consumer": "c",
        "allow_cycle": 3,
    },
}  # fmt: skip


def test_every_option_of_every_trigger_is_accepted_and_a_nonsensical_value_refused() -> None:
    for left, right in table(PAGE, "kind", "options"):
        (head,) = code(left)
        kind, samples = head.partition(":")[0], TRIGGERS[head.partition(":")[0]]
        options = set(re.findall(r"\w+", head)) & set(samples) | {one.partition(":")[0] for one in code(right)} & set(
            samples
        )
        assert {one.partition(":")[0] for one in code(right)} - {"@daily", "tables"} <= options | {"timezone"}, head
        base = {key: samples[key] for key in ("cron", "every", "name", "table", "tables") if key in samples}
        if kind == "watermark":
            base["every"] = "1h"
        for option in options:
            given = {**base, option: samples[option]}
            if option == "signals":
                given = {"signals": samples[option]}
            trigger = given if kind in ("cron", "every") else {kind: given}
            assert errors({"Trigger": trigger, **workflow("w", [noop("only")])}) == [], trigger
            wrong = {**given, option: WRONG}
            refused = errors(
                {"Trigger": wrong if kind in ("cron", "every") else {kind: wrong}, **workflow("w", [noop("only")])}
            )
            assert refused or option == "match_params", wrong
            assert all(problem.position is not None for problem in refused)
