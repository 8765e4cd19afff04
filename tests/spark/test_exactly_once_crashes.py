"""delivery=exactly-once with a real Spark, from topic to topic: what is killed in the middle of a batch, and
where, is named by the point. `test_exactly_once` has every point there is, without Spark."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyspark import cloudpickle
from pyspark.errors import PySparkException
from tests.compat.transactional import Server
from tests.kafka_clients.harness import wait_for
from tests.spark import dying
from tests.spark.dying import AFTER, BEFORE, BETWEEN, DECIDED, FAILS, KILLED, copy
from tests.spark.harness import LONG, Topic, new_topic, read, read_stream, run, texts, values
from tests.spark.staging import committed
from tests.support.processes import die_with_parent

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROWS = 2_000
GATE_S = 300.0
ROOT = Path(__file__).parents[2]


@pytest.fixture
def source(transactional: Server) -> Topic:
    """Two partitions with rows."""
    orders = new_topic(transactional.bootstrap, 2)
    orders.produce(range(0, ROWS, 2), partition=0)
    orders.produce(range(1, ROWS, 2), partition=1)
    return orders


@pytest.fixture
def spark(spark: "SparkSession") -> "SparkSession":
    """The sink that dies reaches workers as it is, as they do not have the tests on their path."""
    cloudpickle.register_pickle_by_value(dying)
    spark.dataSource.register(dying.DyingSource)
    return spark


def options_of(source: Topic) -> dict[str, str]:
    """Two batches of two tasks each."""
    return source.options(startingOffsets="earliest", maxOffsetsPerTrigger=ROWS // 2, minPartitions=2)


def copied(target: Topic) -> list[str]:
    return sorted(committed(target), key=lambda text: (len(text), text))


@pytest.mark.parametrize("point", [FAILS, pytest.param(KILLED, marks=LONG)])
def test_a_task_that_is_run_again_has_its_rows_there_once(
    spark: "SparkSession", source: Topic, target: Topic, tmp_path: Path, point: str
) -> None:
    rows = read_stream(spark, options_of(source))
    gate, checkpoint = f"{tmp_path}/gate", f"{tmp_path}/checkpoint"
    run(copy(rows, target.bootstrap, target.name, checkpoint, gate=gate, point=point))
    assert os.path.exists(f"{gate}.seen")
    assert copied(target) == texts(range(ROWS))
    assert values(read(spark, target.options())) == texts(range(ROWS)), "as the source reads it by default"
    everything = values(read(spark, target.options(kafka__isolation__level="read_uncommitted")))
    assert len(everything) > ROWS, "what the first attempt wrote is in the log"


@pytest.mark.parametrize(
    "point", [*(pytest.param(point, marks=LONG) for point in (BEFORE, DECIDED, BETWEEN)), AFTER]
)
def test_a_commit_whose_process_is_killed_is_finished_by_the_next_run_of_the_query(
    spark: "SparkSession", source: Topic, target: Topic, tmp_path: Path, point: str
) -> None:
    rows = read_stream(spark, options_of(source))
    gate, checkpoint = f"{tmp_path}/gate", f"{tmp_path}/checkpoint"
    query = copy(rows, target.bootstrap, target.name, checkpoint, gate=gate, point=point)
    with pytest.raises(PySparkException):
        run(query)
    assert os.path.exists(f"{gate}.seen")
    assert not list(Path(checkpoint, "commits").glob("[0-9]*")), "Spark does not know of the first batch"
    run(copy(rows, target.bootstrap, target.name, checkpoint, gate=gate, point=point))
    assert copied(target) == texts(range(ROWS))


@pytest.mark.parametrize(
    "point",
    [
        pytest.param(BEFORE, marks=LONG),
        pytest.param(DECIDED, marks=LONG),
        BETWEEN,
        pytest.param(AFTER, marks=LONG),
    ],
)
def test_a_driver_that_is_killed_in_a_commit_leaves_every_row_once(
    spark: "SparkSession", source: Topic, target: Topic, tmp_path: Path, point: str
) -> None:
    gate, checkpoint = f"{tmp_path}/gate", f"{tmp_path}/checkpoint"
    arguments = [json.dumps(options_of(source)), f"{target.bootstrap}/{target.name}", checkpoint, gate, point]
    with (tmp_path / "driver.log").open("w") as log:
        driver = subprocess.Popen(
            [sys.executable, "-m", "tests.spark.dying_driver", *arguments],
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)])},
            start_new_session=True,
            preexec_fn=die_with_parent,
            stdout=log,
            stderr=log,
        )
        try:
            wait_for(lambda: os.path.exists(f"{gate}.seen") or driver.poll() is not None, GATE_S)
            assert driver.poll() is None, (tmp_path / "driver.log").read_text()[-3000:]
        finally:
            os.killpg(driver.pid, signal.SIGKILL)
            driver.wait()
    rows = read_stream(spark, options_of(source))
    run(copy(rows, target.bootstrap, target.name, checkpoint, gate=gate, point=point))
    assert copied(target) == texts(range(ROWS))


def test_a_batch_write_is_seen_as_a_whole_when_the_job_is_done(spark: "SparkSession", target: Topic) -> None:
    options = {"kafka.bootstrap.servers": target.bootstrap, "topic": target.name, "delivery": "exactly-once"}
    rows = spark.range(0, ROWS, 1, 2).selectExpr("cast(id as string) value")
    rows.write.format("ottla").options(**options).mode("append").save()
    assert copied(target) == texts(range(ROWS))
    broken = rows.selectExpr("if(value = '1999', raise_error('no'), value) value")
    with pytest.raises(PySparkException):
        broken.write.format("ottla").options(**options).mode("append").save()
    assert copied(target) == texts(range(ROWS)), "a job that fails leaves nothing"
