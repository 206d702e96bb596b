"""The stream of changes, on both databases: nothing that happens is missed, however slow, late or many the readers are."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx
import pytest
import sqlalchemy as sa

from icefloe.server import changes
from icefloe.server.changes import ChangeFeed
from icefloe.server.listening import Listener
from icefloe.server.routes import changes as route
from icefloe.service.access import Access
from icefloe.service.state_changes import ChangeReader, Position, missed
from icefloe.store.tables import events
from tests.contract.server.conftest import Stage, code
from tests.projects import Project, wait_until

MANY = "Workflow: {id: many, run_strategy: {rule: PARALLEL, concurrency: 100}, jobs: [{job: {id: one, type: NoOp}}]}"


@dataclass
class Reader:
    """What one stream has told so far."""

    changes: list[dict[str, Any]] = field(default_factory=list)
    ids: list[str] = field(default_factory=list)
    ended: threading.Event = field(default_factory=threading.Event)

    @property
    def topics(self) -> set[str]:
        return {topic for change in self.changes for topic in change["topics"]}

    def heard(self, *topics: str) -> None:
        wait_until(lambda: set(topics) <= self.topics, 30, f"{topics} of {self.topics}")


@contextmanager
def reading(rest: httpx.Client, **headers: str) -> Iterator[Reader]:
    reader = Reader()

    def read(stream: httpx.Response) -> None:
        try:
            for line in stream.iter_lines():
                if line.startswith("id: "):
                    reader.ids.append(line[4:])
                if line.startswith("data: "):
                    reader.changes.append(json.loads(line[6:]))
        except (httpx.HTTPError, httpx.StreamError):  # closed at the end of the test
            pass
        finally:
            reader.ended.set()

    with (
        httpx.Client(base_url=rest.base_url, headers=rest.headers, timeout=60) as http,
        http.stream("GET", "/api/v1/changes", headers=headers) as stream,
    ):
        assert stream.status_code == 200 and stream.headers["content-type"].startswith("text/event-stream")
        thread = threading.Thread(target=read, args=(stream,), daemon=True)
        thread.start()
        yield reader


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(changes, "LEAST_SECONDS", 0.05)
    monkeypatch.setattr(changes, "WAIT_SECONDS", 0.2)


def test_what_happens_is_told_by_its_topics(rest: httpx.Client, stage: Stage) -> None:
    stage.project.push(MANY)
    with reading(rest) as reader:
        reader.heard("all")  # the first look of the first reader
        rest.post("/api/v1/runs", json={"workflow": "many"})
        reader.heard("runs", "run:many-1", "workflow:many")
        rest.post("/api/v1/signals", json={"name": "a"})
        reader.heard("signals")
        rest.post("/api/v1/workflows/many/pause")
        reader.heard("workflows", "consumers")  # what is on the audit record
        assert all(change["connected"] for change in reader.changes)


def test_who_comes_back_with_the_last_id_hears_what_was_missed_and_nothing_else(
    rest: httpx.Client, stage: Stage
) -> None:
    stage.project.push(MANY)
    with reading(rest) as reader:
        reader.heard("all")
        rest.post("/api/v1/runs", json={"workflow": "many"})
        reader.heard("run:many-1")
        # Later ids are the same place, or further on.
        last = wait_until(lambda: reader.ids and reader.ids[-1])
    rest.post("/api/v1/signals", json={"name": "meanwhile"})
    rest.post("/api/v1/runs", json={"workflow": "many"})
    with reading(rest, **{"Last-Event-ID": last}) as again:
        again.heard("signals", "run:many-2")
        assert "all" not in again.changes[0]["topics"] and "incidents" not in again.changes[0]["topics"]
    for odd in ("0", "x", "1.2.3", "9" * 100):
        with reading(rest, **{"Last-Event-ID": odd}) as lost:
            lost.heard("all")
    too_long = rest.get("/api/v1/changes", headers={"Last-Event-ID": "9" * 1000})
    assert (too_long.status_code, code(too_long)) == (400, "request.invalid")


def test_many_readers_hear_the_same_and_one_thread_looks_for_all_of_them(rest: httpx.Client, stage: Stage) -> None:
    stage.project.push(MANY)
    from contextlib import ExitStack

    with ExitStack() as stack:
        readers = [stack.enter_context(reading(rest)) for _ in range(30)]
        rest.post("/api/v1/runs", json={"workflow": "many"})
        for reader in readers:
            reader.heard("run:many-1")
        assert sum(thread.name == "icefloe-changes" for thread in threading.enumerate()) == 1


def test_more_streams_than_are_served_are_refused_until_others_end(
    rest: httpx.Client, stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(changes, "MOST_STREAMS", 1)
    monkeypatch.setattr(route, "BEAT_SECONDS", 0.05)
    with reading(rest) as reader:
        reader.heard("all")
        refused = rest.get("/api/v1/changes")
        assert (refused.status_code, code(refused), refused.json()["retryable"]) == (429, "server.too-many", True)

    def comes_in() -> bool:
        try:
            with reading(rest):
                return True
        except AssertionError:
            return False

    wait_until(comes_in)


def test_a_stream_ends_with_the_token_that_opened_it(
    rest: httpx.Client, stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(route, "BEAT_SECONDS", 0.05)
    access = Access(stage.project.client.database)
    rest.headers["Authorization"] = f"Bearer {access.add_token('ada')}"
    with reading(rest) as reader:
        reader.heard("all")
        assert not reader.ended.is_set()
        access.revoke_token("ada")
        assert reader.ended.wait(30)


def test_at_the_end_of_the_server_streams_end_and_no_thread_is_left(rest: httpx.Client, listener: Listener) -> None:
    with reading(rest) as reader:
        reader.heard("all")
        began = time.monotonic()
        listener.close()
        assert reader.ended.wait(30)
        assert time.monotonic() - began < 30
    assert not [thread for thread in threading.enumerate() if thread.name == "icefloe-changes"]


def test_a_database_that_is_away_is_told_and_so_is_its_return(
    rest: httpx.Client, stage: Stage, listener: Listener, monkeypatch: pytest.MonkeyPatch
) -> None:
    database = stage.project.client.database
    with reading(rest) as reader:
        reader.heard("all")
        before = len(reader.changes)

        def away(connection: Any, _record: Any, _proxy: Any) -> None:
            raise sa.exc.OperationalError("SELECT", {}, Exception("the server has closed the connection"))

        sa.event.listen(database._engine, "checkout", away)
        try:
            wait_until(lambda: any(not change["connected"] for change in reader.changes[before:]), 30)
        finally:
            sa.event.remove(database._engine, "checkout", away)
        wait_until(lambda: reader.changes[-1]["connected"] and "all" in reader.changes[-1]["topics"], 30)


# -- the reader by itself ----------------------------------------------------------------------------------------------------


def add_event(connection: sa.Connection, run: str) -> None:
    connection.execute(
        sa.insert(events),
        {
            "run_id": run,
            "step_id": None,
            "attempt": None,
            "at": 0.0,
            "previous": None,
            "status": "RUNNING",
            "cause": None,
        },
    )


def test_an_event_that_is_committed_after_one_with_a_higher_number_is_told(project: Project) -> None:
    """PostgreSQL numbers rows when they are inserted, and shows them when they are committed. SQLite has one writer at a time."""
    project.push(MANY)
    runs = [project.start("many") for _ in range(2)]
    database = project.client.database
    reader = ChangeReader(database)
    assert reader.look() == ("all",)
    assert reader.look() == ()
    if database.is_sqlite:
        with database.write() as connection:
            add_event(connection, runs[0])
        with database.write() as connection:
            add_event(connection, runs[1])
        assert {f"run:{run}" for run in runs} <= set(reader.look())
        return
    with database.write() as slow:
        add_event(slow, runs[0])
        with database.write() as quick:
            add_event(quick, runs[1])
        told = reader.look()
        assert f"run:{runs[1]}" in told and f"run:{runs[0]}" not in told
        came_by = str(reader.position)
    assert f"run:{runs[0]}" in reader.look()
    assert reader.look() == ()
    position = Position.parse(came_by)
    assert position is not None and f"run:{runs[0]}" in missed(database, position)


def test_more_than_can_be_named_is_everything(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    from icefloe.service import state_changes

    monkeypatch.setattr(state_changes, "MOST_RUNS", 3)
    project.push(MANY)
    reader = ChangeReader(project.client.database)
    reader.look()
    for _ in range(4):
        project.start("many")
    assert "all" in reader.look()


def test_a_slow_reader_is_told_everything_at_once(project: Project) -> None:
    import asyncio

    async def slow() -> changes.Change | None:
        feed = ChangeFeed(project.client.database)
        subscription = feed.subscribe()
        try:
            for number in range(5):
                feed._tell(changes.Change(str(number), (f"run:{number}", "runs")))
            await asyncio.sleep(0)
            return await subscription.next(5)
        finally:
            feed.unsubscribe(subscription)
            await asyncio.to_thread(feed.close)

    change = asyncio.run(slow())
    assert change is not None and change.id == "4"
    assert {f"run:{number}" for number in range(5)} <= set(change.topics)
