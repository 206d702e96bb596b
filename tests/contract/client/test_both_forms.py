"""Every verb by ``icefloe.Client``, of a folder and of a server: the same effects, values and errors."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from icefloe.engine.events import Refused
from icefloe.errors import NotFoundError, UsageError
from icefloe.service.interventions import ConsumerMovedError, InterventionRefusedError, Move
from icefloe.service.preconditions import ChangedError
from icefloe.service.runs import DeactivatedError
from icefloe.service.views import RunView, WorkflowView
from icefloe.store.incidents import IncidentRecord
from icefloe.store.signals import SignalRecord
from icefloe.workflow.problems import DefinitionError
from icefloe.workflow.signal_values import SignalError
from tests.contract.capture.conftest import Bench
from tests.contract.capture.test_micro_batches import CONSUMER, copy

SHELL = """
Workflow:
  id: hello
  WHO: world
  COUNT: 3
  retry_policy: {error: 0, platform: 0}
  jobs:
    - job: {id: greet, type: Shell, shell: {script: "echo hello ${WHO} ${COUNT}; test ! -e broken"}}
    - job: {id: after, type: NoOp}
  dag: sequential
"""
WAITS = """
Trigger: {cron: "0 6 * * *"}
Workflow:
  id: waits
  run_strategy: {rule: PARALLEL, concurrency: 9}
  jobs: [{job: {id: one, type: NoOp, signal_dependencies: [{name: go}]}}]
