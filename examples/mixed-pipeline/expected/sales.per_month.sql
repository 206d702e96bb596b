SELECT shop, date_format(day, 'yyyy-MM') AS month, sum(cents) AS cents
FROM (SELECT sale_id, shop, day, max_by(cents, delivery) AS cents FROM sales.raw GROUP BY sale_id, shop, day)
GROUP BY shop, date_format(day, 'yyyy-MM')
