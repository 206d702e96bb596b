"""What is past its keep time goes, and what is needed stays, on both databases."""

from __future__ import annotations

import os
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from icefloe.config import Config
from icefloe.engine.attempts import attempt_folder
from icefloe.service import janitor as service
from icefloe.service.janitor import Janitor, JanitorBusyError, Pruned
from icefloe.service.runs import RunDeletedError
from icefloe.service.serving import Service
from icefloe.steps.contract import AttemptKey
from icefloe.store import access, captures, idempotency, janitor, retention, tables
from icefloe.store.access import LoginLinkRecord, SessionRecord
from icefloe.store.captures import CaptureRecord
from icefloe.store.idempotency import KeptAnswer
from tests.projects import Project, wait_until

DAY = 86_400.0
NOOP = "Workflow: {id: w, run_strategy: {rule: PARALLEL, concurrency: 100}, jobs: [{job: {id: a, type: NoOp}}]}"


def keeping(config: Config, **changes: Any) -> Config:
    return config.model_copy(update={"keep": config.keep.model_copy(update=changes)})


def history(project: Project, count: int = 23) -> list[str]:
    workflow = project.push(NOOP)
    runs = [project.client.runs.start(workflow, occasion=f"at {n}").run_id for n in range(count)]
    for run in runs:
        project.client.work(run)
    return runs


def count(project: Project, table: sa.Table) -> int:
    with project.client.database.read() as connection:
        return int(connection.execute(sa.select(sa.func.count()).select_from(table)).scalar_one())


def counts(pruned: list[Pruned]) -> dict[str, tuple[int, int]]:
    return {item.kind: (item.items, item.bytes) for item in pruned}


def test_old_runs_go_their_occasions_do_not_and_the_last_twenty_stay(project: Project) -> None:
    runs = history(project)
    keeper = Janitor(project.config, project.client.database)
    now = time.time() + 100 * DAY
    due = keeper.due(now)
    gone = keeper.prune(now)
    assert counts(due) == counts(gone) and counts(gone)["runs"][0] > 0
    assert [run.run_id for run in project.client.runs.listing("w")] == runs[:2:-1]
    for run in (runs[0], f"{runs[0]}:each:1"):
        with pytest.raises(RunDeletedError):
            project.client.runs.restart(run)
    again = project.client.runs.start("w", occasion="at 0")
    assert (again.run_id, again.created) == (runs[0], False)
    assert all(item.items == 0 for item in keeper.prune(now))
    with project.client.database.read() as connection:
        assert {entry.kind for entry in janitor.listing(connection)} >= {"runs"}


FAMILY = """
Workflow:
  id: family
  run_strategy: {rule: PARALLEL, concurrency: 100}
  jobs:
    - foreach:
        id: each
        params: {x: [1, 2, 3]}
        jobs: [{job: {id: item, type: NoOp}}]
    - subworkflow: {id: sub, workflow_id: w}
    - subworkflow: {id: apart, workflow_id: w, sync: false}
  dag: sequential
"""


@pytest.mark.parametrize("at_once", [2, 200])
def test_counting_foresees_what_deleting_does_in_trees_of_runs_and_with_any_keep_times(
    project: Project, at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retention, "MEMBERS_AT_ONCE", at_once)
    project.push(NOOP)
    project.push(FAMILY)
    for number in range(6):
        run = project.client.runs.start("family", occasion=f"family {number}").run_id
        assert project.client.work(run).status == "SUCCEEDED"
    for run in project.client.runs.listing("w", most=100):
        if not run.ended:
            project.client.work(run.run_id)
    now = time.time() + 100 * DAY
    last = project.client.runs.listing("family")[0].run_id
    keeps = ({"runs": None}, {"logs": None, "events": 200 * DAY, "last_runs": 4}, {"occasions": 0.0, "last_runs": 1})
    for keep in keeps:
        config = keeping(project.config, **keep)
        due, gone = (Janitor(config, project.client.database) for _ in range(2))
        foreseen = counts(due.due(now))
        assert counts(gone.prune(now)) == foreseen, keep
    assert foreseen["runs"][0] > 0
    with project.client.database.read() as connection:
        left = set(connection.execute(sa.select(tables.runs.c.root_id)).scalars())
    assert last in left and all(run == last or run.startswith(f"{last}:") for run in left), left
    assert project.client.runs.show(f"{last}:each:2").status == "SUCCEEDED"
    assert count(project, tables.past_occasions) == 0


