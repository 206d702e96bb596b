"""The life of a micro-batch, on both databases: captured once, repeated as the same, committed when it has succeeded."""

from __future__ import annotations

import random
import time
from pathlib import Path

import pytest

from icefloe.capture import release
from icefloe.errors import IcefloeError
from icefloe.lake.catalog import RefChange
from icefloe.store import captures
from tests.contract.capture.conftest import Bench
from tests.projects import wait_until

CONSUMER = "copy/look"

COPY = """
Workflow:
  id: copy
  retry_policy: {error: 0, platform: 0}
  jobs:
    - job:
        id: look
        type: IpCapture
        ip_capture: {source_tables: [db.events], columns: [id, day]%s}
    - job:
        id: use
        type: Shell
        %s
        shell:
          script: |
            echo "${look__icdc_table} ${look__row_count} ${look__capture_id}" >> used.txt
            test ! -e broken
    - job:
        id: commit
        type: IpCommit
        ip_commit: {capture_step: look%s}
  dag: sequential
"""


def copy(capture: str = "", use: str = "", commit: str = "") -> str:
    return COPY % (capture, use, commit)


def used(bench: Bench) -> list[list[str]]:
    """What the business step was told, run by run: change table, rows, capture."""
    file = bench.project.root / "used.txt"
    return [line.split() for line in file.read_text().splitlines()] if file.exists() else []


@pytest.fixture
def events(bench: Bench) -> Bench:
    bench.create("db.events")
    bench.append("db.events", 1, 2)
    return bench


def test_the_first_run_gets_the_table_as_it_is_and_the_next_only_what_is_new(events: Bench) -> None:
    workflow = events.project.push(copy())
    assert events.project.execute(workflow).status == "SUCCEEDED"
    first, *_ = used(events)
    assert events.ids_in(first[0]) == [1, 2]
    head = events.append("db.events", 3)
    assert events.project.execute(workflow).status == "SUCCEEDED"
    assert events.ids_in(used(events)[1][0]) == [3]
    checkpoint = events.checkpoint(CONSUMER)
    assert checkpoint is not None and checkpoint.snapshot_id == head
    assert events.version(CONSUMER) == 2


def test_a_failed_batch_moves_nothing_and_is_repeated_as_the_same_batch(events: Bench) -> None:
    workflow = events.project.push(copy())
    (events.project.root / "broken").touch()
    assert events.project.execute(workflow).status == "FAILED"
    assert events.checkpoint(CONSUMER) is None
    events.append("db.events", 3)
    (events.project.root / "broken").unlink()
    assert events.project.execute(workflow).status == "SUCCEEDED"
    first, second = used(events)
    assert first == second, "the same change table, rows and capture"
    assert events.project.execute(workflow).status == "SUCCEEDED"
    assert events.ids_in(used(events)[2][0]) == [3], "what came meanwhile is the next batch"


def test_a_restart_repeats_the_same_batch_too(events: Bench) -> None:
    workflow = events.project.push(copy())
    (events.project.root / "broken").touch()
    run = events.project.execute(workflow)
    events.append("db.events", 3)
    (events.project.root / "broken").unlink()
    events.project.client.runs.restart(run.run_id)
    assert events.project.client.work(run.run_id).status == "SUCCEEDED"
    first, second = used(events)
    assert first == second


def test_nothing_new_skips_the_rest_and_succeeds(events: Bench) -> None:
    workflow = events.project.push(copy())
    events.project.execute(workflow)
    run = events.project.execute(workflow)
    assert run.status == "SUCCEEDED"
    assert {step.id: step.status for step in run.steps} == {"look": "SUCCEEDED", "use": "SKIPPED", "commit": "SKIPPED"}
    assert len(used(events)) == 1
    assert all(not one.is_open for one in events.captures(CONSUMER))


def test_on_empty_run_goes_on_with_an_empty_change_table(events: Bench) -> None:
    workflow = events.project.push(copy(capture=", on_empty: run"))
    events.project.execute(workflow)
    assert events.project.execute(workflow).status == "SUCCEEDED"
    table, rows, _ = used(events)[1]
    assert rows == "0"
    assert events.ids_in(table) == []


def test_an_ignored_failure_keeps_the_checkpoint_unless_that_is_allowed(events: Bench) -> None:
    workflow = events.project.push(copy(use="failure_mode: IGNORE_FAILURE"))
    (events.project.root / "broken").touch()
    run = events.project.execute(workflow)
    assert run.status == "FAILED"
    commit = next(step for step in run.steps if step.id == "commit")
    assert commit.status == "FATALLY_FAILED"
    assert events.checkpoint(CONSUMER) is None
    events.project.push(copy(use="failure_mode: IGNORE_FAILURE", commit=", allow_ignored: true"))
    assert events.project.execute(workflow).status == "SUCCEEDED"
    assert events.checkpoint(CONSUMER) is not None


