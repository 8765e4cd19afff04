"""What is tried with every client library of another language. Its test class gives `PROGRAM` and `guest`."""

from collections.abc import Callable
from pathlib import Path
from typing import ClassVar

import pytest
from tests.cluster.real import RealCluster
from tests.compat.card import Program
from tests.compat.guest import Guest, Running, records
from tests.compat.watched_topic import WatchedTopic, committed, produce
from tests.kafka_clients.harness import BrokerProcess
from tests.kafka_clients.secure_broker import AUTHORITY, secure_broker
from tests.support.processes import OttlaProcess
from tests.support.waiting import wait_for

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
PARTITIONS = list(range(6))
STEADY = 300
WITHIN_S = 90.0


class ClientContract:
    """The steps and their options are in guest.py."""

    PROGRAM: ClassVar[Program]
    LACKS: ClassVar[dict[str, str]] = {}  # what the library itself does not have, by the name of the test
    IS_IDEMPOTENT: ClassVar[bool] = True

    @pytest.fixture(autouse=True)
    def able(self, request: pytest.FixtureRequest) -> None:
        reason = self.LACKS.get(request.node.originalname)
        if reason is not None:
            pytest.xfail(reason)

    def test_records(self, guest: Guest, broker: BrokerProcess) -> None:
        """Keys, headers and tombstones, produced and consumed with every codec."""
        for codec in CODECS:
            topic = broker.create_topic(f"records-{codec}")
            guest.run("produce", bootstrap=broker.bootstrap, topic=topic, codec=codec)
            judged(broker.bootstrap, topic)
            read_back(guest, broker.bootstrap, topic)

    def test_groups(self, guest: Guest, broker: BrokerProcess) -> None:
        """A group: two members share the partitions, one leaves, the other takes over and commits."""
        share_partitions(guest, broker.bootstrap, broker.create_topic("shared", len(PARTITIONS)))

    def test_times(self, guest: Guest, broker: BrokerProcess) -> None:
        """Offsets by time."""
        topic = broker.create_topic("times")
        produce(broker.bootstrap, topic, "abc", timestamps=[1_000, 2_000, 3_000])
        for timestamp, offset in ((500, 0), (2_000, 1), (2_001, 2)):
            answered = guest.run("times", bootstrap=broker.bootstrap, topic=topic, timestamp=timestamp)
            assert answered.of("offset") == [offset]

    def test_admin(self, guest: Guest, broker: BrokerProcess) -> None:
        """Admin: a topic created, configured, described, listed and deleted."""
        (said,) = guest.run("admin", bootstrap=broker.bootstrap, topic="administered").lines
        assert said == {"partitions": 3, "retention": "3600000", "listed": True, "deleted": True}

    def test_restart(self, guest: Guest, broker: BrokerProcess) -> None:
        """The broker killed (-9) and started again under a producer and a group: nothing is lost."""
        topic = broker.create_topic("restarted")
        survives(guest, broker.bootstrap, topic, broker, self.IS_IDEMPOTENT)

    def test_transactions(self, guest: Guest, broker: BrokerProcess) -> None:
        """Transactions, committed and aborted, read with read_committed."""
        topic = broker.create_topic("transactions")
        guest.run("transactions", bootstrap=broker.bootstrap, topic=topic)
        wanted = [f"committed-{n}" for n in range(10)]
        options = {"count": 10, "isolation": "read_committed"}
        said = guest.run("consume", bootstrap=broker.bootstrap, topic=topic, **options)
        assert said.of("value") == wanted
        with WatchedTopic(broker.bootstrap, topic) as seen:
            wait_for(lambda: len(seen.values) >= 10, WITHIN_S, "what was committed")
        assert seen.values == wanted

    def test_copy(self, guest: Guest, broker: BrokerProcess) -> None:
        """A topic copied in transactions that commit the group's offsets too."""
        source, target = (broker.create_topic(name, 2) for name in ("copied-from", "copied-to"))
        values = [f"value-{n}" for n in range(500)]
        produce(broker.bootstrap, source, values)
        options = {"topic": source, "target": target, "group": "copier", "count": len(values)}
        guest.run("copy", bootstrap=broker.bootstrap, **options)
        with WatchedTopic(broker.bootstrap, target) as seen:
            wait_for(lambda: len(seen.values) >= len(values), WITHIN_S, "the copies")
        assert sorted(seen.values) == sorted(values)
        assert committed(broker.bootstrap, "copier", source) == len(values)

    def test_secured(self, guest: Guest, tmp_path: Path) -> None:
        """SASL_SSL with SCRAM-SHA-512: produced and consumed."""
        authority = tmp_path / "ca.pem"
        authority.write_text(AUTHORITY.pem)
        with secure_broker(tmp_path) as broker:
            topic = broker.create_topic("secured")
            login = {"user": "alice", "password": "alice-secret", "ca": str(authority)}
            guest.run("produce", bootstrap=broker.secure_with_tls, topic=topic, codec="none", **login)
            judged(broker.bootstrap, topic)
            read_back(guest, broker.secure_with_tls, topic, **login)

    def test_cluster(self, guest: Guest, cluster: RealCluster) -> None:
        """A cluster of three: the leader killed (-9) under a producer and a group: nothing is lost."""
        topic = cluster.create_topic("clustered", 1)
        leader = cluster.brokers[cluster.leader(topic)]

        def wait_for_another() -> None:
            wait_for(lambda: cluster.leader(topic) != leader.id, WITHIN_S, "another leader")

        survives(guest, cluster.bootstrap, topic, leader, self.IS_IDEMPOTENT, wait_for_another)
        share_partitions(guest, cluster.bootstrap, cluster.create_topic("shared", len(PARTITIONS)))


