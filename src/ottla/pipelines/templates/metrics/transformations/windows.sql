-- A minute is complete, and never changes again, once a measurement two minutes younger than its end has come.
-- What comes even later is still in `measurements`, but in no window.
CREATE STREAMING TABLE by_minute USING parquet AS
SELECT
  window.start AS minute, host, metric, series,
  count(*) AS count, min(value) AS least, avg(value) AS average, max(value) AS greatest
FROM STREAM measurements WATERMARK time DELAY OF INTERVAL 2 MINUTES
GROUP BY window(time, '1 minute'), host, metric, series;
