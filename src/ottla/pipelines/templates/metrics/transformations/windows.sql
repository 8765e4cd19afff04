-- A minute is complete, and never changes again, once a measurement two minutes younger than its end has come.
-- What comes even later is still in `measurements`, but in no window.
CREATE STREAMING TABLE by_minute USING parquet AS
SELECT
  window.start AS minute, host, metric, series,
  count(*) AS count, min(value) AS least, avg(value) AS average, max(value) AS greatest,
  -- Of a counter, how fast it grows; null after a single measurement.
  CASE WHEN endswith(metric, '_total') THEN
    (max(value) - min(value)) * 1000 / nullif(unix_millis(max(time)) - unix_millis(min(time)), 0)
  END AS per_second
FROM STREAM measurements WATERMARK time DELAY OF INTERVAL 2 MINUTES
GROUP BY window(time, '1 minute'), host, metric, series;
