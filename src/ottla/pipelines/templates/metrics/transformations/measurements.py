"""Measurements out of the topic `metrics`, and windows and alerts back into topics.

A record is one measurement, as `ottla metrics` sends it, or what collectd's plugin write_kafka makes of one
(Format JSON): a list of readings with one or more values each.

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
GROUPS = str(spark.conf.get("spark.ottla.group.prefix"))
ALERTS = str(spark.conf.get("spark.ottla.alerts"))
MEASUREMENT = "time BIGINT, host STRING, metric STRING, value DOUBLE, labels MAP<STRING, STRING>"
READINGS = (
    "ARRAY<STRUCT<values: ARRAY<DOUBLE>, dstypes: ARRAY<STRING>, dsnames: ARRAY<STRING>, time: DOUBLE, "
    "host: STRING, plugin: STRING, plugin_instance: STRING, type: STRING, type_instance: STRING>>"
)
# `interface.if_octets.rx_total{instance=eth0}`: counters end in _total, as they do everywhere here.
FROM_COLLECTD = """
    flatten(transform(readings, r -> transform(r.values, (v, i) -> named_struct(
        'time', CAST(r.time * 1000 AS BIGINT),
        'host', r.host,
        'metric', r.plugin || CASE WHEN r.type = r.plugin THEN '' ELSE '.' || r.type END
            || CASE WHEN r.dsnames[i] = 'value' THEN '' ELSE '.' || r.dsnames[i] END
            || CASE WHEN r.dstypes[i] IN ('derive', 'counter') THEN '_total' ELSE '' END,
        'value', v,
        'labels', map_filter(
            map('instance', r.plugin_instance, 'type', r.type_instance), (name, label) -> label != '')
    ))))
"""


def received(flow: str) -> DataFrame:
    """The topic from its beginning: each measurement, or the record with null if there is none in it."""
    records = (
        spark.readStream.format("ottla")
        .options(**CLUSTER)
        .option("subscribe", "metrics")
        .option("startingOffsets", "earliest")
        .option("groupIdPrefix", f"{GROUPS}.{flow}")
        .load()
    )
    text = sf.make_valid_utf8(sf.col("value").cast("string"))
    readings = sf.when(text.startswith("["), sf.from_json(text, READINGS))
    read = records.select("partition", "offset", text.alias("raw"), readings.alias("readings"))
    own = sf.array(sf.from_json("raw", MEASUREMENT))
    return read.select(
        "partition",
        "offset",
        "raw",
        sf.explode_outer(sf.coalesce(sf.expr(FROM_COLLECTD), own)).alias("m"),
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
        received("measurements")
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
    return received("malformed").where(~is_whole()).select("partition", "offset", "raw")


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
