"""What is due after any pattern of looking and not looking: simulated schedulers over simulated time."""

from __future__ import annotations

import random

import pytest

from icefloe.triggers.fire_times import CronTimes, FireTimes, IntervalTimes
from icefloe.triggers.time_events import Delay, due, name_of, next_fire, upcoming
from icefloe.workflow.model import CatchUp

NOW = 1_767_225_600.0
NO_DELAY = Delay("", 0.0)


def fires(times: FireTimes, start: float, end: float) -> list[float]:
    found = []
    while (fire := times.after(found[-1] if found else start)) is not None and fire <= end:
        found.append(fire)
    return found


def looks(chance: random.Random, start: float, end: float) -> list[float]:
    """Moments at which a scheduler looks: every few seconds, with nights and weeks in which none is there."""
    found, moment = [], start
    while moment < end:
        moment += chance.choice((1.0, 5.0, 5.0, 5.0, 60.0, 3600.0, 86400.0 * chance.random() * 3))
        found.append(moment)
    return found


@pytest.mark.parametrize("seed", range(40))
def test_after_random_downtimes_each_fire_is_started_as_the_policy_says(seed: int) -> None:
    chance = random.Random(seed)
    times: FireTimes = (
        IntervalTimes(chance.choice((7.0, 60.0, 900.0, 86400.0)), NOW)
        if chance.random() < 0.4
        else CronTimes(chance.choice(("*/5 * * * *", "0 3 * * *", "30 2 * * 1-5", "0 * * * *")), "Europe/Berlin")
    )
    delay = Delay("w", chance.choice((0.0, 0.0, 30.0, 600.0)))
    policy = chance.choice(list(CatchUp))
    end = NOW + 86400 * 5
    started: list[float] = []
    cursor, grace = NOW, 60.0
    for now in looks(chance, NOW, end):
        for _ in range(200_000):
            found = due(times, cursor, now, catch_up=policy, grace=grace, delay=delay)
            if found is None:
                break
            everything = fires(times, cursor, found.cursor)
            if policy is CatchUp.ALL:
                assert list(found.starts) == everything
            elif policy is CatchUp.LAST:
                assert list(found.starts) == everything[-1:]
                following = times.after(found.cursor)
                assert following is None or following + delay.of(following) > now
            else:
                late = now - everything[-1] - delay.of(everything[-1]) > grace
                assert list(found.starts) == ([] if late else everything[-1:])
            assert all(fire + delay.of(fire) <= now for fire in found.starts)
            assert found.cursor > cursor
            started += found.starts
            cursor = found.cursor
        waiting = next_fire(times, cursor, delay)
        assert waiting is None or waiting > now
    assert started == sorted(set(started)), "never twice, always in order"
    if policy is CatchUp.ALL:
        assert started == fires(times, NOW, cursor), "and none lost"


def test_a_year_away_is_caught_up_without_walking_through_its_seconds() -> None:
    times = CronTimes("* * * * * *", "America/New_York")
    found = due(times, NOW - 366 * 86400, NOW, catch_up=CatchUp.LAST, grace=60, delay=NO_DELAY)
    assert found is not None and found.starts == (NOW,) and found.passed_over


def test_catching_up_all_takes_a_bounded_number_at_once() -> None:
    found = due(IntervalTimes(1, NOW - 1e6), NOW - 1e6, NOW, catch_up=CatchUp.ALL, grace=60, delay=NO_DELAY)
    assert found is not None and len(found.starts) == 100 and found.cursor == found.starts[-1]


def test_a_delay_is_the_same_for_everybody_and_spread_over_its_range() -> None:
    delays = [Delay("playback.agg", 600.0).of(NOW + n) for n in range(500)]
    assert delays == [Delay("playback.agg", 600.0).of(NOW + n) for n in range(500)]
    assert 0 <= min(delays) < 30 and 570 < max(delays) < 600
    assert delays != [Delay("another", 600.0).of(NOW + n) for n in range(500)]


def test_fires_have_names_that_people_can_read() -> None:
    assert name_of(NOW) == "2026-01-01T00:00:00Z"
    assert name_of(NOW + 0.25) == "2026-01-01T00:00:00.250000Z"
    assert upcoming(IntervalTimes(60, NOW), NOW, 3) == [NOW + 60, NOW + 120, NOW + 180]
