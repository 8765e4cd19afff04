"""A range of time of a topic into Parquet: the program in docs/pipelines.md, as it stands there."""

import re
import subprocess
import sys
from pathlib import Path

from confluent_kafka import Producer
from pyarrow import dataset
from tests.pipelines.conftest import WAIT_S

from ottla import Broker
from ottla.cli import pipeline_spark

DOCUMENT = Path(__file__).parents[2] / "docs" / "pipelines.md"
DAY_MS = 86_400_000
FIRST_MS = 1_767_225_600_000


def test_a_day_of_a_topic_becomes_parquet(spark_is_there: None, broker: Broker, tmp_path: Path) -> None:
    broker.create_topic("logs", partitions=3)
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    for number in range(40):  # every two hours, from the day before to the day after
        time_ms = FIRST_MS - DAY_MS + number * DAY_MS // 12
        producer.produce("logs", f"line {number}", partition=number % 2, timestamp=time_ms)
    assert producer.flush(30) == 0

    (program,) = re.findall(r"```python\n(.*?)```", DOCUMENT.read_text(), re.DOTALL)
    assert f'"{FIRST_MS}"' in program
    assert f'"{FIRST_MS + DAY_MS}"' in program
    script = tmp_path / "offline.py"
    script.write_text(program.replace("127.0.0.1:9092", broker.bootstrap_servers) + "\nspark.stop()\n")
    environment = pipeline_spark.environment(pipeline_spark.linked(str(tmp_path / "spark")))
    done = subprocess.run(
        [sys.executable, str(script)],
        cwd=tmp_path,
        env=environment,
        timeout=WAIT_S,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-5000:]

    rows = dataset.dataset(tmp_path / "day.parquet", format="parquet").to_table().to_pylist()
    assert sorted(row["line"] for row in rows) == sorted(f"line {number}" for number in range(12, 24))
    assert {row["timestamp"].date().isoformat() for row in rows} == {"2026-01-01"}