"""


def test_a_run_is_started_worked_on_and_shown_with_its_log(client: Any, bench: Bench) -> None:
    bench.project.push(SHELL)
    started = client.runs.start("hello", texts={"WHO": "you", "COUNT": "7"})
    assert (started.run_id, started.created, started.worker_alive) == ("hello-1", True, False)
    again = client.runs.start("hello", {"WHO": "me"}, occasion="monday")
    assert client.runs.start("hello", {"WHO": "me"}, occasion="monday") == replace(again, created=False)
    bench.project.client.work("hello-1")
    view = client.runs.show("hello-1")
    assert isinstance(view, RunView) and view == bench.project.client.runs.show("hello-1")
    assert (view.status, view.params["COUNT"], [step.id for step in view.steps]) == ("SUCCEEDED", 7, ["greet", "after"])
    assert client.runs.log_attempts("hello-1") == [("greet", 1), ("after", 1)]
    part = client.runs.log("hello-1", "greet", 1)
    assert part.content == b"hello you 7\n"
    assert client.runs.log("hello-1", "greet", 1, part.next_number, part.next_offset).content == b""
    assert client.runs.log_tail("hello-1", "greet", 1) == "hello you 7"
    with pytest.raises(NotFoundError, match="has no step 'gone'"):
        client.runs.log_attempts("hello-1", "gone")
    assert client.wait("hello-1").status == "SUCCEEDED"
    with pytest.raises(TimeoutError):
        client.wait("hello-2", timeout=0.1)


def test_runs_are_listed_newest_first_by_workflow_status_and_time(client: Any, bench: Bench) -> None:
    bench.project.push(SHELL)
    bench.project.push(WAITS)
    for _ in range(3):
        client.runs.start("hello")
    client.runs.start("waits")
    bench.project.client.work("hello-1")
    assert [run.run_id for run in client.runs.listing()] == ["waits-1", "hello-3", "hello-2", "hello-1"]
    assert client.runs.listing() == bench.project.client.runs.listing()
    assert [run.run_id for run in client.runs.listing("hello", most=2)] == ["hello-3", "hello-2"]
    assert [run.run_id for run in client.runs.listing("hello", most=2, before="hello-2")] == ["hello-1"]
    assert [run.run_id for run in client.runs.listing(status="SUCCEEDED")] == ["hello-1"]
    third = client.runs.show("hello-3")
    assert [run.run_id for run in client.runs.listing("hello", until=third.created_at)] == ["hello-2", "hello-1"]
    with pytest.raises(NotFoundError, match="no workflow 'gone'"):
        client.runs.listing("gone")
    with pytest.raises(UsageError, match="status"):
        client.runs.listing(status="GONE")


def test_a_failed_run_is_restarted_from_its_step(client: Any, bench: Bench) -> None:
    bench.project.push(SHELL)
    (bench.project.root / "broken").touch()
    client.runs.start("hello")
    assert bench.project.client.work("hello-1").status == "FAILED"
    with pytest.raises(UsageError, match="contradict"):
        client.runs.restart("hello-1", step="greet", from_beginning=True)
    (bench.project.root / "broken").unlink()
    view = client.runs.restart("hello-1", step="greet", texts={"WHO": "again"}, version="latest")
    assert (view.restarts, view.ended) == (1, False)
    with pytest.raises(Refused):
        client.runs.restart("hello-1")
    assert bench.project.client.work("hello-1").status == "SUCCEEDED"
    assert [(step.id, step.attempts) for step in client.runs.show("hello-1").steps] == [("greet", 2), ("after", 1)]
    assert client.runs.log("hello-1", "greet", 2).content == b"hello again 3\n"
    newest = client.audit("hello-1")[0]
    via = newest.details["via"]
    assert (newest.verb, via) in (("restart", "python"), ("restart", "rest"))
    assert newest.details == {"step": "greet", "version": "latest", "params": {"WHO": "again"}, "via": via}


def test_runs_are_paused_resumed_skipped_stopped_and_killed(client: Any, bench: Bench) -> None:
    bench.project.push(WAITS)
    for _ in range(3):
        client.runs.start("waits")
    assert client.runs.pause("waits-1").status == "PAUSED"
    with pytest.raises(ChangedError):
        client.runs.resume("waits-1", seen=client.runs.show("waits-2").revision + 100)
    assert client.runs.resume("waits-1").status == "IN_PROGRESS"
    assert client.runs.skip("waits-1", "one").status == "SUCCEEDED"
    assert client.runs.stop("waits-2").status == "STOPPED"
    assert client.runs.kill("waits-3").status == "FAILED"
    with pytest.raises(Refused):
        client.runs.stop("waits-3")
    with pytest.raises(NotFoundError, match="no run 'waits-9'"):
        client.runs.stop("waits-9")
    with pytest.raises(NotFoundError):
        client.runs.show("a/../b ?#%")


def test_workflows_are_pushed_from_files_and_compared(client: Any, bench: Bench, definition: Path) -> None:
    definition.write_text(SHELL.replace("echo hello ${WHO} ${COUNT}; test ! -e broken", "script.sh"))
    with pytest.raises(DefinitionError) as caught:
        client.push([definition])
    assert any(problem.code == "file.unreadable" for problem in caught.value.problems)
    definition.write_text("Workflow: {id: x, jobs: 7}")
    with pytest.raises(DefinitionError) as caught:
        client.push([definition])
    assert caught.value.problems[0].position is not None
    definition.write_text(SHELL)
    assert client.diff(definition) == {"hello": None}
    (pushed,) = client.push([definition])
    assert (pushed.workflow_id, pushed.version, pushed.created) == ("hello", 1, True)
    assert client.push([definition])[0].created is False
    definition.write_text(SHELL.replace("COUNT: 3", "COUNT: 4"))
    difference = client.diff(definition)["hello"]
    assert difference and "COUNT" in difference.text
    assert client.push([definition])[0].version == 2
    assert client.workflows.version("hello", 1).source == SHELL
    with pytest.raises(NotFoundError, match="no version 7"):
        client.workflows.version("hello", 7)


def test_pipelines_in_python_and_the_files_they_name_are_pushed(client: Any, bench: Bench, tmp_path: Path) -> None:
    file = tmp_path / "pipeline.py"
    (tmp_path / "query.sql").write_text("SELECT 1")
    file.write_text(
        "from icefloe.workflow.builder import Pipeline\n"
        "flow = Pipeline('python.flow')\n"
        "flow.spark('one', 'query.sql')\n"
    )
    (pushed,) = client.push([file])
    assert (pushed.workflow_id, pushed.created) == ("python.flow", True)
    assert bench.project.client.push([file])[0].created is False, "both forms come to the same definition"
    assert "Pipeline" in client.workflows.version("python.flow", 1).source
    assert "file:query.sql" in client.workflows.version("python.flow", 1).definition


def test_workflows_are_listed_paused_and_switched_off(client: Any, bench: Bench) -> None:
    bench.project.push(SHELL)
    bench.project.push(WAITS)
    assert [view.id for view in client.workflows.listing()] == ["hello", "waits"]
    assert client.workflows.listing() == bench.project.client.workflows.listing()
    view = client.workflows.show("waits")
    assert isinstance(view, WorkflowView) and (view.triggers, view.paused) == (("cron",), False)
    assert client.next_fires()["waits"] > time.time()
    client.workflows.set_paused("waits", True, seen=view.state)
    with pytest.raises(ChangedError):
        client.workflows.set_paused("waits", False, seen=view.state)
    assert client.workflows.show("waits").paused
    client.workflows.set_active("waits", False)
    with pytest.raises(DeactivatedError) as caught:
        client.runs.start("waits")
    assert caught.value.hint == "icefloe activate waits"
    client.workflows.set_active("waits", True)
    assert client.runs.start("waits").created
    assert client.workflows.exists("hello") and not client.workflows.exists("gone")
    client.runs.unblock("hello")
    with pytest.raises(NotFoundError):
        client.runs.unblock("gone")


def test_signals_watermarks_and_why(client: Any, bench: Bench) -> None:
    bench.project.push(WAITS)
    assert client.triggers.signal("go", {"n": [1, 2], "ok": True}, signal_id="s-1") == ("s-1", True)
    assert client.triggers.signal("go", {}, signal_id="s-1") == ("s-1", False)
    (signal,) = client.triggers.signals("go")
    assert isinstance(signal, SignalRecord) and (signal.id, signal.params) == ("s-1", {"n": [1, 2], "ok": True})
    with pytest.raises(SignalError):
        client.triggers.signal("", {})
    held, moved = client.triggers.set_watermark("db.events", "2026-03-02")
    assert moved and client.triggers.watermarks() == [held]
    assert client.triggers.set_watermark("db.events", "2026-03-01")[1] is False
    assert client.triggers.set_watermark("db.events", "2026-03-01", back=True)[1] is True
    why = client.triggers.why("waits")
    assert why.to_dict().keys() == bench.project.client.triggers.why("waits").to_dict().keys()
    (trigger,) = why.triggers
    assert trigger.verdict.kind.value == "wait" and len(trigger.next_fires) == 3
    assert any("no scheduler" in remark for remark in why.remarks)
    with pytest.raises(NotFoundError):
        client.triggers.why("gone")
    assert client.triggers.incidents() == []
    assert client.triggers.schedulers() == [] and client.workers() == [] and not client.worker_alive()


def test_incidents_are_listed_newest_first(client: Any, bench: Bench) -> None:
    from icefloe.store import incidents

    with bench.project.client.database.write() as connection:
        for number in range(3):
            incidents.open_if_new(
                connection, workflow_id="w", kind="late", subject=str(number), message="m", notified="opened", now=1.0
            )
        incidents.close(connection, 2, 2.0)
    found = client.triggers.incidents()
    assert all(isinstance(incident, IncidentRecord) for incident in found)
    assert [incident.subject for incident in found] == ["2", "1", "0"]
    assert [incident.subject for incident in client.triggers.incidents("w", only_open=True)] == ["2", "0"]
    assert client.triggers.incidents("other") == []


def test_consumers_are_shown_and_moved_first_in_a_preview(client: Any, bench: Bench) -> None:
    bench.create("db.events")
    first = bench.append("db.events", 1, 2)
    bench.project.push(copy())
    bench.project.execute("copy")
    second = bench.append("db.events", 3)
    bench.project.execute("copy")
    bench.append("db.events", 4)
    (position,) = client.consumers.listing()
    assert (position.consumer, position.snapshot_id, position.lag_snapshots, position.lag_rows) == (
        CONSUMER,
        second,
        1,
        1,
    )
    view = client.consumers.show(CONSUMER)
    assert (view.version, [capture.state for capture in view.captures]) == (2, ["committed", "committed"])
    preview = client.consumers.rewind(CONSUMER, first)
    assert (preview.done, preview.moves) == (False, (Move("db.events", second, first, 1, 1),))
    assert bench.version(CONSUMER) == 2
    with pytest.raises(UsageError, match="why"):
        client.consumers.rewind(CONSUMER, first, yes=True)
    done = client.consumers.rewind(CONSUMER, first, yes=True, why="a bad load", agreed=preview.digest)
    assert done.done and bench.checkpoint(CONSUMER).snapshot_id == first  # type: ignore[union-attr]
    with pytest.raises(ConsumerMovedError):
        client.consumers.rewind(CONSUMER, "earliest", yes=True, why="again", agreed=preview.digest)
    assert client.consumers.fast_forward(CONSUMER, yes=True, why="not needed").done
    assert client.consumers.rename(CONSUMER, "copy/new", yes=True, why="renamed").renamed_to == "copy/new"
    (entry, *_) = client.consumers.audit(CONSUMER)
    assert (entry.verb, entry.details["why"]) == ("rename", "renamed")
    assert client.consumers.remove("copy/new", yes=True, why="gone").done
    with pytest.raises(NotFoundError, match="no consumer 'x/y z'"):
        client.consumers.show("x/y z")


def test_captures_are_listed_and_given_up(client: Any, bench: Bench) -> None:
    bench.create("db.events")
    bench.append("db.events", 1, 2)
    bench.project.push(copy())
    (bench.project.root / "broken").touch()
    assert bench.project.execute("copy").status == "FAILED"
    (capture,) = client.consumers.captures(CONSUMER)
    assert client.consumers.captures(state="committed") == []
    assert client.consumers.capture(capture.id).rows == 2
    assert client.consumers.abandon(capture.id).done is False
    assert client.consumers.abandon(capture.id, yes=True, why="wrong day").done
    assert client.consumers.capture(capture.id).state == "abandoned"
    with pytest.raises(UsageError, match="nothing to give up"):
        client.consumers.abandon(capture.id)
    bench.project.client.runs.restart("copy-1")
    with pytest.raises((InterventionRefusedError, UsageError)):
        client.consumers.abandon(capture.id, yes=True, why="again")


def test_savings_are_summed_up(client: Any, bench: Bench) -> None:
    assert client.savings() == bench.project.client.savings()
    assert client.savings(since=1.0).lines == ()
    with pytest.raises(NotFoundError):
        client.savings("gone")
