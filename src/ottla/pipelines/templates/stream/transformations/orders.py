"""Orders, each once, joined to customers.

`customers` is a compacted topic read as a table: the latest record of each key, without those that were
deleted. It is read anew in every run; an order is joined to what its customer was then.
"""

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

spark = SparkSession.active()
CLUSTER = {
    "kafka.bootstrap.servers": str(spark.conf.get("spark.ottla.bootstrap.servers")),
    "clientConfig": str(spark.conf.get("spark.ottla.client.config", "")),
}
GROUPS = str(spark.conf.get("spark.ottla.group.prefix"))
ORDER = "order_id STRING, customer_id STRING, amount DECIMAL(12, 2), time TIMESTAMP"
CUSTOMER = "name STRING, country STRING, tier STRING"


@dp.materialized_view(comment="The latest of every customer.")
def customers() -> DataFrame:
    records = spark.read.format("ottla").options(**CLUSTER).option("subscribe", "customers").load()
    latest = records.groupBy("key").agg(sf.max_by("value", "offset").alias("value"))
    customer = sf.from_json(sf.col("value").cast("string"), CUSTOMER)
    return (
        latest.where("value IS NOT NULL")  # a tombstone: the customer is deleted
        .select(sf.col("key").cast("string").alias("customer_id"), customer.alias("c"))
        .select("customer_id", "c.*")
    )


def received(flow: str) -> DataFrame:
    """The topic from its beginning, each record with what could be read of it."""
    records = (
        spark.readStream.format("ottla")
        .options(**CLUSTER)
        .option("subscribe", "orders")
        .option("startingOffsets", "earliest")
        .option("groupIdPrefix", f"{GROUPS}.{flow}")
        .load()
    )
    text = sf.make_valid_utf8(sf.col("value").cast("string"))
    order = sf.from_json(text, ORDER)
    return records.select("partition", "offset", text.alias("raw"), order.alias("o"))


IS_WHOLE = (
    "(o.order_id IS NOT NULL AND o.customer_id IS NOT NULL AND o.amount IS NOT NULL AND o.time IS NOT NULL)"
)


@dp.table(comment="Every order once; the same order_id within an hour is a repetition.")
def orders() -> DataFrame:
    whole = received("orders").where(IS_WHOLE).select("o.*")
    return whole.withWatermark("time", "1 hour").dropDuplicatesWithinWatermark(["order_id"])


@dp.table(comment="Records that are no orders, as they came.")
def rejected() -> DataFrame:
    return received("rejected").where(f"NOT {IS_WHOLE}").select("partition", "offset", "raw")


@dp.table(comment="Orders with what was known of their customer.")
def enriched() -> DataFrame:
    return spark.readStream.table("orders").join(spark.read.table("customers"), "customer_id", "left")


dp.create_sink(
    "enriched_topic",
    "ottla",
    {**CLUSTER, "topic": "orders.enriched", "delivery": "exactly-once"},
)


@dp.append_flow(target="enriched_topic")
def enriched_records() -> DataFrame:
    rows = spark.readStream.table("enriched")
    return rows.select(sf.col("customer_id").alias("key"), sf.to_json(sf.struct("*")).alias("value"))
