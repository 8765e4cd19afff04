"""Hostile clients of a real cluster, beside a producer with acks=all and a consumer, who must not notice.

What they do is what `tests/hostile` does to one broker, each at its worst.
"""

import contextlib
import re
from collections.abc import Callable, Iterator
from functools import partial

import pytest
from tests.cluster.real import START_S, RealBroker, RealCluster
from tests.cluster.test_unreadable import can_commit
from tests.group.forgeries import UNREADABLE
from tests.hostile.healthy import TOPIC, Healthy, Peak
from tests.hostile.largest import largest_requests
from tests.hostile.test_answers import LARGEST, outcome
from tests.hostile.test_batches import INVALID, INVALID_RECORD, heavy
from tests.hostile.test_memory import JOIN_VERSION, joining
from tests.kafka_clients.harness import BUGS
from tests.kafka_clients.wire_client import Closed, Wire, batch, fetch_request, frame_of
from tests.support.waiting import wait_for

from ottla.base.errors import ErrorCode
from ottla.base.ids import OFFSETS_TOPIC, TopicPartition
from ottla.records.builder import NewRecord, build_batch
from ottla.wire.messages.alter_partition import AlterPartitionRequest
from ottla.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from ottla.wire.messages.find_coordinator import FindCoordinatorRequest

MEBIBYTE = 1 << 20
READERS = 200  # what they leave unread is more than the 128 MiB that they may
MEMBERS = 40
PRODUCER_IDS = 2_000
ATTACKED = "attacked"
UNREAD = "unread"


def leader(cluster: RealCluster) -> RealBroker:
    return cluster.brokers[cluster.leader(ATTACKED)]


def write_to_internal_topics(cluster: RealCluster) -> None:
    for broker in cluster.brokers.values():
        with Wire(broker.port) as wire:
            for record in UNREADABLE.values():
                forged = bytes(build_batch([NewRecord(record.key, record.value)]))
                assert wire.produce(OFFSETS_TOPIC, forged).error_code == ErrorCode.INVALID_TOPIC_EXCEPTION


def produce_work(cluster: RealCluster) -> None:
    with Wire(leader(cluster).port) as wire:
        for sent, code in heavy().values():
            assert wire.produce(ATTACKED, sent).error_code == code


def produce_what_nobody_can_read(cluster: RealCluster) -> None:
    with Wire(leader(cluster).port) as wire:
        assert {wire.produce(ATTACKED, sent).error_code for sent in INVALID.values()} == {INVALID_RECORD}


def ask_for_everything(cluster: RealCluster) -> None:
    """The largest requests of several APIs, to all brokers at once."""
    frames = [frame_of(request, version) for _, request, version in largest_requests(*LARGEST)]
    with contextlib.ExitStack() as stack:
        wires = []
        for number, frame in enumerate(frames):
            broker = cluster.brokers[1 + number % len(cluster.brokers)]
            wires.append(stack.enter_context(Wire(broker.port, timeout_s=120)))
            wires[-1].send_bytes(frame)
        assert "closed" not in [outcome(wire) for wire in wires]


def never_read(cluster: RealCluster) -> None:
    """They stay until some are closed. Each leaves one batch of 2 MiB unread, less what the kernel takes,
    also if the broker answers all of them in one round of its loop: fetches then get no more."""
    broker = cluster.brokers[cluster.leader(UNREAD)]
    with Wire(broker.port) as wire:
        for _ in range(4):
            assert wire.produce(UNREAD, bytes(batch(b"x" * 2 * MEBIBYTE))).error_code == 0
    frame = frame_of(fetch_request(UNREAD, partition_max_bytes=100 * MEBIBYTE), 11)
    with contextlib.ExitStack() as stack:
        for _ in range(READERS):
            wire = stack.enter_context(Wire(broker.port))
            with contextlib.suppress(Closed):
                wire.send_bytes(frame * 4)
        closed = re.compile(r"WARNING .* closed: it has left \d+ bytes unread .*ottla.unsent.max.bytes")
        wait_for(lambda: closed.search(broker.log) is not None, 60, "the slowest readers are closed")