def test_an_operation_that_was_not_asked_for_fails_with_the_setting_to_type(events: Bench) -> None:
    workflow = events.project.push(copy())
    events.project.execute(workflow)
    events.overwrite("db.events", 7)
    run = events.project.execute(workflow)
    assert run.status == "FAILED"
    cause = next(step for step in run.steps if step.id == "look").cause
    assert cause is not None and cause["code"] == "capture.other-operations"
    assert "on_other_operations: ignore" in (cause.get("hint") or "")
    events.project.push(copy(capture=", on_other_operations: ignore"))
    assert events.project.execute(workflow).status == "SUCCEEDED"


def test_a_backlog_is_worked_off_in_pieces_of_whole_snapshots(events: Bench) -> None:
    workflow = events.project.push(copy(capture=", max_snapshots: 2"))
    events.project.execute(workflow)
    for number in range(10, 15):
        events.append("db.events", number)
    for _ in range(4):
        assert events.project.execute(workflow).status == "SUCCEEDED"
    assert [events.ids_in(line[0]) for line in used(events)[1:]] == [[10, 11], [12, 13], [14]]


def test_a_second_run_waits_until_the_first_has_ended(events: Bench) -> None:
    text = copy().replace("  id: copy\n", "  id: copy\n  run_strategy: {rule: parallel, workflow_concurrency: 2}\n")
    workflow = events.project.push(text)
    (events.project.root / "broken").touch()
    with events.project.worker():
        runs = [events.project.start(workflow) for _ in range(2)]
        wait_until(lambda: all(events.project.show(run).status in ("FAILED", "SUCCEEDED") for run in runs), 60)
    first, second = used(events)
    assert first == second
    assert len(events.captures(CONSUMER)) == 1


def test_start_latest_takes_only_what_comes_after(events: Bench) -> None:
    workflow = events.project.push(copy(capture=", start: latest"))
    assert events.project.execute(workflow).status == "SUCCEEDED"
    assert used(events) == []
    events.append("db.events", 5)
    events.project.execute(workflow)
    assert events.ids_in(used(events)[0][0]) == [5]


def test_start_at_a_snapshot_takes_what_comes_after_it(events: Bench) -> None:
    middle = events.append("db.events", 3)
    events.append("db.events", 4)
    workflow = events.project.push(copy(capture=f", start: {middle}"))
    events.project.execute(workflow)
    assert events.ids_in(used(events)[0][0]) == [4]


def test_a_source_that_does_not_exist_is_named(bench: Bench) -> None:
    workflow = bench.project.push(copy())
    run = bench.project.execute(workflow)
    cause = next(step for step in run.steps if step.id == "look").cause
    assert cause is not None and cause["code"] == "lake.table-not-found"
    assert "db.events" in cause["message"]


def test_pins_hold_the_batch_and_go_when_its_keep_time_is_over(events: Bench) -> None:
    workflow = events.project.push(copy(capture=", keep: 0s"))
    (events.project.root / "broken").touch()
    events.project.execute(workflow)
    assert [pin.kind for pin in events.lake.pins("db.events")] == ["branch"]
    (events.project.root / "broken").unlink()
    events.project.execute(workflow)
    release.sweep(events.lake, events.project.client.database, now=4e9)
    assert events.lake.pins("db.events") == []
    assert events.lake.change_tables() == []
    refs = events.lake.table("db.events").metadata.refs
    assert any(name.startswith("icefloe_checkpoint__") for name in refs)


def test_a_batch_that_waited_long_for_its_repetition_is_held_for_as_long_again(events: Bench) -> None:
    workflow = events.project.push(copy())
    (events.project.root / "broken").touch()
    events.project.execute(workflow)
    (pin,) = events.lake.pins("db.events")
    nearly_over = RefChange(pin.name, pin.snapshot_id, "branch", 60_000)
    events.lake.tables.set_refs(("db", "events"), [nearly_over])
    events.project.execute(workflow)
    (held,) = events.lake.pins("db.events")
    assert held.name == pin.name
    assert held.expires_ms is not None and held.expires_ms > (time.time() + 29 * 86_400) * 1000


