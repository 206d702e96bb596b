"""Moving consumers by hand, on both databases: shown first, done on demand, on record, and never at the cost of rows."""

from __future__ import annotations

import pytest
from pyiceberg.table import Table

from icefloe.errors import IcefloeError, NotFoundError, UsageError
from icefloe.lake.pins import checkpoint_tag
from icefloe.service.interventions import InterventionRefusedError
from icefloe.service.workflows import ConsumerDroppedError
from icefloe.store import captures
from tests.contract.capture.conftest import Bench
from tests.contract.capture.test_micro_batches import CONSUMER, copy, used
from tests.projects import wait_until

WHY = {"yes": True, "why": "the load of Monday was wrong"}
TARGET_STEP = """\
    - job:
        id: write
        type: Spark
        spark: {script: "INSERT INTO ${TARGET} SELECT * FROM ${look__icdc_table}"}
"""


@pytest.fixture
def read(bench: Bench) -> Bench:
    """A consumer that has read two appends of three."""
    bench.create("db.events")
    bench.append("db.events", 1, 2)
    bench.project.push(copy())
    bench.project.execute("copy")
    bench.append("db.events", 3)
    bench.project.execute("copy")
    bench.append("db.events", 4, 5)
    return bench


def snapshots(bench: Bench) -> list[int]:
    table: Table = bench.catalog.load_table("db.events")
    return [one.snapshot_id for one in table.history()]


def tag_of(bench: Bench, consumer: str = CONSUMER) -> int | None:
    ref = bench.lake.table("db.events").metadata.refs.get(checkpoint_tag(consumer))
    return ref.snapshot_id if ref else None


def fail_open(bench: Bench) -> str:
    """A run that fails and leaves its capture open."""
    (bench.project.root / "broken").touch()
    assert bench.project.execute("copy").status == "FAILED"
    (bench.project.root / "broken").unlink()
    return bench.captures(CONSUMER)[0].id


def test_a_preview_moves_nothing_and_says_what_would_be_captured_again(read: Bench) -> None:
    first, second, _ = snapshots(read)
    preview = read.project.client.consumers.rewind(CONSUMER, first)
    (move,) = preview.moves
    assert (move.table, move.from_snapshot, move.to_snapshot) == ("db.events", second, first)
    assert (move.snapshots, move.rows, preview.done) == (1, 1, False)
    assert read.checkpoint(CONSUMER).snapshot_id == second  # type: ignore[union-attr]
    assert read.project.client.consumers.audit(CONSUMER) == []


def test_after_a_rewind_the_batch_is_captured_again_and_the_record_says_who_and_why(read: Bench) -> None:
    first, second, _ = snapshots(read)
    done = read.project.client.consumers.rewind(CONSUMER, first, **WHY, by="ada")
    assert done.done and tag_of(read) == first
    assert read.project.execute("copy").status == "SUCCEEDED"
    assert read.ids_in(used(read)[-1][0]) == [3, 4, 5]
    (record,) = read.project.client.consumers.audit(CONSUMER)
    assert (record.who, record.verb, record.details["why"]) == ("ada", "rewind", WHY["why"])
    assert record.details["moves"][0]["from_snapshot"] == second


def test_a_rewind_to_earliest_takes_the_table_as_it_is(read: Bench) -> None:
    read.project.client.consumers.rewind(CONSUMER, "earliest", **WHY)
    assert read.checkpoint(CONSUMER) is None and tag_of(read) is None
    assert read.project.execute("copy").status == "SUCCEEDED"
    assert read.ids_in(used(read)[-1][0]) == [1, 2, 3, 4, 5]


def test_a_fast_forward_passes_over_what_lies_between(read: Bench) -> None:
    preview = read.project.client.consumers.fast_forward(CONSUMER)
    assert (preview.moves[0].snapshots, preview.moves[0].rows) == (1, 2)
    assert "never captured" in preview.warnings[0]
    read.project.client.consumers.fast_forward(CONSUMER, **WHY)
    head = read.append("db.events", 6)
    read.project.execute("copy")
    assert read.ids_in(used(read)[-1][0]) == [6]
    assert tag_of(read) == head


