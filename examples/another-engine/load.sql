-- One load of meter readings: {n} is its number, from 1.
CREATE NAMESPACE IF NOT EXISTS meters;
CREATE TABLE IF NOT EXISTS meters.readings (meter INT, day DATE, watt_hours BIGINT) USING iceberg PARTITIONED BY (day);
INSERT INTO meters.readings
SELECT CAST(pmod(hash(id), 25) AS INT), date_add(DATE'2026-03-01', {n} - CAST(pmod(hash(id, 1), least({n}, 3)) AS INT)), pmod(hash(id, 2), 900)
FROM range(({n} - 1) * 300, {n} * 300);
