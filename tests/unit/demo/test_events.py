"""The demonstration's events: as large on disk, as skewed and as late as they are said to be."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from math import log2
from pathlib import Path

import pyarrow.compute as pc

from icefloe import config
from icefloe.demo.events import LATE_DAYS, LATE_SHARE, Events, day_number
from icefloe.demo.source import PlaybackTable
from icefloe.service import project

DAY = day_number(20)
EVENTS = Events(20_000, seed=3).load(DAY, number=0)


def test_the_same_seed_and_load_give_the_same_events_and_others_give_others() -> None:
    assert EVENTS.equals(Events(20_000, seed=3).load(DAY, number=0))
    ids = set(EVENTS["event_id"].to_pylist())
    for other in (Events(20_000, seed=4).load(DAY, number=0), Events(20_000, seed=3).load(DAY, number=1)):
        assert not ids & set(other["event_id"].to_pylist())
    assert len(ids) == 20_000 and {len(one) for one in ids} == {36}


def test_a_few_percent_are_late_most_by_a_day_or_two_and_none_by_more_than_twelve() -> None:
    late = Counter((DAY - one).days for one in EVENTS["event_day"].to_pylist())
    assert set(late) <= set(range(LATE_DAYS + 1))
    share = 1 - late[0] / 20_000
    assert LATE_SHARE / 2 < share < LATE_SHARE * 2
    assert late[1] > late[3] > late[6] > 0
    assert late[1] + late[2] > (20_000 - late[0]) / 2
    for time, day in zip(EVENTS["event_time"].to_pylist()[:500], EVENTS["event_day"].to_pylist()[:500], strict=True):
        assert time.date() == day


def test_no_event_is_older_than_the_first_day() -> None:
    assert pc.min(Events(5_000, seed=1).load(day_number(1), number=0)["event_day"]).as_py() == day_number(0)
    assert pc.min(Events(5_000, seed=1).load(day_number(0), number=0)["event_day"]).as_py() == day_number(0)


def test_few_accounts_watch_a_lot_and_each_stays_in_its_country() -> None:
    rows = Counter(EVENTS["account_id"].to_pylist())
    most = sum(many for _, many in rows.most_common(len(rows) // 10))
    assert most > 20_000 / 4, "a tenth of the accounts has a good part of the events"
    countries = dict(zip(EVENTS["account_id"].to_pylist(), EVENTS["country"].to_pylist(), strict=True))
    for account, country in zip(EVENTS["account_id"].to_pylist(), EVENTS["country"].to_pylist(), strict=True):
        assert countries[account] == country
    by_country = Counter(EVENTS["country"].to_pylist())
    assert by_country["in"] > by_country["us"] > by_country["pt"] > 0


def test_files_of_events_cannot_be_packed_below_what_their_columns_hold(tmp_path: Path) -> None:
    loaded = config.load(project.init(tmp_path), env={})
    source = PlaybackTable(loaded, "demo", Events(20_000, seed=3))
    source.create()
    source.load(DAY)
    bits = 128 + log2(7_200_000) + sum(_entropy(name) for name in ("account_id", "country", "title_id", "view_min"))
    # A country is a function of its account, and a packer that knew it could leave it out.
    bits -= _entropy("country")
    assert source.bytes_per_event() > bits / 8
    assert source.bytes_per_event() > 30


def _entropy(column: str) -> float:
    """Bits a value, by how often each occurs; at most what so many rows can show."""
    counts = Counter(EVENTS[column].to_pylist())
    total = sum(counts.values())
    return -sum(many / total * log2(many / total) for many in counts.values())


def test_a_day_number_counts_from_the_first_day() -> None:
    assert day_number(3) - day_number(0) == timedelta(days=3)
