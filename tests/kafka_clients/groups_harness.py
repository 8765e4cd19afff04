"""What the tests of groups share: settings of their broker, records, and what to wait for."""

import itertools
import threading
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Self, TypeAlias

import confluent_kafka
from confluent_kafka.admin import AdminClient
from tests.kafka_clients.groups_members import Member, Partition
from tests.kafka_clients.harness import BrokerProcess, wait_for

DEADLINE_S = 40.0
STABLE_S = 45.0  # a member id that was given out and never used holds a rebalance up for a session

# Short enough that a test waits for what it wants to see and not for a heartbeat.
SETTINGS = {
    # Long enough for kafka-python to have the metadata of its topics, or it joins a second time for that.
    "group.initial.rebalance.delay.ms": "250",
    "group.min.session.timeout.ms": "1000",
    "group.consumer.min.heartbeat.interval.ms": "50",
    "group.consumer.heartbeat.interval.ms": "100",
    "group.consumer.min.session.timeout.ms": "1000",
    "group.consumer.session.timeout.ms": "15000",
    "offsets.topic.num.partitions": "5",
    "offset.metadata.max.bytes": "100",
}

SHORT_SESSIONS = {**SETTINGS, "group.consumer.session.timeout.ms": "1000"}

Join: TypeAlias = Callable[..., Member]


def produce(broker: BrokerProcess, topic: str, values: Iterable[bytes], partitions: int) -> list[bytes]:
    """Spread over the partitions, in turn. What was sent."""
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": broker.bootstrap, "linger.ms": 2, "acks": "all"}
    )
    failed: list[Any] = []
    sent = list(values)
    for number, value in enumerate(sent):
        producer.produce(
            topic,
            value,
            partition=number % partitions,
            on_delivery=lambda error, _: failed.append(error) if error else None,
        )
    assert producer.flush(DEADLINE_S) == 0
    assert failed == []
    return sent


def numbered(count: int, name: str = "m") -> list[bytes]:
    return [f"{name}{n}".encode() for n in range(count)]


def everything(topic: str, partitions: int) -> frozenset[Partition]:
    return frozenset((topic, index) for index in range(partitions))


def wait_shared(members: Sequence[Member], whole: frozenset[Partition], sizes: Sequence[int]) -> None:
    """Until the members have all partitions, none twice, and as many each as `sizes` says, in any order."""

    def is_shared() -> bool:
        for member in members:
            if member.failure is not None:
                raise member.failure
        shares = [member.assigned for member in members]
        return (
            sorted(map(len, shares)) == sorted(sizes)
            and sum(map(len, shares)) == len(whole)
            and frozenset().union(*shares) == whole
        )

    try:
        wait_for(is_shared, STABLE_S, "the partitions to be shared")
    except AssertionError as error:
        shares = [sorted(member.assigned) for member in members]
        raise AssertionError(f"{error}: {shares}, errors {[member.errors for member in members]}") from None


def wait_members(broker: BrokerProcess, group: str, count: int) -> None:
    """Until so many are in it and it is stable: one that has not come yet has no partitions either."""

    def are_in() -> bool:
        found = broker.admin.describe_consumer_groups([group])[group].result(30)
        return found.state.name == "STABLE" and len(found.members) == count

    wait_for(are_in, STABLE_S, f"{count} members of {group}")


def wait_values(members: Sequence[Member], sent: Iterable[bytes]) -> None:
    """Until the members together have seen all of these."""
    wanted = set(sent)

    def are_there() -> bool:
        for member in members:
            if member.failure is not None:
                raise member.failure
        return wanted <= {value for member in members for value in member.values()}

    try:
        wait_for(are_there, DEADLINE_S, "records")
    except AssertionError as error:
        missing = wanted - {value for member in members for value in member.values()}
        raise AssertionError(f"{error}: {len(missing)} are missing, like {sorted(missing)[:3]}") from None


def state_of(admin: AdminClient, group: str) -> str:
    """As DescribeGroups or ConsumerGroupDescribe say."""
    found = admin.describe_consumer_groups([group])[group].result(30)
    return str(found.state.name)


def wait_stable(broker: BrokerProcess, group: str) -> None:
    wait_for(lambda: state_of(broker.admin, group) == "STABLE", STABLE_S, f"{group} to be stable")


def committed(broker: BrokerProcess, group: str) -> dict[Partition, int]:
    """As an administrator sees it."""
    asked = confluent_kafka.ConsumerGroupTopicPartitions(group)
    found = broker.admin.list_consumer_group_offsets([asked])[group].result(30)
    return {(one.topic, one.partition): one.offset for one in found.topic_partitions if one.offset >= 0}


class Stream:
    """Records, one after another, until it is left. `acknowledged` is what the broker promised to keep."""

    def __init__(self, broker: BrokerProcess, topic: str, partitions: int) -> None:
        self.acknowledged: list[bytes] = []
        self._producer = confluent_kafka.Producer(
            {
                "bootstrap.servers": broker.bootstrap,
                "enable.idempotence": True,
                "linger.ms": 1,
                "reconnect.backoff.max.ms": 200,
                "log_level": 0,
            }
        )
        self._topic, self._partitions = topic, partitions
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._flow, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._thread.join(DEADLINE_S)
        assert self._producer.flush(DEADLINE_S) == 0

    def wait_for_more(self, count: int = 20) -> None:
        """Until that many more are acknowledged."""
        enough = len(self.acknowledged) + count
        wait_for(lambda: len(self.acknowledged) >= enough, DEADLINE_S, "records to be acknowledged")

    def _flow(self) -> None:
        for number in itertools.count():
            if self._is_over.wait(0.005):
                return
            self._producer.produce(
                self._topic,
                f"s{number}".encode(),
                partition=number % self._partitions,
                on_delivery=self._note,
            )
            self._producer.poll(0)

    def _note(self, error: Any, message: Any) -> None:
        if error is None:
            self.acknowledged.append(message.value())
