# Streams: orders, joined to their customers, written to another topic exactly once; also when the query is
# run again.
#
#     pip install 'ottla[spark]'                        # and Java 17 or newer
#     python examples/streams.py                        # with a broker of its own
#     OTTLA_BOOTSTRAP=localhost:9092 python examples/streams.py
#
# Every `# %%` begins a cell, as in a notebook.

# %% A broker, and topics. `customers` is compacted: of each key the last record is kept, so the topic is a
# table.
import json
import os
import tempfile
import uuid

from confluent_kafka import Consumer, Producer
from pyspark.sql import functions as sf

from ottla import Broker
from ottla.client import Client
from ottla.spark.lag import tell_lag
from ottla.spark.session import spark_session

broker = None if "OTTLA_BOOTSTRAP" in os.environ else Broker().start()
bootstrap = broker.bootstrap_servers if broker else os.environ["OTTLA_BOOTSTRAP"]
run = uuid.uuid4().hex[:6]  # so that the example can be run again on the same cluster
orders, customers, enriched = f"orders-{run}", f"customers-{run}", f"enriched-{run}"

with Client(bootstrap) as client:
    client.create_topics({orders: 2, enriched: 2})
    client.create_topics({customers: 1}, config={"cleanup.policy": "compact"})


def send(topic, key, **record):
    producer = Producer({"bootstrap.servers": bootstrap})
    producer.produce(topic, json.dumps(record), key=key)
    assert producer.flush(30) == 0


# %% Customers, one of whom has moved, and orders, one of which was sent twice by a shop that was not sure.
send(customers, "c1", name="Franz", city="Prague")
send(customers, "c2", name="Milena", city="Prague")
send(customers, "c2", name="Milena", city="Vienna")
for number, customer in ((1, "c1"), (2, "c2"), (2, "c2")):
    send(orders, customer, order_id=number, customer_id=customer, time="2026-01-01T12:00:00Z")

# %% The latest of each customer: a batch read, and the highest offset of every key.
spark = spark_session("streams", settings={"spark.sql.shuffle.partitions": "1", "spark.ui.enabled": "false"})
spark.conf.set("spark.sql.session.timeZone", "UTC")
spark.sparkContext.setLogLevel("ERROR")
listener = tell_lag(spark)
cluster = {"kafka.bootstrap.servers": bootstrap}

record = sf.from_json(sf.col("value").cast("string"), "name STRING, city STRING")
latest = (
    spark.read.format("ottla")
    .options(**cluster, subscribe=customers)
    .load()
    .groupBy(sf.col("key").cast("string").alias("customer_id"))
    .agg(sf.max_by(record, "offset").alias("customer"))
    .select("customer_id", "customer.name", "customer.city")
)

# %% Orders, each once. A repetition is looked for within an hour: for that long Spark remembers the ids.
order = sf.from_json(sf.col("value").cast("string"), "order_id BIGINT, customer_id STRING, time TIMESTAMP")
stream = (
    spark.readStream.format("ottla")
    .options(**cluster, subscribe=orders, startingOffsets="earliest", groupIdPrefix="example")
    .load()
    .select(order.alias("o"))
    .select("o.*")
    .withWatermark("time", "1 hour")
    .dropDuplicatesWithinWatermark(["order_id"])
    .join(latest, "customer_id")
)

# %% Written exactly once: each batch is a transaction, and one that Spark repeats after a crash is
# recognised by its number (docs/spark.md, "Exactly once"). The checkpoint stays where it is: it is what
# makes two runs one query.
folder = tempfile.TemporaryDirectory(prefix="ottla-example-")


def run_query():
    query = (
        stream.select(sf.col("customer_id").alias("key"), sf.to_json(sf.struct("*")).alias("value"))
        .writeStream.format("ottla")
        .options(**cluster, topic=enriched, delivery="exactly-once", checkpointLocation=folder.name)
        .queryName("enrich")
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()


run_query()
send(orders, "c1", order_id=3, customer_id="c1", time="2026-01-01T12:30:00Z")
run_query()  # a run later goes on where the last one was

# %% Read as any program would. `read_committed`, librdkafka's default, shows what was committed and nothing
# else.
group = {"group.id": f"readers-{run}", "auto.offset.reset": "earliest", "isolation.level": "read_committed"}
consumer = Consumer({"bootstrap.servers": bootstrap, **group})
consumer.subscribe([enriched])
found = [json.loads(message.value()) for message in consumer.consume(3, timeout=30)]
assert not consumer.consume(1, timeout=1), "there is nothing but these three"
consumer.close()
del consumer

for line in sorted(found, key=lambda line: line["order_id"]):
    print(f"order {line['order_id']}: {line['name']}, {line['city']}")
assert {line["order_id"]: line["city"] for line in found} == {1: "Prague", 2: "Vienna", 3: "Prague"}

# %% The end. In a notebook, run this when you are done.
spark.streams.removeListener(listener)
spark.stop()
folder.cleanup()
if broker is not None:
    broker.stop()
