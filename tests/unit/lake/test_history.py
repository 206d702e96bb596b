"""A ref's past: the exact chain, or the true reason why it cannot be told."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from icefloe.errors import IcefloeError
from icefloe.lake import history
from icefloe.lake.errors import (
    HistoryExpiredError,
    HistoryLostError,
    HistoryRolledBackError,
    RefNotFoundError,
    SnapshotNotFoundError,
    SnapshotOrderError,
    TableRecreatedError,
    TableReplacedError,
)
from icefloe.lake.history import Checkpoint
from icefloe.lake.metadata import TableMetadata
from tests.unit.lake.metadata_json import Past, table_metadata

UUID = "11111111-1111-1111-1111-111111111111"
LINE = [Past(1, None, 1), Past(2, 1, 2), Past(3, 2, 3), Past(4, 3, 4)]


def ids(metadata: TableMetadata, since: Checkpoint | int, until: int | None = None, *, ref: str = "main") -> list[int]:
    checkpoint = Checkpoint("", since) if isinstance(since, int) else since
    end = history.resolve_until(metadata, ref, until, table="db.t")
    chain = history.between(metadata, checkpoint, end, ref=ref, table="db.t", until_given=until is not None)
    return [snapshot.id for snapshot in chain]


def at(number: int, *, uuid: str = UUID, sequence_number: int | None = None) -> Checkpoint:
    return Checkpoint(uuid, number, number if sequence_number is None else sequence_number)


def test_the_chain_leaves_the_start_out_and_has_the_oldest_first() -> None:
    metadata = table_metadata(LINE, {"main": 4})
    assert ids(metadata, 1) == [2, 3, 4]
    assert ids(metadata, 1, 3) == [2, 3]
    assert ids(metadata, at(4)) == []


def test_the_parent_chain_is_the_order_and_not_the_time() -> None:
    shuffled = [Past(one.id, one.parent, one.number, timestamp_ms=1000 - one.id) for one in reversed(LINE)]
    assert ids(table_metadata(shuffled, {"main": 4}), 1) == [2, 3, 4]


def test_staged_snapshots_and_other_branches_are_not_in_the_chain() -> None:
    metadata = table_metadata([*LINE, Past(5, 3, 5), Past(6, 4, 6)], {"main": 4, "audit": 5})
    assert ids(metadata, 1) == [2, 3, 4]
    assert ids(metadata, 1, ref="audit") == [2, 3, 5]


def test_a_tag_is_followed_as_a_branch_is() -> None:
    metadata = table_metadata(LINE, {"main": 4, "release": 3})
    assert ids(metadata, 1, ref="release") == [2, 3]


def test_an_expired_checkpoint_whose_child_is_there_loses_nothing() -> None:
    assert ids(table_metadata(LINE[2:], {"main": 4}), at(2)) == [3, 4]


def test_a_chain_with_a_hole_is_expired() -> None:
    with pytest.raises(HistoryExpiredError) as raised:
        ids(table_metadata(LINE[2:], {"main": 4}), at(1))
    assert not raised.value.diff_possible
    with pytest.raises(HistoryExpiredError) as raised:
        ids(table_metadata([LINE[0], *LINE[2:]], {"main": 4}), at(1))
    assert raised.value.diff_possible
    assert "diff (compare" in (raised.value.hint or "")


ROLLED_BACK = {
    "to an ancestor": ([*LINE], {"main": 2}),
    "and went another way": ([*LINE, Past(5, 2, 5)], {"main": 5}),
    "and the left one is expired": ([*LINE[:2], Past(5, 2, 5)], {"main": 5}),
    "and both the left one and the fork are expired": ([Past(5, 2, 5), Past(6, 5, 6)], {"main": 6}),
}


@pytest.mark.parametrize("case", ["to an ancestor", "and went another way", "and the left one is expired"])
def test_a_branch_that_was_rolled_back_says_so(case: str) -> None:
    snapshots, refs = ROLLED_BACK[case]
    with pytest.raises(HistoryRolledBackError):
        ids(table_metadata(snapshots, refs), at(4))


def test_a_roll_back_whose_traces_are_expired_is_called_expired() -> None:
    snapshots, refs = ROLLED_BACK["and both the left one and the fork are expired"]
    with pytest.raises(HistoryExpiredError):
        ids(table_metadata(snapshots, refs), at(4))


def test_a_replaced_table_starts_anew_without_a_parent() -> None:
    metadata = table_metadata([*LINE, Past(9, None, 5)], {"main": 9})
    with pytest.raises(TableReplacedError) as raised:
        ids(metadata, at(4))
    assert raised.value.diff_possible
    with pytest.raises(TableReplacedError) as raised:
        ids(table_metadata([Past(9, None, 5)], {"main": 9}), at(4))
    assert not raised.value.diff_possible


def test_an_orphan_that_has_its_lost_parents_files_does_not_look_replaced() -> None:
    with pytest.raises(HistoryExpiredError):
        ids(table_metadata([Past(9, None, 9, files=(1, 4))], {"main": 9}), at(4))
    with pytest.raises(TableReplacedError):
        ids(table_metadata([Past(9, None, 9, files=(4, 4))], {"main": 9}), at(4))


def test_a_table_with_another_uuid_was_recreated_even_when_ids_agree() -> None:
    with pytest.raises(TableRecreatedError):
        ids(table_metadata(LINE, {"main": 4}), at(1, uuid="22222222-2222-2222-2222-222222222222"))


def test_a_table_emptied_of_snapshots_was_replaced() -> None:
    with pytest.raises(TableReplacedError):
        ids(table_metadata([], {}), at(1))
    with pytest.raises(SnapshotNotFoundError):
        ids(table_metadata([], {}), 1)


def test_the_snapshot_of_another_table_is_unknown() -> None:
    with pytest.raises(SnapshotNotFoundError) as raised:
        ids(table_metadata(LINE, {"main": 4}), 777)
    assert "icefloe sql" in (raised.value.hint or "")
    with pytest.raises(SnapshotNotFoundError):
        ids(table_metadata(LINE, {"main": 4}), 1, 777)


def test_since_newer_than_until_asks_to_swap_them() -> None:
    with pytest.raises(SnapshotOrderError) as raised:
        ids(table_metadata(LINE, {"main": 4}), 4, 2)
    assert raised.value.hint == "swap the two"


def test_until_on_another_branch_is_refused() -> None:
    metadata = table_metadata([*LINE, Past(5, 3, 5)], {"main": 4, "audit": 5})
    with pytest.raises(SnapshotOrderError, match="not in the history of 'main'"):
        ids(metadata, 1, 5)


def test_an_unknown_ref_lists_those_there_are() -> None:
    with pytest.raises(RefNotFoundError) as raised:
        history.head(table_metadata(LINE, {"main": 4, "audit": 3}), "adit", table="db.t")
    assert raised.value.hint == "the refs are: audit, main"


def test_v1_without_numbers_finds_the_chain_and_admits_what_it_cannot_tell() -> None:
    bare = [Past(one.id, one.parent) for one in LINE]
    assert ids(table_metadata(bare, {"main": 4}, version=1), at(1, sequence_number=0)) == [2, 3, 4]
    with pytest.raises(HistoryRolledBackError):
        ids(table_metadata(bare, {"main": 2}, version=1), at(4, sequence_number=0))
    with pytest.raises(HistoryLostError) as raised:
        ids(table_metadata([Past(9, None)], {"main": 9}, version=1), at(4, sequence_number=0))
    assert raised.value.code == "lake.history-lost"


def test_metadata_from_before_there_were_refs_has_main_at_its_current_snapshot() -> None:
    bare = [Past(one.id, one.parent) for one in LINE]
    metadata = table_metadata(bare, {"main": 4}, version=1)
    del metadata.raw["refs"]
    assert ids(TableMetadata.of(metadata.raw, location="x"), 2) == [3, 4]


def test_a_cycle_of_parents_ends() -> None:
    looped = [Past(1, 2, 1), Past(2, 1, 2)]
    assert [one.id for one in history.ancestors(table_metadata(looped, {"main": 2}), 2)] == [2, 1]


# -- against a model that knows the truth ---------------------------------------------------------------------------------


@dataclass
class Truth:
    """A table that forgets nothing: what really happened, beside what its metadata still tells."""

    dice: random.Random
    version: int
    every: dict[int, Past] = field(default_factory=dict)
    held: set[int] = field(default_factory=set)
    refs: dict[str, int] = field(default_factory=dict)
    heads: list[int] = field(default_factory=list)
    """Every snapshot that was ever the head of main: what a consumer may have a checkpoint at."""

    def commit(self, ref: str, parent: int | None) -> None:
        made = Past(
            id=self.dice.randrange(1, 2**62),
            parent=parent,
            number=len(self.every) + 1 if self.version > 1 else 0,
            timestamp_ms=self.dice.randrange(10**9),
        )
        self.every[made.id] = made
        self.held.add(made.id)
        if ref:
            self.refs[ref] = made.id
        if ref == "main":
            self.heads.append(made.id)

    def step(self) -> None:
        main = self.refs.get("main")
        action = self.dice.choice(
            ["append"] * 6 + ["stage", "branch", "publish", "back", "replace", "expire", "expire"]
        )
        if action == "append" or main is None:
            self.commit("main", main)
        elif action == "stage":
            self.commit("", main)
        elif action == "branch":
            self.commit("audit", self.refs.get("audit", main))
        elif action == "publish" and "audit" in self.refs:
            self.refs["main"] = self.refs["audit"]
            self.heads.append(self.refs["main"])
        elif action == "back":
            self.refs["main"] = self.dice.choice(sorted(self.held))
            self.heads.append(self.refs["main"])
        elif action == "replace":
            self.commit("main", None)
        elif action == "expire":
            loose = sorted(self.held - set(self.refs.values()))
            self.held -= set(self.dice.sample(loose, self.dice.randrange(len(loose) + 1)))

    def line(self, head: int) -> list[int]:
        found = [head]
        while (parent := self.every[found[-1]].parent) is not None:
            found.append(parent)
        return found

    def metadata(self) -> TableMetadata:
        snapshots = [self.every[one] for one in sorted(self.held)]
        return table_metadata(snapshots, self.refs, version=self.version)

    def answer(self, since: int) -> list[int] | set[type[IcefloeError]]:
        """The true chain, or the errors that may be given for it."""
        line = self.line(self.refs["main"])
        seen = line[: next((n for n, one in enumerate(line) if one not in self.held), len(line))]
        if since in line:
            between = line[: line.index(since)]
            return between[::-1] if set(between) <= self.held else {HistoryExpiredError}
        if self.version == 1:
            return {HistoryLostError, HistoryRolledBackError, TableReplacedError, HistoryExpiredError}
        number, root = self.every[since].number, self.every[line[-1]].number
        truth = HistoryRolledBackError if number > root else TableReplacedError
        # What tells the reason may itself be expired.
        return {truth} if len(seen) == len(line) else {HistoryRolledBackError, HistoryExpiredError}


@settings(max_examples=250)
@given(st.integers(0, 2**32), st.integers(1, 40), st.sampled_from([1, 2, 3]))
def test_the_chain_is_the_true_one_or_the_reason_is_true(seed: int, steps: int, version: int) -> None:
    truth = Truth(random.Random(seed), version)
    for _ in range(steps):
        truth.step()
    metadata = truth.metadata()
    for since in truth.heads:
        expected = truth.answer(since)
        checkpoint = Checkpoint(UUID, since, truth.every[since].number)
        for start in (checkpoint, Checkpoint("", since)):
            try:
                found = history.between(metadata, start, truth.refs["main"], ref="main", table="db.t")
            except IcefloeError as error:
                unknown = isinstance(error, SnapshotNotFoundError | HistoryExpiredError)
                typed_by_hand = not start.table_uuid and since not in truth.held and unknown
                assert isinstance(expected, set), f"{error!r} instead of {expected}"
                assert type(error) in expected or typed_by_hand
                if isinstance(error, HistoryLostError):
                    assert error.diff_possible == (since in truth.held)
            else:
                assert [snapshot.id for snapshot in found] == expected
