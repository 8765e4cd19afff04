"""A whole broker with groups, for tests of their requests."""

from typing import Any

from tests.api.asking import create
from tests.api.harness import Client, Machine
from tests.support.groups import G, fetching, find, joining, syncing

from ottla.api.table import TABLE
from ottla.base.ids import OFFSETS_TOPIC
from ottla.broker.broker import Broker
from ottla.controller import znodes
from ottla.controller.keeper import Create, Put


def broker(**properties: str) -> tuple[Machine, Client, bytes]:
    """A broker with a topic `t` of two partitions and few shards; a client; the topic's id."""
    given = {key.replace("_", "."): properties[key] for key in properties}
    machine = Machine({"offsets.topic.num.partitions": "5", **given})
    client = machine.client()
    topic_id = create(client, "t", partitions=2)
    client.send(find(G), 2)
    return machine, client, topic_id


def committed(client: Client, group: str = G, partition: int = 0, topic: str = "t") -> int:
    answer = client.send(fetching(partition, group=group, topic=topic), 5)
    offset: int = answer.topics[0].partitions[0].committed_offset
    return offset


def stable(machine: Machine, client: Client, group: str = G) -> str:
    """A classic group with one member, in generation 1; its id."""
    member: str = client.send(joining(group=group)).member_id
    joined = client.ask(joining(member, group=group))
    machine.pass_time(3_000)
    assert joined.answer.generation_id == 1
    synced = client.send(syncing(member, 1, {member: b"all of it"}, group=group))
    assert synced.assignment == b"all of it"
    return member


def flush_every_commit(machine: Machine) -> None:
    """From now on the offsets topic is committed only when it is synced."""
    path = znodes.topic_config_path(OFFSETS_TOPIC)
    is_new = machine.keeper.nodes.get(path) is None
    configs = {**machine.broker.image.topic_config(OFFSETS_TOPIC), "flush.messages": "1"}
    data = znodes.config_node(configs)
    machine.write(Create(path, data) if is_new else Put(path, data))


def lead_offsets(machine: Machine, *, leader: int, epoch: int, isr: tuple[int, ...] = (1,)) -> None:
    machine.give_up_the_seat()
    assignment = machine.broker.image.topics[OFFSETS_TOPIC].assignment
    states = dict.fromkeys(assignment, (leader, epoch, isr))
    machine.write(Put(znodes.state_path(OFFSETS_TOPIC), znodes.state_node(1, states)))


def shard_of(machine: Machine, group: str = G) -> Any:
    the_broker: Broker = machine.broker
    return the_broker.coordinators.groups.shard_of(group)


def versions(key: int) -> list[int]:
    low, high = TABLE[key].versions
    return list(range(low, high + 1))
