"""The savings ledger on both state databases."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from icefloe.planner.inputs import Size
from icefloe.service.savings import savings
from icefloe.store import savings as stored
from icefloe.store.database import Database
from icefloe.store.retention import Limits, SavingsRetention
from icefloe.store.savings import SavingsRecord


@pytest.fixture
def database(state_url: str) -> Iterator[Database]:
    made = Database(state_url)
    yield made
    made.close()


def record(run: str = "w-1", **changes: Any) -> SavingsRecord:
    values: dict[str, Any] = {
        "root_id": run, "place": "agg", "target": "db.t", "workflow_id": "w", "step": "agg", "pattern": "append",
        "compared_with": "a full recomputation", "read_files": 1, "read_rows": 10, "read_bytes": 100, "instead_files": 10,
        "instead_rows": 1_000, "instead_bytes": 10**13, "written_files": 2, "written_rows": 10, "written_bytes": 90,
        "written_delete_files": 1, "seconds": 2.5, "notes": ("a note",), "recorded_at": 100.0,
    }  # fmt: skip
    return SavingsRecord(**{**values, **changes})


def add(database: Database, *records: SavingsRecord) -> None:
    for one in records:
        with database.write() as connection:
            stored.add(connection, one)


def test_a_line_comes_back_as_it_was_written(database: Database) -> None:
    known, unknown = record(), record("w-2", seconds=None, notes=())
    add(database, known, unknown)
    with database.read() as connection:
        assert stored.listing(connection) == [known, unknown]


def test_a_batch_that_is_told_again_counts_once_and_stays_as_it_was(database: Database) -> None:
    add(database, record(), record(read_bytes=999, recorded_at=200.0), record(place="1/agg"), record(target="db.u"))
    found = savings(database)
    assert [(line.target, line.runs, line.read.bytes) for line in found.lines] == [("db.t", 2, 200), ("db.u", 1, 100)]


def test_a_transaction_that_is_rolled_back_leaves_no_line(database: Database) -> None:
    with pytest.raises(RuntimeError), database.write() as connection:
        stored.add(connection, record())
        raise RuntimeError
    assert savings(database).total.runs == 0


def test_lines_are_by_workflow_step_and_target_and_the_total_is_their_sum(database: Database) -> None:
    add(
        database,
        record("w-1"),
        record("w-2", seconds=None, compared_with="a lookback over the newest 14 days"),
        record("v-1", workflow_id="v", notes=()),
        record("w-1", place="other", step="other"),
    )
    found = savings(database)
    assert [(line.workflow_id, line.step, line.runs) for line in found.lines] == [
        ("v", "agg", 1),
        ("w", "agg", 2),
        ("w", "other", 1),
    ]
    both = found.lines[1]
    assert (both.seconds, both.timed) == (2.5, 1)
    assert both.compared_with == ("a full recomputation", "a lookback over the newest 14 days")
    assert both.notes == ("a note",)
    assert found.total.runs == 4
    assert found.total.read == Size(4, 40, 400) and found.total.instead == Size(40, 4_000, 4 * 10**13)
    assert found.total.written == Size(8, 40, 360) and found.total.written_delete_files == 4
    assert found.total.ratio == 400 / (4 * 10**13)


def test_only_the_workflow_and_the_time_that_were_asked_for(database: Database) -> None:
    add(database, record("w-1"), record("w-2", recorded_at=300.0), record("v-1", workflow_id="v", recorded_at=300.0))
    assert [line.workflow_id for line in savings(database, workflow_id="w").lines] == ["w"]
    assert savings(database, workflow_id="w").total.runs == 2
    assert savings(database, since=300.0).total.runs == 2
    assert savings(database, workflow_id="w", since=300.0).total.runs == 1


def test_an_empty_ledger_has_no_ratio(database: Database) -> None:
    found = savings(database)
    assert (found.lines, found.total.runs, found.total.ratio) == ((), 0, None)


def test_what_was_saved_so_far_survives_the_lines_it_was_counted_from(database: Database) -> None:
    add(
        database,
        record("w-1"),
        record("w-2", seconds=None, recorded_at=200.0, compared_with="a lookback", notes=("another",)),
        record("w-2", target="db.u", recorded_at=200.0),
        record("w-3", recorded_at=300.0),
    )
    before = savings(database)
    for moment, gone, left in ((150.0, 1, 3), (250.0, 2, 1)):
        limits = Limits(moment, {"savings": moment}, 20)
        with database.write() as connection:
            assert SavingsRetention().due(connection, limits).items == gone
            assert SavingsRetention().delete(connection, limits).items == gone
        with database.read() as connection:
            assert len(stored.listing(connection)) == left
        assert savings(database) == before
        assert savings(database, workflow_id="w") == before
    since = savings(database, since=200.0)
    assert (since.total.runs, since.left_out_until) == (2, 200.0), "w-3, and db.u's sum, which begins then"
    assert (savings(database, since=250.0).total.runs, savings(database, since=250.0).left_out_until) == (1, None)
