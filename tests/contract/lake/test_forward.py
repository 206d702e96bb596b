"""A branch's fast-forward in one commit, on every catalog and in every format version: exactly from the base, or not at all."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from icefloe.lake import Lake
from icefloe.lake.catalog import RefChange, Tables
from icefloe.lake.errors import CommitConflictError
from tests.contract.lake.conftest import MakeTable
from tests.contract.lake.playback import Playback, read, rows

BRANCH = "attempt"


class Branched:
    """A table whose branch is one append ahead of main."""

    def __init__(self, playback: Playback) -> None:
        self.playback = playback
        self.base = playback.append(*rows(1))
        self.tables.set_refs(playback.identifier, [RefChange(BRANCH, self.base, "branch", 5000)])
        self.tip = playback.append(*rows(2), branch=BRANCH)

    @property
    def tables(self) -> Tables:
        return self.playback.lake.tables

    @property
    def refs(self) -> dict[str, int]:
        return {name: ref.snapshot_id for name, ref in self.playback.loaded.metadata.refs.items()}

    def forward(self) -> bool:
        return self.tables.forward(self.playback.identifier, "main", BRANCH, base=self.base, tip=self.tip)


@pytest.fixture(params=[1, 2, 3])
def branched(request: pytest.FixtureRequest, make: MakeTable) -> Branched:
    made = Branched(make(version=min(request.param, 2)))
    if request.param == 3:
        made.playback.upgrade_to_v3()
    return made


def test_main_goes_on_and_the_branch_is_gone_in_one_commit(lake: Lake, branched: Branched) -> None:
    playback = branched.playback
    branched.tables.set_refs(playback.identifier, [RefChange("kept", branched.base, "tag", 9000)])
    before = playback.loaded.metadata
    assert branched.forward()
    after = playback.loaded.metadata
    assert branched.refs == {"main": branched.tip, "kept": branched.base}
    assert after.raw["current-snapshot-id"] == branched.tip
    log = [entry["snapshot-id"] for entry in after.raw["snapshot-log"]]
    assert log == [entry["snapshot-id"] for entry in before.raw["snapshot-log"]] + [branched.tip]
    times = [entry["timestamp-ms"] for entry in after.raw["snapshot-log"]]
    assert times == sorted(times)
    assert after.raw["last-updated-ms"] >= times[-1]
    assert len(after.raw["metadata-log"]) == len(before.raw["metadata-log"]) + 1
    assert after.raw["snapshots"] == before.raw["snapshots"]
    if after.format_version < 3:
        assert read(lake, playback.name) == rows(1, 2)
        assert playback.append(*rows(3)) != branched.tip, "others go on from there"
        assert read(lake, playback.name) == rows(1, 2, 3)


def test_what_main_keeps_it_keeps(branched: Branched) -> None:
    playback = branched.playback
    keeps = {"min-snapshots-to-keep": 7, "max-snapshot-age-ms": 86_400_000}
    raw = playback.loaded.metadata.raw["refs"]
    playback.edit(refs={**raw, "main": {**raw["main"], **keeps}})
    assert branched.forward()
    main = playback.loaded.metadata.raw["refs"]["main"]
    assert {**main, **keeps, "snapshot-id": branched.tip} == main


def _somebody_appends(one: Branched) -> None:
    one.playback.append(*rows(9))


def _the_branch_goes_on(one: Branched) -> None:
    one.playback.append(*rows(9), branch=BRANCH)


def _the_branch_is_taken_away(one: Branched) -> None:
    one.tables.set_refs(one.playback.identifier, [RefChange(BRANCH, None)])


def _it_was_done_already(one: Branched) -> None:
    one.forward()


@pytest.mark.parametrize(
    "before", [_somebody_appends, _the_branch_goes_on, _the_branch_is_taken_away, _it_was_done_already]
)
def test_nothing_is_moved_when_main_or_the_branch_is_elsewhere(
    make: MakeTable, before: Callable[[Branched], None]
) -> None:
    branched = Branched(make())
    before(branched)
    refs, location = branched.refs, branched.playback.loaded.metadata.metadata_location
    with pytest.raises(CommitConflictError, match="moved by somebody else"):
        branched.forward()
    assert branched.refs == refs
    assert branched.playback.loaded.metadata.metadata_location == location


@pytest.mark.parametrize("of_main", [False, True], ids=["a tag", "an append to main"])
def test_a_commit_at_the_same_moment_is_looked_at_again(
    make: MakeTable, monkeypatch: pytest.MonkeyPatch, of_main: bool
) -> None:
    """Between the look and the compare-and-set: what does not concern the two is no reason to give up, and what does is one."""
    branched = Branched(make())
    commit = branched.tables._commit_once
    others = [
        lambda: (
            branched.playback.append(*rows(9))
            if of_main
            else commit(branched.playback.loaded, [RefChange("other", branched.base, "tag", 9000)], None)
        )
    ]

    def late(*arguments: object) -> None:
        if others:
            others.pop()()
        commit(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(branched.tables, "_commit_once", late)
    if of_main:
        with pytest.raises(CommitConflictError):
            branched.forward()
        assert branched.refs["main"] not in (branched.base, branched.tip)
        assert branched.refs[BRANCH] == branched.tip
    else:
        assert branched.forward()
        assert branched.refs == {"main": branched.tip, "other": branched.base}
