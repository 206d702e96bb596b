-- One day of advertisements: {n} is the day's number, from 1. Clicks come late more often than impressions.
CREATE NAMESPACE IF NOT EXISTS ads;
CREATE TABLE IF NOT EXISTS ads.impressions (impression_id BIGINT, campaign INT, day DATE) USING iceberg PARTITIONED BY (day);
CREATE TABLE IF NOT EXISTS ads.clicks (impression_id BIGINT, shown_on DATE) USING iceberg PARTITIONED BY (shown_on);
CREATE TABLE IF NOT EXISTS ads.rates (campaign INT, day DATE, shown BIGINT, clicked BIGINT) USING iceberg PARTITIONED BY (day);
INSERT INTO ads.impressions
SELECT id, pmod(hash(id, 3), 10), date_add(DATE'2026-03-01', {n} - IF({n} > 1 AND pmod(hash(id, 1), 50) = 0, 1, 0))
FROM range(({n} - 1) * 800, {n} * 800);
INSERT INTO ads.clicks
SELECT id, date_add(DATE'2026-03-01', n - IF(n > 1 AND pmod(hash(id, 1), 50) = 0, 1, 0))
FROM (SELECT id, CAST(id DIV 800 + 1 AS INT) AS n FROM range(greatest(0, ({n} - 3) * 800), {n} * 800))
WHERE pmod(hash(id, 7), 20) = 0 AND n + pmod(hash(id, 8), 3) = {n};
