"""kill -9 of a Python worker, of the driver and of the broker, each in the middle of a batch: no row is
lost, none is twice."""

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
import pytest
from tests.kafka_clients.harness import BrokerProcess, wait_for
from tests.spark.harness import (
    Topic,
    held_up,
    read,
    read_stream,
    run,
    table,
    texts,
    to_table,
    to_topic,
    values,
)
from tests.support.processes import die_with_parent

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

Make = Callable[..., Topic]
ROWS = 6_000
GATE_S = 300.0
ROOT = Path(__file__).parents[2]


@pytest.fixture
def process(tmp_path: Path) -> Iterator[BrokerProcess]:
    """A broker that can be killed."""
    running = BrokerProcess(tmp_path / "broker", {"group.initial.rebalance.delay.ms": "0"})
    (tmp_path / "broker").mkdir()
    running.start()
    yield running
    running.kill()


def options_of(topic: Topic) -> dict[str, str]:
    """Two batches, in answers that are small: when the first rows are seen most are not fetched yet."""
    return topic.options(
        startingOffsets="earliest", maxOffsetsPerTrigger=ROWS // 2, kafka__max__partition__fetch__bytes=4_000
    )


def reached(gate: str, query: "StreamingQuery") -> None:
    """Wait until the first rows are under way."""
    wait_for(lambda: os.path.exists(f"{gate}.seen") or not query.isActive, GATE_S)
    assert query.isActive, query.exception()


def python_workers(spark: "SparkSession") -> list[psutil.Process]:
    """The workers of this session: children of a daemon, which is a child of the JVM."""
    gateway = spark.sparkContext._gateway
    assert gateway is not None
    daemons = psutil.Process(gateway.proc.pid).children()
    return [worker for daemon in daemons for worker in daemon.children()]


def test_a_killed_python_worker_costs_a_task_and_no_row(
    spark: "SparkSession", topic: Make, tmp_path: Path
) -> None:
    orders = topic()
    orders.produce(range(ROWS))
    gate = f"{tmp_path}/gate"
    stream = held_up(read_stream(spark, options_of(orders)), gate)
    query = to_table(stream, f"{tmp_path}/table", f"{tmp_path}/checkpoint")
    reached(gate, query)
    victims = python_workers(spark)
    assert victims
    for worker in victims:
        with contextlib.suppress(psutil.NoSuchProcess):
            worker.send_signal(signal.SIGKILL)
    Path(f"{gate}.open").touch()
    run(query)
    assert table(tmp_path) == texts(range(ROWS))


def drive_until_held_up(sink: str, source: Topic, gate: str, folder: Path, **options: str) -> None:
    """A driver in a process of its own: killed, with its JVM and workers, when it comes to the gate."""
    given = json.dumps(options_of(source) | options)
    with (folder / "driver.log").open("w") as log:
        driver = subprocess.Popen(
            [sys.executable, "-m", "tests.spark.driver", sink, f"{folder}/checkpoint", gate, given],
            cwd=ROOT,
            start_new_session=True,
            preexec_fn=die_with_parent,
            stdout=log,
            stderr=log,
        )
        try:
            wait_for(lambda: os.path.exists(f"{gate}.seen") or driver.poll() is not None, GATE_S)
            assert driver.poll() is None, (folder / "driver.log").read_text()[-3000:]
        finally:
            os.killpg(driver.pid, signal.SIGKILL)
            driver.wait()


def test_a_killed_driver_goes_on_where_it_was(spark: "SparkSession", topic: Make, tmp_path: Path) -> None:
    orders = topic()
    orders.produce(range(ROWS))
    gate = f"{tmp_path}/gate"
    drive_until_held_up(f"{tmp_path}/table", orders, gate, tmp_path)
    assert not list(Path(f"{tmp_path}/checkpoint/commits").glob("[0-9]*")), "the first batch was not done"
    run(to_table(read_stream(spark, options_of(orders)), f"{tmp_path}/table", f"{tmp_path}/checkpoint"))
    assert table(tmp_path) == texts(range(ROWS))


def test_a_driver_that_is_killed_between_two_tasks_that_write_loses_no_row(
    spark: "SparkSession", topic: Make, tmp_path: Path
) -> None:
    """At least once: what the first task had written is written again, and no row is missing."""
    source, target, gate = topic(2), topic(3), f"{tmp_path}/gate"
    source.produce(range(0, ROWS, 2), partition=0)
    source.produce(range(1, ROWS, 2), partition=1)
    drive_until_held_up(f"{target.bootstrap}/{target.name}", source, gate, tmp_path, minPartitions="2")
    written = values(read(spark, target.options()))
    assert written, "the first task was done"
    assert all(int(one) % 2 == 0 for one in written), "the second was not"
    run(to_topic(read_stream(spark, options_of(source)), target, f"{tmp_path}/checkpoint"))
    found = values(read(spark, target.options()))
    assert list(dict.fromkeys(found)) == texts(range(ROWS))
    assert len(found) == ROWS + len(written)


def test_a_broker_that_is_killed_and_comes_back_is_waited_for(
    spark: "SparkSession", process: BrokerProcess, tmp_path: Path
) -> None:
    orders = Topic(process.bootstrap, process.create_topic("orders"))
    orders.produce(range(ROWS))
    gate = f"{tmp_path}/gate"
    stream = held_up(read_stream(spark, options_of(orders)), gate)
    query = to_table(stream, f"{tmp_path}/table", f"{tmp_path}/checkpoint")
    reached(gate, query)
    process.kill()
    Path(f"{gate}.open").touch()
    process.start()
    run(query)
    assert table(tmp_path) == texts(range(ROWS))


def test_a_broker_that_is_killed_while_it_is_written_to_has_every_row_once(
    spark: "SparkSession", process: BrokerProcess, tmp_path: Path
) -> None:
    """One task, one producer: what it sends again after the crash is recognised."""
    source = Topic(process.bootstrap, process.create_topic("source"))
    target = Topic(process.bootstrap, process.create_topic("target", 3))
    source.produce(range(ROWS))
    gate = f"{tmp_path}/gate"
    rows = held_up(read_stream(spark, options_of(source)), gate)
    query = to_topic(rows, target, f"{tmp_path}/checkpoint", **{"kafka.batch.size": "4000"})
    reached(gate, query)
    process.kill()
    Path(f"{gate}.open").touch()
    process.start()
    run(query)
    assert values(read(spark, target.options())) == texts(range(ROWS))