def test_what_no_checkpoint_names_and_nothing_newer_replaces_stays(project: Project) -> None:
    """Of each consumer the newest capture, the newest committed one, and the newest that was published to each target."""
    now = time.time()
    with project.client.database.write() as connection:
        captures.ensure_consumer(connection, "c", "w", now)
        plan = ("committed old_target", "committed t", "committed t", "abandoned t", "abandoned", "abandoned")
        for number, text in enumerate(plan):
            state, _, target = text.partition(" ")
            record = CaptureRecord(
                f"c{number}", "c", f"gone-{number}", "look", "claim", state, number, [], True, 0.0, now + number, ended_at=now + number
            )  # fmt: skip
            captures.add_capture(connection, record)
            if target:
                captures.publish(
                    connection,
                    capture_id=record.id,
                    step_path="s",
                    iteration=None,
                    target=target,
                    snapshot_id=1,
                    now=now,
                )
    Janitor(keeping(project.config, captures=0.0), project.client.database).prune(now + DAY)
    with project.client.database.read() as connection:
        left = {record.id for record in captures.recent_captures(connection, consumer_name="c", most=10)}
        published = {row["capture_id"] for row in captures.publications_of(connection, [f"c{n}" for n in range(6)])}
        targets = captures.targets_of(connection, "c")
    assert left == {"c0", "c2", "c3", "c5"}, "old target; newest committed; newest in its target; newest"
    assert published == {"c0", "c2", "c3"} and targets == ["old_target", "t"]


def test_logins_that_have_ended_go_and_so_do_answers_kept_for_a_day(project: Project) -> None:
    now = time.time()
    with project.client.database.write() as connection:
        for name, expires_at in (("ended", now - 1), ("valid", now + DAY)):
            access.add_session(connection, SessionRecord(name, "ada", "admin", None, now - 9 * DAY, expires_at))
            access.add_link(connection, LoginLinkRecord(name, "ada", "admin", now - DAY, expires_at))
        for name, made_at in (("old", now - DAY - 1), ("unfinished", now - DAY - 1), ("new", now - DAY + 60)):
            idempotency.claim(connection, "ada", name, "digest", made_at)
            if name != "unfinished":
                idempotency.finish(connection, "ada", name, KeptAnswer(201, {}, b"{}"))
    keeper = Janitor(project.config, project.client.database)
    due = {kind: items for kind, (items, _) in counts(keeper.due(now)).items()}
    gone = {kind: items for kind, (items, _) in counts(keeper.prune(now)).items()}
    assert due == gone
    assert (gone["sessions"], gone["login_links"], gone["idempotency_keys"]) == (1, 1, 2)
    with project.client.database.read() as connection:
        assert access.session(connection, "valid") is not None
        assert connection.execute(sa.select(tables.login_links.c.digest)).scalars().all() == ["valid"]
        assert idempotency.find(connection, "ada", "new") is not None


# -- one at a time -----------------------------------------------------------------------------------------------------------


@contextmanager
def standing_still(monkeypatch: pytest.MonkeyPatch, keeper: Janitor, now: float) -> Iterator[list[BaseException]]:
    """``keeper`` has begun a round and stands between two of its transactions. Yields how it ended, afterwards."""
    ends: list[BaseException] = []
    stands, goes_on = threading.Event(), threading.Event()

    def fault(name: str) -> None:
        if threading.current_thread() is thread and not stands.is_set():
            stands.set()
            assert goes_on.wait(60)

    def work() -> None:
        try:
            keeper.prune(now)
        except BaseException as error:
            ends.append(error)

    monkeypatch.setattr(service, "fault", fault)
    thread = threading.Thread(target=work)
    thread.start()
    try:
        assert stands.wait(60)
        yield ends
    finally:
        goes_on.set()
        thread.join(60)
    assert not thread.is_alive()


def test_while_one_moves_another_is_turned_away(project: Project) -> None:
    history(project)
    now = time.time() + 100 * DAY
    database = project.client.database
    with database.write() as connection:
        assert janitor.take(connection, janitor.lease(connection), "another", now)
    moving = threading.Event()

    def move() -> None:
        while not moving.wait(0.05):
            with database.write() as connection:
                assert janitor.beat(connection, "another", now)

    thread = threading.Thread(target=move)
    thread.start()
    try:
        with pytest.raises(JanitorBusyError, match="another is cleaning up"):
            Janitor(project.config, database).prune(now)
    finally:
        moving.set()
        thread.join()
    assert len(project.client.runs.listing("w", most=100)) == 23


