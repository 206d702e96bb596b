"""Which OpenLineage events a move is, and how runs and tables are named."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from icefloe import config as configuration
from icefloe.errors import ConfigError
from icefloe.service import lineage_receivers
from icefloe.service.lineage_receivers import HttpReceiver
from icefloe.service.run_events import attempt_uuid, dataset_namespace, is_inside, kinds_of, run_uuid
from icefloe.store.activity import LOOK_BACK, MoveRecord, Place

MOVE = MoveRecord(
    seq=1, at=10.0, run_id="w-1", step_id=None, attempt=None, previous=None, status="CREATED", cause=None, workflow_id="w",
    root_id="w-1", version=1, path="", iteration=None, restarts=0, created_at=1.0, started_at=None, ended_at=None,
    step_type=None, available_at=None, attempt_status=None, attempt_started_at=None, attempt_ended_at=None, worker=None,
)  # fmt: skip
ATTEMPT = replace(MOVE, step_id="one", attempt=1, attempt_started_at=2.0)


@pytest.mark.parametrize(
    ("previous", "status", "kinds"),
    [
        (None, "CREATED", ()),
        ("CREATED", "IN_PROGRESS", ("START",)),
        ("PAUSED", "IN_PROGRESS", ()),
        ("IN_PROGRESS", "PAUSED", ()),
        ("IN_PROGRESS", "SUCCEEDED", ("COMPLETE",)),
        ("IN_PROGRESS", "FAILED", ("FAIL",)),
        ("PAUSED", "TIMED_OUT", ("FAIL",)),
        ("IN_PROGRESS", "STOPPED", ("ABORT",)),
        ("CREATED", "STOPPED", ("START", "ABORT")),
        ("FAILED", "CREATED", ()),
    ],
)
def test_moves_of_runs(previous: str | None, status: str, kinds: tuple[str, ...]) -> None:
    assert kinds_of(replace(MOVE, previous=previous, status=status)) == kinds


@pytest.mark.parametrize(
    ("previous", "status", "attempt", "kinds"),
    [
        ("CREATED", "INITIALIZED", None, ()),
        ("INITIALIZED", "STARTING", None, ("START",)),
        ("STARTING", "RUNNING", None, ()),
        ("RUNNING", "RUNNING", None, ()),
        ("RUNNING", "SUCCEEDED", "SUCCEEDED", ("COMPLETE",)),
        ("RUNNING", "INITIALIZED", "USER_FAILED", ("FAIL",)),
        ("RUNNING", "COMPLETED_WITH_ERROR", "COMPLETED_WITH_ERROR", ("FAIL",)),
        ("STARTING", "TIMED_OUT", "TIMED_OUT", ("FAIL",)),
        ("RUNNING", "STOPPED", "STOPPED", ("ABORT",)),
        ("RUNNING", "SKIPPED", None, ("ABORT",)),
        ("CREATED", "SKIPPED", None, ()),
        ("FAILED", "CREATED", None, ()),
    ],
)
def test_moves_of_steps(previous: str, status: str, attempt: str | None, kinds: tuple[str, ...]) -> None:
    ended_at = 10.0 if attempt is not None else None
    move = replace(ATTEMPT, previous=previous, status=status, attempt_status=attempt, attempt_ended_at=ended_at)
    assert kinds_of(move) == kinds


@pytest.mark.parametrize("ended_at", [None, 11.0])
def test_an_attempt_that_another_worker_takes_up_has_not_ended(ended_at: float | None) -> None:
    status = "SUCCEEDED" if ended_at else None
    move = replace(ATTEMPT, previous="RUNNING", status="INITIALIZED", attempt_status=status, attempt_ended_at=ended_at)
    assert kinds_of(move) == ()


def test_ids_are_stable_and_each_restart_and_attempt_has_its_own() -> None:
    # Receivers have it: it must never change.
    assert run_uuid("w-1", 0) == "45c74576-1b41-58e0-9126-244b6219eec2"
    ids = [run_uuid("w-1", 0), run_uuid("w-1", 1), run_uuid("w-2", 0), attempt_uuid("w-1", "one", 1)]
    ids += [attempt_uuid("w-1", "one", 2), attempt_uuid("w-1", "two", 1)]
    assert len(set(ids)) == len(ids)


@pytest.mark.parametrize(
    ("place", "run", "step", "inside"),
    [
        ("write", "w-1", "write", True),
        ("sub/write", "w-1", "write", False),
        ("sub/write", "w-1", None, True),
        ("sub/write", "w-1:sub", "write", True),
        ("sub/write", "w-1:sub", None, True),
        ("days:1/days/write", "w-1:days:1", "write", True),
        ("days:1/days/write", "w-1:days:11", "write", False),
        ("days:1/days/write", "w-1:days:1", "other", False),
        ("days:1:inner:2/days/inner/write", "w-1:days:1", None, True),
        ("days:12/days/write", "w-1:days:1", None, False),
    ],
)
def test_what_was_published_belongs_to_the_step_and_the_runs_around_it(
    place: str, run: str, step: str | None, inside: bool
) -> None:
    assert is_inside(place, "w-1", run, step) is inside


def config(root: Path, **sections: Any) -> configuration.Config:
    return configuration.from_dict(sections, root=root)


def test_tables_are_named_by_where_the_catalog_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CATALOG_PASSWORD", "s3cret")
    address = "https://me:$ENV{CATALOG_PASSWORD}@catalog.example/ws/?key=x"
    for catalog, namespace in (
        ({}, f"file://{tmp_path}/.icefloe/warehouse"),
        ({"warehouse": "s3://bucket/prefix/"}, "s3://bucket/prefix"),
        ({"type": "rest", "uri": address, "warehouse": "plain"}, "https://catalog.example/ws"),
        ({"type": "hive", "uri": "thrift://meta.example:9083"}, "hive://meta.example:9083"),
        ({"type": "glue", "warehouse": "s3://bucket/w"}, "s3://bucket/w"),
        ({"type": "glue", "name": "cloud"}, "cloud"),
    ):
        assert dataset_namespace(config(tmp_path, catalog=catalog)) == namespace


def test_events_go_to_one_place_and_nowhere_without_a_setting(tmp_path: Path) -> None:
    assert lineage_receivers.configured(config(tmp_path)) is None
    with pytest.raises(ConfigError, match="not to both"):
        config(tmp_path, openlineage={"url": "http://localhost:5000", "file": "x.jsonl"})
    with pytest.raises(ConfigError, match="must be an address"):
        config(tmp_path, openlineage={"url": "localhost:5000"})


@pytest.mark.parametrize(
    ("url", "asked"),
    [
        ("http://localhost:5000", "http://localhost:5000/api/v1/lineage"),
        ("http://localhost:5000/", "http://localhost:5000/api/v1/lineage"),
        ("http://localhost:5000/own/path", "http://localhost:5000/own/path"),
    ],
)
def test_an_address_without_a_path_gets_the_usual_one(url: str, asked: str) -> None:
    receiver = HttpReceiver(url)
    assert receiver.url == asked
    receiver.close()


def test_a_place_comes_back_from_its_text_and_forgets_what_is_far_behind() -> None:
    place = Place(10, {9, 10})
    place.pass_by(12)
    place.pass_by(11)
    again = Place.from_text(place.to_text())
    assert (again.last, again.seen) == (12, {9, 10, 11, 12})
    again.pass_by(12 + LOOK_BACK)
    assert again.seen == {12 + LOOK_BACK}