def join_with_much_to_say(cluster: RealCluster) -> None:
    broker = cluster.brokers[1]
    with Wire(broker.port) as wire:
        for number in range(MEMBERS):
            found = wire.call(FindCoordinatorRequest(key=f"g{number}", key_type=0), 2)
            assert found.error_code == ErrorCode.NONE
            with Wire(found.port) as coordinator:
                answer = coordinator.call(joining(f"g{number}", 15 * MEBIBYTE), JOIN_VERSION)
                assert answer.error_code == ErrorCode.INVALID_REQUEST
                answer = coordinator.call(joining(f"g{number}", MEBIBYTE - 1000), JOIN_VERSION)
                assert answer.error_code == ErrorCode.NONE


def subscribe_to_a_hard_pattern(cluster: RealCluster) -> None:
    codes = set()
    for broker in cluster.brokers.values():
        with Wire(broker.port) as wire:
            for number in range(50):
                request = ConsumerGroupHeartbeatRequest(
                    group_id=f"pattern-{number}", member_id=f"m{number}", member_epoch=0,
                    rebalance_timeout_ms=1000, subscribed_topic_regex="(.?){999}b", topic_partitions=[],
                )  # fmt: skip
                codes.add(wire.call(request, 1).error_code)
    assert codes == {ErrorCode.NOT_COORDINATOR, ErrorCode.INVALID_REGULAR_EXPRESSION}


def make_up_producers(cluster: RealCluster) -> None:
    with Wire(leader(cluster).port) as wire:
        for number in range(PRODUCER_IDS):
            made = build_batch([NewRecord(None, b"v")], producer_id=number, producer_epoch=0, base_sequence=0)
            assert wire.produce(ATTACKED, bytes(made), acks=1).error_code == ErrorCode.NONE


def act_as_a_broker(cluster: RealCluster) -> None:
    for broker in cluster.brokers.values():
        with Wire(broker.port) as wire:
            for epoch in range(500):
                answer = wire.call(AlterPartitionRequest(broker_id=1, broker_epoch=epoch), 3)
                assert answer.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
            request = fetch_request(ATTACKED)
            request.replica_id = 2
            (part,) = wire.call(request, 11).responses[0].partitions
            assert part.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED


ATTACKS: list[Callable[[RealCluster], None]] = [
    write_to_internal_topics,
    produce_what_nobody_can_read,
    produce_work,
    ask_for_everything,
    never_read,
    join_with_much_to_say,
    subscribe_to_a_hard_pattern,
    make_up_producers,
    act_as_a_broker,
]


@pytest.fixture(scope="module")
def attacked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealCluster]:
    """A cluster with the default budgets."""
    cluster = RealCluster(tmp_path_factory.mktemp("attacked"))
    try:
        cluster.start()
        cluster.create_topic(TOPIC, 1)
        cluster.create_topic(ATTACKED, 1)
        cluster.create_topic(UNREAD, 1, max_message_bytes=str(3 * MEBIBYTE))
        place = TopicPartition(TOPIC, 0)
        wait_for(partial(can_commit, cluster, "honest", place, 1), START_S, "the first commit")
        cluster.wait_settled()
        yield cluster
    finally:
        cluster.stop()


def test_no_hostile_client_keeps_others_waiting_and_the_cluster_starts_again(attacked: RealCluster) -> None:
    heavy()  # takes seconds to make
    with attacked.explained():
        with Peak(attacked) as peak:
            for attack in ATTACKS:
                with Healthy(attacked) as healthy:
                    attack(attacked)
                print(attack.__name__, healthy.summary())
        assert peak.rss_bytes < 1024 * MEBIBYTE
        for broker in attacked.brokers.values():
            broker.stop()
        for broker in attacked.brokers.values():
            broker.launch()
        for broker in attacked.brokers.values():
            broker.wait_ready()
        attacked.wait_settled()
        with Healthy(attacked):
            wait_for(
                partial(can_commit, attacked, "honest", TopicPartition(TOPIC, 0), 2), START_S, "a commit"
            )
        logs = "".join(broker.log for broker in attacked.brokers.values())
        assert BUGS.search(logs) is None
