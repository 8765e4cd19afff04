"""The settings of the files that Apache Kafka comes with, 3 and 4, for ZooKeeper and for KRaft: each starts,
says once which of them have no effect here, and serves a group."""

import select
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer
from tests.cli.test_start import READY, command, refused, started
from tests.cluster.zookeeper import Ensemble
from tests.support.ports import free_ports

WITHIN_S = 60.0
NO_EFFECT = "these keys of Kafka have no effect here: "
PROTOCOLS = "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT,SASL_SSL:SASL_SSL"

COMMON = {
    "num.network.threads": "3",
    "num.io.threads": "8",
    "socket.send.buffer.bytes": "102400",
    "socket.receive.buffer.bytes": "102400",
    "socket.request.max.bytes": "104857600",
    "num.partitions": "1",
    "num.recovery.threads.per.data.dir": "1",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "log.retention.hours": "168",
    "log.segment.bytes": "1073741824",
    "log.retention.check.interval.ms": "300000",
}
KRAFT = COMMON | {
    "inter.broker.listener.name": "PLAINTEXT",
    "controller.listener.names": "CONTROLLER",
    "listener.security.protocol.map": PROTOCOLS,
}
BOTH = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "listeners": "PLAINTEXT://localhost:{port},CONTROLLER://:{other}",
}
SHARED = {
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
}
ADVERTISED = {"advertised.listeners": "PLAINTEXT://localhost:{port},CONTROLLER://localhost:{other}"}
STOCK = {
    "KRaft 3, server": KRAFT | BOTH | {
        "controller.quorum.voters": "1@localhost:{other}",
        "advertised.listeners": "PLAINTEXT://localhost:{port}",
    },
    "KRaft 3, broker": KRAFT | {
        "process.roles": "broker",
        "node.id": "2",
        "controller.quorum.voters": "1@localhost:{other}",
        "listeners": "PLAINTEXT://localhost:{port}",
        "advertised.listeners": "PLAINTEXT://localhost:{port}",
    },
    "Kafka 4, server": KRAFT | BOTH | SHARED | ADVERTISED | {
        "controller.quorum.bootstrap.servers": "localhost:{other}",
    },
    "Kafka 4, broker": KRAFT | SHARED | {
        "process.roles": "broker",
        "node.id": "2",
        "controller.quorum.bootstrap.servers": "localhost:{other}",
        "listeners": "PLAINTEXT://localhost:{port}",
        "advertised.listeners": "PLAINTEXT://localhost:{port}",
    },
}  # fmt: skip
ZOOKEEPER = COMMON | {
    "broker.id": "0",
    "zookeeper.connect": "{zookeeper}",
    "zookeeper.connection.timeout.ms": "18000",
    "group.initial.rebalance.delay.ms": "0",
    "listeners": "PLAINTEXT://localhost:{port}",
}


def written(folder: Path, properties: dict[str, str], **more: str) -> str:
    port, other = free_ports(2)
    lines = [f"{name}={value.format(port=port, other=other, **more)}" for name, value in properties.items()]
    path = folder / "server.properties"
    path.write_text("\n".join([*lines, f"log.dirs={folder / 'logs'}", ""]))
    return str(path)


def serves_a_group(address: str) -> None:
    producer = Producer({"bootstrap.servers": address, "acks": "all"})
    producer.produce("letters", b"hello")
    assert producer.flush(WITHIN_S) == 0
    consumer = Consumer({"bootstrap.servers": address, "group.id": "g", "auto.offset.reset": "earliest"})
    try:
        consumer.subscribe(["letters"])
        message = consumer.poll(WITHIN_S)
        assert message is not None
        assert message.value() == b"hello"
        consumer.commit(message, asynchronous=False)
    finally:
        consumer.close()


def stopped(process: "subprocess.Popen[str]") -> list[str]:
    """What it had said on stderr, a line each, without time and place."""
    process.terminate()
    assert process.wait(WITHIN_S) == 0
    assert process.stderr
    return [line.partition(": ")[2].rstrip() for line in process.stderr]


