"""The SELECTs. Each says which pattern it gets when nothing happens but appends to ``events``, and which keys it is written by."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from icefloe.planner.inputs import Pattern


@dataclass(frozen=True)
class Case:
    """``{n}`` in the text is the namespace. ``pattern`` is for a batch of appends to events, late days among them."""

    name: str
    text: str
    pattern: Pattern
    keys: tuple[str, ...] = ()
    partition_by: tuple[str, ...] = ()
    repeatable: bool = True
    """False: two runs differ by themselves, so only the plan is looked at."""
    runs: Literal["spark", "plan"] = "spark"


def _case(name: str, pattern: Pattern, text: str, *keys: str, **more: object) -> Case:
    return Case(name, text.strip(), pattern, keys, **more)  # type: ignore[arg-type]


CORPUS: tuple[Case, ...] = (
    # -- row by row ----------------------------------------------------------------------------------------------------------
    _case("copy", "append", "SELECT * FROM {n}.events"),
    _case("copy with keys", "merge", "SELECT * FROM {n}.events", "id"),
    _case("some columns", "append", "SELECT id, account_id, event_day FROM {n}.events"),
    _case(
        "clean and compute",
        "append",
        """SELECT id, upper(trim(country)) AS country, event_day, view_min * 60 AS view_sec,
                  CASE WHEN view_min > 30 THEN 'long' WHEN view_min IS NULL THEN 'none' ELSE 'short' END AS kind
           FROM {n}.events WHERE view_min IS NULL OR view_min >= 5""",
    ),
    _case(
        "renamed columns", "append", "SELECT e.id AS event, e.event_day AS day FROM {n}.events e WHERE e.country = 'DE'"
    ),
    _case("only some rows, by key", "merge", "SELECT id, view_min FROM {n}.events WHERE view_min > 10", "id"),
    _case(
        "join with a dimension",
        "append",
        """SELECT e.id, e.event_day, a.plan FROM {n}.events e JOIN {n}.accounts a ON e.account_id = a.account_id""",
    ),
    _case(
        "left join with late dimension rows",
        "append",
        """SELECT e.id, e.account_id, e.event_day, a.region FROM {n}.events e LEFT JOIN {n}.accounts a ON e.account_id = a.account_id""",
    ),
    _case(
        "left join by key with late dimension rows",
        "merge",
        """SELECT e.id, e.account_id, a.region FROM {n}.events e LEFT JOIN {n}.accounts a ON e.account_id = a.account_id""",
        "id",
    ),
    _case(
        "semi join by IN",
        "append",
        """SELECT id, account_id, event_day FROM {n}.events
           WHERE account_id IN (SELECT account_id FROM {n}.accounts WHERE plan = 'pro')""",
    ),
    _case(
        "semi join by EXISTS",
        "append",
        """SELECT id, account_id FROM {n}.events e
           WHERE EXISTS (SELECT 1 FROM {n}.accounts a WHERE a.account_id = e.account_id AND a.region = 'EU')""",
    ),
    _case(
        "anti join",
        "append",
        """SELECT id, account_id FROM {n}.events e
           WHERE NOT EXISTS (SELECT 1 FROM {n}.accounts a WHERE a.account_id = e.account_id)""",
    ),
    _case(
        "anti join by LEFT JOIN and IS NULL",
        "append",
        """SELECT e.id, e.account_id FROM {n}.events e LEFT JOIN {n}.accounts a ON e.account_id = a.account_id
           WHERE a.account_id IS NULL""",
    ),
    _case(
        "NOT IN",
        "append",
        """SELECT id, account_id FROM {n}.events
           WHERE account_id NOT IN (SELECT account_id FROM {n}.accounts WHERE account_id IS NOT NULL)""",
    ),
    _case(
        "LEFT SEMI JOIN",
        "append",
        "SELECT id FROM {n}.events e LEFT SEMI JOIN {n}.accounts a ON e.account_id = a.account_id",
    ),
    _case(
        "union all of two tables",
        "append",
        """SELECT id, event_day, 'event' AS what FROM {n}.events
           UNION ALL SELECT id, event_day, 'refund' AS what FROM {n}.refunds""",
    ),
    _case(
        "union all of one table twice",
        "append",
        """SELECT id, 'short' AS what FROM {n}.events WHERE view_min < 10
           UNION ALL SELECT id, 'all' AS what FROM {n}.events""",
    ),
    _case(
        "scalar subquery, correlated",
        "append",
        """SELECT id, account_id, (SELECT max(a.region) FROM {n}.accounts a WHERE a.account_id = e.account_id) AS region
           FROM {n}.events e""",
    ),
    _case("explode", "append", "SELECT id, tag FROM {n}.events LATERAL VIEW explode(tags) t AS tag"),
    _case(
        "comma join",
        "append",
        "SELECT e.id, a.plan FROM {n}.events e, {n}.accounts a WHERE e.account_id = a.account_id",
    ),
    _case("ordered", "append", "SELECT id, event_day FROM {n}.events ORDER BY id"),
    _case("cte", "append", "WITH long AS (SELECT * FROM {n}.events WHERE view_min > 20) SELECT id, country FROM long"),
    _case(
        "whole names on columns",
        "append",
        "SELECT {n}.events.id, {n}.events.event_day FROM {n}.events WHERE {n}.events.view_min > 3",
    ),
    # -- grouped -------------------------------------------------------------------------------------------------------------
    _case(
        "views per account, country and day",
        "key_filter",
        """SELECT account_id, country, event_day, count(*) AS views, sum(view_min) AS view_min
           FROM {n}.events GROUP BY account_id, country, event_day""",
        "account_id",
        "country",
        "event_day",
    ),
    _case(
        "with a distinct count and a maximum",
        "key_filter",
        """SELECT account_id, country, event_day, count(*) AS views, max(ts) AS last_seen, count(DISTINCT title_id) AS titles
           FROM {n}.events GROUP BY ALL""",
        "account_id",
        "country",
        "event_day",
    ),
    _case(
        "by account",
        "key_filter",
        "SELECT account_id, count(*) AS views FROM {n}.events GROUP BY account_id",
        "account_id",
    ),
    _case(
        "by day alone",
        "range_overwrite",
        "SELECT event_day, count(*) AS n FROM {n}.events GROUP BY event_day",
        "event_day",
    ),
    _case(
        "by a computed key",
        "key_filter",
        """SELECT upper(country) AS land, date_trunc('MONTH', ts) AS month, sum(view_min) AS minutes
           FROM {n}.events GROUP BY upper(country), date_trunc('MONTH', ts)""",
        "land",
        "month",
    ),
    _case(
        "by the day of a time",
        "key_filter",
        """SELECT CAST(ts AS DATE) AS day, account_id, count(*) AS n FROM {n}.events GROUP BY CAST(ts AS DATE), account_id""",
        "day",
        "account_id",
    ),
    _case(
        "by position, renamed",
        "key_filter",
        "SELECT account_id AS who, event_day AS day, min(view_min) AS least FROM {n}.events GROUP BY 1, 2",
        "who",
        "day",
    ),
    _case(
        "by an alias",
        "key_filter",
        "SELECT year(event_day) AS y, country, count(*) AS n FROM {n}.events GROUP BY y, country",
        "y",
        "country",
    ),
    _case(
        "the alias hides a column of the same name",
        "key_filter",
        "SELECT lower(country) AS country, event_day, count(*) AS n FROM {n}.events GROUP BY country, event_day",
    ),
    _case(
        "grouped by more than is shown",
        "key_filter",
        "SELECT account_id, count(*) AS n FROM {n}.events GROUP BY account_id, country",
    ),
    _case(
        "HAVING that rows can enter",
        "key_filter",
        "SELECT account_id, event_day, count(*) AS n FROM {n}.events GROUP BY account_id, event_day HAVING count(*) >= 2",
        "account_id",
        "event_day",
    ),
    _case(
        "HAVING that rows can leave",
        "key_filter",
        "SELECT account_id, count(*) AS n FROM {n}.events GROUP BY account_id HAVING count(*) < 4",
        "account_id",
    ),
    _case(
        "conditional sums",
        "key_filter",
        """SELECT country, event_day, sum(CASE WHEN device = 'tv' THEN view_min ELSE 0 END) AS tv,
                  count(*) FILTER (WHERE view_min > 20) AS long, avg(view_min) AS mean
           FROM {n}.events WHERE device <> 'bot' GROUP BY country, event_day""",
        "country",
        "event_day",
    ),
    _case(
        "fact and dimension, by the fact's key",
        "key_filter",
        """SELECT e.account_id, e.event_day, max(a.plan) AS plan, sum(e.view_min) AS minutes
           FROM {n}.events e JOIN {n}.accounts a ON e.account_id = a.account_id GROUP BY e.account_id, e.event_day""",
        "account_id",
        "event_day",
    ),
    _case(
        "fact and dimension, by the dimension's attribute",
        "full",
        """SELECT a.region, sum(e.view_min) AS minutes
           FROM {n}.events e JOIN {n}.accounts a ON e.account_id = a.account_id GROUP BY a.region""",
        "region",
    ),
    _case(
        "fact and dimension, by attribute and day",
        "range_overwrite",
        """SELECT e.event_day, a.region, sum(e.view_min) AS minutes
           FROM {n}.events e JOIN {n}.accounts a ON e.account_id = a.account_id GROUP BY e.event_day, a.region""",
        "event_day",
        "region",
    ),
    _case(
        "left join, grouped",
        "key_filter",
        """SELECT e.account_id, count(a.plan) AS known, count(*) AS n
           FROM {n}.events e LEFT JOIN {n}.accounts a ON e.account_id = a.account_id GROUP BY e.account_id""",
        "account_id",
    ),
    _case(
        "dimension first, facts optional",
        "key_filter",
        """SELECT a.account_id, a.plan, count(e.id) AS n
           FROM {n}.accounts a LEFT JOIN {n}.events e ON a.account_id = e.account_id GROUP BY a.account_id, a.plan""",
    ),
    _case(
        "right join",
        "key_filter",
        """SELECT a.account_id, count(e.id) AS n
           FROM {n}.events e RIGHT JOIN {n}.accounts a ON a.account_id = e.account_id GROUP BY a.account_id""",
        "account_id",
    ),
    _case(
        "full join by USING",
        "key_filter",
        """SELECT account_id, count(e.id) AS n, max(a.plan) AS plan
           FROM {n}.events e FULL JOIN {n}.accounts a USING (account_id) GROUP BY account_id""",
        "account_id",
    ),
    _case(
        "full join by ON",
        "full",
        """SELECT e.account_id AS a1, a.account_id AS a2, count(*) AS n
           FROM {n}.events e FULL JOIN {n}.accounts a ON e.account_id = a.account_id GROUP BY e.account_id, a.account_id""",
    ),
    _case(
        "two facts joined by day and account",
        "key_filter",
        """SELECT e.account_id, e.event_day, e.views, r.amount
           FROM (SELECT account_id, event_day, count(*) AS views FROM {n}.events GROUP BY account_id, event_day) e
           JOIN (SELECT account_id, event_day, sum(amount) AS amount FROM {n}.refunds GROUP BY account_id, event_day) r
             ON e.account_id = r.account_id AND e.event_day = r.event_day""",
        "account_id",
        "event_day",
    ),
    _case(
        "aggregate over a union",
        "key_filter",
        """SELECT account_id, event_day, count(*) AS n
           FROM (SELECT account_id, event_day FROM {n}.events UNION ALL SELECT account_id, event_day FROM {n}.refunds) u
           GROUP BY account_id, event_day""",
        "account_id",
        "event_day",
    ),
    _case(
        "union distinct",
        "key_filter",
        "SELECT account_id, event_day FROM {n}.events UNION SELECT account_id, event_day FROM {n}.refunds",
    ),
    _case("intersect", "key_filter", "SELECT account_id FROM {n}.events INTERSECT SELECT account_id FROM {n}.accounts"),
    _case("except", "key_filter", "SELECT account_id FROM {n}.accounts EXCEPT SELECT account_id FROM {n}.events"),
    _case("distinct", "key_filter", "SELECT DISTINCT account_id, country FROM {n}.events"),
    _case(
        "aggregate of an aggregate",
        "key_filter",
        """SELECT account_id, max(n) AS most FROM
           (SELECT account_id, event_day, count(*) AS n FROM {n}.events GROUP BY account_id, event_day) GROUP BY account_id""",
        "account_id",
    ),
    _case(
        "filter over an aggregate",
        "key_filter",
        """WITH per AS (SELECT account_id, event_day, sum(view_min) AS m FROM {n}.events GROUP BY account_id, event_day)
           SELECT * FROM per WHERE m > 20""",
        "account_id",
        "event_day",
    ),
    _case(
        "a CTE joined with itself",
        "key_filter",
        """WITH per AS (SELECT account_id, event_day, count(*) AS n FROM {n}.events GROUP BY account_id, event_day)
           SELECT a.account_id, a.event_day, a.n, b.n AS again FROM per a JOIN per b
             ON a.account_id = b.account_id AND a.event_day = b.event_day""",
        "account_id",
        "event_day",
    ),
    _case(
        "order priority, as in TPC-H 4",
        "key_filter",
        """SELECT country, event_day, count(*) AS n FROM {n}.events e
           WHERE EXISTS (SELECT 1 FROM {n}.refunds r WHERE r.id = e.id AND r.amount > 2) GROUP BY country, event_day""",
        "country",
        "event_day",
    ),
    _case(
        "pricing summary, as in TPC-H 1",
        "key_filter",
        """SELECT device, country, sum(view_min) AS s, sum(view_min * (1 + title_id)) AS charge, avg(view_min) AS a, count(*) AS n
           FROM {n}.events WHERE event_day <= DATE'2026-03-20' GROUP BY device, country""",
        "device",
        "country",
    ),
    _case(
        "constant filter on the day",
        "key_filter",
        """SELECT account_id, event_day, count(*) AS n FROM {n}.events WHERE event_day >= DATE'2026-03-03'
           GROUP BY account_id, event_day""",
        "account_id",
        "event_day",
    ),
    _case(
        "grouped, target without partitions",
        "key_filter",
        "SELECT country, device, count(*) AS n FROM {n}.events GROUP BY country, device",
        "country",
        "device",
    ),
    _case(
        "grouped, partitioned by another column",
        "key_filter",
        "SELECT account_id, country, event_day, count(*) AS n FROM {n}.events GROUP BY account_id, country, event_day",
        "account_id",
        "country",
        "event_day",
        partition_by=("country",),
    ),
    # -- windows -------------------------------------------------------------------------------------------------------------
    _case(
        "window by key",
        "key_filter",
        """SELECT id, account_id, view_min, sum(view_min) OVER (PARTITION BY account_id) AS total FROM {n}.events""",
    ),
    _case(
        "latest row per key",
        "key_filter",
        """SELECT * FROM (SELECT id, account_id, ts, row_number() OVER (PARTITION BY account_id ORDER BY ts DESC, id DESC) AS rn
           FROM {n}.events) WHERE rn = 1""",
        "account_id",
    ),
    _case(
        "rank within a day",
        "range_overwrite",
        """SELECT id, event_day, rank() OVER (PARTITION BY event_day ORDER BY view_min DESC) AS r FROM {n}.events""",
        partition_by=("event_day",),
    ),
    _case(
        "running total over everything",
        "full",
        "SELECT id, sum(view_min) OVER (ORDER BY id) AS running FROM {n}.events",
    ),
    # -- what only a full run gets right ----------------------------------------------------------------------------------------
    _case("one number", "full", "SELECT count(*) AS n, sum(view_min) AS m FROM {n}.events"),
    _case("the ten largest", "full", "SELECT id, view_min FROM {n}.events ORDER BY view_min DESC, id LIMIT 10"),
    _case(
        "compared with the mean of all",
        "full",
        "SELECT id FROM {n}.events WHERE view_min > (SELECT avg(view_min) FROM {n}.events)",
    ),
    _case("rollup", "full", "SELECT country, device, count(*) AS n FROM {n}.events GROUP BY ROLLUP (country, device)"),
    _case(
        "percentile over everything by cross join",
        "full",
        """SELECT e.id, e.view_min - t.m AS above FROM {n}.events e CROSS JOIN (SELECT max(view_min) AS m FROM {n}.events) t""",
    ),
    _case("chance", "full", "SELECT id, rand() AS x FROM {n}.events", repeatable=False),
    _case("the clock", "full", "SELECT id, current_timestamp() AS loaded FROM {n}.events", repeatable=False),
    _case(
        "today",
        "full",
        "SELECT id FROM {n}.events WHERE event_day > current_date() - INTERVAL 3 DAYS",
        repeatable=False,
    ),
    _case("somebody's own function", "full", "SELECT id, my_function(view_min) AS x FROM {n}.events", runs="plan"),
    _case("a sample", "full", "SELECT id FROM {n}.events TABLESAMPLE (10 PERCENT)", repeatable=False),
    _case(
        "a table that is not captured",
        "full",
        "SELECT e.id FROM {n}.events e JOIN {n}.devices d ON e.device = d.device",
    ),
)

BY_NAME = {case.name: case for case in CORPUS}