def test_the_wrong_direction_is_refused_with_the_right_word(read: Bench) -> None:
    first, _, third = snapshots(read)
    with pytest.raises(UsageError, match="ahead of the checkpoint"):
        read.project.client.consumers.rewind(CONSUMER, third)
    with pytest.raises(UsageError, match="behind the checkpoint"):
        read.project.client.consumers.fast_forward(CONSUMER, first)
    with pytest.raises(UsageError, match="not in the table's history"):
        read.project.client.consumers.rewind(CONSUMER, 12345)
    with pytest.raises(NotFoundError):
        read.project.client.consumers.rewind("nobody", first)


def test_without_a_reason_nothing_is_done(read: Bench) -> None:
    before = read.checkpoint(CONSUMER)
    with pytest.raises(UsageError, match="why is not said"):
        read.project.client.consumers.rewind(CONSUMER, "earliest", yes=True)
    assert read.checkpoint(CONSUMER) == before
    assert tag_of(read) == before.snapshot_id  # type: ignore[union-attr]


def test_an_abandoned_capture_gives_back_its_pins_and_the_next_run_captures_anew(read: Bench) -> None:
    left_open = fail_open(read)
    kept = {one.name for one in read.lake.change_tables()}
    before = read.checkpoint(CONSUMER)
    assert read.project.client.consumers.abandon(left_open).done is False
    assert read.captures(CONSUMER)[0].state == "built"
    read.project.client.consumers.abandon(left_open, **WHY)
    assert read.captures(CONSUMER)[0].state == "abandoned"
    assert read.checkpoint(CONSUMER) == before
    assert left_open not in {pin.capture for pin in read.lake.pins("db.events")}
    assert len({one.name for one in read.lake.change_tables()}) == len(kept) - 1
    read.append("db.events", 6)
    read.project.execute("copy")
    assert read.ids_in(used(read)[-1][0]) == [4, 5, 6]
    with pytest.raises(UsageError, match="nothing to give up"):
        read.project.client.consumers.abandon(left_open)


def test_nothing_is_moved_while_a_batch_of_the_open_capture_is_published(read: Bench) -> None:
    left_open = fail_open(read)
    with read.project.client.database.write() as connection:
        captures.publish(
            connection, capture_id=left_open, step_path="use", iteration=None, target="db.t", snapshot_id=7, now=1.0
        )
    verbs = read.project.client.consumers
    for act in (
        lambda: verbs.abandon(left_open),
        lambda: verbs.rewind(CONSUMER, "earliest", **WHY),
        lambda: verbs.fast_forward(CONSUMER, **WHY),
        lambda: verbs.remove(CONSUMER, **WHY),
    ):
        with pytest.raises(InterventionRefusedError, match=r"published already in db\.t"):
            act()
    assert read.captures(CONSUMER)[0].state == "built"


def test_a_mark_that_only_the_target_knows_of_is_found_too(bench: Bench) -> None:
    """The process that published died before the store was told."""
    bench.create("db.events")
    bench.create("db.copies")
    bench.append("db.events", 1)
    text = copy().replace("    - job:\n        id: commit", f"{TARGET_STEP}    - job:\n        id: commit")
    bench.project.push(text.replace("  id: copy\n", "  id: copy\n  TARGET: db.copies\n"))
    left_open = fail_open(bench)
    bench.append("db.copies", 7)
    assert not bench.project.client.consumers.abandon(left_open).done
    bench.append("db.copies", 1, mark={"icefloe.capture": left_open})
    with pytest.raises(InterventionRefusedError, match=r"published already in db\.copies"):
        bench.project.client.consumers.abandon(left_open)


def test_nothing_is_moved_while_a_run_is_at_work(read: Bench) -> None:
    text = copy().replace("test ! -e broken", "while test -e broken; do sleep 0.05; done")
    read.project.push(text)
    (read.project.root / "broken").touch()
    with read.project.worker():
        run = read.project.start("copy")
        wait_until(lambda: read.project.statuses(run).get("use") == "RUNNING", 30)
        with pytest.raises(InterventionRefusedError, match="has not ended"):
            read.project.client.consumers.rewind(CONSUMER, "earliest", **WHY)
        (read.project.root / "broken").unlink()
        wait_until(lambda: read.project.show(run).ended, 30)
    assert read.project.show(run).status == "SUCCEEDED"