def test_one_that_stands_still_is_replaced_and_deletes_nothing_when_it_comes_back(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = history(project, 22)
    now = time.time() + 100 * DAY
    first = Janitor(project.config, project.client.database)
    with standing_still(monkeypatch, first, now) as ends:
        second = Janitor(project.config, project.client.database, lease_seconds=0.2)
        assert counts(second.prune(now))["runs"][0] > 0
        for number in range(2):  # something that a round would delete, if it were allowed to
            project.client.work(project.client.runs.start("w", occasion=f"later {number}").run_id)
    assert isinstance(ends[0], JanitorBusyError)
    assert [run.run_id for run in project.client.runs.listing("w", most=100)][2:] == runs[:1:-1]
    with project.client.database.read() as connection:
        lease = janitor.lease(connection)
    assert lease is not None and (lease.holder, lease.rounds) == (None, 1)


def test_several_at_once_delete_each_thing_once(project: Project) -> None:
    history(project, 26)
    now = time.time() + 100 * DAY
    due = counts(Janitor(project.config, project.client.database).due(now))
    gone: Counter[str] = Counter()
    busy: list[JanitorBusyError] = []

    def work() -> None:
        try:
            for item in Janitor(project.config, project.client.database).prune(now):
                gone[item.kind] += item.items
        except JanitorBusyError as error:
            busy.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert {kind: gone[kind] for kind in due} == {kind: items for kind, (items, _) in due.items()}
    assert len(busy) < 4
    with project.client.database.read() as connection:
        lease = janitor.lease(connection)
    assert lease is not None and lease.holder is None


# -- files, and serve ----------------------------------------------------------------------------------------------------------


def _made(path: Path, old: bool) -> Path:
    path.mkdir(parents=True)
    (path / "log.0").write_text("what it said")
    if old:
        os.utime(path, (time.time() - 2 * DAY,) * 2)
    return path


def test_folders_and_lock_files_of_the_dead_go_after_a_day_and_those_of_the_living_stay(project: Project) -> None:
    (run,) = history(project, 1)
    database, home = project.client.database, project.config.home
    with database.write() as connection:
        query = sa.update(tables.steps).where(tables.steps.c.run_id == run)
        connection.execute(query.values(owner="somebody", attempt=3, generation=7))
    claimed = _made(attempt_folder(home, AttemptKey(run, "a", 3, 7)), old=True)
    earlier = _made(attempt_folder(home, AttemptKey(run, "a", 3, 6)), old=True)
    fresh = _made(attempt_folder(home, AttemptKey("w-9", "a", 1, 1)), old=False)
    with project.worker() as worker:
        living, dead = home / "workers" / f"{worker.id}.lock", home / "workers" / "killed-7.lock"
        wait_until(living.exists)
        dead.touch()
        for lock in (living, dead):
            os.utime(lock, (time.time() - 2 * DAY,) * 2)
        keeper = Janitor(project.config, database)
        wait_until(lambda: any(record.id == worker.id for record in project.client.workers()))
        due = keeper.due_files()
        assert earlier.exists() and keeper.remove_files() == due and (due.items, due.bytes) == (2, 12)
        assert [path.exists() for path in (claimed, earlier, fresh, living, dead)] == [True, False, True, True, False]


def test_serve_cleans_up_by_itself(project: Project) -> None:
    history(project, 22)
    project.client.config = keeping(project.config, runs=0.0, every_minutes=0.001)
    serving = Service(project.client)
    thread = threading.Thread(target=serving.run)
    thread.start()
    try:
        wait_until(lambda: len(project.client.runs.listing("w", most=100)) == 20, 60)
    finally:
        serving.worker.stop()
        thread.join(60)
    assert not thread.is_alive()


def test_a_catalog_that_is_away_keeps_no_row_from_being_deleted(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    history(project, 22)
    keeper = Janitor(keeping(project.config, runs=0.0, every_minutes=0.001), project.client.database)

    def away(*_: object) -> int:
        raise ConnectionError("no route to the catalog")

    monkeypatch.setattr(keeper, "release", away)
    keeper.start()
    try:
        wait_until(lambda: len(project.client.runs.listing("w", most=100)) == 20, 60)
    finally:
        keeper.stop()
