"""A follower's fetch that waits: nothing is missed that is written while it is being counted."""

from typing import Any

from tests.api.asking import batch, create, fetch_of
from tests.api.harness import Machine
from tests.support.endpoints import plaintext

from ottla.base.ids import TopicPartition
from ottla.broker.parked import Parked
from ottla.controller import znodes
from ottla.controller.keeper import Put
from ottla.controller.registration import registration
from ottla.wire.messages.fetch import ReplicaState

FOLLOWER = 2
WAITED_FOR, WRITTEN = TopicPartition("t", 1), TopicPartition("t", 0)


def test_what_is_written_because_of_what_a_follower_tells_is_its_answer() -> None:
    """As a coordinator does: the high watermark of its partition moves, and it writes to another one."""
    machine = Machine()
    client = machine.client()
    topic_id = create(client, "t", 2)
    for operation in registration(
        FOLLOWER, plaintext("b2", 9092), None, is_clean=True, clean_since=0, lost=()
    ):
        machine.write(operation)
    machine.write(Put(znodes.topic_path("t"), znodes.topic_node(topic_id, {0: (1, 2), 1: (1, 2)})))
    machine.give_up_the_seat()
    states = {0: (1, 1, (1, 2)), 1: (1, 1, (1, 2))}
    machine.write(Put(znodes.state_path("t"), znodes.state_node(1, states)))
    broker = machine.broker

    def append(topic_partition: TopicPartition, now_ms: int) -> None:
        broker.replicas.append(
            broker.partitions[topic_partition], memoryview(bytearray(batch("a"))), acks=1, now_ms=now_ms,
            wall_ms=now_ms, produce_version=13,
        )  # fmt: skip

    def write(_key: Any, now_ms: int) -> bool:
        append(WRITTEN, now_ms)
        return True

    append(WAITED_FOR, machine.now_ms)
    broker.waiting.park(
        Parked(
            keys=(WAITED_FOR,), deadline_ms=1 << 60, ready=write, expire=lambda _now_ms: None,
            reply=lambda _answer: None,
        )
    )  # fmt: skip
    request = fetch_of((topic_id, 0, 0), (topic_id, 1, 1), max_wait_ms=500)
    request.replica_state = ReplicaState(replica_id=FOLLOWER, replica_epoch=broker.image.epoch_of(FOLLOWER))
    for topic in request.topics:
        for partition in topic.partitions:
            partition.current_leader_epoch = 1
    fetched = machine.client().as_broker(FOLLOWER).ask(request)
    assert broker.partitions[WAITED_FOR].high_watermark == 1
    assert fetched.answer is not None, "it need not wait: there is something in the other partition"
    records = {part.partition_index: part.records for part in fetched.answer.responses[0].partitions}
    assert records[0]
