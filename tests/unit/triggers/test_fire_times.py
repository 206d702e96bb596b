"""Fires of crons and intervals, against an oracle that looks at every minute."""

from __future__ import annotations

import itertools
import random
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from icefloe.triggers import zones
from icefloe.triggers.fire_times import CronTimes, IntervalTimes, fire_times
from icefloe.workflow import cron as expressions
from icefloe.workflow.model import CronTrigger
from tests.unit.triggers import cron_oracle
from tests.unit.triggers.cron_oracle import utc

# Half hours, changes at midnight, southern summers, a skipped day, politics by decree, and one without any change.
ZONES = (
    "UTC", "Europe/Berlin", "America/New_York", "America/St_Johns", "America/Sao_Paulo", "America/Havana", "Asia/Kathmandu",
    "Asia/Beirut", "Asia/Tehran", "Africa/Casablanca", "Africa/Cairo", "Australia/Lord_Howe", "Pacific/Chatham", "Pacific/Apia",
    "America/Scoresbysund", "Antarctica/Troll", "Europe/Dublin", "America/Asuncion",
)  # fmt: skip


def expand(times: CronTimes, start: datetime, end: datetime) -> list[datetime]:
    found, moment = [], start.timestamp() - 1
    while (fire := times.after(moment)) is not None and fire < end.timestamp():
        found.append(datetime.fromtimestamp(fire, UTC))
        moment = fire
    return found


def random_cron(chance: random.Random) -> str:
    def field(low: int, high: int, often: float) -> str:
        kind = chance.random()
        if kind < often:
            return "*"
        if kind < often + 0.15:
            return f"*/{chance.randint(2, max(2, high // 2))}"
        if kind < often + 0.3:
            first = chance.randint(low, high)
            return f"{first}-{chance.randint(first, high)}"
        return ",".join(str(chance.randint(low, high)) for _ in range(chance.randint(1, 3)))

    day, weekday = (field(1, 28, 0.8), "*") if chance.random() < 0.8 else (field(1, 28, 0.3), field(0, 6, 0.3))
    return f"{field(0, 59, 0.1)} {field(0, 23, 0.3)} {day} {field(1, 12, 0.85)} {weekday}"


@pytest.mark.parametrize("zone", ZONES)
def test_a_cron_fires_as_the_oracle_says_around_every_change_of_the_clocks(zone: str) -> None:
    chance = random.Random(f"around {zone}")
    moment, end = int(utc(2010, 1, 1).timestamp()), int(utc(2027, 1, 1).timestamp())
    changes = []
    while (change := zones.next_change(zone, moment, end)) is not None:
        moment = change[0]
        changes.append(datetime.fromtimestamp(moment, UTC).replace(second=0))
    for at in chance.sample(changes, min(3, len(changes))):
        start = (at - timedelta(hours=chance.randint(1, 30))).replace(minute=0)
        finish = at + timedelta(hours=30)
        for text in (random_cron(chance), "30 2 * * *", "0 0 * * *", "*/15 * * * *", "0 */2 * * *"):
            expected = cron_oracle.fires(text, zone, start, finish)
            assert expand(CronTimes(text, zone), start, finish) == expected, (text, zone, start)


@pytest.mark.long
@pytest.mark.parametrize("zone", ZONES)
def test_a_cron_fires_as_the_oracle_says_over_years(zone: str) -> None:
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    chance = random.Random(seed)
    for _ in range(6):
        text = random_cron(chance)
        start = utc(chance.randint(2000, 2026), 1, 1)
        end = start + timedelta(days=800)
        assert expand(CronTimes(text, zone), start, end) == cron_oracle.fires(text, zone, start, end), (
            seed,
            text,
            zone,
        )


@pytest.mark.parametrize("zone", ZONES)
@pytest.mark.parametrize("hour", [0, 2])
def test_a_nightly_cron_fires_once_for_each_day_of_the_calendar(zone: str, hour: int) -> None:
    start, end = utc(2010, 1, 1), utc(2014, 1, 1)
    fires = expand(CronTimes(f"30 {hour} * * *", zone), start, end)
    place = ZoneInfo(zone)
    # A fire at the moment of a change stands for a time that the wall skipped, in the day before when the change is at its end.
    days = [(fire - timedelta(seconds=1)).astimezone(place).date() for fire in fires]
    gaps = [(b - a).days for a, b in itertools.pairwise(days)]
    assert len(fires) in range(1460, 1464)
    assert all(0 < (b - a).total_seconds() <= 26 * 3600 for a, b in itertools.pairwise(fires))
    assert set(gaps) <= {0, 1, 2} and gaps.count(0) <= 8


