"""Hosts and catalogs that never answer: a step keeps its timeout, can be stopped, and takes nothing from others."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

import pytest

from icefloe import suppressed
from icefloe.engine import executor
from icefloe.steps.contract import Done, Outcome, OutcomeKind, Progress, StepContext, StepRuntime, builtin
from icefloe.steps.noop import NoOpStep
from icefloe.steps.registry import OWN, Registry
from icefloe.workflow.step_types import HttpSettings, StepType
from tests.projects import Project, make_project, wait_until

LATE = b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\nConnection: close\r\n\r\nlate"


@dataclass
class SilentHost:
    """Takes connections and says nothing, until :meth:`answer`."""

    address: str
    connections: list[socket.socket] = field(default_factory=list)

    def answer(self) -> None:
        for connection in self.connections:
            connection.sendall(LATE)
            connection.close()


@pytest.fixture
def silent() -> Iterator[SilentHost]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        host = SilentHost(f"http://127.0.0.1:{listener.getsockname()[1]}")

        def accept() -> None:
            while True:
                try:
                    host.connections.append(listener.accept()[0])
                except OSError:
                    return

        thread = threading.Thread(target=accept)
        thread.start()
        yield host
        listener.shutdown(socket.SHUT_RDWR)
        thread.join()
        for connection in host.connections:
            connection.close()


def asking(host: SilentHost, more: str = "") -> str:
    return f"""
    Workflow:
      id: asking
      jobs:
        - job: {{id: ask, type: Http, http: {{url: "{host.address}/"}}{more}}}
        - job: {{id: after, type: NoOp}}
      dag: sequential
    """


QUICK = "Workflow: {id: quick, jobs: [{job: {id: say, type: Shell, shell: {script: 'echo x'}}}]}"


def test_a_host_that_never_answers_ends_by_the_steps_timeout_and_a_late_answer_changes_nothing(
    project: Project, silent: SilentHost
) -> None:
    run = project.start(project.push(asking(silent, ", timeout: 0.5s, retry: {timeout: 0}")))
    with project.worker():
        view = wait_until(lambda: (now := project.show(run)).ended and now)
        assert (view.status, view.steps[0].status) == ("FAILED", "TIMEOUT_FAILED")
        silent.answer()
        quick = project.start(project.push(QUICK))  # the worker is well
        wait_until(lambda: project.show(quick).status == "SUCCEEDED")
    after = project.show(run)
    assert (after.status, after.steps[0].outputs) == ("FAILED", view.steps[0].outputs)
    assert project.statuses(run) == {"ask": "TIMEOUT_FAILED", "after": "CREATED"}


def test_a_step_that_waits_for_a_host_is_stopped(project: Project, silent: SilentHost) -> None:
    run = project.start(project.push(asking(silent)))
    with project.worker():
        wait_until(lambda: silent.connections)
        project.client.runs.stop(run)
        view = wait_until(lambda: (now := project.show(run)).ended and now)
        silent.answer()
    assert (view.status, project.statuses(run)["ask"]) == ("STOPPED", "STOPPED")


def test_a_worker_that_is_told_to_end_does_not_wait_for_a_host(project: Project, silent: SilentHost) -> None:
    run = project.start(project.push(asking(silent)))
    with project.worker():
        wait_until(lambda: silent.connections)
    silent.answer()
    assert project.show(run).status == "IN_PROGRESS"
    silent.connections.clear()
    with project.worker():  # another one asks again
        wait_until(lambda: silent.connections)
        silent.answer()
        wait_until(lambda: project.show(run).status == "SUCCEEDED")


def test_hosts_that_hang_take_no_slot_from_others(project: Project, silent: SilentHost) -> None:
    """More of them than the worker has slots, one after another."""
    workflow = project.push(asking(silent, ", timeout: 0.5s, retry: {timeout: 0}"))
    hanging = [project.start(workflow) for _ in range(2 * project.config.engine.slots)]
    quick = project.start(project.push(QUICK))
    with project.worker():
        wait_until(lambda: project.show(quick).status == "SUCCEEDED")
        wait_until(lambda: all(project.show(run).ended for run in hanging))
        silent.answer()
    assert {project.statuses(run)["ask"] for run in hanging} == {"TIMEOUT_FAILED"}


@pytest.mark.parametrize("way", ["timeout", "stop"])
def test_a_capture_whose_catalog_hangs_ends(tmp_path: Path, state_url: str, silent: SilentHost, way: str) -> None:
    project = make_project(tmp_path / "hanging", state_url, catalog={"type": "rest", "uri": silent.address})
    more = "timeout: 0.5s, retry: {timeout: 0}, " if way == "timeout" else ""
    text = f"""
    Workflow:
      id: capturing
      jobs:
        - job: {{id: new, type: IpCapture, {more}ip_capture: {{source_tables: [db.events]}}}}
    """
    run = project.start(project.push(text))
    with project.worker():
        wait_until(lambda: silent.connections)
        if way == "stop":
            project.client.runs.stop(run)
        view = wait_until(lambda: (now := project.show(run)).ended and now)
        quick = project.start(project.push(QUICK))
        wait_until(lambda: project.show(quick).status == "SUCCEEDED")
    assert view.steps[0].status == ("STOPPED" if way == "stop" else "TIMEOUT_FAILED")
    project.client.close()


class After(StepRuntime):
    """Done at once; what follows its commit depends on its address."""

    type: ClassVar[StepType] = builtin("http")

    def __init__(self) -> None:
        self.hanging: list[str] = []
        self.over = threading.Event()
        self.reached = threading.Event()

    def start(self, context: StepContext) -> Progress:
        settings = context.parsed(self.type)
        assert isinstance(settings, HttpSettings)
        return Done(Outcome(OutcomeKind.SUCCEEDED), after_commit=getattr(self, settings.url.rpartition("/")[2]))

    def hang(self) -> None:
        self.hanging.append("x")
        self.over.wait(60)

    def fail(self) -> None:
        raise OSError("the catalog went away")

    def mark(self) -> None:
        self.reached.set()


def following(action: str) -> str:
    return f"""
    Workflow:
      id: {action}
      jobs:
        - job: {{id: done, type: Http, http: {{url: "http://nowhere/{action}"}}}}
    """


@pytest.fixture
def after() -> Iterator[tuple[After, Registry]]:
    runtime = After()
    yield runtime, Registry([NoOpStep(), runtime], {name: place for name, place in OWN.items() if name != "http"})
    runtime.over.set()


def test_what_follows_a_commit_and_hangs_holds_up_neither_steps_nor_for_ever_what_follows_others(
    project: Project, after: tuple[After, Registry], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(executor, "MOST_AFTERWARDS_SECONDS", 1.0)
    runtime, registry = after
    hang = project.push(following("hang"))
    runs = [project.start(hang) for _ in range(executor.AFTERWARDS_THREADS)]
    with project.worker(registry):
        wait_until(lambda: len(runtime.hanging) == executor.AFTERWARDS_THREADS)
        assert all(project.show(run).status == "SUCCEEDED" for run in runs)
        mark = project.start(project.push(following("mark")))
        wait_until(lambda: project.show(mark).status == "SUCCEEDED")
        assert runtime.reached.wait(20)
        runtime.over.set()


def test_what_follows_a_commit_and_fails_is_counted_and_shown_with_the_run(
    project: Project, after: tuple[After, Registry]
) -> None:
    _, registry = after
    before = suppressed.counts().get("after_commit")
    run = project.start(project.push(following("fail")))
    with project.worker(registry):
        wait_until(lambda: project.show(run).status == "SUCCEEDED")
        texts = wait_until(lambda: [w for w in project.show(run).warnings if "the catalog went away" in w])
    assert texts and project.show(run).status == "SUCCEEDED"
    counted = suppressed.counts()["after_commit"]
    assert counted.count == (before.count if before else 0) + 1
    assert run in counted.last
