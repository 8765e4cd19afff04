"""Quotas in a cluster: set on one broker, they hold on all, and stay when brokers go."""

import uuid
from collections.abc import Iterator

import pytest
from tests.api.asking import batch
from tests.api.test_client_quotas import entry
from tests.cluster.real import START_S, RealBroker, RealCluster
from tests.cluster.test_forgery import connect
from tests.kafka_clients.wire_client import produce_request
from tests.support.waiting import wait_for

from ottla.base.errors import ErrorCode
from ottla.wire.messages.alter_client_quotas import AlterClientQuotasRequest
from ottla.wire.messages.describe_client_quotas import ComponentData, DescribeClientQuotasRequest


def set_quota(broker: RealBroker, value: float | None, **entity: str | None) -> None:
    change = entry({"producer_byte_rate": value}, **entity)
    with connect(broker) as wire:
        (result,) = wire.call(AlterClientQuotasRequest(entries=[change], validate_only=False), 1).entries
    assert result.error_code == ErrorCode.NONE, result.error_message


def rate_on(broker: RealBroker, user: str, client_id: str) -> float | None:
    named = {"user": user, "client-id": client_id}
    components = [ComponentData(entity_type=kind, match_type=0, match=name) for kind, name in named.items()]
    with connect(broker) as wire:
        entries = wire.call(DescribeClientQuotasRequest(components=components, strict=True), 1).entries
    return entries[0].values[0].value if entries else None


@pytest.fixture
def user(cluster: RealCluster) -> Iterator[str]:
    """Who has a quota for the client `wire`, which is removed in the end."""
    user = f"ANONYMOUS-{uuid.uuid4().hex[:6]} */"
    yield user
    set_quota(cluster.brokers[1], None, user=user, client_id="wire")


def test_a_quota_reaches_all_brokers_and_outlives_them(cluster: RealCluster, user: str) -> None:
    def is_known(rate: float) -> bool:
        return {rate_on(broker, user, "wire") for broker in cluster.brokers.values()} == {rate}

    set_quota(cluster.brokers[1], 12_345.0, user=user, client_id="wire")
    wait_for(lambda: is_known(12_345.0), START_S, "all know the quota")
    set_quota(cluster.brokers[2], 5_000.0, user=user)
    set_quota(cluster.brokers[3], 23_456.0, user=user, client_id="wire")
    second = cluster.brokers[2]
    second.kill()
    second.start()
    wait_for(lambda: is_known(23_456.0), START_S, "it is read at a start")
    set_quota(cluster.brokers[1], None, user=user)


def test_every_leader_throttles_clients_and_no_follower(cluster: RealCluster) -> None:
    topic = cluster.create_topic(f"throttled-{uuid.uuid4().hex[:6]}", 3)
    cluster.wait_settled()
    set_quota(cluster.brokers[1], 2_000.0, user=None)
    try:
        for partition in range(3):
            with connect(cluster.brokers[cluster.leader(topic, partition)]) as wire:
                answer = wire.call(produce_request(topic, batch("x" * 30_000), partition), 9)
            reply = answer.responses[0].partition_responses[0]
            assert (reply.error_code, answer.throttle_time_ms > 0) == (ErrorCode.NONE, True)
        cluster.wait_settled()
    finally:
        set_quota(cluster.brokers[1], None, user=None)
