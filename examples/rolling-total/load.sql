-- One day of payments: {n} is the day's number, from 1. Some of them belong to one of the two days before.
CREATE NAMESPACE IF NOT EXISTS ledger;
CREATE TABLE IF NOT EXISTS ledger.payments (payment_id BIGINT, account_id BIGINT, day DATE, cents BIGINT)
USING iceberg PARTITIONED BY (day);
CREATE TABLE IF NOT EXISTS ledger.balances (account_id BIGINT, day DATE, cents BIGINT, balance BIGINT)
USING iceberg PARTITIONED BY (day);
INSERT INTO ledger.payments
SELECT id, pmod(hash(id, 3), 50), date_add(DATE'2026-03-01', {n} - least({n} - 1, IF(pmod(hash(id, 1), 10) = 0, 1 + pmod(hash(id, 2), 2), 0))),
       pmod(hash(id, 6), 20000) - 8000
FROM range(({n} - 1) * 500, {n} * 500);
