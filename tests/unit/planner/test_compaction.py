"""When small files are joined, and which. No Spark."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from icefloe.planner import compaction
from icefloe.planner.compaction import SMALL_BYTES, SMALL_FILES, WEIGHT, cutoff
from icefloe.planner.inputs import PartitionContents
from icefloe.planner.plan import Partitions, Plan
from icefloe.steps.write.write_job import request
from icefloe.workflow.step_types import WriteSettings
from tests.unit.planner.tables import CONTENTS, LATE, analysis_of, plan_of, target_of

AGG = "SELECT account_id, event_day, count(*) AS n FROM db.events GROUP BY account_id, event_day"
PILE = (400_000, *[1_000] * (SMALL_FILES - 1))
"""What a day looks like before the batch that makes it due."""


def planned(text: str = AGG, files: tuple[int, ...] = PILE, **more: object) -> Plan:
    keys = ("account_id", "event_day") if text == AGG else ()
    contents = replace(CONTENTS, files={LATE: (files,)})
    return plan_of(text, *keys, contents=contents, partition_by=("event_day",), **more)


@pytest.mark.parametrize(
    ("sizes", "cut"),
    [
        ([], None),
        ([10] * 7, None),
        ([10] * 8, 10),
        ([10] * 8 + [1_000, 1_000, 1_000], 10),
        ([8, 9, 10, 11, 12, 10, 9, 8], 12),
        ([1, 10] + [10] * 7, 10),
        ([80] + [10] * 8, 10),
        ([80] * 5 + [10] * 8, 80),
    ],
)
def test_files_are_joined_with_their_like_and_large_ones_are_left_alone(sizes: list[int], cut: int | None) -> None:
    assert cutoff(sizes, 8) == cut


@pytest.mark.parametrize("seed", range(20))
def test_however_many_batches_there_are_files_stay_few_and_rows_are_seldom_written_again(seed: int) -> None:
    """As Iceberg does it: all files below the cut become one."""
    rng = random.Random(seed)
    files, loaded, written = [int(rng.uniform(0, 2e6))], 0, 0
    most = 0
    for _ in range(1_000):
        size = rng.randint(1_000, 3_000)
        files.append(size)
        loaded += size
        cut = cutoff(files, SMALL_FILES)
        if cut is not None:
            joined = [one for one in files if one <= cut]
            files = [*(one for one in files if one > cut), sum(joined)]
            written += sum(joined)
            assert sum(joined) >= WEIGHT * cut
        most = max(most, len(files))
    assert most <= 5 * SMALL_FILES, seed
    assert written <= 5 * loaded + 2e6, seed


def test_a_late_partition_with_a_pile_is_due_and_the_statements_say_which_files() -> None:
    found = planned().compaction
    assert found is not None
    assert (found.column, found.values, found.below) == ("event_day", (LATE,), 1_001)
    assert found.statements == (
        "CALL lake.system.rewrite_data_files(table => 'lake.db.target', where => '`event_day` = DATE\\'2026-03-02\\'', "
        "options => map('min-input-files', '2', 'min-file-size-bytes', '1001'))",
        "CALL lake.system.rewrite_position_delete_files(table => 'lake.db.target', where => '`event_day` = DATE\\'2026-03-02\\'', "
        "options => map('min-input-files', '2'))",
    )
    told = planned().to_dict()["compaction"]
    assert told["partitions"] == ["2026-03-02"] and told["files_below_bytes"] == 1_001


def test_where_days_roll_on_partitions_wait_for_each_other_and_none_is_left_with_a_pile() -> None:
    """Twelve days back each day, a file in each of them: one more day has its pile with each batch, and none is joined alone."""
    target = replace(target_of(analysis_of(AGG, "account_id", "event_day")), identity_columns=("event_day",))
    files: dict[int, list[int]] = {}
    joinings = []
    for day in range(12, 100):
        late = tuple(range(day - 12, day))
        contents = PartitionContents(files={value: (tuple(files.get(value, ())),) for value in late})
        due = compaction.due(target, "int", contents, Partitions("event_day", late=late), deletes=True)
        for value in late:
            files.setdefault(value, [5_000_000]).append(1_000)
        if due is not None:
            joinings.append(len(due.values))
            for value in due.values:
                small = [size for size in files[value] if size < due.below]
                files[value] = [size for size in files[value] if size >= due.below] + [sum(small)]
    assert min(joinings) >= 4 and len(joinings) <= 100 / 3
    left = [len(files[value]) for value in range(20, 80)]
    assert max(left) <= 6, left


def test_one_pile_among_many_partitions_is_joined_when_it_is_worth_two() -> None:
    target = replace(target_of(analysis_of(AGG, "account_id", "event_day")), identity_columns=("event_day",))

    def due(files: int, late: int) -> bool:
        contents = PartitionContents(files={0: ((1_000,) * files,)})
        touched = Partitions("event_day", late=tuple(range(late)))
        return compaction.due(target, "int", contents, touched, deletes=True) is not None

    assert due(SMALL_FILES - 1, 1) and due(SMALL_FILES - 1, 3), "there is nobody to wait for"
    assert not due(SMALL_FILES - 1, 4) and not due(2 * SMALL_FILES - 2, 4)
    assert due(2 * SMALL_FILES - 1, 4)


def test_a_pile_is_what_lies_in_one_partition_where_several_have_the_day() -> None:
    def with_buckets(*buckets: tuple[int, ...]) -> Plan:
        contents = replace(CONTENTS, files={LATE: buckets})
        return plan_of(AGG, "account_id", "event_day", contents=contents, partition_by=("event_day",))

    assert with_buckets(*[(10, 10)] * 16).compaction is None
    found = with_buckets((10, 10), (20,) * 8, (10,) * 8).compaction
    assert found is not None and (found.values, found.below) == ((LATE,), 21)


def test_nothing_is_due_below_the_threshold_or_when_it_is_switched_off() -> None:
    assert planned(files=PILE[:-1]).compaction is None
    assert planned(compact=False).compaction is None
    assert (
        plan_of(AGG, "account_id", "event_day", contents=PartitionContents(), partition_by=("event_day",)).compaction
        is None
    )


def test_files_that_cost_more_to_read_than_to_open_are_left_alone() -> None:
    assert planned(files=(SMALL_BYTES,) * 20).compaction is not None
    assert planned(files=(SMALL_BYTES + 1,) * 20).compaction is None
    assert planned(files=(1_000,) * 20, target={"file_bytes": 1_999}).compaction is None, "as the table wants them"


def test_delete_files_are_joined_only_where_there_are_any() -> None:
    appended = planned("SELECT id, event_day FROM db.events").compaction
    assert appended is not None and len(appended.statements) == 1
    for target in ({"merge_on_read": False}, {"format_version": 3}):
        found = planned(target=target).compaction
        assert found is not None and [" rewrite_position" in one for one in found.statements] == [False]


def test_the_threshold_counts_the_file_that_the_batch_itself_adds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compaction, "SMALL_FILES", 3)
    monkeypatch.setattr(compaction, "WEIGHT", 1)
    assert planned(files=(10, 10)).compaction is not None
    assert planned(files=(10,)).compaction is None


@pytest.mark.parametrize(("said", "compact"), [({}, True), ({"compact": "auto"}, True), ({"compact": "OFF"}, False)])
def test_the_setting_of_the_step_reaches_the_plan(said: dict[str, str], compact: bool) -> None:
    settings = WriteSettings.model_validate({"table": "db.target", **said})
    assert request(settings, AGG, "the step").compact is compact
