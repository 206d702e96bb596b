"""Spark reads the predicates as they are meant: strings of any characters, odd names, every partition transform."""

from __future__ import annotations

from datetime import date, datetime
from typing import TYPE_CHECKING

import pytest

from icefloe.lake import Lake
from icefloe.lake.predicates import partition_filter, quote, string_literal
from tests.integration.lake.conftest import Sql
from tests.spark_server import Project

if TYPE_CHECKING:
    from pyspark.sql.connect.session import SparkSession

HOSTILE = [
    "it's",
    "back\\slash",
    "both \\' of them",
    'double "quotes"',
    "${spark.app.name}",
    "${env:HOME} ${system:user.home} $x",
    "line\nbreak\r\ttab",
    "nul\x00byte",
    "percent % and _ and \\% \\_",
    "\\u0041 is not an A",
    "smile \U0001f9ca",
    "separator \u2028 and no-break \u00a0 space",
    "-- comment; DROP TABLE x; /* */",
    "`ticks`",
    "",
    " ",
]


@pytest.mark.parametrize("text", HOSTILE)
def test_a_string_literal_is_the_string_in_spark(spark: SparkSession, text: str) -> None:
    assert spark.sql(f"SELECT {string_literal(text)}").first()[0] == text


def test_filters_by_hostile_strings_and_names_find_their_rows(
    lake: Lake, sql: Sql, spark: SparkSession, project: Project
) -> None:
    name = project.name("hostile")
    column = quote(["odd `name` of 1"])
    sql(f"CREATE TABLE {name} (id INT, {column} STRING) USING iceberg PARTITIONED BY ({column})")
    sql(f"INSERT INTO {name} VALUES (-1, 'other')")
    first = lake.checkpoint(name)
    wanted = [text for text in HOSTILE if "\x00" not in text]
    values = ", ".join(f"({number}, {string_literal(text)})" for number, text in enumerate(wanted))
    sql(f"INSERT INTO {name} VALUES {values}, (99, NULL)")
    changes = lake.changes(name, since=first, columns=["odd `name` of 1"])
    for predicate in (changes.partition_filter, changes.range_filter):
        found = {row[0] for row in sql(f"SELECT id FROM {name} WHERE {predicate}")}
        assert set(range(len(wanted))) | {99} <= found
    assert -1 not in {row[0] for row in sql(f"SELECT id FROM {name} WHERE {changes.partition_filter}")}


TRANSFORMS = {
    "years(d)": "d", "months(d)": "d", "days(d)": "d", "years(ts)": "ts", "months(tz)": "tz", "days(ts)": "ts", "days(tz)": "tz",
    "hours(ts)": "ts", "hours(tz)": "tz", "truncate(7, i)": "i", "truncate(1000, l)": "l", "truncate(3, s)": "s",
    "truncate(50, dec)": "dec", "truncate(1000, big)": "big", "bucket(4, l)": "l", "d": "d", "ts": "ts", "tz": "tz", "i": "i",
    "l": "l", "f": "f", "dbl": "dbl", "dec": "dec", "big": "big", "s": "s", "b": "b", "bin": "bin",
}  # fmt: skip

COLUMNS = """id INT, d DATE, ts TIMESTAMP_NTZ, tz TIMESTAMP, i INT, l BIGINT, f FLOAT, dbl DOUBLE, dec DECIMAL(9,2),
             big DECIMAL(38,4), s STRING, b BOOLEAN, bin BINARY"""
