"""Workflows written in Python are the same as those written in YAML."""

from __future__ import annotations

from pathlib import Path

import pytest

from icefloe.service.definitions import PipelineFileError, inspect_file, load_file
from icefloe.workflow.builder import Pipeline, constant, cron, every, expr, incremental, provided, signal
from icefloe.workflow.loading import load
from icefloe.workflow.model import ForeachStep, Param, ParamMode, RetryPolicy, Transition, TypedStep
from icefloe.workflow.problems import DefinitionError
from icefloe.workflow.values import ParamType
from icefloe.workflow.yaml_writer import to_yaml
from tests.projects import wait_until

SEEDS = Path(__file__).parent / "seeds"


def seed(name: str) -> object:
    return load((SEEDS / f"{name}.yaml").read_bytes()).workflow


def test_the_designs_example_in_python_is_the_same_workflow() -> None:
    flow = Pipeline(
        "playback.agg",
        owner="playback-team",
        description="Minutes watched per account and day, kept exact while late events arrive",
        triggers=[incremental("db.playback_daily", at_most_every="15m")],
        TARGET="db.playback_agg",
    )
    changes = flow.capture(
        "capture_change", "db.playback_daily", capture_mode="ICDC", data_operations=["append"], columns=["event_day"]
    )
    totals = flow.spark(
        "aggregate",
        "SELECT account_id, country, event_day, count(*) AS views, sum(view_min) AS view_min\n"
        "FROM db.playback_daily GROUP BY account_id, country, event_day\n",
        table="${TARGET}",
        keys=["account_id", "country", "event_day"],
        pattern="auto",
    )
    done = flow.commit("commit_checkpoint", changes)
    changes >> totals >> done
    assert flow.workflow() == seed("playback_agg")


def test_everything_that_write_knows_can_be_said_in_python() -> None:
    flow = Pipeline("playback.lookback")
    more = {"range": "event_day last 14d", "lookback": "14d", "compact": "off", "search": "off"}
    flow.spark("aggregate", "SELECT 1 AS event_day", table="db.agg", keys=["event_day"], write=more)
    (step,) = flow.workflow().steps
    assert isinstance(step, TypedStep)
    assert step.settings["write"] == {"table": "db.agg", "keys": ["event_day"], **more}
    wrong = Pipeline("playback.lookback")
    wrong.spark("aggregate", "SELECT 1 AS event_day", table="db.agg", write={"range": "event_day lately"})
    with pytest.raises(DefinitionError, match="is no range"):
        wrong.build()


def test_auto_remediation_in_python_is_the_same_workflow() -> None:
    flow = Pipeline("auto.remediation.pipeline")
    normal = flow.subworkflow("normal_workflow", "demo.pipeline", failure_mode="IGNORE_FAILURE")
    check = flow.noop("check_status")
    recovery = flow.subworkflow("recovery", "example.recovery.wf")
    again = flow.subworkflow("re_run", "demo.pipeline")
    end = flow.noop("end")
    normal >> check
    failed = "params.getFromStep('normal_workflow', 'MAESTRO_STEP_STATUS') == 'COMPLETED_WITH_ERROR'"
    check.when(failed, recovery >> again >> end, otherwise=end)
    assert flow.workflow() == seed("auto_remediation")


def test_the_short_form_in_python_is_the_same_workflow() -> None:
    flow = Pipeline("playback_daily_workflow")
    capture = flow.icdc("capture_icdc", "db.playback_table", "db.playback_icdc_table")
    capture >> flow.spark("transform_new_data", "merge_incremental_spark_job.py")
    assert flow.workflow() == seed("playback_daily")


def test_parameters_take_their_types_from_python_values() -> None:
    flow = Pipeline(
        "p",
        n=5,
        f=1.5,
        s="x",
        b=True,
        days=[1, 2],
        conf={"a": 1},
        total=expr("n * 2", "long"),
        day=provided(),
        c=constant(7),
    )
    flow.noop("a")
    assert flow.workflow().params == (
        Param("n", ParamType.LONG, value=5),
        Param("f", ParamType.DOUBLE, value=1.5),
        Param("s", ParamType.STRING, value="x"),
        Param("b", ParamType.BOOLEAN, value=True),
        Param("days", ParamType.LONG_ARRAY, value=(1, 2)),
        Param("conf", ParamType.MAP, members=(Param("a", ParamType.LONG, value=1),)),
        Param("total", ParamType.LONG, expression="n * 2"),
        Param("day", ParamType.STRING, mode=ParamMode.PROVIDED),
        Param("c", ParamType.LONG, value=7, mode=ParamMode.CONSTANT),
    )


def test_a_loop_is_a_step_outside_and_a_body_inside() -> None:
    flow = Pipeline("loops")
    capture = flow.capture("cap", "db.t")
    with flow.foreach("per_day", day=capture["changed_partitions"], concurrency=3) as each:
        first = each.spark("rebuild", "select '${day}'", retry=1, timeout="5m")
        first >> [each.shell("check", "echo ${rebuild__rows}"), each.http("tell", "http://localhost")]
    capture >> each >> flow.commit("done", capture)
    workflow = flow.workflow()
    loop = workflow.step("per_day")
    assert isinstance(loop, ForeachStep)
    assert loop.loop_params == (Param("day", ParamType.STRING, value="${cap__changed_partitions}"),)
    assert [(edge.source, edge.target) for edge in loop.transitions] == [("rebuild", "check"), ("rebuild", "tell")]
    assert workflow.transitions == (Transition("cap", "per_day"), Transition("per_day", "done"))
    assert loop.steps[0].retry == RetryPolicy(error=1)
    assert loop.steps[0].timeout == 300.0


