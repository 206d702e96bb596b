SELECT order_id, max_by(status, changed_at) AS status, max_by(amount, changed_at) AS amount, max(changed_at) AS changed_at
FROM orders.feed GROUP BY order_id
