SELECT shop, day, count(*) AS sales, sum(cents) AS cents
FROM (SELECT sale_id, shop, day, max_by(cents, delivery) AS cents FROM sales.raw GROUP BY sale_id, shop, day)
GROUP BY shop, day
