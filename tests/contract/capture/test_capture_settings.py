"""Every setting of a capture step, each by what it does. What depends on the database is in the other files: here SQLite."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from icefloe.lake.catalog import Tables
from icefloe.lake.errors import UnsupportedTableError
from tests.contract.capture.conftest import Bench
from tests.contract.capture.test_micro_batches import CONSUMER, copy, used
from tests.projects import make_project, wait_until


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    made = make_project(tmp_path / "project")
    yield Bench(made)
    made.client.close()


@pytest.fixture
def events(bench: Bench) -> Bench:
    bench.create("db.events")
    bench.append("db.events", 1, 2)
    return bench


def told(bench: Bench, name: str = "told.txt") -> list[list[str]]:
    file = bench.project.root / name
    return [line.split("|") for line in file.read_text().splitlines()] if file.exists() else []


def workflow(capture: str, script: str, name: str = "flow") -> str:
    return f"""
    Workflow:
      id: {name}
      retry_policy: {{error: 0, platform: 0}}
      jobs:
        - job: {{id: look, type: IpCapture, ip_capture: {{{capture}}}}}
        - job: {{id: use, type: Shell, shell: {{script: '{script}'}}}}
        - job: {{id: commit, type: IpCommit, ip_commit: {{capture_step: look}}}}
      dag: sequential
    """


def expire_to_head(bench: Bench) -> None:
    """All snapshots but the newest are gone, and no tag holds one."""
    table = bench.catalog.load_table("db.events")
    with table.manage_snapshots() as refs:
        for name, ref in table.metadata.refs.items():
            if name != "main":
                refs.remove_tag(name) if ref.snapshot_ref_type == "tag" else refs.remove_branch(name)
    table = bench.catalog.load_table("db.events")
    head = table.current_snapshot()
    assert head is not None
    old = [one.snapshot_id for one in table.snapshots() if one.snapshot_id != head.snapshot_id]
    table.maintenance.expire_snapshots().by_ids(old).commit()


@pytest.mark.parametrize(("on_gap", "expected"), [("fail", None), ("full", [1, 2, 3, 4]), ("diff", [3, 4])])
def test_lost_history_fails_or_is_bridged_as_the_setting_says(
    events: Bench, on_gap: str, expected: list[int] | None
) -> None:
    events.project.push(copy(capture=f", on_gap: {on_gap}"))
    events.project.execute("copy")
    events.append("db.events", 3)
    events.append("db.events", 4)
    if on_gap == "diff":  # a difference needs the files of the checkpoint: its tag stays, the chain after it goes
        table = events.catalog.load_table("db.events")
        ids = [one.snapshot_id for one in table.snapshots()]
        table.maintenance.expire_snapshots().by_ids(ids[1:2]).commit()
    else:
        expire_to_head(events)
    run = events.project.execute("copy")
    if expected is None:
        cause = run.steps[0].cause
        assert cause is not None and cause["code"].startswith("lake.history"), cause
        return
    assert run.status == "SUCCEEDED"
    assert events.ids_in(used(events)[-1][0]) == expected


def test_overwrites_are_captured_with_what_they_added_and_removed(events: Bench) -> None:
    script = (
        'echo "${look__append_only}|${look__exact}|${look__row_count}|${look__day_min}|${look__day_max}" >> told.txt'
    )
    capture = "source_tables: [db.events], data_operations: [append, overwrite, delete], columns: [day]"
    events.project.push(workflow(capture, script))
    events.project.execute("flow")
    events.append("db.events", 5, day=9)
    events.overwrite("db.events", 7)
    assert events.project.execute("flow").status == "SUCCEEDED"
    first, second = told(events)
    assert first[0] == "true"
    assert second[0] == "false" and second[3:] == ["2026-03-01", "2026-03-09"], "removed files count for the range"


def test_ignored_operations_are_published(events: Bench) -> None:
    script = 'echo "${look__skipped_operations}" >> told.txt'
    events.project.push(workflow("source_tables: [db.events], on_other_operations: ignore", script))
    events.project.execute("flow")
    events.overwrite("db.events", 7)
    events.append("db.events", 8)
    events.project.execute("flow")
    assert "delete" in told(events)[1][0] or "overwrite" in told(events)[1][0]


def test_ranges_of_several_sources_are_united_under_a_common_name(events: Bench) -> None:
    events.create("db.other")
    events.append("db.other", 100, day=20)
    capture = "source_tables: [db.events, db.other], range_columns: {d: {db.events: day, db.other: day}}"
    events.project.push(workflow(capture, 'echo "${look__d_min}|${look__d_max}" >> told.txt'))
    events.project.execute("flow")
    events.append("db.other", 101, day=15)
    events.project.execute("flow")
    events.append("db.events", 3, day=2)
    events.append("db.other", 102, day=4)
    events.project.execute("flow")
    assert told(events) == [
        ["2026-03-01", "2026-03-20"],
        ["2026-03-15", "2026-03-15"],
        ["2026-03-02", "2026-03-04"],
    ]


def test_range_mode_makes_no_table_and_publishes_the_ranges(events: Bench) -> None:
    capture = "source_tables: [db.events], capture_mode: RANGE, columns: [day]"
    events.project.push(workflow(capture, 'echo "${look__day_min}|${look__range_filter}" >> told.txt'))
    assert events.project.execute("flow").status == "SUCCEEDED"
    assert told(events)[0][0] == "2026-03-01" and "2026-03-01" in told(events)[0][1]
    assert events.lake.change_tables() == []
    assert events.checkpoint("flow/look") is not None


def test_without_pins_a_source_is_left_untouched_and_read_by_snapshot(events: Bench) -> None:
    capture = "source_tables: [db.events], pin: off"
    events.project.push(workflow(capture, 'echo "${look__source_at_to}" >> told.txt'))
    head = events.append("db.events", 3)
    assert events.project.execute("flow").status == "SUCCEEDED"
    assert told(events) == [[f"lake.db.events VERSION AS OF {head}"]]
    assert set(events.lake.table("db.events").metadata.refs) == {"main"}


@pytest.mark.parametrize(("pin", "status"), [("require", "FAILED"), ("auto", "SUCCEEDED")])
def test_a_source_that_may_not_be_pinned_fails_only_where_pins_are_required(
    events: Bench, monkeypatch: pytest.MonkeyPatch, pin: str, status: str
) -> None:
    def refuse(*_: object) -> None:
        raise UnsupportedTableError("no branches here", where="db.events")

    monkeypatch.setattr(Tables, "set_refs", refuse)  # a catalog that refuses references cannot be had embedded
    events.project.push(copy(capture=f", pin: {pin}"))
    run = events.project.execute("copy")
    assert run.status == status
    if status == "FAILED":
        assert run.steps[0].cause["code"] == "lake.pin-refused"  # type: ignore[index]


def test_the_short_form_has_a_visible_commit_and_a_stable_name_that_leads_to_the_newest_batch(events: Bench) -> None:
    text = """
    workflow:
      name: short
      retry_policy: {error: 0}
      steps:
        - {name: look, type: ICDC, sourceTable: db.events, targetTable: db.events_icdc}
        - {name: use, type: shell, script: 'test ! -e broken', dependsOn: [look]}
    """
    events.project.push(text)
    run = events.project.execute("short")
    assert {step.id: step.status for step in run.steps} == dict.fromkeys(("look", "use", "look_commit"), "SUCCEEDED")
    assert events.ids_in("db.events_icdc") == [1, 2]
    events.append("db.events", 3)
    (events.project.root / "broken").touch()
    assert events.project.execute("short").status == "FAILED"
    assert events.ids_in("db.events_icdc") == [3]
    capture = events.captures("short/look")[0]
    events.project.client.consumers.abandon(capture.id, yes=True, why="to see the name go")
    assert not events.catalog.table_exists("db.events_icdc")
    assert events.ids_in("db.events") == [1, 2, 3]


def test_a_stable_name_never_takes_the_place_of_an_ordinary_table(events: Bench) -> None:
    events.create("db.precious")
    events.append("db.precious", 42)
    events.project.push(copy(capture=", target_table: db.precious"))
    run = events.project.execute("copy")
    assert (run.status, run.steps[0].cause["code"]) == ("FAILED", "lake.name-taken")  # type: ignore[index]
    assert events.ids_in("db.precious") == [42]


def test_several_captures_move_with_one_commit_or_not_at_all(events: Bench) -> None:
    events.create("db.other")
    events.append("db.other", 100)
    text = """
    Workflow:
      id: both
      retry_policy: {error: 0}
      jobs:
        - job: {id: one, type: IpCapture, ip_capture: {source_tables: [db.events]}}
        - job: {id: two, type: IpCapture, ip_capture: {source_tables: [db.other]}}
        - job: {id: use, type: Shell, shell: {script: 'echo "${one__row_count}|${two__row_count}" >> told.txt; test ! -e broken'}}
        - job: {id: commit, type: IpCommit, ip_commit: {capture_step: [one, two]}}
      dag: sequential
    """
    events.project.push(text)
    (events.project.root / "broken").touch()
    assert events.project.execute("both").status == "FAILED"
    assert (events.version("both/one"), events.version("both/two")) == (0, 0)
    (events.project.root / "broken").unlink()
    assert events.project.execute("both").status == "SUCCEEDED"
    assert (events.version("both/one"), events.version("both/two")) == (1, 1)
    assert told(events) == [["2", "1"], ["2", "1"]]


def test_logic_may_stand_in_a_subworkflow_and_in_a_foreach_over_changed_partitions(events: Bench) -> None:
    events.append("db.events", 3, day=5)
    events.project.push(
        """
        Workflow:
          id: logic
          jobs:
            - job: {id: use, type: Shell, shell: {script: 'echo "${ICDC}" >> sub.txt'}}
        """
    )
    text = """
    Workflow:
      id: parent
      retry_policy: {error: 0}
      jobs:
        - job: {id: look, type: IpCapture, ip_capture: {source_tables: [db.events]}}
        - subworkflow: {id: sub, workflow_id: logic, ICDC: "${look__icdc_table}"}
        - foreach:
            id: each_day
            params:
              '!day<array<string>>': "params.getFromStep('look', 'changed_partitions')['day']"
            jobs:
              - job: {id: one, type: Shell, shell: {script: 'echo "${day}" >> days.txt; test ! -e broken'}}
        - job: {id: commit, type: IpCommit, ip_commit: {capture_step: look}}
      dag: sequential
    """
    events.project.push(text)
    (events.project.root / "broken").touch()
    assert events.project.execute("parent").status == "FAILED"
    assert events.checkpoint("parent/look") is None
    (events.project.root / "broken").unlink()
    (events.project.root / "days.txt").unlink()
    run = events.project.execute("parent")
    assert run.status == "SUCCEEDED", run.steps
    assert sorted(one for (one,) in told(events, "days.txt")) == ["2026-03-01", "2026-03-05"]
    assert {events.ids_in(table)[0] for (table,) in told(events, "sub.txt")} == {1}
    assert events.checkpoint("parent/look") is not None


def test_a_source_that_does_not_exist_yet_is_waited_for(bench: Bench) -> None:
    bench.project.push(copy(capture=", on_missing_source: wait"))
    with bench.project.worker():
        run = bench.project.start("copy")
        wait_until(lambda: bench.project.statuses(run).get("look") == "RUNNING", 20)
        bench.create("db.coming")
        bench.append("db.coming", 1)
        bench.catalog.rename_table("db.coming", "db.events")  # it appears with its rows: the step looks all the time
        wait_until(lambda: bench.project.show(run).ended, 40)
    assert bench.project.show(run).status == "SUCCEEDED"
    assert bench.ids_in(used(bench)[0][0]) == [1]


def test_two_workflows_read_one_source_each_at_its_own_pace(events: Bench) -> None:
    events.project.push(workflow("source_tables: [db.events]", 'echo "${look__icdc_table}" >> fast.txt', "fast"))
    events.project.push(workflow("source_tables: [db.events]", 'echo "${look__icdc_table}" >> slow.txt', "slow"))
    events.project.execute("fast")
    events.append("db.events", 3)
    events.project.execute("fast")
    events.append("db.events", 4)
    events.project.execute("slow")
    events.project.execute("fast")
    assert [events.ids_in(table) for (table,) in told(events, "fast.txt")] == [[1, 2], [3], [4]]
    assert [events.ids_in(table) for (table,) in told(events, "slow.txt")] == [[1, 2, 3, 4]]


def test_the_consumer_may_be_named(events: Bench) -> None:
    events.project.push(copy(capture=", consumer: mine"))
    events.project.execute("copy")
    assert events.checkpoint("mine") is not None and events.checkpoint(CONSUMER) is None


def test_a_start_by_time_takes_what_came_after(events: Bench) -> None:
    at = events.catalog.load_table("db.events").snapshots()[0].timestamp_ms
    events.append("db.events", 3)
    moment = datetime.fromtimestamp(at / 1000, UTC).isoformat()
    events.project.push(copy(capture=f", start: '{moment}'"))
    events.project.execute("copy")
    assert events.ids_in(used(events)[0][0]) == [3]
