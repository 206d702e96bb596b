"""What the owners of a source see of a consumer: how many commits a batch makes on it, and how many references it leaves."""

from __future__ import annotations

import time
from dataclasses import replace
from random import Random

import pytest

from icefloe.capture import commits, release
from icefloe.capture.build import CaptureOptions
from icefloe.capture.capture_attempt import BuiltCapture, CaptureAttempt, CaptureRequest
from icefloe.capture.snapshot_ranges import Bounds
from icefloe.errors import UnreachableError
from icefloe.lake.pins import checkpoint_tag, pins_of
from icefloe.service.janitor import Janitor
from icefloe.store import captures
from icefloe.store.captures import CaptureRecord
from tests.contract.capture.conftest import Bench

CONSUMER = "agg/look"
DAY = 86_400.0
OPTIONS = CaptureOptions(
    operations=("append",),
    on_other_operations="fail",
    on_gap="fail",
    columns={},
    pin="require",
    keep_seconds=3 * DAY,
    change_tables=True,
    skip_empty=True,
    pinned_batches=2,
)


class Consumer:
    """Captures and commits as the steps do, without runs."""

    def __init__(self, bench: Bench, options: CaptureOptions = OPTIONS) -> None:
        self.bench, self.options, self.number = bench, options, 0
        self.database = bench.project.client.database

    def capture(self) -> CaptureRecord:
        self.number += 1
        request = CaptureRequest(
            CONSUMER, "agg", f"agg-{self.number}", "look", f"claim{self.number}", ("db.events",), "main", None, Bounds(),
            self.options,
        )  # fmt: skip
        taken = CaptureAttempt(
            self.bench.lake, self.database, request, run_has_ended=lambda _: True, log=lambda _: None
        ).take()
        assert isinstance(taken, BuiltCapture)
        return taken.capture

    def commit(self, record: CaptureRecord, now: float | None = None, *, dies: bool = False) -> None:
        now = time.time() if now is None else now
        with self.database.write() as connection:
            commits.commit(connection, [record], now)
        if not dies:
            release.settle(self.bench.lake, self.database, [record], now)
            release.sweep(self.bench.lake, self.database, now, consumers={CONSUMER}, most=release.MOST_AT_ONCE)

    @property
    def ours(self) -> list[str]:
        return [name for name in self.bench.lake.table("db.events").metadata.refs if name.startswith("icefloe_")]

    @property
    def tagged(self) -> int | None:
        ref = self.bench.lake.table("db.events").metadata.refs.get(checkpoint_tag(CONSUMER))
        return ref.snapshot_id if ref else None


def commits_of(bench: Bench) -> int:
    """How often the source's metadata was written."""
    return int(bench.lake.table("db.events").metadata.metadata_location.rsplit("/", 1)[1].split("-")[0])


@pytest.fixture
def events(bench: Bench) -> Bench:
    bench.create("db.events")
    return bench


def test_a_hundred_batches_make_two_commits_each_and_leave_four_references_at_most(events: Bench) -> None:
    consumer = Consumer(events)
    most = 0
    for number in range(100):
        head = events.append("db.events", number)
        before = commits_of(events)
        record = consumer.capture()
        most = max(most, len(consumer.ours))
        consumer.commit(record)
        most = max(most, len(consumer.ours))
        assert commits_of(events) - before <= 2, f"batch {number}"
        assert consumer.tagged == head
    assert most <= 4
    assert len(pins_of(events.lake.table("db.events").metadata)) == 2
    assert len(events.lake.change_tables()) == 100, "change tables stay for their keep time"
    Janitor(events.project.config, consumer.database).release(time.time() + 4 * DAY)
    assert consumer.ours == [checkpoint_tag(CONSUMER)]
    assert events.lake.change_tables() == []


