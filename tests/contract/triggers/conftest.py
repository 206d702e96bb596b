"""A project with a lake written by PyIceberg, a scheduler that looks when it is told to, and a clock in the test's hand."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from icefloe.service.scheduling import make_scheduler
from icefloe.service.views import RunView
from icefloe.service.workflows import Workflows
from icefloe.triggers.clocks import Clock
from icefloe.triggers.scheduler import Scheduler
from icefloe.triggers.verdicts import Verdict
from tests.contract.capture.conftest import Bench
from tests.projects import make_project


@dataclass
class Hands:
    """The hands of the test's clock: both clocks move together, and only when told to."""

    now: float

    def clock(self) -> Clock:
        return Clock(lambda: self.now, lambda: self.now)

    def pass_by(self, seconds: float) -> None:
        self.now += seconds


class Stage(Bench):
    """A bench with one scheduler; ``look`` is one whole look at tables and triggers, as the real one's threads do it."""

    def __init__(self, project: Any, hands: Hands) -> None:
        super().__init__(project)
        self.hands = hands
        client = project.client
        client.workflows = Workflows(client.database, client.conductor.definitions, lambda: self.hands.now)
        self.scheduler = self.make_scheduler()

    def make_scheduler(self) -> Scheduler:
        client = self.project.client
        return make_scheduler(self.project.config, client.database, client.runs, clock=self.hands.clock())

    def look(self, scheduler: Scheduler | None = None) -> None:
        one = scheduler or self.scheduler
        for _ in range(10):
            pause = one.look()
            one.tables.look()
            if pause > 0 and not one._news:
                return
        raise AssertionError("the scheduler finds no rest")

    def compact(self, name: str) -> int:
        """A commit that changes no row, as compaction makes them. Returns its snapshot."""
        metadata = self.lake.table(name).metadata
        raw = json.loads(json.dumps(metadata.raw))
        head = next(one for one in raw["snapshots"] if one["snapshot-id"] == raw["current-snapshot-id"])
        number = raw["last-sequence-number"] + 1
        fresh = {
            **head,
            "snapshot-id": head["snapshot-id"] // 2,
            "parent-snapshot-id": head["snapshot-id"],
            "sequence-number": number,
            "summary": {**head["summary"], "operation": "replace", "added-records": "0"},
        }
        raw["snapshots"].append(fresh)
        raw |= {"current-snapshot-id": fresh["snapshot-id"], "last-sequence-number": number}
        raw["refs"]["main"]["snapshot-id"] = fresh["snapshot-id"]
        self.replace_metadata(name, raw)
        return int(fresh["snapshot-id"])

    def replace_metadata(self, name: str, raw: dict[str, Any]) -> None:
        location = f"{raw['location']}/metadata/{raw['last-sequence-number']:05d}-{uuid.uuid4()}.metadata.json"
        Path(location.removeprefix("file://")).write_text(json.dumps(raw))
        self.catalog.drop_table(name)
        self.catalog.register_table(name, location)

    def delete(self, name: str, row: int) -> None:
        self.catalog.load_table(name).delete(f"id = {row}")

    def runs(self, workflow: str) -> list[RunView]:
        """Oldest first."""
        return self.project.client.runs.listing(workflow, most=1000)[::-1]

    def do(self, workflow: str) -> RunView:
        """Execute the last run of a workflow here, to its end; the scheduler sees it end."""
        view = self.project.client.work(self.runs(workflow)[-1].run_id)
        self.look()
        return view

    def verdict(self, workflow: str) -> Verdict:
        (judgement,) = self.scheduler.judgements(workflow).values()
        return judgement.verdict


@pytest.fixture
def stage(state_url: str, tmp_path: Path) -> Iterator[Stage]:
    import time

    made = make_project(tmp_path / "project", state_url)
    yield Stage(made, Hands(time.time()))
    made.client.close()
