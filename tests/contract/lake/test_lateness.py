"""Lateness from metadata, against a count over every row: random histories with late rows, several specs, deletes and compaction."""

from __future__ import annotations

import json
import random
import uuid
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from fractions import Fraction
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import (
    DayTransform,
    HourTransform,
    IdentityTransform,
    MonthTransform,
    Transform,
    YearTransform,
)
from pyiceberg.types import DateType, IntegerType, LongType, NestedField, StringType, TimestampType

from icefloe.errors import IcefloeError
from icefloe.lake.arrivals import ArrivalReader
from icefloe.service.lateness import Unit, dated, profile
from icefloe.service.table_lateness import lateness, lateness_of
from tests.contract.capture.conftest import Bench, opened_files
from tests.projects import make_project

SCHEMA = Schema(
    NestedField(1, "id", LongType(), required=False),
    NestedField(2, "at", TimestampType(), required=False),
    NestedField(3, "day", DateType(), required=False),
    NestedField(4, "dateint", IntegerType(), required=False),
    NestedField(5, "text", StringType(), required=False),
    NestedField(6, "country", StringType(), required=False),
)
ARROW = pa.schema(
    [
        ("id", pa.int64()),
        ("at", pa.timestamp("us")),
        ("day", pa.date32()),
        ("dateint", pa.int32()),
        ("text", pa.string()),
        ("country", pa.string()),
    ]
)
NOW = datetime(2026, 3, 31, 12)


@pytest.fixture
def bench(tmp_path: Path) -> Any:
    made = make_project(tmp_path / "project")
    yield Bench(made)
    made.client.close()


@dataclass
class History:
    """A table, and for each append when it came and when each of its rows happened: what the oracle counts."""

    bench: Bench
    name: str
    log: list[tuple[datetime, list[datetime]]] = field(default_factory=list)
    times: dict[int, datetime] = field(default_factory=dict)

    def create(self, *fields: PartitionField) -> None:
        self.bench.catalog.create_table(self.name, schema=SCHEMA, partition_spec=PartitionSpec(*fields))

    def evolve(self, change: Callable[[Any], None]) -> None:
        with self.bench.catalog.load_table(self.name).update_spec() as update:
            change(update)

    def append(self, at: datetime, events: list[datetime], part: Callable[[datetime], object]) -> None:
        """One data file for each partition, as a writer makes them; PyIceberg reads the partition off its statistics."""
        by_part: dict[object, list[datetime]] = {}
        for event in events:
            by_part.setdefault(part(event), []).append(event)
        folder = self.bench.project.root / "loads"
        folder.mkdir(exist_ok=True)
        files = []
        for rows in by_part.values():
            file = folder / f"{uuid.uuid4()}.parquet"
            pq.write_table(table_of(rows), file)
            files.append(f"file://{file}")
        self.bench.catalog.load_table(self.name).add_files(files, check_duplicate_files=False)
        self.log.append((at, events))
        self.date(at)

    def date(self, at: datetime) -> None:
        """The snapshots that are new were committed at this moment."""
        for one in self.bench.lake.table(self.name).metadata.raw["snapshots"]:
            self.times.setdefault(one["snapshot-id"], at)

    def settle(self, *, compacted: int | None = None) -> None:
        """Write the commit times into the metadata."""
        raw = json.loads(json.dumps(self.bench.lake.table(self.name).metadata.raw))
        for one in raw["snapshots"]:
            one["timestamp-ms"] = int(self.times[one["snapshot-id"]].replace(tzinfo=UTC).timestamp() * 1000)
            if one["snapshot-id"] == compacted:
                one["summary"]["operation"] = "replace"
        location = f"{raw['location']}/metadata/{uuid.uuid4()}.metadata.json"
        Path(location.removeprefix("file://")).write_text(json.dumps(raw))
        self.bench.catalog.drop_table(self.name)
        self.bench.catalog.register_table(self.name, location)


def table_of(events: list[datetime]) -> pa.Table:
    columns = {
        "id": list(range(len(events))),
        "at": events,
        "day": [event.date() for event in events],
        "dateint": [int(event.strftime("%Y%m%d")) for event in events],
        "text": [event.date().isoformat() for event in events],
        "country": ["se"] * len(events),
    }
    return pa.table(columns, schema=ARROW)


