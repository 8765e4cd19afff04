"""`ottla metrics`: what comes out is what the metrics pipeline takes in."""

import json
import signal
import subprocess
import sys
import time
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition

from ottla import Broker
from ottla.cli.groups import descriptions

WAIT_S = 30.0


def test_host_and_cluster_are_measured_once(ottla: Any, ottla_broker: Broker, ottla_topic: str) -> None:
    source = ottla_broker.create_topic(f"{ottla_topic}-source", partitions=2)
    producer = Producer({"bootstrap.servers": ottla_broker.bootstrap_servers})
    for number in range(5):
        producer.produce(source, b"x", partition=number % 2)
    assert producer.flush(WAIT_S) == 0
    group = {"group.id": f"{ottla_topic}-group", "enable.auto.commit": False}
    consumer = Consumer({"bootstrap.servers": ottla_broker.bootstrap_servers, **group})
    consumer.commit(offsets=[TopicPartition(source, 0, 1), TopicPartition(source, 1, 2)], asynchronous=False)
    consumer.close()
    outcome = ottla("metrics", "--topic", ottla_topic, "--once", "--host", "here")
    assert outcome.code == 0, outcome.err
    records = [json.loads(line) for line in ottla("consume", ottla_topic).out.splitlines()]
    assert outcome.err == f"{len(records)} measurements to {ottla_topic}\n"
    assert all(set(one) == {"time", "host", "metric", "value", "labels"} for one in records)
    assert {one["host"] for one in records} == {"here"}
    found = {(one["metric"], *one["labels"].values()): one["value"] for one in records}
    assert 0 <= found[("cpu.percent",)] <= 100
    assert 0 < found[("memory.percent",)] <= 100
    assert any(name[0] == "disk.percent" for name in found)
    assert found["topic.records", source] == 5
    assert found["topic.end_offsets_total", source] == 5
    assert found["group.lag", group["group.id"]] == 2
    assert found[("cluster.brokers",)] == 1
    ottla_broker.delete_topic(source)


def test_metadata_that_cannot_be_read_is_none() -> None:
    """confluent-kafka reads past the end of what a group has committed."""

    class Committed:
        topic, partition, offset, error = "orders", 0, 7, None

        @property
        def metadata(self) -> str:
            return b"\xff".decode()

    class Asked:
        topic_partitions = (Committed(),)

        def result(self, _timeout_s: float) -> "Asked":
            return self

    for with_metadata in (True, False):
        found = descriptions._offsets_of("group", Asked(), with_metadata=with_metadata)
        assert found == {("orders", 0): (7, "")}


def test_it_goes_on_until_ctrl_c(ottla: Any, ottla_broker: Broker, ottla_topic: str) -> None:
    command = [sys.executable, "-m", "ottla.cli", "metrics", "--topic", ottla_topic, "--interval", "0.1"]
    process = subprocess.Popen(
        [*command, "--bootstrap", ottla_broker.bootstrap_servers], stderr=subprocess.PIPE
    )
    try:
        deadline = time.monotonic() + WAIT_S
        while ottla("consume", ottla_topic).out.count('"cpu.percent"') < 3:
            assert time.monotonic() < deadline
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=WAIT_S)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == 0
    assert errors.decode().endswith(f" measurements to {ottla_topic}\n")
