-- One delivery of raw sales: {n} is its number, from 1. A delivery corrects the day before, too.
CREATE NAMESPACE IF NOT EXISTS sales;
CREATE TABLE IF NOT EXISTS sales.raw (sale_id BIGINT, shop INT, day DATE, cents BIGINT, delivery INT) USING iceberg PARTITIONED BY (delivery);
CREATE TABLE IF NOT EXISTS sales.clean (sale_id BIGINT, shop INT, day DATE, cents BIGINT) USING iceberg PARTITIONED BY (day);
CREATE TABLE IF NOT EXISTS sales.per_shop (shop INT, day DATE, sales BIGINT, cents BIGINT) USING iceberg PARTITIONED BY (day);
CREATE TABLE IF NOT EXISTS sales.per_month (shop INT, month STRING, cents BIGINT) USING iceberg;
INSERT INTO sales.raw
SELECT id, pmod(hash(id, 3), 8), date_add(DATE'2026-03-30', CAST(id DIV 400 AS INT)), 100 + pmod(hash(id, {n}), 5000), {n}
FROM range(greatest(0, ({n} - 2) * 400), {n} * 400);
