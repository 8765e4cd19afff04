"""Several brokers joined by a pump: real cores, real frames, a clock moved by hand, and a test that plays the
controller.

    cluster = Cluster()                             brokers 1, 2 and 3, registered
    cluster.topic("t", (1, 2, 3))                   one partition; the first of its replicas leads
    cluster.client(1).ask(request, version)         a client of broker 1
    cluster.run()                                   carry messages until nothing more happens
    cluster.pass_time(ms)                           the same, while the clock moves
    cluster.state("t", leader=2, leader_epoch=1)    the controller writes another state
    cluster.cut(1, 2) / cluster.heal()              messages between them are lost
    cluster.make_deaf(1) / cluster.hear(1)          a broker that sees no changes of the keeper for a while
    cluster.restart(1) / cluster.crash(1)           the next incarnation, registered anew
    cluster.give_seat()                             from now on one of the brokers is the controller

Proposals of an ISR are written as they come (`decide`), unless `is_deciding` is taken away: then they wait in
`proposals`. The controller's seat is taken by nobody: broker 0, which is this test.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tests.api.harness import CLUSTER_ID, NOW, Client, Disk, Machine, Pending
from tests.log.simdisk import Keep, page_cache
from tests.support.endpoints import plaintext

from ottla.api.dispatch import Silence, on_request
from ottla.base.errors import ErrorCode
from ottla.base.files import Buffer
from ottla.base.ids import TopicPartition
from ottla.broker.broker import Broker
from ottla.broker.effects import Close, Probe, Send
from ottla.controller import znodes
from ottla.controller.keeper import Create, Delete, NodeChanged, Operation, Put, Written
from ottla.controller.registration import registration
from ottla.controller.tree import Tree
from ottla.controller.znodes import State
from ottla.replication.partition import Partition
from ottla.wire.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionResponse,
    PartitionData,
    PartitionDataResponse,
    TopicDataResponse,
)

CONTROLLER = 0
STEP_MS = 50
TOPIC_ID = b"i" * 16


@dataclass(eq=False)
class Proposal:
    """A proposed ISR that waits for a decision."""

    sender: int
    token: int
    request: AlterPartitionRequest


@dataclass(eq=False)
class Node(Machine):
    """One broker of the cluster, with its disk."""

    id: int = 1
    cluster: "Cluster" = None  # type: ignore[assignment]
    is_up: bool = True

    def start(self) -> None:
        self.disk.now_ms = self.now_ms
        self.broker = Broker(self.disk, self.random, dict(self.properties))
        self.reports = self.broker.open(self.keeper.load(), self.now_ms)
        self.is_up = True

    @property
    def session(self) -> int:
        return self.id

    def write(self, *operations: Operation) -> None:
        self.cluster.write(*operations)

    # Effects

    def reply(self, connection: int, chunks: list[Buffer]) -> None:
        if connection in self.cluster.asked:
            self.cluster.on_reply(connection, [b"".join(chunks)])
        else:
            super().reply(connection, chunks)

    def close(self, effect: Close) -> None:
        if effect.connection in self.clients:  # not a peer's: that one connects again
            super().close(effect)

    def tell(self, changed: list[NodeChanged]) -> None:
        self.cluster.tell(changed)

    def confirm_tree(self, asked_ms: int) -> None:
        if self.id not in self.cluster.deaf:
            super().confirm_tree(asked_ms)

    def send(self, effect: Send) -> None:
        self.cluster.on_send(self.id, effect.peer, effect.channel, effect.token, effect.request)

    def probe(self, effect: Probe) -> None:
        """It stays without an answer."""


@dataclass(eq=False)
class Cluster:
    brokers: tuple[int, ...] = (1, 2, 3)
    properties: dict[str, str] = field(default_factory=dict)
    racks: dict[int, str] = field(default_factory=dict)
    keeper: Tree = field(default_factory=Tree)
    now_ms: int = NOW
    is_deciding: bool = True
    decide: Callable[[PartitionData], ErrorCode] = lambda _one: ErrorCode.NONE
    nodes: dict[int, Node] = field(default_factory=dict)
    messages: list[Callable[[], None]] = field(default_factory=list)
    asked: dict[int, tuple[int, int, Pending]] = field(default_factory=dict)
    cuts: set[tuple[int, int]] = field(default_factory=set)
    deaf: dict[int, list[NodeChanged]] = field(default_factory=dict)
    proposals: list[Proposal] = field(default_factory=list)
    sent: list[tuple[int, int, Any]] = field(default_factory=list)
    _connections: int = 1_000

    def __post_init__(self) -> None:
        self.keeper.write(
            [
                Create(znodes.CLUSTER_ID, znodes.cluster_id_node(CLUSTER_ID)),
                Create(znodes.CONTROLLER_EPOCH, b"1"),
                Create(znodes.CONTROLLER, znodes.controller_node(CONTROLLER)),
                *registration(CONTROLLER, plaintext("controller", 9000), None),
            ],
            CONTROLLER,
        )
        for id in self.brokers:
            properties = {
                "broker.id": str(id),
                "broker.rack": self.racks.get(id, ""),
                "offsets.topic.replication.factor": str(min(3, len(self.brokers))),
                **self.properties,
            }
            self.nodes[id] = Node(properties, Disk(), self.keeper, self.now_ms, seed=id, id=id, cluster=self)
            self.register(id)

    # -- the keeper -------------------------------------------------------------------------------

    def register(self, id: int, *, is_clean: bool = True) -> None:
        rack = self.racks.get(id)
        lost = self.nodes[id].broker.store.lost if id in self.nodes else ()
        operations = registration(id, plaintext(f"host{id}", 9090 + id), rack, is_clean=is_clean, lost=lost)
        self.write(*operations, session=id)

    def write(self, *operations: Operation, session: int = CONTROLLER) -> None:
        changed, outcome = self.keeper.write(operations, session)
        assert outcome == Written(), outcome
        self.tell(changed)

    def tell(self, changed: list[NodeChanged]) -> None:
        for id, node in sorted(self.nodes.items()):
            if id in self.deaf:
                self.deaf[id] += changed
            elif node.is_up:
                node.broker.on_nodes(changed, self.now_ms)
                node.carry_out()

    def make_deaf(self, id: int) -> None:
        self.deaf[id] = []

    def hear(self, id: int) -> None:
        missed = self.deaf.pop(id)
        self.nodes[id].broker.on_nodes(missed, self.now_ms)
        self.nodes[id].carry_out()

    def topic(
        self, name: str, *replicas: tuple[int, ...], topic_id: bytes = TOPIC_ID, **configs: str
    ) -> None:
        assignment = dict(enumerate(replicas))
        states = {p: State(all_[0], 0, all_, 0, self.epochs(all_)) for p, all_ in assignment.items()}
        spelled = {key.replace("_", "."): value for key, value in configs.items()}
        self.write(
            Create(znodes.topic_path(name), znodes.topic_node(topic_id, assignment)),
            Create(znodes.state_path(name), znodes.state_node(1, states)),
            Create(znodes.topic_config_path(name), znodes.config_node(spelled)),
        )

    def epochs(self, brokers: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(self.keeper.nodes[znodes.BROKERS + str(id)].created for id in brokers)

    def states(self, topic: str) -> dict[int, State]:
        return znodes.parse_state_node(self.keeper.nodes[znodes.state_path(topic)][0])

    def state(self, topic: str, partition: int = 0, **fields: Any) -> None:
        """Write another state, as the controller would; broker epochs follow the ISR."""
        states = self.states(topic)
        before = states[partition]
        after = before._replace(**fields)
        if "isr_epochs" not in fields:
            known = dict(zip(before.isr, before.isr_epochs, strict=False))
            epochs = tuple(known.get(id, self.epochs((id,))[0]) for id in after.isr)
            after = after._replace(isr_epochs=epochs)
        states[partition] = after._replace(partition_epoch=before.partition_epoch + 1)
        self.write(Put(znodes.state_path(topic), znodes.state_node(1, states)))

    def give_seat(self) -> None:
        self.write(Delete(znodes.CONTROLLER))
        self.run()

    # -- brokers ----------------------------------------------------------------------------------

    def partition(self, id: int, topic: str = "t", index: int = 0) -> Partition:
        return self.nodes[id].broker.partitions[TopicPartition(topic, index)]

    def client(self, id: int) -> Client:
        return self.nodes[id].client()

    def stop(self, id: int) -> None:
        node = self.nodes[id]
        node.broker.close(self.now_ms)
        self._gone(id)

    def kill(self, id: int, keep: Keep = page_cache) -> None:
        self.nodes[id].disk.crash(keep)
        self._gone(id)

    def _gone(self, id: int) -> None:
        node = self.nodes[id]
        node.is_up = False
        node.clients.clear()
        node.broker.outbox.effects.clear()
        for connection, (sender, token, _) in list(self.asked.items()):
            if sender != id:
                self.messages.append(lambda s=sender, t=token: self._answer(s, t, None))  # type: ignore[misc]
            del self.asked[connection]
        self.end_session(id)

    def end_session(self, id: int) -> None:
        self.tell(self.keeper.end(id))

    def start(self, id: int, *, is_clean: bool = True) -> None:
        node = self.nodes[id]
        node.now_ms = self.now_ms
        node.start()
        self.register(id, is_clean=is_clean)

    def restart(self, id: int) -> None:
        self.stop(id)
        self.start(id)

    def crash(self, id: int, keep: Keep = page_cache) -> None:
        self.kill(id, keep)
        self.start(id, is_clean=False)

    # -- messages ---------------------------------------------------------------------------------

    def cut(self, one: int, other: int) -> None:
        self.cuts |= {(one, other), (other, one)}

    def heal(self) -> None:
        self.cuts.clear()

    def on_send(self, sender: int, peer: int, channel: str, token: int, request: Any) -> None:
        self.sent.append((sender, peer, request))
        if peer == CONTROLLER:
            proposal = Proposal(sender, token, request)
            if self.is_deciding:
                self.messages.append(lambda: self.settle(proposal))
            else:
                self.proposals.append(proposal)
        else:
            self.messages.append(lambda: self._deliver(sender, peer, token, request))

    def _deliver(self, sender: int, peer: int, token: int, request: Any) -> None:
        node = self.nodes[peer]
        if (sender, peer) in self.cuts or not node.is_up:
            self._answer(sender, token, None)
            return
        self._connections += 1
        pending = Pending(request, request.VERSIONS[1], self._connections)
        self.asked[self._connections] = sender, token, pending
        frame = bytearray(pending.frame("a peer"))
        node.broker.identities.admit(self._connections, sender)
        answer = on_request(node.broker, self._connections, memoryview(frame), self.now_ms)
        if not isinstance(answer, Silence):
            self.on_reply(self._connections, [b"".join(answer)])
        node.carry_out()

    def on_reply(self, connection: int, chunks: list[bytes]) -> None:
        sender, token, pending = self.asked.pop(connection)
        pending.take(chunks)
        self.messages.append(lambda: self._answer(sender, token, pending.answer))

    def _answer(self, id: int, token: int, answer: Any) -> None:
        node = self.nodes[id]
        if node.is_up and token in node.broker.outbox._answered:
            node.broker.outbox.on_peer_reply(token, answer, self.now_ms)
            node.carry_out()

    def settle(self, proposal: Proposal, decide: Callable[[PartitionData], ErrorCode] | None = None) -> None:
        """Write what was proposed, and say so."""
        response = AlterPartitionResponse()
        for topic in proposal.request.topics:
            results = TopicDataResponse(topic_id=topic.topic_id)
            for one in topic.partitions:
                code = self._settle(topic.topic_id, one, decide or self.decide)
                results.partitions.append(
                    PartitionDataResponse(
                        partition_index=one.partition_index,
                        error_code=code,
                        leader_id=-1,
                        leader_epoch=-1,
                        partition_epoch=-1,
                    )
                )
            response.topics.append(results)
        self._answer(proposal.sender, proposal.token, response)

    def _settle(self, topic_id: bytes, one: PartitionData, decide: Callable[[Any], ErrorCode]) -> ErrorCode:
        name = next(iter(self.nodes.values())).broker.image.topic_names[topic_id]
        state = self.states(name)[one.partition_index]
        if state.leader_epoch != one.leader_epoch:
            return ErrorCode.FENCED_LEADER_EPOCH
        if state.partition_epoch != one.partition_epoch:
            return ErrorCode.INVALID_UPDATE_VERSION
        code = decide(one)
        if code == ErrorCode.NONE:
            isr = tuple(member.broker_id for member in one.new_isr_with_epochs)
            epochs = tuple(member.broker_epoch for member in one.new_isr_with_epochs)
            self.state(name, one.partition_index, isr=isr, isr_epochs=epochs)
        return code

    def run(self, limit: int = 10_000) -> None:
        """Carry messages until nobody has anything to say without the clock."""
        for node in self.nodes.values():
            if node.is_up:
                node.carry_out()
        while self.messages:
            limit -= 1
            assert limit, "the brokers do not come to rest"
            self.messages.pop(0)()

    def pass_time(self, ms: int) -> None:
        end_ms = self.now_ms + ms
        while self.now_ms < end_ms:
            self.now_ms = min(self.now_ms + STEP_MS, end_ms)
            for _, node in sorted(self.nodes.items()):
                node.now_ms = node.disk.now_ms = self.now_ms
                if node.is_up:
                    node.broker.on_tick(self.now_ms)
                    node.carry_out()
            self.run()