def test_several_sources_are_one_capture_empty_ones_included(events: Bench, tmp_path: Path) -> None:
    events.create("db.others")
    events.create("db.quiet")
    events.append("db.others", 100, day=9)
    text = """
    Workflow:
      id: three
      jobs:
        - job:
            id: look
            type: IpCapture
            ip_capture: {source_tables: [db.events, db.others, db.quiet], range_columns: {day: day}}
        - job:
            id: use
            type: Shell
            shell: {script: 'echo "${look__day_min} ${look__day_max} ${look__row_count} ${look__quiet_row_count} ${look__others_icdc_table}" > told.txt'}
        - job: {id: commit, type: IpCommit, ip_commit: {capture_step: look}}
      dag: sequential
    """
    workflow = events.project.push(text)
    run = events.project.execute(workflow)
    assert run.status == "SUCCEEDED"
    low, high, rows, quiet, table = (events.project.root / "told.txt").read_text().split()
    assert (low, high, rows, quiet) == ("2026-03-01", "2026-03-09", "3", "0")
    assert events.ids_in(table) == [100]
    assert events.checkpoint("three/look", "db.others") is not None
    assert events.checkpoint("three/look", "db.quiet") is None, "it has no snapshot to be at"


@pytest.mark.parametrize("seed", range(3))
def test_whatever_fails_every_row_is_handed_over_in_exactly_one_committed_batch(events: Bench, seed: int) -> None:
    """Random appends, failures, restarts and new runs: the committed batches partition what was appended."""
    print(f"seed {seed}")
    chance = random.Random(seed)
    workflow = events.project.push(copy())
    appended = {1, 2}
    next_id = 10
    broken = events.project.root / "broken"
    for _ in range(12):
        for _ in range(chance.randint(0, 2)):
            events.append("db.events", next_id)
            appended.add(next_id)
            next_id += 1
        broken.touch() if chance.random() < 0.5 else broken.unlink(missing_ok=True)
        run = events.project.execute(workflow)
        if run.status == "FAILED" and chance.random() < 0.4:
            broken.unlink()
            events.project.client.runs.restart(run.run_id)
            assert events.project.client.work(run.run_id).status == "SUCCEEDED"
    broken.unlink(missing_ok=True)
    events.project.execute(workflow)
    committed = [one for one in events.captures(CONSUMER) if one.state == "committed"]
    handed_over: list[int] = []
    for capture in committed:
        for source in capture.sources:
            if source["change_table"] is not None:
                handed_over += events.ids_in(source["change_table"])
    assert sorted(handed_over) == sorted(appended)


def test_a_catalog_that_is_away_fails_the_run_and_loses_nothing(events: Bench) -> None:
    workflow = events.project.push(copy())
    database = events.project.root / ".icefloe" / "catalog.db"
    hidden = database.with_suffix(".away")
    database.rename(hidden)
    try:
        assert events.project.execute(workflow).status == "FAILED"
    finally:
        hidden.rename(database)
    assert events.project.execute(workflow).status == "SUCCEEDED"
    assert events.ids_in(used(events)[0][0]) == [1, 2]


def test_an_unknown_range_column_is_named_with_what_was_meant(events: Bench) -> None:
    workflow = events.project.push(copy().replace("columns: [id, day]", "columns: [dai]"))
    run = events.project.execute(workflow)
    cause = next(step for step in run.steps if step.id == "look").cause
    assert cause is not None and cause["code"] == "lake.column-not-found"
    assert "day" in (cause.get("hint") or "")
    with pytest.raises(IcefloeError):
        events.lake.changes("db.events", columns=["dai"])


def test_a_consumers_lag_counts_what_it_has_not_seen(events: Bench) -> None:
    workflow = events.project.push(copy())
    head = events.checkpoint(CONSUMER)
    events.project.execute(workflow)
    looking = events.project.client.consumers
    (standing,) = looking.listing()
    assert (standing.consumer, standing.table, standing.version) == (CONSUMER, "db.events", 1)
    assert (standing.lag_snapshots, standing.lag_rows) == (0, 0)
    assert head is None and standing.snapshot_id == events.checkpoint(CONSUMER).snapshot_id  # type: ignore[union-attr]
    events.append("db.events", 5, 6)
    events.append("db.events", 7)
    (standing,) = looking.listing()
    assert (standing.lag_snapshots, standing.lag_rows) == (2, 3)


def test_a_consumer_whose_source_was_recreated_says_so(events: Bench) -> None:
    events.project.execute(events.project.push(copy()))
    events.catalog.drop_table("db.events")
    events.create("db.events")
    events.append("db.events", 1)
    (standing,) = events.project.client.consumers.listing()
    assert standing.lag_snapshots is None
    assert standing.problem is not None and standing.problem.startswith("lake.table-recreated")


