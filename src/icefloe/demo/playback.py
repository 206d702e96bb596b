"""Playback events, made up: each day's load brings that day's events and a few percent that are late."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, timedelta
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql.connect.session import SparkSession

TABLE = "demo.playback"
FIRST_DAY = date(2026, 3, 1)
LATE_PERCENT = 3
LATE_DAYS = 12


@dataclass(frozen=True)
class Playback:
    """A table of playback events in a catalog. Rows are a function of their number, so loads can be made again."""

    spark: SparkSession
    catalog: str
    events_per_day: int
    name: str = TABLE

    @property
    def table(self) -> str:
        return f"{self.catalog}.{self.name}"

    def create(self) -> None:
        self.spark.sql(f"CREATE NAMESPACE IF NOT EXISTS {self.catalog}.{self.name.partition('.')[0]}")
        self.spark.sql(
            f"CREATE TABLE {self.table} (event_id BIGINT, account_id BIGINT, country STRING, title_id INT, "
            "event_day DATE, view_min DOUBLE, load_day DATE) USING iceberg PARTITIONED BY (event_day) "
            "TBLPROPERTIES ('write.distribution-mode'='none', 'write.spark.fanout.enabled'='true')"
        )

    def load(self, number: int) -> None:
        """One commit: the events of day ``number``, some of which happened on one of the days before."""
        day = FIRST_DAY + timedelta(days=number)
        first = number * self.events_per_day
        back = min(number, LATE_DAYS)
        late = f"pmod(hash(id, 1), 100) < {LATE_PERCENT}" if back else "false"
        days_late = f"1 + pmod(hash(id, 2), {max(back, 1)})"
        self.spark.sql(
            f"""INSERT INTO {self.table}
            SELECT id, pmod(hash(id, 3), 50000), element_at(array('DE','FR','US','BR','JP'), 1 + pmod(hash(id, 4), 5)),
                   pmod(hash(id, 5), 2000), CASE WHEN {late} THEN date_sub(DATE'{day}', {days_late}) ELSE DATE'{day}' END,
                   round(pmod(hash(id, 6), 12000) / 100, 2), DATE'{day}'
            FROM range({first}, {first + self.events_per_day}, 1, 2)"""
        ).collect()
