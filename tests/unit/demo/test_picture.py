"""The demonstration's picture and its sentence: the figures of the result, and a verdict that cannot be overlooked."""

from __future__ import annotations

from dataclasses import replace
from datetime import date
from xml.etree import ElementTree

from icefloe.cli.demo import meaning
from icefloe.demo.picture import to_svg
from icefloe.demo.results import Cost, DemoResult, Proof, Round, SizeResult

DAY = date(2026, 3, 14)
EQUAL = Proof("playback_daily_table", (10, 77), (10, 77))
SVG = "{http://www.w3.org/2000/svg}"


def size(events: int, lookback: float, incremental: float) -> SizeResult:
    costs = Cost(lookback, 1000), Cost(incremental, 100, 60)
    return SizeResult(events, 42.0, (Round(DAY, 3, *costs), Round(DAY, 3, *costs)), (EQUAL,))


RESULT = DemoResult((size(400_000, 10.0, 3.0), size(800_000, 20.0, 4.0)), seed=1, seconds=200)


def words(svg: str) -> str:
    """Also holds that it is well-formed."""
    return "\n".join(text.text or "" for text in ElementTree.fromstring(svg).iter(f"{SVG}text"))


def test_the_picture_shows_every_size_with_its_seconds_ratio_and_the_rows_that_were_read() -> None:
    shown = words(to_svg(RESULT))
    for figure in (
        "400,000 events a day",
        "10.0 s",
        "3.0 s",
        "0.30",
        "800,000 events a day",
        "20.0 s",
        "4.0 s",
        "0.20",
    ):
        assert figure in shown
    assert "160 rows in place of 1,000 (0.16)" in shown
    assert "Both ways hold the same 20 rows" in shown


def test_tables_that_differ_are_the_pictures_verdict() -> None:
    differing = replace(RESULT.sizes[0], proofs=(replace(EQUAL, incremental=(10, 78)),))
    result = replace(RESULT, sizes=(differing,))
    assert result.equal is False and result.to_dict()["equal"] is False
    assert "NOT EQUAL" in words(to_svg(result))


def test_the_sentence_says_what_happens_to_the_bill() -> None:
    assert meaning(RESULT).plain == (
        "Incrementally a day's load costs 30% of the lookback's run time; with 2 times the events 20%: "
        "the lookback's bill grows 2.0 times, the incremental one's 1.3 times."
    )
    assert "bill" not in meaning(replace(RESULT, sizes=RESULT.sizes[:1])).plain
