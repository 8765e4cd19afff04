"""A client that acts as a broker. It knows more than any client could find out: who is there, in which broker
epoch, and the state of every partition. It does not know the secret.

It fetches as a follower that holds everything, so that the leader would take records for committed that no
follower has; it proposes ISRs in the leader's name, with replicas that may hold nothing; and it tries to
prove that it is a broker with what brokers have told it.
"""

from collections.abc import Callable
from typing import Any

from tests.sim.client import Client, Script

from ottla.controller.znodes import State
from ottla.security.peer_handshake import MECHANISM, NONCE_BYTES, Initiator
from ottla.wire.messages.alter_partition import AlterPartitionRequest, BrokerState, PartitionData, TopicData
from ottla.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ReplicaState
from ottla.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from ottla.wire.messages.sasl_authenticate import SaslAuthenticateRequest
from ottla.wire.messages.sasl_handshake import SaslHandshakeRequest

LATEST = -1


class Forger(Client):
    def __init__(
        self,
        *place: Any,
        topics: dict[str, int],
        epochs: Callable[[], dict[int, int]],
        state: Callable[[bytes, int], State | None],
        controller: Callable[[], int | None],
    ) -> None:
        super().__init__(*place)
        self.topics, self.epochs, self.state, self.controller = topics, epochs, state, controller

    def script(self) -> Script:
        acts = [self._follow, self._follow, self._propose, self._reflect]
        while not self.is_stopping:
            topic = list(self.topics)[self.world.draw(0, len(self.topics) - 1)]
            partition = self.world.draw(0, self.topics[topic] - 1)
            yield from self.refresh(topic)
            state = self.state(self.topic_ids.get(topic, b""), partition)
            if state is not None and state.leader >= 0:
                yield from acts[self.world.draw(0, len(acts) - 1)](topic, partition, state)
            yield self.world.draw(10, 100)

    def _follow(self, topic: str, partition: int, state: State) -> Script:
        """Every follower asks for what comes after the end of the leader's log: it holds all before it."""
        followers = [(id, epoch) for id, epoch in sorted(self.epochs().items()) if id != state.leader]
        asked = ListOffsetsPartition(
            partition_index=partition, timestamp=LATEST, current_leader_epoch=state.leader_epoch
        )
        named = ListOffsetsTopic(name=topic, partitions=[asked])
        for follower, epoch in followers:
            end = yield self.ask(state.leader, ListOffsetsRequest(replica_id=follower, topics=[named]))
            offset = end.topics[0].partitions[0].offset if end is not None else -1
            wanted = FetchPartition(
                partition=partition, fetch_offset=max(offset, 0), partition_max_bytes=1000,
                current_leader_epoch=state.leader_epoch,
            )  # fmt: skip
            request = FetchRequest(
                replica_state=ReplicaState(replica_id=follower, replica_epoch=epoch),
                max_wait_ms=0, min_bytes=0,
                topics=[FetchTopic(topic_id=self.topic_ids[topic], partitions=[wanted])],
            )  # fmt: skip
            yield self.ask(state.leader, request)

    def _propose(self, topic: str, partition: int, state: State) -> Script:
        """In the leader's name: whoever is there is in sync, or nobody but the leader."""
        epochs, controller = self.epochs(), self.controller()
        if controller is None or state.leader not in epochs:
            return
        members = epochs if self.world.chance(0.7) else {state.leader: epochs[state.leader]}
        proposed = PartitionData(
            partition_index=partition, leader_epoch=state.leader_epoch,
            partition_epoch=state.partition_epoch,
            new_isr_with_epochs=[
                BrokerState(broker_id=id, broker_epoch=epoch) for id, epoch in sorted(members.items())
            ],
        )  # fmt: skip
        topics = [TopicData(topic_id=self.topic_ids[topic], partitions=[proposed])]
        request = AlterPartitionRequest(
            broker_id=state.leader, broker_epoch=epochs[state.leader], topics=topics
        )
        yield self.ask(controller, request)

    def _reflect(self, topic: str, partition: int, state: State) -> Script:
        """Send back the code that was computed for it, and then act as the follower it said it was."""
        others = sorted(self.epochs().keys() - {state.leader})
        if not others:
            return
        opening = Initiator(b"", others[0], state.leader, bytes(NONCE_BYTES)).first()[1]
        yield self.ask(state.leader, SaslHandshakeRequest(mechanism=MECHANISM))
        answer = yield self.ask(state.leader, opening)
        if answer is not None:
            code = answer.auth_bytes[NONCE_BYTES:]
            yield self.ask(state.leader, SaslAuthenticateRequest(auth_bytes=code))
            yield from self._follow(topic, partition, state)
