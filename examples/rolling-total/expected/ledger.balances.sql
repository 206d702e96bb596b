SELECT account_id, day, cents, sum(cents) OVER (PARTITION BY account_id ORDER BY day) AS balance
FROM (SELECT account_id, day, sum(cents) AS cents FROM ledger.payments GROUP BY account_id, day)
