"""The state database: the same behaviour on SQLite and on PostgreSQL."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
import sqlalchemy as sa

from icefloe.store import definitions, migrations, runs, workers
from icefloe.store.database import Database, StateUnreachableError, StateUnusableError, prepare_file
from icefloe.store.migrations import SchemaError
from icefloe.store.tables import metadata
from icefloe.store.workers import WorkerRecord
from tests.postgres import Postgres


def test_the_migrations_make_exactly_the_tables_that_the_code_knows(state_url: str) -> None:
    database = Database(state_url)
    with database.read() as connection:
        inspector = sa.inspect(connection)
        found = {
            name: [column["name"] for column in inspector.get_columns(name)]
            for name in inspector.get_table_names()
            if not name.startswith("sqlite_") and name != "schema_version"
        }
    assert {name: sorted(columns) for name, columns in found.items()} == {
        table.name: sorted(column.name for column in table.columns) for table in metadata.sorted_tables
    }
    database.close()


def test_upgrading_again_changes_nothing(state_url: str) -> None:
    database = Database(state_url)
    assert migrations.upgrade(database) == []
    migrations.check(database)
    database.close()


def test_a_schema_that_is_newer_than_the_program_is_refused(state_url: str) -> None:
    database = Database(state_url)
    with database.write() as connection:
        connection.execute(sa.text("INSERT INTO schema_version (version) VALUES (999)"))
    with pytest.raises(SchemaError, match="schema 999"):
        migrations.check(database)
    database.close()


def test_transactions_that_read_and_then_write_never_lose_an_update(state_url: str) -> None:
    database = Database(state_url)
    with database.write() as connection:
        definitions.create_if_absent(connection, "w", 0.0)

    def count_up() -> None:
        for _ in range(25):
            with database.write() as connection:
                record = definitions.lock(connection, "w")
                assert record is not None
                definitions.take_number(connection, record)

    threads = [threading.Thread(target=count_up) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with database.read() as connection:
        record = definitions.load(connection, "w")
    assert record is not None
    assert record.next_number == 101
    database.close()


def test_a_watch_hears_of_changes_made_by_others(state_url: str) -> None:
    mine, theirs = Database(state_url), Database(state_url)
    watch = mine.watch()
    watch.wait(0.2)
    assert not watch.wait(0.1)
    with theirs.write() as connection:
        definitions.create_if_absent(connection, "w", 0.0)
        theirs.announce(connection)
    assert watch.wait(5)
    watch.close()
    mine.close()
    theirs.close()


def test_a_worker_that_was_declared_gone_can_neither_beat_nor_claim(state_url: str) -> None:
    database = Database(state_url)
    with database.write() as connection:
        workers.add(connection, WorkerRecord("w", "h", 1, "/none", workers.ALIVE, 0, 1, "*", "1", 0.0, 0.0))
    with database.write() as connection:
        assert workers.beat(connection, "w", 1.0)
        assert not workers.declare_gone(connection, "w", 0), "it has moved since it was seen"
        assert workers.declare_gone(connection, "w", 1)
    with database.write() as connection:
        assert not workers.beat(connection, "w", 2.0)
        assert not workers.may_claim(connection, "w")
    database.close()


def test_a_damaged_state_file_is_told_with_what_to_do(tmp_path: Path) -> None:
    file = tmp_path / "state.db"
    file.write_bytes(b"this is not a database" * 1000)
    database = Database(f"sqlite:///{file}")
    with pytest.raises(StateUnusableError, match="damaged") as found:
        migrations.check(database)
    assert "backup" in (found.value.hint or "")


def test_a_state_file_that_is_gone_is_not_made_again_silently(tmp_path: Path) -> None:
    database = Database(f"sqlite:///{tmp_path}/state.db")
    with pytest.raises(StateUnusableError, match="cannot be opened"):
        migrations.current(database)
    assert not (tmp_path / "state.db").exists()


def test_what_workers_ask_all_the_time_is_answered_from_small_indexes(tmp_path: Path) -> None:
    """A hundred thousand finished runs must not be walked over: the partial indexes hold only what is under way."""
    prepare_file(tmp_path / "state.db")
    database = Database(f"sqlite:///{tmp_path}/state.db")
    migrations.upgrade(database)
    with database.read() as connection:
        plans: list[str] = []

        def explain(_: object, __: object, statement: str, parameters: tuple[object, ...], *___: object) -> None:
            if statement.startswith("SELECT"):
                rows = connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {statement}", parameters)
                plans.append(" ".join(str(row[3]) for row in rows))

        sa.event.listen(connection, "before_cursor_execute", explain)
        runs.ready_steps(connection, 10)
        runs.waiting_workflows(connection)
        runs.in_progress(connection)
        runs.owned_by(connection, "w")
        runs.orphaned(connection)
        runs.active_of_workflow(connection, "w")
        runs.listing(connection)
    assert "steps_ready" in plans[0]
    assert all("runs_active" in plan for plan in plans[1:3])
    assert all("steps_owned" in plan for plan in plans[3:5])
    assert "runs_active_by_workflow" in plans[5], "not by the index of all runs of the workflow"
    assert "TEMP B-TREE" not in plans[6], plans[6]
    database.close()


def test_a_writer_that_stops_in_mid_transaction_holds_its_rows_for_a_while_only(
    postgres: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker on a machine that froze: without a limit its locks stay until TCP gives up, hours later."""
    monkeypatch.setattr("icefloe.store.database.IDLE_SECONDS", 1.0)
    url = postgres.new_database()
    frozen, other = Database(url), Database(url)
    lock = sa.text("SELECT pg_advisory_xact_lock(7)")
    with pytest.raises(StateUnreachableError, match="idle-in-transaction"), frozen.write() as connection:
        connection.execute(lock)
        with other.write() as waiting:
            waiting.execute(sa.text("SET LOCAL lock_timeout = '20s'"))
            waiting.execute(lock)
        connection.execute(lock)
    with frozen.write() as again:
        again.execute(lock)
    frozen.close()
    other.close()
    postgres.drop(url)