def test_a_time_that_is_skipped_in_spring_fires_at_the_change_and_one_that_comes_twice_in_autumn_once() -> None:
    berlin = CronTimes("30 2 * * *", "Europe/Berlin")
    assert expand(berlin, utc(2026, 3, 28, 12), utc(2026, 3, 30, 12)) == [utc(2026, 3, 29, 1), utc(2026, 3, 30, 0, 30)]
    assert expand(berlin, utc(2026, 10, 24, 12), utc(2026, 10, 26, 12)) == [
        utc(2026, 10, 25, 0, 30),
        utc(2026, 10, 26, 1, 30),
    ]


def test_a_cron_of_every_hour_follows_elapsed_time_through_a_change() -> None:
    quarter = CronTimes("*/15 * * * *", "Europe/Berlin")
    for start in (utc(2026, 3, 29), utc(2026, 10, 25)):
        fires = expand(quarter, start, start + timedelta(hours=6))
        assert {b - a for a, b in itertools.pairwise(fires)} == {timedelta(minutes=15)}


@pytest.mark.parametrize(
    ("expression", "first"),
    [
        ("0 0 12 1/1 * ? *", "2026-01-01T12:00:00"),
        ("0 0 12 ? * 2 *", "2026-01-05T12:00:00"),  # 2 is Monday in Quartz
        ("0 0 12 ? * MON-FRI", "2026-01-01T12:00:00"),
        ("0 0 12 ? * 6L", "2026-01-30T12:00:00"),
        ("0 0 12 ? * 6#3", "2026-01-16T12:00:00"),
        ("0 0 12 ? * FRI#3", "2026-01-16T12:00:00"),
        ("0 0 0 L * ?", "2026-01-31T00:00:00"),
        ("0 0 0 15W * ? 2026", "2026-01-15T00:00:00"),
        ("*/7 * * * * *", "2026-01-01T00:00:07"),
        ("0 0 0 29 2 ? 2028", "2028-02-29T00:00:00"),
        ("@weekly", "2026-01-04T00:00:00"),
        ("@hourly", "2026-01-01T01:00:00"),
        ("0 12 * * 2", "2026-01-06T12:00:00"),  # and Tuesday in cron
    ],
)
def test_quartz_and_predefined_forms_mean_what_they_mean_elsewhere(expression: str, first: str) -> None:
    found = CronTimes(expression, "UTC").after(utc(2026, 1, 1).timestamp())
    assert found is not None and datetime.fromtimestamp(found, UTC).isoformat().removesuffix("+00:00") == first


@pytest.mark.parametrize(
    "expression",
    ["0 0 31 2 *", "0 0 30 2 *", "R * * * *", "H * * * *", "61 * * * *", "* * *", "@never", "0 0 12 ? * 0", "0 0 12 ? * 8", "a b c d e", "0 0 31 4,6 *"],
)  # fmt: skip
def test_what_is_no_cron_or_never_fires_is_said_before_it_is_stored(expression: str) -> None:
    assert expressions.problem(expression)


@pytest.mark.parametrize("expression", ["0 3-3 * * *", "3-3/5 4 * * *", "0 0 * * fri-FRI", "0 0 12 ? * 6-6"])
def test_a_range_of_one_value_is_that_value(expression: str) -> None:
    """croniter 6.2 alone takes it for every value."""
    fires = expand(CronTimes(expression, "UTC"), utc(2026, 1, 1), utc(2026, 1, 15))
    assert len({fire.hour for fire in fires}) == 1 and len(fires) in (2, 14)


def test_a_cron_whose_years_are_over_fires_no_more() -> None:
    assert expressions.problem("0 0 0 1 1 ? 2020") is None
    assert CronTimes("0 0 0 1 1 ? 2020", "UTC").after(utc(2026, 1, 1).timestamp()) is None


def test_start_and_end_are_on_the_wall_of_the_zone_and_belong_to_it() -> None:
    trigger = CronTrigger(
        cron="0 6 * * *", timezone="Asia/Tokyo", start="2026-01-02T06:00:00", end="2026-01-03T06:00:00"
    )
    times = fire_times(trigger, 0.0)
    fires = [times.after(0.0)]
    fires.append(times.after(fires[0] or 0))
    assert fires == [utc(2026, 1, 1, 21).timestamp(), utc(2026, 1, 2, 21).timestamp()]
    assert times.after(fires[1] or 0) is None


def test_an_interval_counts_from_its_start_or_from_its_push_and_does_not_drift() -> None:
    pushed = 1_767_225_600.123456
    times = IntervalTimes(0.1 * 3, pushed)
    fire = pushed
    for _ in range(1000):
        following = times.after(fire)
        assert following is not None
        fire = following
    assert abs(fire - pushed - 300) < 1e-3
    assert IntervalTimes(900, pushed).after(pushed) == pytest.approx(pushed + 900)
    assert IntervalTimes(900, pushed, start=pushed + 5).after(pushed) == pytest.approx(pushed + 5)
    assert IntervalTimes(900, pushed, end=pushed + 800).after(pushed) is None
