"""aiokafka, which speaks only the old, inflexible versions: the contract, and its admin calls."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

import aiokafka.errors
import pytest
from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, NewTopic, RecordsToDelete
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from tests.kafka_clients.adapters import AioKafka, Client, Sent, take
from tests.kafka_clients.contract import ClientContract
from tests.kafka_clients.harness import BrokerProcess

T = TypeVar("T")


@pytest.fixture
def client(broker: BrokerProcess) -> Client:
    return AioKafka(broker.bootstrap)


class TestAioKafka(ClientContract):
    pass


def with_admin(broker: BrokerProcess, use: Callable[[AIOKafkaAdminClient], Awaitable[T]]) -> T:
    async def run() -> T:
        admin = AIOKafkaAdminClient(bootstrap_servers=broker.bootstrap)
        await admin.start()
        try:
            return await use(admin)
        finally:
            await admin.close()

    return asyncio.run(run())


def test_topics_are_created_described_listed_grown_and_deleted(broker: BrokerProcess, topic: str) -> None:
    async def use(admin: AIOKafkaAdminClient) -> None:
        created = await admin.create_topics([NewTopic(topic, 3, 1)])
        assert [(name, code) for name, code, _ in created.topic_errors] == [(topic, 0)]
        assert topic in await admin.list_topics()
        (described,) = await admin.describe_topics([topic])
        assert sorted(one["partition"] for one in described["partitions"]) == [0, 1, 2]
        assert {one["leader"] for one in described["partitions"]} == {1}
        grown = await admin.create_partitions({topic: NewPartitions(5)})
        assert [code for _, code, _ in grown.topic_errors] == [0]
        (described,) = await admin.describe_topics([topic])
        assert len(described["partitions"]) == 5
        deleted = await admin.delete_topics([topic])
        assert [code for _, code in deleted.topic_error_codes] == [0]
        assert topic not in await admin.list_topics()

    with_admin(broker, use)


def test_configs_are_described_and_replaced(broker: BrokerProcess, topic: str) -> None:
    broker.create_topic(topic, config={"retention.ms": "1000"})

    async def use(admin: AIOKafkaAdminClient) -> None:
        async def configs(kind: ConfigResourceType, name: str) -> dict[str, str]:
            (answer,) = await admin.describe_configs([ConfigResource(kind, name)])
            ((code, _, _, _, entries),) = answer.resources
            assert code == 0
            return {entry[0]: entry[1] for entry in entries}

        assert (await configs(ConfigResourceType.TOPIC, topic))["retention.ms"] == "1000"
        change = ConfigResource(ConfigResourceType.TOPIC, topic, {"max.message.bytes": "777"})
        (answer,) = await admin.alter_configs([change])
        assert [one[0] for one in answer.resources] == [0]
        found = await configs(ConfigResourceType.TOPIC, topic)
        assert (found["max.message.bytes"], found["retention.ms"]) == ("777", str(7 * 24 * 3_600_000))
        assert (await configs(ConfigResourceType.BROKER, "1"))["log.segment.bytes"] == str(1 << 30)

    with_admin(broker, use)


def test_records_are_deleted_and_the_cluster_described(
    broker: BrokerProcess, client: Client, topic: str
) -> None:
    client.produce(topic, [Sent(str(n).encode()) for n in range(10)])

    async def use(admin: AIOKafkaAdminClient) -> None:
        where = TopicPartition(topic, 0)
        assert await admin.delete_records({where: RecordsToDelete(before_offset=4)}) == {where: 4}
        cluster = await admin.describe_cluster()
        assert [(one["node_id"], one["port"]) for one in cluster["brokers"]] == [(1, broker.port)]

    with_admin(broker, use)
    with client.reader(topic) as reader:
        assert [one.offset for one in take(reader, 6)] == list(range(4, 10))


def test_an_offset_out_of_range_is_an_error_when_no_reset_is_wanted(
    broker: BrokerProcess, client: Client, topic: str
) -> None:
    client.produce(topic, [Sent(b"v")])

    async def run() -> None:
        consumer = AIOKafkaConsumer(
            bootstrap_servers=broker.bootstrap, enable_auto_commit=False, auto_offset_reset="none"
        )
        async with consumer:
            consumer.assign([TopicPartition(topic, 0)])
            consumer.seek(TopicPartition(topic, 0), 99)
            with pytest.raises(aiokafka.errors.OffsetOutOfRangeError):
                await asyncio.wait_for(consumer.getone(), 30)

    asyncio.run(run())
