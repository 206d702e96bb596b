"""What is past its keep time goes, and what is needed stays, on both databases."""

from __future__ import annotations

import time

import pytest

from icefloe.service.janitor import Janitor
from icefloe.service.runs import RunDeletedError
from icefloe.store import janitor
from tests.projects import Project


def test_old_runs_go_their_occasions_do_not_and_the_last_twenty_stay(project: Project) -> None:
    workflow = project.push("Workflow: {id: w, jobs: [{job: {id: a, type: NoOp}}]}")
    runs = [project.client.runs.start(workflow, occasion=f"at {n}").run_id for n in range(23)]
    for run in runs:
        project.client.work(run)
    keeper = Janitor(project.config, project.client.database)
    now = time.time() + 100 * 86_400.0
    due = {item.kind: item.items for item in keeper.due(now)}
    gone = {item.kind: item.items for item in keeper.prune(now)}
    assert due["runs"] > 0 and gone["runs"] == due["runs"]
    assert [run.run_id for run in project.client.runs.listing(workflow)] == runs[:2:-1]
    with pytest.raises(RunDeletedError):
        project.client.runs.restart(runs[0])
    again = project.client.runs.start(workflow, occasion="at 0")
    assert (again.run_id, again.created) == (runs[0], False)
    assert all(item.items == 0 for item in keeper.prune(now))
    with project.client.database.read() as connection:
        assert {entry.kind for entry in janitor.listing(connection)} >= {"runs"}