def brute_force(log: list[tuple[datetime, list[datetime]]], unit: str) -> Counter[int]:
    """Row by row; the first append is the first load."""
    found: Counter[int] = Counter()
    for at, events in log[1:]:
        for event in events:
            if unit == "hour":
                whole = {"minute": 0, "second": 0, "microsecond": 0}
                found[int((at.replace(**whole) - event.replace(**whole)).total_seconds() // 3600)] += 1
            elif unit == "day":
                found[(at.date() - event.date()).days] += 1
            elif unit == "month":
                found[(at.year - event.year) * 12 + at.month - event.month] += 1
            else:
                found[at.year - event.year] += 1
    return found


def shortest(lags: Counter[int], share: Fraction) -> int:
    """By trying every lookback from none on."""
    total = sum(lags.values())
    units = 0
    while Fraction(sum(rows for lag, rows in lags.items() if lag <= units), total) < share:
        units += 1
    return units


SPECS: dict[str, tuple[tuple[str, int, Transform[Any, Any]], Callable[[datetime], object], str]] = {
    "hour": (("at_hour", 2, HourTransform()), lambda at: at.strftime("%Y%m%d%H"), "hour"),
    "day": (("at_day", 2, DayTransform()), lambda at: at.date(), "day"),
    "month": (("at_month", 2, MonthTransform()), lambda at: at.strftime("%Y%m"), "month"),
    "year": (("at_year", 2, YearTransform()), lambda at: at.year, "year"),
    "date": (("day", 3, IdentityTransform()), lambda at: at.date(), "day"),
    "dateint": (("dateint", 4, IdentityTransform()), lambda at: at.date(), "day"),
    "text": (("text", 5, IdentityTransform()), lambda at: at.date(), "day"),
}


def spec(name: str) -> PartitionField:
    field_name, source, transform = SPECS[name][0]
    return PartitionField(source, 1000, transform, field_name)


def late(random_: random.Random, at: datetime) -> datetime:
    """Mostly of the same day, some days late, seldom months; now and then ahead of time."""
    back = random_.choice([0, 0, 0, 0, 1, 1, 2, 5, random_.randint(0, 90), -1])
    return at - timedelta(days=back, minutes=random_.randint(0, 700))


@pytest.mark.parametrize("kind", list(SPECS))
def test_the_profile_is_what_counting_every_row_gives(bench: Bench, kind: str) -> None:
    random_ = random.Random(f"lateness {kind}")
    _, part, unit = SPECS[kind]
    history = History(bench, "db.late")
    history.create(spec(kind))
    for number in range(6):
        at = NOW - timedelta(days=40 - 7 * number, minutes=random_.randint(0, 600))
        history.append(at, [late(random_, at) for _ in range(random_.randint(1, 30))], part)
        if number == 2:
            # PyIceberg rewrites no file of a table with other transforms (0.12): there it takes whole files away.
            is_plain = isinstance(SPECS[kind][0][2], IdentityTransform)
            bench.catalog.load_table(history.name).delete("id = 0" if is_plain else "id >= 0")
            history.date(at)
    history.settle()
    found = lateness(bench.project.client, "db.late")
    assert found.profile is not None
    expected = brute_force(history.log, unit)
    assert dict(found.profile.lags) == dict(expected)
    assert found.profile.unit == unit
    assert found.profile.rows == sum(expected.values())
    assert found.profile.first_load_rows == len(history.log[0][1])
    shares = (Fraction(99, 100), Fraction(999, 1000), Fraction(1))
    assert [one.units for one in found.profile.lookbacks] == [shortest(expected, share) for share in shares]
    assert sum(found.others.values()) >= 1
    assert found.map is not None
    assert sum(found.map.cells.values()) == sum(len(events) for _, events in history.log)


@pytest.mark.parametrize("seed", range(4))
def test_specs_that_changed_on_the_way_are_counted_in_the_coarsest(bench: Bench, seed: int) -> None:
    random_ = random.Random(f"evolving {seed}")
    history = History(bench, "db.late")
    history.create(spec("day"))
    names = ["day", random_.choice(["hour", "month"]), "date"]
    for number, kind in enumerate(names):
        if number:
            field_name, source, transform = SPECS[kind][0]
            old = SPECS[names[number - 1]][0][0]
            column = {2: "at", 3: "day"}[source]
            history.evolve(
                lambda update, old=old, column=column, transform=transform, name=field_name: (
                    update.remove_field(old),
                    update.add_field(column, transform, name),
                )
            )
        for _ in range(3):
            at = NOW - timedelta(days=60 - 20 * number, hours=random_.randint(0, 200))
            history.append(at, [late(random_, at) for _ in range(20)], SPECS[kind][1])
    history.settle()
    found = lateness(bench.project.client, "db.late")
    assert found.profile is not None
    unit = "month" if "month" in names else "day"
    assert (found.profile.unit, dict(found.profile.lags)) == (unit, dict(brute_force(history.log, unit)))


def test_compaction_brings_nothing(bench: Bench) -> None:
    history = History(bench, "db.late")
    history.create(spec("day"))
    for days in (9, 5, 3, 1):
        at = NOW - timedelta(days=days)
        history.append(at, [at, at - timedelta(days=4)], SPECS["day"][1])
    compacted = next(one for one, at in history.times.items() if at == NOW - timedelta(days=3))
    history.settle(compacted=compacted)
    found = lateness(bench.project.client, "db.late")
    assert found.profile is not None
    assert dict(found.profile.lags) == {0: 2, 4: 2}
    assert found.others == {"replace": 1}


def test_rows_without_a_time_are_told_apart_and_other_tables_say_that_they_have_none(bench: Bench) -> None:
    history = History(bench, "db.late")
    history.create(PartitionField(6, 1000, IdentityTransform(), "country"))
    history.append(NOW, [NOW, NOW], lambda at: "se")
    history.settle()
    found = lateness(bench.project.client, "db.late")
    assert (found.profile, found.map) == (None, None)
    assert "no partition field is a time" in (found.problem or "")
    bench.create("db.empty")
    assert "no append" in (lateness(bench.project.client, "db.empty").problem or "")
    with pytest.raises(IcefloeError, match="no such table"):
        lateness(bench.project.client, "db.none")


def test_a_null_partition_is_left_out(bench: Bench) -> None:
    bench.create("db.events")
    bench.append("db.events", 1)
    table = bench.catalog.load_table("db.events")
    today = datetime.now(UTC).date()
    rows = {"id": pa.array([2, 3], pa.int64()), "day": pa.array([None, today], pa.date32())}
    table.append(pa.table(rows))
    found = lateness(bench.project.client, "db.events")
    assert found.profile is not None
    assert (found.profile.untimed_rows, found.profile.rows) == (1, 1)


def test_no_file_is_opened_twice_and_no_data_file_ever(bench: Bench) -> None:
    bench.create("db.events")
    for number in range(5):
        bench.append("db.events", number)
    reader = ArrivalReader()
    table = bench.lake.table("db.events")
    opened = opened_files(table)
    first = reader.arrivals(table)
    assert len(first.arrivals) == 5
    assert len(opened) == 10  # five lists of manifests, five manifests
    assert all(one.endswith(".avro") for one in opened)
    bench.append("db.events", 9)
    table = bench.lake.table("db.events")
    opened = opened_files(table)
    again = reader.arrivals(table)
    assert again.arrivals[1:] == first.arrivals
    assert len(opened) == 2


def test_the_work_is_bounded_and_says_so(bench: Bench) -> None:
    bench.create("db.events")
    for number in range(6):
        bench.append("db.events", number)
    table = bench.lake.table("db.events")
    few = ArrivalReader().arrivals(table, most_snapshots=4)
    assert (len(few.arrivals), few.cut) == (4, "the newest 4 snapshots are looked at")
    assert not few.arrivals[-1].first
    reader = ArrivalReader()
    little = reader.arrivals(table, most_manifests=4)
    assert 1 <= len(little.arrivals) < 6
    assert "of 6 appends are looked at" in (little.cut or "")
    newest = [one.snapshot_id for one in ArrivalReader().arrivals(table).arrivals]
    assert [one.snapshot_id for one in little.arrivals] == newest[: len(little.arrivals)]
    for _ in range(6):
        whole = reader.arrivals(table, most_manifests=4)
    assert (len(whole.arrivals), whole.cut) == (6, None)
    late_reader = ArrivalReader()
    assert "slow" in (late_reader.arrivals(table, seconds=-1).cut or "")


def test_what_is_kept_is_bounded_by_partitions(bench: Bench) -> None:
    bench.create("db.events")
    for number in range(6):
        bench.append("db.events", number, day=1 + number)
    reader = ArrivalReader(most_partitions=3)
    reader.arrivals(bench.lake.table("db.events"))
    assert reader._partitions <= 3
    assert len(reader.arrivals(bench.lake.table("db.events")).arrivals) == 6


def test_a_broken_manifest_is_told_and_nothing_else_fails(bench: Bench) -> None:
    bench.create("db.events")
    bench.append("db.events", 1)
    table = bench.lake.table("db.events")
    (snapshot,) = table.metadata.snapshots.values()
    Path(str(snapshot.manifest_list).removeprefix("file://")).write_bytes(b"not avro")
    assert "lake.metadata-unreadable" in (lateness(bench.project.client, "db.events").problem or "")


def test_days_of_a_calendar_that_does_not_exist_have_no_time(bench: Bench) -> None:
    bench.create("db.events")
    bench.append("db.events", 1)
    found = ArrivalReader().arrivals(bench.lake.table("db.events"))
    assert lateness_of("db.events", found).profile is not None
    (arrival,) = found.arrivals
    (change,) = arrival.partitions
    object.__setattr__(change, "values", {"day": 10**8})
    assert dated(arrival).untimed_rows == 1
    assert profile([dated(arrival)]) is None
    object.__setattr__(change, "values", {"day": date(2026, 3, 1)})
    assert dated(arrival).events[0].unit is Unit.DAY
