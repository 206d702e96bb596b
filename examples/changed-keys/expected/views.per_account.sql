SELECT account_id, event_day, count(*) AS views, sum(minutes) AS minutes, count(DISTINCT title_id) AS titles
FROM views.events GROUP BY account_id, event_day
