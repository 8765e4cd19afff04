"""A consumer group's own timeouts, as configs of the resource type GROUP: they are kept, and take effect."""

import pytest
from tests.api.groups import broker, shard_of
from tests.api.harness import Client, Machine
from tests.api.test_alter_configs import APPEND, DELETE, GROUP, SET, alteration, change, set_configs
from tests.support.groups import G, committing, consuming

from ottla.base.errors import ErrorCode
from ottla.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatResponse
from ottla.wire.messages.list_config_resources import ListConfigResourcesRequest

INTERVAL, SESSION = "consumer.heartbeat.interval.ms", "consumer.session.timeout.ms"


def beat(client: Client, epoch: int) -> ConsumerGroupHeartbeatResponse:
    answer: ConsumerGroupHeartbeatResponse = client.send(consuming("m", epoch))
    assert answer.error_code == ErrorCode.NONE, answer
    return answer


def pass_time(machine: Machine, ms: int) -> None:
    """In steps, as a broker's clock goes: time in which the broker itself stood still is nobody's silence."""
    while ms > 0:
        step_ms = min(ms, 250)
        machine.pass_time(step_ms)
        ms -= step_ms


def is_there(machine: Machine) -> bool:
    return "m" in shard_of(machine).groups[G].members


def test_a_group_that_is_joined_later_has_its_own_timeouts() -> None:
    machine, client, _ = broker()
    set_configs(client, GROUP, G, {INTERVAL: "7000", SESSION: "50000"})
    assert beat(client, 0).heartbeat_interval_ms == 7000
    pass_time(machine, 49_999)
    assert is_there(machine)
    pass_time(machine, 1)
    assert not is_there(machine)


def test_a_live_group_gets_new_timeouts_with_the_next_heartbeat() -> None:
    machine, client, _ = broker()
    assert beat(client, 0).heartbeat_interval_ms == 5000
    set_configs(client, GROUP, G, {INTERVAL: "7000", SESSION: "60000"})
    assert beat(client, 1).heartbeat_interval_ms == 7000
    pass_time(machine, 59_999)
    assert is_there(machine)
    assert change(client, GROUP, G, (SESSION, DELETE, None), (INTERVAL, DELETE, None)) == ErrorCode.NONE
    assert beat(client, 1).heartbeat_interval_ms == 5000
    pass_time(machine, 45_000)
    assert not is_there(machine)


def test_other_groups_are_left_alone() -> None:
    _, client, _ = broker()
    set_configs(client, GROUP, "another", {INTERVAL: "7000"})
    assert beat(client, 0).heartbeat_interval_ms == 5000


@pytest.mark.parametrize("stop", [Machine.restart, Machine.crash])
def test_a_groups_timeouts_outlive_a_restart(stop) -> None:  # type: ignore[no-untyped-def]
    machine, client, _ = broker()
    beat(client, 0)
    set_configs(client, GROUP, G, {INTERVAL: "7000"})
    stop(machine)
    assert beat(machine.client(), 1).heartbeat_interval_ms == 7000


def test_a_value_that_was_stored_under_other_limits_counts_as_the_nearest_allowed() -> None:
    machine, client, _ = broker(group_consumer_max_heartbeat_interval_ms="20000")
    set_configs(client, GROUP, G, {INTERVAL: "20000", SESSION: "60000"})
    del machine.properties["group.consumer.max.heartbeat.interval.ms"]
    machine.restart()
    client = machine.client()
    assert beat(client, 0).heartbeat_interval_ms == 15_000
    pass_time(machine, 59_999)
    assert is_there(machine)


def test_a_group_that_changes_protocol_has_its_own_timeouts_too() -> None:
    _, client, _ = broker()
    client.send(committing(1), 2)
    set_configs(client, GROUP, G, {INTERVAL: "7000"})
    assert beat(client, 0).heartbeat_interval_ms == 7000


@pytest.mark.parametrize("group", ["a/b", ".", "..", "%2F", "<default>", "käfer 🪲", "a b"])
def test_a_group_may_be_called_anything(group: str) -> None:
    machine, client, _ = broker()
    set_configs(client, GROUP, group, {INTERVAL: "7000"})
    machine.restart()
    listed = machine.client().send(ListConfigResourcesRequest(resource_types=[GROUP])).config_resources
    assert [one.resource_name for one in listed] == [group]
    (path,) = (path for path in machine.keeper.nodes if path.startswith("/config/groups/"))
    assert path.count("/") == 3
    assert path.rpartition("/")[2].isascii()


def test_all_of_a_groups_values_are_replaced_by_the_older_request() -> None:
    machine, client, _ = broker()
    set_configs(client, GROUP, G, {INTERVAL: "7000", SESSION: "50000"})
    (result,) = client.send(alteration((GROUP, G, {SESSION: "55000"}))).responses
    assert result.error_code == ErrorCode.NONE
    assert machine.broker.image.group_config(G) == {SESSION: "55000"}
    assert client.send(alteration((GROUP, G, {}))).responses[0].error_code == ErrorCode.NONE
    assert client.send(ListConfigResourcesRequest(resource_types=[GROUP])).config_resources == []


def test_a_heartbeat_interval_must_be_shorter_than_the_session() -> None:
    _, client, _ = broker(
        group_consumer_max_heartbeat_interval_ms="50000", group_consumer_min_session_timeout_ms="10000"
    )
    assert change(client, GROUP, G, (INTERVAL, SET, "45000")) == ErrorCode.INVALID_CONFIG
    assert change(client, GROUP, G, (INTERVAL, SET, "30000"), (SESSION, SET, "30001")) == ErrorCode.NONE
    assert change(client, GROUP, G, (SESSION, APPEND, "1")) == ErrorCode.INVALID_CONFIG
