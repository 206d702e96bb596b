"""Pins tell whose they are by their names, and two owners never share one."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from icefloe.lake.catalog import RefChange
from icefloe.lake.pins import checkpoint_tag, leaked, pins_of, slug
from tests.unit.lake.metadata_json import Past, table_metadata

texts = st.text(max_size=30)


@given(texts)
def test_a_slug_stands_in_sql_unquoted(text: str) -> None:
    assert re.fullmatch(r"[A-Za-z0-9]+(?:_[A-Za-z0-9]+)*", slug(text))


@given(texts, texts)
def test_two_consumers_never_share_a_checkpoint_tag(one: str, other: str) -> None:
    assert (checkpoint_tag(one) == checkpoint_tag(other)) == (one == other)


def test_names_that_look_alike_when_cleaned_stay_apart() -> None:
    alike = ["a.b", "a_b", "a-b", "a__b", "_a_b", "a b", "A_b", "", "x", "ä.b"]
    assert len({checkpoint_tag(name) for name in alike}) == len(alike)


def test_a_plain_name_is_kept_as_it_is() -> None:
    assert slug("playback_agg") == "playback_agg"


@given(texts, texts, st.integers(0, 20))
def test_a_pin_is_read_back_from_its_name(owner: str, capture: str, number: int) -> None:
    names = [f"icefloe_pin__{slug(owner)}__{slug(capture)}__{suffix}" for suffix in ("to", f"hold{number}")]
    metadata = table_metadata([Past(1, None, 1)], dict.fromkeys([*names, "main", "release"], 1))
    found = pins_of(metadata)
    assert [(pin.owner, pin.capture) for pin in found] == [(slug(owner), slug(capture))] * 2
    assert leaked(metadata, open_captures=[capture]) == []
    assert leaked(metadata, open_captures=["another"]) == (found if slug(capture) != "another" else [])


def test_the_end_of_a_pin_counts_from_its_snapshots_time() -> None:
    metadata = table_metadata([Past(1, None, 1, timestamp_ms=1000)], {"main": 1})
    metadata.raw["refs"]["icefloe_pin__o__c__to"] = {"snapshot-id": 1, "type": "branch", "max-ref-age-ms": 500}
    del metadata.__dict__["refs"]
    (pin,) = pins_of(metadata)
    assert pin.expires_ms == 1500


def test_a_pinned_branch_keeps_its_head_alone_and_a_tag_only_its_age() -> None:
    assert RefChange("b", 1, "branch", 5).to_json() == {
        "snapshot-id": 1,
        "type": "branch",
        "max-ref-age-ms": 5,
        "min-snapshots-to-keep": 1,
        "max-snapshot-age-ms": 1,
    }
    assert RefChange("t", 1, "tag", 5).to_json() == {"snapshot-id": 1, "type": "tag", "max-ref-age-ms": 5}
