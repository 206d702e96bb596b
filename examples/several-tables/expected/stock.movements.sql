SELECT item, pieces, 'delivery' AS kind, load FROM stock.deliveries
UNION ALL SELECT item, -pieces, 'return', load FROM stock.returns
UNION ALL SELECT item, pieces, 'correction', load FROM stock.corrections