ROWS = """
    (1, DATE'1969-12-31', TIMESTAMP_NTZ'1969-12-31 23:59:59.999999', TIMESTAMP'1969-12-31 23:59:59.999999Z', -2147483648,
     -9223372036854775808L, FLOAT('-0.0'), DOUBLE('-0.0'), -9999999.99, -9999999999999999999999999999999999.9999, '', FALSE, X''),
    (2, DATE'9999-12-31', TIMESTAMP_NTZ'9999-12-31 23:59:59.999999', TIMESTAMP'9999-12-31 23:59:59Z', 2147483647,
     9223372036854775807L, FLOAT('NaN'), DOUBLE('NaN'), 9999999.99, 9999999999999999999999999999999999.9999, 'zzzz', TRUE, X'FF'),
    (3, DATE'0001-01-01', TIMESTAMP_NTZ'0001-01-01 00:00:00', TIMESTAMP'0001-01-01 00:00:00Z', -1, -1L, FLOAT('-Infinity'),
     DOUBLE('Infinity'), -0.01, -0.0001, 'ab\\'c', TRUE, X'00'),
    (4, DATE'2024-02-29', TIMESTAMP_NTZ'2024-02-29 12:34:56', TIMESTAMP'2024-02-29 12:34:56+05:30', 13, 1234, FLOAT('0.1'),
     DOUBLE('0.1'), 0.49, 1234567890123456789012345678901234.5678, 'äöüß', FALSE, X'0102'),
    (5, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL),
    (6, DATE'2024-02-29', TIMESTAMP_NTZ'2024-02-29 12:00:00', TIMESTAMP'2024-02-29 12:00:00Z', 0, 0, FLOAT('0.0'), DOUBLE('0.0'),
     0, 0, 'abc', TRUE, X'01')
"""


@pytest.mark.parametrize("transform", TRANSFORMS)
def test_no_row_of_a_changed_partition_is_pruned(lake: Lake, sql: Sql, project: Project, transform: str) -> None:
    name = project.name("t")
    sql(f"CREATE TABLE {name} ({COLUMNS}) USING iceberg PARTITIONED BY ({transform})")
    sql(f"INSERT INTO {name} VALUES {ROWS}")
    whole = lake.changes(name, columns=[TRANSFORMS[transform]])
    for predicate in (whole.partition_filter, whole.range_filter):
        assert sql(f"SELECT count(*) FROM {name} WHERE {predicate}") == [(6,)], predicate
    # Each partition by itself: only its own predicate, so that no other can let its rows through.
    metadata = lake.table(name).metadata
    partitions = whole.partitions or ()
    parts = [
        f"SELECT {number} AS n, id FROM {name} WHERE {partition_filter([one], metadata.specs, metadata.schema)}"
        for number, one in enumerate(partitions)
    ]
    found = sql(" UNION ALL ".join(parts))
    for number, one in enumerate(partitions):
        assert len([row for row in found if row[0] == number]) >= one.rows, one
    assert {row[1] for row in found} == {1, 2, 3, 4, 5, 6}


def test_negative_zero_is_not_pruned_by_a_range_that_another_file_began(lake: Lake, sql: Sql, project: Project) -> None:
    name = project.name("zeros")
    sql(f"CREATE TABLE {name} (id INT, x DOUBLE) USING iceberg")
    sql(f"INSERT INTO {name} VALUES (0, 5.0D)")
    start = lake.checkpoint(name)
    for number, zero in enumerate(("0.0", "-0.0"), start=1):
        sql(f"INSERT INTO {name} VALUES ({number}, DOUBLE('{zero}'))")
    changes = lake.changes(name, since=start, columns=["x"])
    assert sorted(sql(f"SELECT id FROM {name} WHERE {changes.range_filter}")) == [(1,), (2,)]


def test_times_mean_the_same_in_every_session_zone(lake: Lake, spark: SparkSession, sql: Sql, project: Project) -> None:
    name = project.name("zones")
    sql(f"CREATE TABLE {name} (id INT, tz TIMESTAMP, d DATE) USING iceberg PARTITIONED BY (hours(tz))")
    sql(f"INSERT INTO {name} VALUES (1, TIMESTAMP'2024-03-31 01:30:00Z', DATE'2024-03-31')")
    changes = lake.changes(name, columns=["tz", "d"])
    assert changes.ranges["d"].min == date(2024, 3, 31)
    assert changes.ranges["tz"].min == datetime.fromisoformat("2024-03-31T01:30:00+00:00")
    before = spark.conf.get("spark.sql.session.timeZone")
    try:
        for zone in ("UTC", "America/Los_Angeles", "Asia/Kolkata", "Europe/Berlin"):
            spark.conf.set("spark.sql.session.timeZone", zone)
            for predicate in (changes.partition_filter, changes.range_filter):
                assert sql(f"SELECT id FROM {name} WHERE {predicate}") == [(1,)], zone
    finally:
        spark.conf.set("spark.sql.session.timeZone", before)
