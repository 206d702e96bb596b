-- One delivery for a warehouse: {n} is its number, from 1. There are returns only in every other delivery.
CREATE NAMESPACE IF NOT EXISTS stock;
CREATE TABLE IF NOT EXISTS stock.deliveries (item INT, pieces BIGINT, load INT) USING iceberg;
CREATE TABLE IF NOT EXISTS stock.returns (item INT, pieces BIGINT, reason STRING, load INT) USING iceberg;
CREATE TABLE IF NOT EXISTS stock.corrections (item INT, pieces BIGINT, load INT) USING iceberg;
CREATE TABLE IF NOT EXISTS stock.movements (item INT, pieces BIGINT, kind STRING, load INT) USING iceberg;
CREATE TABLE IF NOT EXISTS stock.levels (item INT, pieces BIGINT) USING iceberg;
INSERT INTO stock.deliveries SELECT CAST(pmod(hash(id), 60) AS INT), 1 + pmod(hash(id, 1), 9), {n} FROM range(({n} - 1) * 100, {n} * 100);
INSERT INTO stock.returns SELECT CAST(pmod(hash(id, 2), 60) AS INT), 1, 'broken', {n} FROM range(0, IF({n} % 2 = 0, 20, 0));
