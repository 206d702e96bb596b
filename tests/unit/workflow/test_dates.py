"""Dates of the expression language against Python's own calendar."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from icefloe.workflow.expressions import dates, evaluate
from icefloe.workflow.scope import Scope

ZONES = ["UTC", "Europe/Berlin", "America/New_York", "Asia/Kolkata", "Australia/Lord_Howe", "Pacific/Apia"]
moments = st.integers(-2_208_988_800_000, 4_102_444_800_000)


def python(millis: int, zone: str) -> datetime:
    return (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=millis)).astimezone(ZoneInfo(zone))


@given(moments, st.sampled_from(ZONES))
def test_fields_and_formats_agree_with_pythons_calendar(millis: int, zone: str) -> None:
    local = python(millis, zone)
    moment = dates.Moment(millis, dates.zone(zone))
    printed = dates.print_date(dates.formatter("yyyy-MM-dd HH:mm:ss.SSS DDD e ww xxxx"), moment)
    iso = local.isocalendar()
    expected = (
        f"{local:%Y-%m-%d %H:%M:%S}.{local.microsecond // 1000:03d} {local:%j} {iso.weekday} {iso.week:02d} {iso.year}"
    )
    assert printed == expected


@given(moments, st.sampled_from(ZONES))
def test_what_is_printed_parses_back_to_the_same_instant(millis: int, zone: str) -> None:
    moment = dates.Moment(millis, dates.zone(zone))
    form = dates.Formatter("yyyy-MM-dd'T'HH:mm:ss.SSSZZ", moment.zone)
    if (moment.local.utcoffset() or timedelta()).seconds % 60 == 0:
        assert dates.parse_date(form, dates.print_date(form, moment)).millis == millis


@given(moments, st.integers(-5000, 5000), st.sampled_from(ZONES))
def test_adding_days_keeps_the_local_time_of_day_unless_it_does_not_exist(millis: int, days: int, zone: str) -> None:
    moment = dates.Moment(millis, dates.zone(zone))
    later = dates.plus(moment, "Days", days)
    wanted = moment.local.replace(tzinfo=None) + timedelta(days=days)
    assert abs(later.local.replace(tzinfo=None) - wanted) <= timedelta(hours=24)
    exists = (
        wanted.replace(tzinfo=ZoneInfo(zone)).astimezone(UTC).astimezone(ZoneInfo(zone)).replace(tzinfo=None) == wanted
    )
    if exists:
        assert later.local.replace(tzinfo=None) == wanted


@given(moments, st.integers(-100_000, 100_000), st.sampled_from(ZONES))
def test_adding_hours_adds_elapsed_time(millis: int, hours: int, zone: str) -> None:
    assert dates.plus(dates.Moment(millis, dates.zone(zone)), "Hours", hours).millis == millis + hours * 3_600_000


def test_clocks_going_forward_and_back() -> None:
    berlin = dates.zone("Europe/Berlin")
    form = dates.Formatter("yyyyMMddHHmm", berlin)
    before = dates.parse_date(form, "202403300230")
    assert dates.print_date(form, dates.plus(before, "Days", 1)) == "202403310330"
    assert dates.plus(before, "Days", 1).millis - before.millis == 24 * 3_600_000
    autumn = dates.parse_date(form, "202410261200")
    assert dates.plus(autumn, "Days", 1).millis - autumn.millis == 25 * 3_600_000


@given(st.dates(datetime(1900, 1, 1).date(), datetime(2100, 1, 1).date()), st.integers(0, 400), st.integers(1, 50))
def test_date_ints_between_are_the_days_of_the_calendar(start: object, days: int, step: int) -> None:
    first = datetime.combine(start, datetime.min.time())  # type: ignore[arg-type]
    last = first + timedelta(days=days)
    found = evaluate(f"Util.dateIntsBetween({first:%Y%m%d}, {last:%Y%m%d}, {step})", Scope()).value
    assert found == tuple(int(f"{first + timedelta(days=day):%Y%m%d}") for day in range(0, days, step))


@pytest.mark.parametrize(
    ("name", "value", "printed"),
    [
        ("Year", 2023, "2023-02-28"),
        ("MonthOfYear", 4, "2024-04-29"),
        ("DayOfMonth", 1, "2024-02-01"),
        ("DayOfYear", 366, "2024-12-31"),
        ("DayOfWeek", 1, "2024-02-26"),
        ("WeekOfWeekyear", 1, "2024-01-04"),
        ("Weekyear", 2020, "2020-02-27"),
    ],
)
def test_setting_a_field_of_a_leap_day(name: str, value: int, printed: str) -> None:
    leap = dates.parse_date(dates.formatter("yyyyMMdd"), "20240229")
    assert dates.print_date(dates.formatter("yyyy-MM-dd"), dates.with_field(leap, name, value)) == printed
