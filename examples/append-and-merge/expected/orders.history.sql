SELECT order_id, status, CAST(amount * 100 AS BIGINT) AS amount_cents, changed_at FROM orders.feed
