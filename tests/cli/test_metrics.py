"""`ottla metrics`: what comes out is what the metrics pipeline takes in."""

import json
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from unittest.mock import MagicMock

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from ottla import Broker, Cluster
from ottla.base.addresses import Address
from ottla.client.admin import broker_metrics
from ottla.client.admin import groups as descriptions

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
    assert outcome.err == (
        "no metrics of broker 1: it serves none (ottla start --http)\n"
        f"{len(records)} measurements to {ottla_topic}\n"
    )
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


# -- what brokers measure of themselves --

HTTP = {"ottla.http.listener": "127.0.0.1:0"}
OTHERS = """# HELP things_made_total Things.
# TYPE things_made_total counter
things_made_total{color="r\\"e\\\\d\\n",size=""} 2.5
things_left 3 1700000000000
things_left{partition="7"} 1
things_seconds_bucket{le="+Inf"} 4
things_seconds_sum 0.5
things_seconds_count 4
things_worst NaN
"""


@pytest.fixture
def served() -> Iterator[Callable[[str], str]]:
    """Pages that something serves which is no broker, by their addresses."""

    class Page(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(pages[self.server.server_port].encode())  # type: ignore[attr-defined]

        def log_message(self, *_: object) -> None:
            pass

    pages, servers = dict[int, str](), list[ThreadingHTTPServer]()

    def serve(page: str) -> str:
        server = ThreadingHTTPServer(("127.0.0.1", 0), Page)
        servers.append(server)
        pages[server.server_port] = page
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        return f"127.0.0.1:{server.server_port}"

    yield serve
    for server in servers:
        server.shutdown()
        server.server_close()


def measured(ottla: Any, broker: Broker | Cluster, *options: str) -> tuple[list[Any], str]:
    """What it sends, and what it says."""
    where = ("--bootstrap", broker.bootstrap_servers)
    outcome = ottla("metrics", "--topic", "metrics", "--once", *options, *where)
    assert outcome.code == 0, outcome.err
    records = [json.loads(line) for line in ottla("consume", "metrics", *where).out.splitlines()]
    return records, outcome.err


def test_each_broker_is_measured_by_its_own_counters(ottla: Any) -> None:
    with Cluster(3, config=HTTP) as cluster:
        cluster.create_topic("orders", partitions=4, replicas=3)
        records, said = measured(ottla, cluster)
    assert "no metrics" not in said
    assert all(set(record) == {"time", "host", "metric", "value", "labels"} for record in records)
    leaders = {
        record["labels"]["broker"]: record["value"]
        for record in records
        if record["metric"] == "kafka_server_replicamanager_leadercount"
    }
    assert set(leaders) == {"1", "2", "3"}
    assert sum(leaders.values()) >= 4
    for name in ("process_cpu_seconds_total", "ottla_loop_lag_seconds_count", "ottla_loop_lag_seconds_sum"):
        assert {record["labels"]["broker"] for record in records if record["metric"] == name} == set(leaders)
    assert not [record for record in records if record["labels"].keys() & {"le", "partition"}]
    assert [record["value"] for record in records if record["metric"] == "cluster.brokers"] == [3]


def test_a_url_is_read_instead_and_what_cannot_be_read_is_said(
    ottla: Any, ottla_broker: Broker, served: Callable[[str], str]
) -> None:
    others, garbage = served(OTHERS), served("<html>")
    records, said = measured(ottla, ottla_broker, "--url", f"http://{others}/", "--url", garbage)
    own = {
        (record["metric"], *record["labels"].values()): record["value"]
        for record in records
        if record["labels"].get("broker") == others
    }
    assert own == {
        ("things_made_total", 'r"e\\d\n', "", others): 2.5,
        ("things_left", others): 3,
        ("things_seconds_sum", others): 0.5,
        ("things_seconds_count", others): 4,
    }
    url = f"http://{garbage}/metrics"
    assert (
        said.splitlines()[0]
        == f"no metrics of {url}: {url} cannot be read: that is not Prometheus's text format"
    )
    assert ottla("metrics", "--once", "--url", "ftp://x").code == 2


def test_metrics_of_another_broker_behind_the_address_are_not_taken_for_its_own(
    ottla: Any, served: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    other = served('ottla_build_info{broker="7"} 1\n')
    monkeypatch.setattr(broker_metrics, "http_address", lambda _: Address("127.0.0.1", int(other[10:])))
    with Broker() as broker:
        records, said = measured(ottla, broker)
    assert f"no metrics of broker 1: http://{other}/metrics is of broker 7; give another --url\n" in said
    assert not [record for record in records if "broker" in record["labels"]]


def test_what_cannot_be_read_is_said_once_and_again_only_when_it_changes(
    served: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    url = f"http://{served('nonsense')}/metrics"
    brokers = broker_metrics.BrokerMetrics(MagicMock(), [url], said.append)
    assert brokers.read() == brokers.read() == []
    assert len(said) == 1
    said.clear()
    monkeypatch.setattr(broker_metrics, "_outcome", lambda _target: "it is gone")
    assert brokers.read() == brokers.read() == []
    assert said == [f"no metrics of {url}: it is gone"]


def test_a_broker_that_listens_everywhere_is_read_where_clients_reach_it(ottla: Any) -> None:
    with Broker({"ottla.http.listener": "0.0.0.0:0"}) as broker:
        records, said = measured(ottla, broker)
    assert "no metrics" not in said
    assert any(record["metric"] == "process_cpu_seconds_total" for record in records)