def judged(bootstrap: str, topic: str) -> None:
    """The records are there, as librdkafka sees them."""
    wanted = records()
    with WatchedTopic(bootstrap, topic) as seen:
        wait_for(lambda: len(seen.messages) >= len(wanted), WITHIN_S, f"{topic} has the records")
    assert [
        (
            message.key().decode(),
            None if message.value() is None else message.value().decode(),
            {name: value.decode() for name, value in message.headers() or ()},
        )
        for message in seen.messages
    ] == wanted


def read_back(guest: Guest, bootstrap: str, topic: str, **login: str) -> None:
    wanted = records()
    said = guest.run("consume", bootstrap=bootstrap, topic=topic, count=len(wanted), **login)
    assert [(line["key"], line["value"], line["headers"]) for line in said.lines] == wanted


def share_partitions(guest: Guest, bootstrap: str, topic: str) -> None:
    values = [f"value-{n}" for n in range(200)]
    options = {"bootstrap": bootstrap, "topic": topic, "group": f"group-of-{topic}"}
    with guest.started("member", **options) as first, guest.started("member", **options) as second:
        wait_for(
            lambda: first.partitions and second.partitions and _shared(first, second), WITHIN_S,
            lambda: f"both: {first.lines[-3:]} {second.lines[-3:]}\n{first.said}\n{second.said}",
        )  # fmt: skip
        produce(bootstrap, topic, values[:100], keys=values[:100])
        wait_for(lambda: len(_values(first, second)) >= 100, WITHIN_S, "what the first half sent")
        second.finish()
        wait_for(lambda: first.partitions == PARTITIONS, WITHIN_S, lambda: f"all of them: {first.said}")
        produce(bootstrap, topic, values[100:], keys=values[100:])
        wait_for(lambda: len(_values(first, second)) >= 200, WITHIN_S, "what the second half sent")
        first.finish()
        assert sorted(_values(first, second)) == sorted(values)
    assert committed(bootstrap, options["group"], topic) == len(values)


def _shared(*members: Running) -> bool:
    return sorted(number for member in members for number in member.partitions) == PARTITIONS


def _values(*members: Running) -> list[str]:
    return [value for member in members for value in member.of("value")]


def survives(
    guest: Guest,
    bootstrap: str,
    topic: str,
    leader: OttlaProcess,
    is_idempotent: bool,
    wait_before_start: Callable[[], None] = lambda: None,
) -> None:
    """The leader is killed under a producer and a group, and started again."""
    options = {"bootstrap": bootstrap, "topic": topic}
    with guest.started("member", group=f"readers-of-{topic}", **options) as reader:
        with guest.started("steady", count=STEADY, **options) as writer:
            wait_for(lambda: len(writer.of("acked")) > 50, WITHIN_S, lambda: f"acks\n{writer.said}")
            leader.kill()
            assert len(writer.of("acked")) < STEADY, "the kill came too late to mean something"
            wait_before_start()
            leader.start()
            writer.wait()
        acked = [str(number) for number in writer.of("acked")]
        assert len(acked) == STEADY
        with WatchedTopic(bootstrap, topic) as seen:
            wait_for(lambda: set(seen.values) >= set(acked), WITHIN_S, "all that was acknowledged")
            wait_for(
                lambda: set(reader.of("value")) >= set(acked), WITHIN_S,
                lambda: f"the group to read all: {len(reader.of('value'))}\n{reader.said}",
            )  # fmt: skip
        if is_idempotent:
            assert seen.values == acked
        reader.finish()