@pytest.mark.parametrize("kind", STOCK)
def test_a_stock_file_of_kraft_starts_and_says_once_what_has_no_effect(tmp_path: Path, kind: str) -> None:
    with started("--config", written(tmp_path, STOCK[kind])) as (process, ready):
        assert ready[3] == STOCK[kind]["node.id"]
        serves_a_group(ready[1])
        (line,) = (said for said in stopped(process) if said.startswith(NO_EFFECT) or "did you mean" in said)
    assert line.startswith(NO_EFFECT)
    named = line.removeprefix(NO_EFFECT).split(", ")
    assert {"num.io.threads", "num.network.threads"} <= set(named)
    assert "did you mean" not in line
    assert not set(named) & {"listeners", "controller.listener.names", "log.dirs", "node.id"}
    assert "inter.broker.listener.name" not in named


@contextmanager
def waiting(*arguments: str) -> "Iterator[subprocess.Popen[str]]":
    process = subprocess.Popen(command(*arguments), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        yield process
    finally:
        process.kill()
        process.wait()
        for stream in (process.stdout, process.stderr):
            assert stream
            stream.close()


@pytest.mark.timeout(240)
def test_a_stock_file_with_zookeeper_waits_for_it_says_so_and_starts(tmp_path: Path) -> None:
    ensemble = Ensemble(tmp_path)
    path = written(tmp_path, ZOOKEEPER, zookeeper=ensemble.hosts)
    with waiting("--config", path) as process:
        assert process.stdout
        assert process.stderr
        assert NO_EFFECT in process.stderr.readline()
        assert f"no ZooKeeper answers at {ensemble.hosts}; waiting for it" in process.stderr.readline()
        try:
            ensemble.start()
            readable, _, _ = select.select([process.stdout], [], [], WITHIN_S)
            ready = READY.fullmatch(process.stdout.readline()) if readable else None
            assert ready
            assert ready[3] == "0"
            serves_a_group(ready[1])
            stopped(process)
        finally:
            ensemble.stop()


def test_a_file_for_a_controller_alone_is_refused_in_one_line(tmp_path: Path) -> None:
    properties = KRAFT | {
        "process.roles": "controller",
        "node.id": "1",
        "controller.quorum.bootstrap.servers": "localhost:{other}",
        "listeners": "CONTROLLER://:{other}",
        "advertised.listeners": "CONTROLLER://localhost:{other}",
    }
    done = refused("--config", written(tmp_path, properties))
    assert done.returncode == 2
    assert "process.roles: must have broker among them (there are no controller processes" in done.stderr


@pytest.mark.parametrize(
    "asking",
    [
        {"principal.builder.class": "com.example.Builder"},
        {"ssl.engine.factory.class": "hush", "delegation.token.secret.key": "hush"},
    ],
)
def test_a_file_that_asks_for_security_ends_the_start_with_one_line(
    tmp_path: Path, asking: dict[str, str]
) -> None:
    done = refused("--config", written(tmp_path, STOCK["Kafka 4, server"] | asking))
    assert done.returncode == 2
    assert done.stderr.startswith(f"ottla: {', '.join(asking)}: this kind of security is not there")
    assert "hush" not in done.stderr
    assert not (tmp_path / "logs").exists()


def test_users_for_a_listener_that_lets_in_everybody_end_the_start_with_one_line(tmp_path: Path) -> None:
    users = {"listener.name.plaintext.plain.sasl.jaas.config": "hush"}
    done = refused("--config", written(tmp_path, STOCK["Kafka 4, server"] | users))
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert done.stderr.startswith(f"ottla: {next(iter(users))}: this listener has no SASL, and would let in")
    assert "hush" not in done.stderr
    assert not (tmp_path / "logs").exists()


def test_a_file_whose_listener_has_tls_and_no_certificate_that_can_be_read_ends_the_start(
    tmp_path: Path,
) -> None:
    properties = {
        "listeners": "OUT://localhost:{port}",
        "listener.security.protocol.map": "OUT:SSL",
        "ssl.keystore.location": "/no/such.p12",
        "ssl.keystore.password": "hush",
    }
    done = refused("--config", written(tmp_path, properties))
    assert done.returncode == 2
    assert done.stderr == (
        "ottla: listener OUT: ssl.keystore.location: cannot read /no/such.p12: No such file or directory\n"
    )
    assert "hush" not in done.stderr
    assert not (tmp_path / "logs").exists()
