"""Measurements out of the topic `metrics`, and windows and alerts back into topics.

The windows themselves are in windows.sql: only SQL can declare a watermark over a table of the pipeline.
"""

from pyspark import pipelines as dp
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sf

spark = SparkSession.active()
CLUSTER = {
    "kafka.bootstrap.servers": str(spark.conf.get("spark.ottla.bootstrap.servers")),
    "clientConfig": str(spark.conf.get("spark.ottla.client.config", "")),
}
ALERTS = str(spark.conf.get("spark.ottla.alerts"))
MEASUREMENT = "time BIGINT, host STRING, metric STRING, value DOUBLE, labels MAP<STRING, STRING>"


def received() -> DataFrame:
    """The topic from its beginning, each record with what could be read of it."""
    records = (
        spark.readStream.format("ottla")
        .options(**CLUSTER)
        .option("subscribe", "metrics")
        .option("startingOffsets", "earliest")
        .load()
    )
    text = sf.make_valid_utf8(sf.col("value").cast("string"))
    return records.select(
        "partition", "offset", text.alias("raw"), sf.from_json(text, MEASUREMENT).alias("m")
    )


def is_whole() -> Column:
    return sf.expr(
        "m.time IS NOT NULL AND m.host IS NOT NULL AND m.metric IS NOT NULL AND m.value IS NOT NULL"
    )


@dp.table(comment="Every measurement.")
def measurements() -> DataFrame:
    labels = "array_join(transform(array_sort(map_entries(m.labels)), e -> e.key || '=' || e.value), ',')"
    series = sf.expr(f"m.metric || CASE WHEN size(m.labels) > 0 THEN '{{' || {labels} || '}}' ELSE '' END")
    return (
        received()
        .where(is_whole())
        .select(
            sf.timestamp_millis("m.time").alias("time"),
            "m.host",
            "m.metric",
            series.alias("series"),
            "m.value",
        )
    )


@dp.table(comment="Records that are no measurements, as they came.")
def malformed() -> DataFrame:
    return received().where(~is_whole()).select("partition", "offset", "raw")


def limits() -> Column:
    """The limit of a metric; null if it has none."""
    pairs = [alert.split(">") for alert in ALERTS.split()]
    return sf.expr(
        "CASE metric " + " ".join(f"WHEN '{name}' THEN {float(limit)}D" for name, limit in pairs) + " END"
    )


@dp.table(comment="Minutes whose average, or growth per second of a counter, was above the limit.")
def alerts() -> DataFrame:
    windows = spark.readStream.table("by_minute").withColumn("limit", limits())
    return windows.where("CASE WHEN endswith(metric, '_total') THEN per_second ELSE average END > limit")


def as_records(table: str) -> DataFrame:
    rows = spark.readStream.table(table)
    return rows.select(sf.col("host").alias("key"), sf.to_json(sf.struct("*")).alias("value"))


def to_topic(name: str, topic: str) -> None:
    dp.create_sink(name, "ottla", {**CLUSTER, "topic": topic})


to_topic("by_minute_topic", "metrics.by-minute")
to_topic("alerts_topic", "metrics.alerts")


@dp.append_flow(target="by_minute_topic")
def by_minute_records() -> DataFrame:
    return as_records("by_minute")


@dp.append_flow(target="alerts_topic")
def alerts_records() -> DataFrame:
    return as_records("alerts")
