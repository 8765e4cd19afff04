"""Short ways to say the requests that the tests send often."""

from typing import Any

from tests.api.harness import NOW, OTHER_BROKER, Client, Machine, Pending

from ottla.base.errors import ErrorCode
from ottla.base.ids import ZERO_UUID
from ottla.controller import znodes
from ottla.controller.keeper import Create, Put
from ottla.records.batch import split
from ottla.records.builder import NewRecord, build_batch
from ottla.records.record import Record, read_records
from ottla.wire.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from ottla.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic, PartitionData
from ottla.wire.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    TopicProduceData,
)

BY_NAME = 12  # the last version of Produce and of Fetch that names topics


def batch(*values: str, at: int = NOW, key: bytes | None = b"k", **fields: Any) -> bytes:
    """A record batch; every record at the same time."""
    records = [NewRecord(key, value.encode(), (), at) for value in values or ("v",)]
    return bytes(build_batch(records, **fields))


def idempotent(sequence: int, *values: str, producer_id: int = 7, epoch: int = 0, **fields: Any) -> bytes:
    return batch(*values, producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence, **fields)


def create(client: Client, name: str, partitions: int = 1, **configs: str) -> bytes:
    """A topic, with configs spelled with underscores; answers its id."""
    pending = begin_to_create(client, name, partitions, **configs)
    while pending.answer is None:
        go_on(client.machine)
    (result,) = pending.answer.topics
    assert result.error_code == ErrorCode.NONE, result
    topic_id: bytes = result.topic_id
    return topic_id


def begin_to_create(client: Client, name: str, partitions: int = 1, **configs: str) -> Pending:
    """A topic, of which all logs may not be made yet."""
    return client.ask(CreateTopicsRequest(topics=[new_topic(name, partitions, **configs)]))


def go_on(machine: Machine) -> None:
    """What the shell does when a deadline has come."""
    due_ms = machine.broker.next_deadline_ms()
    assert due_ms is not None
    assert due_ms <= machine.now_ms
    machine.broker.on_deadline(machine.now_ms)
    machine.carry_out()


def new_topic(name: str, partitions: int = -1, replication: int = -1, **configs: str) -> CreatableTopic:
    return CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=replication,
        configs=[CreatableTopicConfig(name=key.replace("_", "."), value=configs[key]) for key in configs],
    )


def to(
    topic: str, *batches: bytes | None, acks: int = -1, timeout_ms: int = 1000, topic_id: bytes = ZERO_UUID
) -> ProduceRequest:
    """A produce of one batch to each of a topic's first partitions."""
    partitions = [PartitionProduceData(index=index, records=one) for index, one in enumerate(batches)]
    data = [TopicProduceData(name=topic, topic_id=topic_id, partition_data=partitions)]
    return ProduceRequest(acks=acks, timeout_ms=timeout_ms, topic_data=data)


def produce(
    client: Client, topic: str, *batches: bytes, version: int = BY_NAME, **more: Any
) -> PartitionProduceResponse:
    """Produce to partition 0 (or to each of the first partitions); the answer for the first."""
    answer = client.send(to(topic, *(batches or (batch(),)), **more), version)
    found: PartitionProduceResponse = answer.responses[0].partition_responses[0]
    return found


def fetch_of(
    *wanted: tuple[str | bytes, int, int],
    max_wait_ms: int = 0,
    min_bytes: int = 1,
    partition_max_bytes: int = 1 << 20,
    current_leader_epoch: int = -1,
    last_fetched_epoch: int = -1,
    **more: Any,
) -> FetchRequest:
    """A fetch of (topic, partition, offset); a topic in bytes is an id."""
    topics: list[FetchTopic] = []
    for topic, partition, offset in wanted:
        name, topic_id = ("", topic) if isinstance(topic, bytes) else (topic, ZERO_UUID)
        if not topics or (topics[-1].topic, topics[-1].topic_id) != (name, topic_id):
            topics.append(FetchTopic(topic=name, topic_id=topic_id))
        topics[-1].partitions.append(
            FetchPartition(
                partition=partition,
                fetch_offset=offset,
                partition_max_bytes=partition_max_bytes,
                current_leader_epoch=current_leader_epoch,
                last_fetched_epoch=last_fetched_epoch,
            )
        )
    return FetchRequest(max_wait_ms=max_wait_ms, min_bytes=min_bytes, topics=topics, **more)


def fetch(
    client: Client, topic: str | bytes, offset: int = 0, *, partition: int = 0, **more: Any
) -> PartitionData:
    """Fetch from one partition, at once; its part of the answer."""
    version = None if isinstance(topic, bytes) else BY_NAME
    answer = client.send(fetch_of((topic, partition, offset), **more), version)
    found: PartitionData = answer.responses[0].partitions[0]
    return found


def records(part: PartitionData) -> list[Record]:
    view = memoryview(bytes(part.records or b""))
    return [record for header, one in split(view) for record in read_records(one, header)]


def values(part: PartitionData) -> list[str]:
    return [(record.value or b"").decode() for record in records(part)]


def parts(answer: Any) -> dict[tuple[str, int], PartitionData]:
    """The partitions of a fetch answer, by topic and partition."""
    return {
        (topic.topic, part.partition_index): part for topic in answer.responses for part in topic.partitions
    }


def lead(machine: Machine, topic: str, *, leader: int, epoch: int, isr: tuple[int, ...] = (1,)) -> None:
    """The controller, which is another broker, gives all partitions of a topic to a leader, in an epoch."""
    machine.give_up_the_seat()
    known = machine.broker.image.topics[topic]
    states = dict.fromkeys(known.assignment, (leader, epoch, isr))
    machine.write(Put(znodes.state_path(topic), znodes.state_node(1, states)))


def ask_for_two_in_sync(machine: Machine, topic: str) -> None:
    """Every partition of the topic gets a second replica, on a broker that is not there, and
    min.insync.replicas=2."""
    known, path = machine.broker.image.topics[topic], znodes.topic_config_path(topic)
    assignment = dict.fromkeys(known.assignment, (machine.broker.id, OTHER_BROKER))
    machine.write(Put(znodes.topic_path(topic), znodes.topic_node(known.id, assignment)))
    config = znodes.config_node(machine.broker.image.topic_config(topic) | {"min.insync.replicas": "2"})
    machine.write(Put(path, config) if path in machine.keeper.nodes else Create(path, config))
