SELECT i.campaign, i.day, count(*) AS shown, count(c.impression_id) AS clicked
FROM ads.impressions AS i LEFT JOIN ads.clicks AS c ON i.impression_id = c.impression_id
GROUP BY i.campaign, i.day