@pytest.mark.parametrize(("setting", "code"), [("on_logic_change: rebuild", "usage"), ("shadow: full", "usage")])
def test_a_spark_setting_that_cannot_be_acted_on_is_refused_and_not_passed_over(
    events: Bench, setting: str, code: str
) -> None:
    text = f"""
    Workflow:
      id: planned
      jobs:
        - job: {{id: logic, type: Spark, spark: {{script: SELECT 1, {setting}}}}}
    """
    run = events.project.execute(events.project.push(text))
    (step,) = run.steps
    assert (run.status, step.cause["code"]) == ("FAILED", code)  # type: ignore[index]


def test_a_commit_refuses_when_somebody_else_moved_the_checkpoint_since(events: Bench) -> None:
    workflow = events.project.push(copy())
    (events.project.root / "broken").touch()
    events.project.execute(workflow)
    with events.project.client.database.write() as connection:
        assert captures.raise_version(connection, CONSUMER, 0)
    (events.project.root / "broken").unlink()
    run = events.project.execute(workflow)
    commit = next(step for step in run.steps if step.id == "commit")
    assert (run.status, commit.cause["code"]) == ("FAILED", "capture.lost")  # type: ignore[index]
    assert events.checkpoint(CONSUMER) is None
    assert [one.state for one in events.captures(CONSUMER)] == ["built"], "all of it or none"


def tell_read_point() -> str:
    return copy().replace("${look__capture_id}", "${look__capture_id} ${look__source_at_to}")


def rename_id(bench: Bench) -> None:
    with bench.catalog.load_table("db.events").update_schema() as update:
        update.rename_column("id", "event_id")


def columns_of(bench: Bench, table: str) -> list[str]:
    return list(bench.catalog.load_table(table.removeprefix("lake.")).schema().column_names)


def test_the_source_at_to_is_a_table_of_its_own_where_the_schema_is_newer_than_to(events: Bench) -> None:
    workflow = events.project.push(tell_read_point().replace("columns: [id, day]", "columns: [day]"))
    assert events.project.execute(workflow).status == "SUCCEEDED"
    assert ".branch_" in used(events)[0][3]
    events.append("db.events", 3)
    rename_id(events)
    assert events.project.execute(workflow).status == "SUCCEEDED"
    change_table, _, _, read_point = used(events)[1]
    assert columns_of(events, read_point) == columns_of(events, change_table) == ["event_id", "day"]
    rows = events.catalog.load_table(read_point.removeprefix("lake.")).scan().to_arrow()
    assert sorted(rows.column("event_id").to_pylist()) == [1, 2, 3]
    release.sweep(events.lake, events.project.client.database, now=4e9)
    assert events.lake.change_tables() == []


def test_a_batch_adopted_after_a_schema_change_has_the_same_rows_under_the_new_names(events: Bench) -> None:
    workflow = events.project.push(tell_read_point().replace("columns: [id, day]", "columns: [day]"))
    (events.project.root / "broken").touch()
    assert events.project.execute(workflow).status == "FAILED"
    rename_id(events)
    table = events.catalog.load_table("db.events")
    table.append(table.scan().to_arrow())
    (events.project.root / "broken").unlink()
    assert events.project.execute(workflow).status == "SUCCEEDED"
    before, after = used(events)
    assert before[2] == after[2], "it is the same capture"
    assert before[0] != after[0]
    for name in (after[0], after[3]):
        rows = events.catalog.load_table(name.removeprefix("lake.")).scan().to_arrow()
        assert sorted(rows.column("event_id").to_pylist()) == [1, 2]
    assert before[0].removeprefix("lake.") not in {one.name for one in events.lake.change_tables()}


def test_a_commit_that_dies_before_its_tag_is_moved_is_made_good_by_the_next(
    events: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    workflow = events.project.push(copy())

    def die(*_: object) -> None:
        raise RuntimeError("killed between the transaction and the tag")

    with monkeypatch.context() as patched:
        patched.setattr(release, "settle", die)
        assert events.project.execute(workflow).status == "SUCCEEDED", "the checkpoint has moved: nothing is taken back"
    assert _tagged(events) is None
    release.sweep(events.lake, events.project.client.database, now=0)
    assert _tagged(events) == events.checkpoint(CONSUMER).snapshot_id  # type: ignore[union-attr]
    old = events.captures(CONSUMER)[0]
    head = events.append("db.events", 3)
    assert events.project.execute(workflow).status == "SUCCEEDED"
    assert _tagged(events) == head
    release.settle(events.lake, events.project.client.database, [old])
    assert _tagged(events) == head, "whoever comes late moves no tag back"


def _tagged(events: Bench) -> int | None:
    refs = events.lake.table("db.events").metadata.refs
    return next((ref.snapshot_id for name, ref in refs.items() if name.startswith("icefloe_checkpoint__")), None)
