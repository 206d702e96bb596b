"""The two-stage playback pipeline as text: its events, both SELECTs, and the lookback that they replace, tuned.

Shared by what runs the pipeline inside one process (:mod:`benchmarks.playback_pipeline`) and by what runs it as a user does
(:mod:`benchmarks.unattended`). It imports nothing of Icefloe.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, timedelta

FIRST_DAY = date(2026, 1, 1)
LOOKBACK_DAYS, LATE_PERCENT, LATE_DAYS = 14, 3, 12


@dataclass(frozen=True)
class Events:
    """What an event is like, and how stage 1 cleans it."""

    columns: dict[str, str]
    """Column -> type."""
    values: dict[str, str]
    """Column -> a function of the event's number ``id``, for all but the day. The day comes from the pipeline as ``day``."""
    clean: str


_KEYS = {
    "account_id": "pmod(xxhash64(id, 3), {accounts})",
    "country": "element_at(array('de','fr','us','br','jp'), 1 + pmod(hash(id, 4), 5))",
    "title_id": "pmod(hash(id, 5), 2000)",
    "view_min": "pmod(hash(id, 6), 120)",
}
PLAYBACK = Events(
    columns={
        "event_id": "STRING",
        "event_time": "TIMESTAMP",
        "account_id": "BIGINT",
        "device": "STRING",
        "country": "STRING",
        "title_id": "INT",
        "position_ms": "BIGINT",
        "view_min": "INT",
        "event_day": "DATE",
    },
    values=_KEYS
    | {
        "event_id": "hex(xxhash64(id, 7))",
        "event_time": "timestamp_millis(unix_date(day) * 86400000L + pmod(xxhash64(id, 8), 86400000))",
        "device": "concat(element_at(array('tv','phone','tablet','web','console'), 1 + pmod(hash(id, 11), 5)), '-', pmod(hash(id, 12), 40))",
        "position_ms": "pmod(xxhash64(id, 17), 7200000)",
    },
    clean="""SELECT event_id, event_time, account_id, split_part(device, '-', 1) AS device, upper(country) AS country, title_id,
       position_ms DIV 1000 AS position_s, view_min, event_day
FROM {source} WHERE view_min >= 0 AND account_id IS NOT NULL""",
)
"""As a player sends them."""
NARROW = Events(
    columns={
        "event_id": "BIGINT",
        "account_id": "BIGINT",
        "country": "STRING",
        "title_id": "INT",
        "event_day": "DATE",
        "view_min": "INT",
    },
    values=_KEYS | {"event_id": "id"},
    clean="""SELECT event_id, account_id, upper(country) AS country, title_id, event_day, view_min
FROM {source} WHERE view_min >= 0""",
)
"""Nothing but what stage 2 reads, and a number: 7 bytes each."""
AGGREGATE = """SELECT account_id, country, event_day, count(*) AS views, sum(view_min) AS view_min, max(view_min) AS longest,
       count(DISTINCT title_id) AS titles
FROM {source} GROUP BY account_id, country, event_day"""
KEYS = ("account_id", "country", "event_day")

TUNED = "'write.distribution-mode'='none', 'write.spark.fanout.enabled'='true'"
"""Of a lookback's targets: no shuffle before the write."""
GROUPED = ("spark.sql.sources.v2.bucketing.enabled", "spark.sql.iceberg.planning.preserve-data-grouping")
"""Settings of a tuned lookback's stage 2: partitions are read whole, so that grouping by the day needs no shuffle. Twice as fast."""


def create_target(name: str, select: str, properties: str) -> str:
    """The table that a stage writes, without rows."""
    return (
        f"CREATE TABLE {name} USING iceberg PARTITIONED BY (event_day) TBLPROPERTIES ({properties}) "
        f"AS SELECT * FROM ({select}) WHERE false"
    )


def first_of_lookback(today: date) -> date:
    return today - timedelta(days=LOOKBACK_DAYS - 1)


def since(table: str, first_day: object) -> str:
    """A table's days from this one on, so that Iceberg prunes the others."""
    return f"(SELECT * FROM {table} WHERE event_day >= DATE'{first_day}')"


def fingerprint(select: str) -> str:
    """Rows, and the sum of the hashes of all columns: equal for equal results, in whatever order."""
    return f"SELECT count(*), sum(CAST(xxhash64(*) AS DECIMAL(38,0))) FROM ({select})"