def test_a_version_that_drops_a_consumer_with_a_checkpoint_is_refused_with_the_command_to_type(read: Bench) -> None:
    renamed = copy().replace("look", "find")
    with pytest.raises(ConsumerDroppedError) as refused:
        read.project.push(renamed)
    assert f"icefloe consumers rename {CONSUMER} copy/find" in (refused.value.hint or "")
    assert f"icefloe consumers remove {CONSUMER}" in (refused.value.hint or "")
    assert read.project.client.workflows.show("copy").version == 1


def test_a_renamed_consumer_goes_on_and_the_old_version_is_refused_until_then(read: Bench) -> None:
    preview = read.project.client.consumers.rename(CONSUMER, "copy/find")
    assert "refused until" in preview.warnings[0]
    read.project.client.consumers.rename(CONSUMER, "copy/find", **WHY)
    run = read.project.execute("copy")
    cause = next(step for step in run.steps if step.id == "look").cause
    assert (run.status, cause["code"]) == ("FAILED", "capture.consumer-renamed")  # type: ignore[index]
    read.project.push(copy().replace("look", "find"))
    assert read.project.execute("copy").status == "SUCCEEDED"
    assert read.ids_in(used(read)[-1][0]) == [4, 5]
    assert tag_of(read) is None
    assert tag_of(read, "copy/find") == snapshots(read)[-1]
    assert {one.consumer for one in read.captures("copy/find")} == {"copy/find"}
    with pytest.raises(UsageError):
        read.project.client.consumers.rename("copy/find", "copy/find")


def test_a_named_consumer_may_move_to_another_step_without_a_word(bench: Bench) -> None:
    bench.create("db.events")
    bench.append("db.events", 1)
    bench.project.push(copy(capture=", consumer: mine"))
    bench.project.execute("copy")
    bench.project.push(copy(capture=", consumer: mine").replace("look", "find"))
    run = bench.project.execute("copy")
    assert {step.id: step.status for step in run.steps}["use"] == "SKIPPED", "nothing is new for it"


def test_a_removed_consumer_may_be_dropped_and_begins_anew_if_it_comes_back(read: Bench) -> None:
    read.project.client.consumers.remove(CONSUMER, **WHY)
    assert tag_of(read) is None
    read.project.push("Workflow: {id: copy, jobs: [{job: {id: a, type: NoOp}}]}")
    read.project.push(copy())
    read.project.execute("copy")
    assert read.ids_in(used(read)[-1][0]) == [1, 2, 3, 4, 5]


def test_a_first_capture_into_a_target_with_rows_must_be_told_where_to_begin(bench: Bench) -> None:
    bench.create("db.events")
    bench.create("db.copies")
    bench.append("db.events", 1)
    bench.append("db.copies", 1)

    def text(start: str) -> str:
        return f"""
        Workflow:
          id: fill
          TARGET: db.copies
          retry_policy: {{error: 0, platform: 0}}
          jobs:
            - job: {{id: look, type: IpCapture, ip_capture: {{source_tables: [db.events]{start}}}}}
            - job: {{id: write, type: Spark, spark: {{script: SELECT id FROM db.events, write: {{table: "${{TARGET}}"}}}}}}
            - job: {{id: commit, type: IpCommit, ip_commit: {{capture_step: look}}}}
          dag: sequential
        """

    bench.project.push(text(""))
    run = bench.project.execute("fill")
    cause = run.steps[0].cause
    assert cause is not None and cause["code"] == "capture.start"
    assert "db.copies has rows already" in cause["message"] and "start: earliest" in cause["hint"]
    assert bench.captures("fill/look") == [], "before anything"
    bench.project.push(text(", start: latest"))
    run = bench.project.execute("fill")
    assert run.steps[0].status == "SUCCEEDED"


def test_a_consumer_whose_first_run_failed_is_listed_with_all_it_has_not_seen(bench: Bench) -> None:
    bench.create("db.events")
    bench.append("db.events", 1, 2)
    bench.project.push(copy())
    left_open = fail_open(bench)
    (standing,) = bench.project.client.consumers.listing()
    assert (standing.snapshot_id, standing.lag_snapshots, standing.lag_rows) == (None, 1, 2)
    assert standing.open_capture == left_open
    view = bench.project.client.consumers.show(CONSUMER)
    assert [one.id for one in view.captures] == [left_open]
    assert bench.project.client.consumers.capture(left_open).sources[0]["table"] == "db.events"
    with pytest.raises(IcefloeError):
        bench.project.client.consumers.show("nobody")
