"""What clients ask about a cluster besides its records, and how they hear of single wrong records."""

from collections.abc import Callable

import confluent_kafka
import kafka
import pytest
from confluent_kafka.admin import AclOperation, ConfigResource, ResourceType
from kafka.errors import KafkaError
from tests.kafka_clients.harness import BrokerProcess, wait_for
from tests.kafka_clients.wire_client import Wire

from ottla.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from ottla.wire.messages.find_coordinator import FindCoordinatorRequest
from ottla.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)

GROUP = 32

REASON = "a compacted topic takes no record without a key"


def test_a_producer_hears_which_records_of_its_batch_are_at_fault(broker: BrokerProcess, topic: str) -> None:
    broker.create_topic(topic, config={"cleanup.policy": "compact"})
    producer = kafka.KafkaProducer(bootstrap_servers=broker.bootstrap, linger_ms=60_000)
    try:
        sent = [producer.send(topic, b"v", key=key, partition=0) for key in (b"k", None, b"k", None)]
        producer.flush(60)
        heard = []
        for one in sent:
            with pytest.raises(KafkaError) as error:
                one.get(30)
            heard.append(str(error.value))
    finally:
        producer.close(30)
    assert [REASON in text for text in heard] == [False, True, False, True], heard
    assert "part of a batch" in heard[0]


def test_the_whole_batch_is_refused_for_clients_that_know_no_single_records(
    broker: BrokerProcess, topic: str
) -> None:
    broker.create_topic(topic, config={"cleanup.policy": "compact"})
    codes: list[int | None] = []
    producer = confluent_kafka.Producer({"bootstrap.servers": broker.bootstrap, "linger.ms": 2_000})
    for key in (b"k", None):
        producer.produce(
            topic, b"v", key, on_delivery=lambda error, _: codes.append(error.code() if error else None)
        )
    # Without flush(), which ends the linger at once and may send the first record alone.
    wait_for(lambda: producer.poll(0.1) >= 0 and len(codes) == 2, 60, "both are answered")
    assert codes == [confluent_kafka.KafkaError.INVALID_RECORD] * 2


def test_who_asks_is_told_which_operations_are_allowed(broker: BrokerProcess, topic: str) -> None:
    broker.create_topic(topic)
    names = confluent_kafka.TopicCollection([topic])
    described = broker.admin.describe_topics(names, include_authorized_operations=True)[topic].result(30)
    assert {AclOperation.READ, AclOperation.WRITE, AclOperation.ALTER_CONFIGS} <= set(
        described.authorized_operations
    )
    assert not broker.admin.describe_topics(names)[topic].result(30).authorized_operations
    cluster = broker.admin.describe_cluster(include_authorized_operations=True).result(30)
    assert set(cluster.authorized_operations) == {
        AclOperation.CREATE, AclOperation.ALTER, AclOperation.DESCRIBE, AclOperation.CLUSTER_ACTION,
        AclOperation.DESCRIBE_CONFIGS, AclOperation.ALTER_CONFIGS, AclOperation.IDEMPOTENT_WRITE,
    }  # fmt: skip


def test_a_topic_without_a_cleanup_policy_is_described_as_such(broker: BrokerProcess, topic: str) -> None:
    broker.create_topic(topic, config={"cleanup.policy": ""})
    wanted = ConfigResource(ResourceType.TOPIC, topic)
    configs = broker.admin.describe_configs([wanted])[wanted].result(30)
    assert configs["cleanup.policy"].value == ""


def test_a_groups_own_session_timeout_decides_when_a_silent_member_is_given_up(
    start_broker: Callable[..., BrokerProcess], topic: str
) -> None:
    """The broker would wait for ten minutes; the group's own second is what counts."""
    broker = start_broker(
        {
            "group.consumer.session.timeout.ms": "600000",
            "group.consumer.max.session.timeout.ms": "600000",
            "group.consumer.min.session.timeout.ms": "1000",
            "group.consumer.min.heartbeat.interval.ms": "100",
        }
    )
    broker.create_topic(topic, partitions=4)
    own = {"consumer.session.timeout.ms": "1000", "consumer.heartbeat.interval.ms": "100"}
    changes = [AlterableConfig(name=name, config_operation=0, value=value) for name, value in own.items()]
    group = AlterConfigsResource(resource_type=GROUP, resource_name="g", configs=changes)
    with Wire(broker.port) as wire:
        wire.call(FindCoordinatorRequest(key="g", key_type=0), 2)
        (result,) = wire.call(
            IncrementalAlterConfigsRequest(resources=[group], validate_only=False), 1
        ).responses
        assert result.error_code == 0, result
        ghost = ConsumerGroupHeartbeatRequest(
            group_id="g", member_id="ghost", member_epoch=0, rebalance_timeout_ms=300_000,
            subscribed_topic_names=[topic], topic_partitions=[],
        )  # fmt: skip
        joined = wait_for(lambda: _accepted(wire.call(ghost, 1)), what="the coordinator")
    assert joined.heartbeat_interval_ms == 100
    consumer = confluent_kafka.Consumer(
        {"bootstrap.servers": broker.bootstrap, "group.id": "g", "group.protocol": "consumer"}
    )
    try:
        consumer.subscribe([topic])

        def has_all() -> bool:
            consumer.poll(0.1)
            return len(consumer.assignment()) == 4

        wait_for(has_all, 120, "the partitions of the member that is silent")
    finally:
        consumer.close()


def _accepted(answer: ConsumerGroupHeartbeatResponse) -> ConsumerGroupHeartbeatResponse | None:
    return answer if answer.error_code == 0 else None


def test_the_indexes_of_the_segment_being_written_are_there(broker: BrokerProcess, topic: str) -> None:
    broker.create_topic(topic)
    producer = confluent_kafka.Producer({"bootstrap.servers": broker.bootstrap})
    producer.produce(topic, b"v", partition=0)
    assert producer.flush(60) == 0
    (segment,) = broker.segments(topic)
    wait_for(lambda: all(segment.with_suffix(suffix).exists() for suffix in (".index", ".timeindex")))
