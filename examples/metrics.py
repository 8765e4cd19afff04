# Metrics: measurements go into a topic, and windows of a minute and alerts come out of it.
#
#     pip install 'ottla[spark]'                        # and Java 17 or newer
#     python examples/metrics.py                        # with a broker of its own
#     OTTLA_BOOTSTRAP=localhost:9092 python examples/metrics.py
#
# Every `# %%` begins a cell, as in a notebook: VS Code, PyCharm and Spyder run them one by one.

# %% A broker. `Broker` is a real one in this process, on a free port; it goes with the process.
import json
import os
import tempfile
import uuid

from confluent_kafka import Producer
from pyspark.sql import functions as sf

from ottla import Broker
from ottla.client import Client
from ottla.spark.lag import tell_lag
from ottla.spark.session import spark_session

broker = None if "OTTLA_BOOTSTRAP" in os.environ else Broker().start()
bootstrap = broker.bootstrap_servers if broker else os.environ["OTTLA_BOOTSTRAP"]
run = uuid.uuid4().hex[:6]  # so that the example can be run again on the same cluster
metrics, alerts = f"metrics-{run}", f"alerts-{run}"

with Client(bootstrap) as client:
    client.create_topics({metrics: 2, alerts: 1})

# %% Measurements. `ottla metrics --interval 5` sends those of a host in this form, one record for each;
# here are ten minutes of two hosts, one of which becomes busy. A key keeps what belongs together in one
# partition, in its order.
NOON_MS = 1_767_268_800_000

producer = Producer({"bootstrap.servers": bootstrap})
for second in range(0, 600, 5):
    for host in ("ada", "bob"):
        busy = 0.95 if host == "bob" and second >= 300 else 0.2
        reading = {"time": NOON_MS + second * 1000, "host": host, "metric": "cpu.busy", "value": busy}
        producer.produce(metrics, json.dumps(reading), key=host)
assert producer.flush(30) == 0
del producer

# %% Spark. `spark_session` sees to it that Spark runs this Python, also if its virtual environment is not
# activated. From now on every batch of every query says how far behind its topic it is; so does `ottla
# groups list`.
spark = spark_session("metrics", settings={"spark.sql.shuffle.partitions": "1", "spark.ui.enabled": "false"})
spark.conf.set("spark.sql.session.timeZone", "UTC")
spark.sparkContext.setLogLevel("ERROR")
listener = tell_lag(spark)
cluster = {"kafka.bootstrap.servers": bootstrap}

# %% The topic as a stream of rows. A record has key, value, topic, partition, offset and timestamp; the
# value is bytes, and Spark's own functions read them. What is no measurement becomes null, and is dropped.
received = (
    spark.readStream.format("ottla")
    .options(**cluster, subscribe=metrics, startingOffsets="earliest", groupIdPrefix="example")
    .load()
)
measurement = sf.from_json(
    sf.col("value").cast("string"), "time BIGINT, host STRING, metric STRING, value DOUBLE"
)
measurements = (
    received.select(measurement.alias("m"))
    .select(sf.timestamp_millis("m.time").alias("time"), "m.host", "m.metric", "m.value")
    .where("value IS NOT NULL")
)

# %% Windows of a minute. The watermark says how late a measurement may come: a window is written once, when
# nothing can change it any more. So the last minutes are not there yet: they wait for later measurements.
minutes = (
    measurements.withWatermark("time", "2 minutes")
    .groupBy(sf.window("time", "1 minute"), "host", "metric")
    .agg(sf.avg("value").alias("average"), sf.count("*").alias("readings"))
    .select(sf.col("window.start").alias("minute"), "host", "metric", "average", "readings")
)

# %% Alerts go to a topic, for whoever listens. `availableNow` reads what is there and stops, which suits a
# job that runs every few minutes; `processingTime="10 seconds"` goes on for ever. The checkpoint is what a
# query resumes from.
folder = tempfile.TemporaryDirectory(prefix="ottla-example-")
query = (
    minutes.where("average > 0.9")
    .select(sf.col("host").alias("key"), sf.to_json(sf.struct("*")).alias("value"))
    .writeStream.format("ottla")
    .options(**cluster, topic=alerts, checkpointLocation=f"{folder.name}/alerts")
    .queryName("alerts")
    .trigger(availableNow=True)
    .start()
)
query.awaitTermination()

# %% What came out: a batch read of the topic, like a table.
rows = spark.read.format("ottla").options(**cluster, subscribe=alerts).load()
raised = [json.loads(row.text) for row in rows.selectExpr("CAST(value AS STRING) text").collect()]
for alert in sorted(raised, key=lambda alert: alert["minute"]):
    print(f"{alert['minute']}  {alert['host']}  {alert['metric']} was {alert['average']:.0%} busy")

assert {alert["host"] for alert in raised} == {"bob"}
assert len(raised) == 2, "of five busy minutes three may still change: later measurements write them"

# %% The end. In a notebook, run this when you are done.
spark.streams.removeListener(listener)
spark.stop()
folder.cleanup()
if broker is not None:
    broker.stop()
