-- One load of orders: {n} is its number, from 1. Each brings new orders and, from the second on, changes of earlier ones.
CREATE NAMESPACE IF NOT EXISTS orders;
CREATE TABLE IF NOT EXISTS orders.feed (order_id BIGINT, status STRING, amount DECIMAL(10,2), changed_at TIMESTAMP, load INT)
USING iceberg PARTITIONED BY (load);
CREATE TABLE IF NOT EXISTS orders.history (order_id BIGINT, status STRING, amount_cents BIGINT, changed_at TIMESTAMP) USING iceberg;
CREATE TABLE IF NOT EXISTS orders.latest (order_id BIGINT, status STRING, amount DECIMAL(10,2), changed_at TIMESTAMP) USING iceberg;
INSERT INTO orders.feed
SELECT id, 'placed', CAST(pmod(hash(id), 10000) / 100 AS DECIMAL(10,2)),
       TIMESTAMP'2026-03-01 00:00:00' + make_interval(0, 0, 0, {n}, 0, 0, pmod(hash(id, 1), 86400)), {n}
FROM range(({n} - 1) * 200, {n} * 200)
UNION ALL
SELECT id, element_at(array('paid', 'shipped', 'returned'), 1 + pmod(hash(id, {n}), 3)),
       CAST(pmod(hash(id), 10000) / 100 AS DECIMAL(10,2)),
       TIMESTAMP'2026-03-01 00:00:00' + make_interval(0, 0, 0, {n}, 0, 0, pmod(hash(id, {n}), 86400)), {n}
FROM range(0, ({n} - 1) * 200) WHERE pmod(hash(id, {n}), 7) = 0;
