# Logs: files are followed line by line into a topic; Spark parses them, keeps them as Parquet and routes
# errors.
#
#     pip install 'ottla[spark]'                        # and Java 17 or newer
#     python examples/logs.py                           # with a broker of its own
#     OTTLA_BOOTSTRAP=localhost:9092 python examples/logs.py
#
# Every `# %%` begins a cell, as in a notebook.

# %% A broker, and topics: `logs` for every line, `errors` for what somebody should see.
import os
import subprocess
import sys
import tempfile
import uuid
from pathlib import Path

from pyspark.sql import functions as sf

from ottla import Broker
from ottla.client import Client
from ottla.spark.lag import tell_lag
from ottla.spark.session import spark_session

broker = None if "OTTLA_BOOTSTRAP" in os.environ else Broker().start()
bootstrap = broker.bootstrap_servers if broker else os.environ["OTTLA_BOOTSTRAP"]
run = uuid.uuid4().hex[:6]  # so that the example can be run again on the same cluster
logs, errors = f"logs-{run}", f"errors-{run}"

with Client(bootstrap) as client:
    client.create_topics({logs: 2, errors: 1})

# %% A program that writes a log. One line is no log line: that happens.
scratch = tempfile.TemporaryDirectory(prefix="ottla-example-")
folder = Path(scratch.name)
log = folder / "app.log"
log.write_text(
    "2026-01-01T12:00:00Z INFO started\n"
    "2026-01-01T12:00:05Z ERROR no answer from payments\n"
    "2026-01-01T12:01:10Z WARN slow answer from stock\n"
    "Segmentation fault\n"
    "2026-01-01T12:01:40Z ERROR no answer from payments\n"
)

# %% Shipped: `ottla ship` sends every line as a record with the file and the host in its headers. It
# remembers how far it was, follows files that are rotated, and sends no line twice. `--once` stops at the
# end; without it, it goes on.
ottla = [sys.executable, "-m", "ottla.cli"]
ship = ["ship", str(log), "--topic", logs, "--once", "--state", str(folder / "shipped.json")]
subprocess.run([*ottla, *ship, "--bootstrap", bootstrap], check=True)

# %% Parsed: a regular expression, and null where a line does not match. Headers come with `includeHeaders`.
spark = spark_session("logs", settings={"spark.sql.shuffle.partitions": "1", "spark.ui.enabled": "false"})
spark.conf.set("spark.sql.session.timeZone", "UTC")
spark.sparkContext.setLogLevel("ERROR")
listener = tell_lag(spark)
cluster = {"kafka.bootstrap.servers": bootstrap}

LINE = r"^(\S+) (DEBUG|INFO|WARN|ERROR) (.*)$"
text = sf.make_valid_utf8(sf.col("value").cast("string"))
parsed = (
    spark.readStream.format("ottla")
    .options(**cluster, subscribe=logs, startingOffsets="earliest", groupIdPrefix="example")
    .load()
    .select("partition", "offset", text.alias("line"))
    .select(
        "*",
        sf.to_timestamp(sf.nullif(sf.regexp_extract("line", LINE, 1), sf.lit(""))).alias("time"),
        sf.nullif(sf.regexp_extract("line", LINE, 2), sf.lit("")).alias("level"),
        sf.regexp_extract("line", LINE, 3).alias("message"),
    )
)

# %% One batch, two places: `foreachBatch` hands a micro-batch over as a table. What was written before a
# crash is written again after it, so both places have errors at least once; examples/streams.py shows
# exactly once.
archive = str(folder / "archive")


def keep_and_route(batch, number):
    batch.persist()
    batch.withColumn("day", sf.to_date("time")).write.mode("append").partitionBy("day").parquet(archive)
    wrong = batch.where("level = 'ERROR'").select(sf.col("message").alias("value"))
    wrong.write.format("ottla").mode("append").options(**cluster, topic=errors).save()
    batch.unpersist()


query = (
    parsed.writeStream.foreachBatch(keep_and_route)
    .option("checkpointLocation", str(folder / "checkpoint"))
    .queryName("logs")
    .trigger(availableNow=True)
    .start()
)
query.awaitTermination()

# %% Asked: the archive is a table like any other, for Spark and for everything else that reads Parquet.
counts = spark.read.parquet(archive).groupBy(sf.coalesce("level", sf.lit("unparsed")).alias("level")).count()
by_level = {row["level"]: row["count"] for row in counts.collect()}
print(by_level)
assert by_level == {"INFO": 1, "ERROR": 2, "WARN": 1, "unparsed": 1}

routed = spark.read.format("ottla").options(**cluster, subscribe=errors).load()
assert [bytes(row.value) for row in routed.collect()] == [b"no answer from payments"] * 2

# %% The end. In a notebook, run this when you are done.
spark.streams.removeListener(listener)
spark.stop()
scratch.cleanup()
if broker is not None:
    broker.stop()