def test_what_is_built_can_be_written_as_yaml_and_read_back() -> None:
    flow = Pipeline(
        "all", triggers=[cron("0 3 * * *", "Europe/Berlin"), every("15m"), signal("done", region="eu", n=1)]
    )
    a = flow.python("a", "pkg.mod:run", args=[1, "x"], env={"K": "v"}, colour="red", tags=["t"])
    b = flow.job("b", "spark", {"script": "select 1", "conf": {"spark.x": "1"}})
    flow.sequential(a, b, flow.noop("c"))
    workflow = flow.workflow()
    assert load(to_yaml(workflow)).workflow == workflow


def test_steps_fan_out_and_join() -> None:
    flow = Pipeline("fan")
    start, left, right, end = (flow.noop(name) for name in ("start", "left", "right", "end"))
    start >> [left, right]
    [left, right] >> end
    arrows = [(edge.source, edge.target) for edge in flow.workflow().transitions]
    assert arrows == [("start", "left"), ("start", "right"), ("left", "end"), ("right", "end")]


def test_mistakes_are_told_all_at_once_with_their_python_lines() -> None:
    flow = Pipeline("bad id", odd=[1, "a"])
    flow.spark("a", "select 1", keys=["k"])
    flow.job("b", "Sprak")
    flow.http("c", "u", method="GTE", timeout="soon")  # type: ignore[arg-type]
    flow.noop("c")
    flow.noop("d e", failure_mode="IGNORE")
    with pytest.raises(DefinitionError) as caught:
        flow.build()
    first = min(problem.position.line for problem in caught.value.problems if problem.position)
    lines = [(problem.position and problem.position.line - first, problem.code) for problem in caught.value.problems]
    assert lines[:2] == [(0, "workflow.id"), (0, "definition.invalid")]
    assert (2, "definition.invalid") in lines
    assert (3, "step.settings") in lines
    assert (4, "step.duplicate-id") in lines
    assert (5, "step.id") in lines
    assert all(str(problem.position).startswith("test_builder.py:") for problem in caught.value.problems)


def test_steps_of_different_levels_cannot_be_connected() -> None:
    flow = Pipeline("levels")
    outside = flow.noop("outside")
    with flow.foreach("loop", i=[1]) as each:
        inside = each.noop("inside")
    outside >> inside
    with pytest.raises(DefinitionError, match="not on the same level"):
        flow.build()


# --- pipeline files ------------------------------------------------------------------------------------------------------


def write(folder: Path, text: str) -> Path:
    file = folder / "pipeline.py"
    file.write_text(text, encoding="utf-8")
    return file


def test_a_python_file_gives_its_pipelines(tmp_path: Path) -> None:
    (tmp_path / "names.py").write_text("TABLE = 'db.t'\n", encoding="utf-8")
    file = write(
        tmp_path,
        "from icefloe.workflow.builder import Pipeline\nfrom names import TABLE\nprint('noise')\n"
        "one = Pipeline('one')\none.capture('c', TABLE)\ntwo = Pipeline('two')\ntwo.noop('n')\nsame = two\n",
    )
    found = load_file(file)
    assert [loaded.workflow.id for loaded in found] == ["one", "two"]
    assert found[0].warnings[0].code == "capture.uncommitted"
    assert str(found[0].warnings[0].position) == f"{file}:5:1"


@pytest.mark.parametrize(
    ("text", "part", "line"),
    [
        ("x = 1\n", "holds no Pipeline", None),
        ("x = 1\n1 / 0\n", "ZeroDivisionError", 2),
        ("import nothing_of_that_name\n", "ModuleNotFoundError", 1),
        ("def f(:\n", "SyntaxError", 1),
        ("import sys\nsys.exit(3)\n", "SystemExit", 2),
        ("import os\nos._exit(7)\n", "ended with status 7", None),
    ],
)
def test_a_python_file_that_fails_is_one_error_with_its_line(
    tmp_path: Path, text: str, part: str, line: int | None
) -> None:
    file = write(tmp_path, text)
    with pytest.raises(PipelineFileError, match=part) as caught:
        inspect_file(file)
    assert caught.value.where == (f"{file}:{line}" if line else str(file))


def test_a_python_file_that_never_ends_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("icefloe.service.definitions.PYTHON_SECONDS", 1.0)
    marker = tmp_path / "child.pid"
    file = write(
        tmp_path,
        "import subprocess, time\n"
        f"child = subprocess.Popen(['sleep', '600'])\nopen({str(marker)!r}, 'w').write(str(child.pid))\n"
        "while True: time.sleep(1)\n",
    )
    with pytest.raises(PipelineFileError, match="did not end"):
        inspect_file(file)
    if marker.exists():
        state = Path(f"/proc/{marker.read_text()}/stat")
        # It is killed, but dies when the kernel comes to it.
        wait_until(lambda: _gone(state), what="its own child to be gone")


def _gone(state: Path) -> bool:
    try:
        return state.read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


@pytest.mark.parametrize("odd", [{"a": {1, 2}}, {"a": object()}, {"a": float("nan")}])
def test_what_cannot_be_stored_is_refused(odd: dict[str, object]) -> None:
    flow = Pipeline("odd")
    flow.http("a", "http://localhost", body=odd)
    with pytest.raises(DefinitionError, match="cannot be stored"):
        flow.build()


def test_triggers_that_never_fire_are_refused_where_they_are_written() -> None:
    for wrong in (
        lambda: cron("nonsense"),
        lambda: cron("@daily", "Mars/Olympus"),
        lambda: every(0),
        lambda: every("soon"),
    ):
        with pytest.raises(ValueError):
            wrong()