def test_a_keep_time_that_was_asked_for_pins_every_batch_for_as_long(events: Bench) -> None:
    consumer = Consumer(events, replace(OPTIONS, pinned_batches=None))
    now = time.time()
    for number in range(6):
        events.append("db.events", number)
        consumer.commit(consumer.capture(), now + number * DAY)
    assert len(pins_of(events.lake.table("db.events").metadata)) == 3, "three days, one batch a day"


def test_nothing_kept_leaves_the_tag_alone_and_still_two_commits(events: Bench) -> None:
    consumer = Consumer(events, replace(OPTIONS, keep_seconds=0.0))
    for number in range(3):
        events.append("db.events", number)
        before = commits_of(events)
        consumer.commit(consumer.capture())
        assert commits_of(events) - before == 2
        assert consumer.ours == [checkpoint_tag(CONSUMER)]
        assert events.lake.change_tables() == []


@pytest.mark.parametrize("seed", range(3))
def test_whatever_dies_in_between_an_open_batch_can_be_read_and_the_checkpoint_stays_tagged(
    events: Bench, seed: int
) -> None:
    """Deaths after commits, batches that are repeated, and a source that expires all it may, at random."""
    chance = Random(seed)
    consumer = Consumer(events)
    told: list[int] = []
    events.append("db.events", 0)
    for number in range(1, 25):
        record = consumer.capture()
        table = record.sources[0]["change_table"]
        if chance.random() < 0.4:
            _expire(events)
        if table is not None:
            rows = events.ids_in(table)
            if chance.random() < 0.7:
                told += rows
                consumer.commit(record, dies=chance.random() < 0.4)
        else:
            consumer.commit(record)
        if chance.random() < 0.3:
            release.sweep(events.lake, consumer.database, time.time())
            checkpoint = events.checkpoint(CONSUMER)
            assert checkpoint is None or consumer.tagged == checkpoint.snapshot_id
        if chance.random() < 0.4:
            _expire(events)
        events.append("db.events", number)
    for _ in range(2):  # what is open, and what came after it
        consumer.commit(record := consumer.capture())
        table = record.sources[0]["change_table"]
        told += events.ids_in(table) if table else []
    assert sorted(told) == events.ids_in("db.events"), f"seed {seed}"
    assert len(consumer.ours) <= 4


def _expire(bench: Bench) -> None:
    """As a source's owner would: everything that no reference keeps, but the newest two."""
    table = bench.catalog.load_table("db.events")
    keep = {ref.snapshot_id for ref in table.metadata.refs.values()}
    line = [snapshot.snapshot_id for snapshot in table.metadata.snapshots]
    checkpoint = bench.checkpoint(CONSUMER)
    first = line.index(checkpoint.snapshot_id) if checkpoint and checkpoint.snapshot_id in line else 0
    gone = [one for one in line[:first] if one not in keep]
    for snapshot_id in gone:
        table.maintenance.expire_snapshots().by_id(snapshot_id).commit()
        table = bench.catalog.load_table("db.events")


def test_a_catalog_that_is_away_after_a_commit_is_made_good_and_nothing_counts_as_done(
    events: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    consumer = Consumer(events, replace(OPTIONS, keep_seconds=0.0))
    head = events.append("db.events", 1)
    record = consumer.capture()

    def away(*_: object, **__: object) -> None:
        raise UnreachableError("the catalog does not answer")

    with monkeypatch.context() as patched:
        patched.setattr(events.lake.tables, "set_refs", away)
        consumer.commit(record)
    assert consumer.tagged is None
    with consumer.database.read() as connection:
        assert [one.id for one in captures.unsettled(connection)] == [record.id]
        assert captures.to_release(connection, time.time()) == [], "it is tried again later, not at once"
    release.sweep(events.lake, consumer.database, time.time() + 2 * release.RETRY_SECONDS)
    assert consumer.tagged == head
    assert consumer.ours == [checkpoint_tag(CONSUMER)]
    assert all(one.released for one in events.captures(CONSUMER))
