-- One day of views: {n} is the day's number, from 1. Five percent of them happened on one of the days before.
CREATE NAMESPACE IF NOT EXISTS views;
CREATE TABLE IF NOT EXISTS views.events (event_id BIGINT, account_id BIGINT, title_id INT, event_day DATE, minutes DOUBLE)
USING iceberg PARTITIONED BY (event_day);
CREATE TABLE IF NOT EXISTS views.per_account (account_id BIGINT, event_day DATE, views BIGINT, minutes DOUBLE, titles BIGINT)
USING iceberg PARTITIONED BY (event_day) TBLPROPERTIES ('write.merge.mode'='merge-on-read');
INSERT INTO views.events
SELECT id, pmod(hash(id, 3), 300), pmod(hash(id, 5), 40),
       date_add(DATE'2026-03-01', {n} - CASE WHEN {n} > 1 AND pmod(hash(id, 1), 100) < 5 THEN 1 + pmod(hash(id, 2), {n} - 1) ELSE 0 END),
       pmod(hash(id, 6), 480) / 4
FROM range(({n} - 1) * 1000, {n} * 1000);
