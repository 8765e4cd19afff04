"""A range of time of a topic into Parquet: the program in docs/pipelines.md, as it stands there."""

import re
from pathlib import Path
from typing import TYPE_CHECKING

from confluent_kafka import Producer
from pyarrow import dataset

from ottla.testing.embedded import Broker

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DOCUMENT = Path(__file__).parents[2] / "docs" / "pipelines.md"
DAY_MS = 86_400_000
FIRST_MS = 1_767_225_600_000


def test_a_day_of_a_topic_becomes_parquet(spark: "SparkSession", broker: Broker, tmp_path: Path) -> None:
    """The program asks for a session, and gets the one that is there."""
    broker.create_topic("logs", 3, {"retention.ms": -1})
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    for number in range(40):  # every two hours, from the day before to the day after
        time_ms = FIRST_MS - DAY_MS + number * DAY_MS // 12
        producer.produce("logs", f"line {number}", partition=number % 2, timestamp=time_ms)
    assert producer.flush(30) == 0

    programs = re.findall(r"```python\n(.*?)```", DOCUMENT.read_text(), re.DOTALL)
    (program,) = (program for program in programs if "spark.read" in program)
    assert f'"{FIRST_MS}"' in program
    assert f'"{FIRST_MS + DAY_MS}"' in program
    table = tmp_path / "day.parquet"
    program = program.replace("127.0.0.1:9092", broker.bootstrap_servers).replace("day.parquet", str(table))
    exec(program, {})

    rows = dataset.dataset(table, format="parquet").to_table().to_pylist()
    assert sorted(row["line"] for row in rows) == sorted(f"line {number}" for number in range(12, 24))
    assert {row["timestamp"].date().isoformat() for row in rows} == {"2026-01-01"}
