SELECT item, sum(pieces) AS pieces FROM (
  SELECT item, pieces FROM stock.deliveries
  UNION ALL SELECT item, -pieces FROM stock.returns
  UNION ALL SELECT item, pieces FROM stock.corrections
) GROUP BY item
