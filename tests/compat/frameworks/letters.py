"""Avro of a schema registry in Spark, with from_avro: BOOTSTRAP REGISTRY."""

import json
import sys
import urllib.request

from pyspark.sql import SparkSession
from pyspark.sql.avro.functions import from_avro
from pyspark.sql.functions import expr

bootstrap, registry = sys.argv[1:]
with urllib.request.urlopen(f"{registry}/subjects/avro-value/versions/latest") as answer:
    schema = json.load(answer)["schema"]
spark = SparkSession.builder.getOrCreate()
records = (
    spark.read.format("ottla").option("kafka.bootstrap.servers", bootstrap).option("subscribe", "avro").load()
)
# Serializers put a zero and the id of the schema, five bytes, in front of the record.
letters = records.select(from_avro(expr("substring(value, 6)"), schema).alias("letter")).select("letter.*")
for letter in letters.toJSON().collect():
    print(letter)
