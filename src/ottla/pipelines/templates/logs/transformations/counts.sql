-- Counted anew from `errors` in every run, so it is exact however late a line came.
CREATE MATERIALIZED VIEW error_counts USING parquet AS
SELECT date_trunc('HOUR', time) AS hour, host, app, level, count(*) AS count
FROM errors
GROUP BY ALL;
