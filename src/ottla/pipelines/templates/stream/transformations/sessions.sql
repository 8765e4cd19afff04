-- Orders of a customer less than half an hour apart are one session. It is written when it is over for good: when
-- an order has come that is an hour younger than its end.
CREATE STREAMING TABLE sessions USING parquet AS
SELECT
  customer_id, session_window.start AS begin, session_window.end AS end,
  count(*) AS orders, sum(amount) AS amount
FROM STREAM orders WATERMARK time DELAY OF INTERVAL 1 HOUR
GROUP BY session_window(time, '30 minutes'), customer_id;

-- Computed anew in every run.
CREATE MATERIALIZED VIEW revenue USING parquet AS
SELECT coalesce(country, 'unknown') AS country, count(*) AS orders, sum(amount) AS amount
FROM enriched
GROUP BY ALL;
