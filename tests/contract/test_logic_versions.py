"""The record of published SELECTs on both state databases."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from icefloe.store import logic_versions
from icefloe.store.database import Database
from icefloe.store.logic_versions import LogicRecord


@pytest.fixture
def database(state_url: str) -> Iterator[Database]:
    made = Database(state_url)
    yield made
    made.close()


def record(fingerprint: str = "a.b", **changes: Any) -> LogicRecord:
    values: dict[str, Any] = {
        "workflow_id": "w", "place": "agg", "target": "db.t", "ref": "main", "fingerprint": fingerprint,
        "text": "SELECT 'é', \"x\"\n-- 1", "columns": (("n", "bigint"), ("m", "struct<a:int>")), "root_id": "w-1", "recorded_at": 1.5,
    }  # fmt: skip
    return LogicRecord(**{**values, **changes})


def add(database: Database, *records: LogicRecord) -> None:
    for one in records:
        with database.write() as connection:
            logic_versions.add(connection, one)


def known(database: Database, **changes: str) -> list[LogicRecord]:
    key = {"workflow_id": "w", "place": "agg", "target": "db.t", "ref": "main", **changes}
    with database.read() as connection:
        return logic_versions.known(connection, **key)


def test_nothing_is_known_of_a_step_that_never_published(database: Database) -> None:
    assert known(database) == []


def test_versions_come_back_as_they_were_written_the_newest_first(database: Database) -> None:
    first, second = record(), record("c.", columns=None, root_id="w-2")
    add(database, first, second)
    assert known(database) == [second, first]


def test_the_newest_version_said_again_adds_nothing_and_an_older_one_does(database: Database) -> None:
    add(database, record("a."), record("a.", root_id="w-9"), record("b."), record("a.", root_id="w-10"))
    assert [(one.fingerprint, one.root_id) for one in known(database)] == [("a.", "w-10"), ("b.", "w-1"), ("a.", "w-1")]


@pytest.mark.parametrize("part", ["workflow_id", "place", "target", "ref"])
def test_every_workflow_step_target_and_branch_has_its_own(database: Database, part: str) -> None:
    add(database, record("a."), record("b.", **{part: "other"}))
    assert [one.fingerprint for one in known(database)] == ["a."]
    assert [one.fingerprint for one in known(database, **{part: "other"})] == ["b."]


def test_a_transaction_that_is_rolled_back_records_nothing(database: Database) -> None:
    with pytest.raises(RuntimeError), database.write() as connection:
        logic_versions.add(connection, record())
        raise RuntimeError
    assert known(database) == []
