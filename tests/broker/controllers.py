"""Several brokers on one keeper, for the controller among them: no replication, no network, no clock.

    cluster = Controllers(3)
    cluster.create("t", (1, 2, 3))
    cluster.die(1)                      its session ends, and the others see it
    cluster.ask(2, request)             a request to broker 2, answered or not: `pending.answer`
    cluster.keeper.outcomes.append(...) what the next write is answered with, whatever became of it

Every broker sees every change at once, unless it is in `blind`.
"""

import random
from collections.abc import Hashable, Iterable
from typing import Any

from tests.api.harness import Disk, Pending
from tests.support.endpoints import plaintext
from tests.support.interpreter import Interpreter

from ottla.api.dispatch import Silence, on_request
from ottla.base.files import Buffer
from ottla.broker.broker import Broker
from ottla.broker.effects import Probe, Send
from ottla.controller import znodes
from ottla.controller.keeper import Create, NodeChanged, Operation, Outcome, Unknown, Written
from ottla.controller.registration import founding, registration
from ottla.controller.tree import ONLY_SESSION, Tree
from ottla.controller.znodes import State
from ottla.wire.messages.alter_partition import AlterPartitionRequest


class LossyTree(Tree):
    """Loses answers on their way, if it is told to."""

    def __init__(self) -> None:
        super().__init__()
        self.losing: list[bool] = []  # for the next writes: the answer is lost, and was it written?

    def write(
        self, operations: Iterable[Operation], session: Hashable = ONLY_SESSION
    ) -> tuple[list[NodeChanged], Outcome]:
        if not self.losing:
            return super().write(operations, session)
        is_written = self.losing.pop(0)
        return super().write(operations, session)[0] if is_written else [], Unknown("lost")


class Node(Interpreter):
    def __init__(self, cluster: "Controllers", broker: Broker) -> None:
        self.cluster, self.keeper, self.broker = cluster, cluster.keeper, broker
        self.session = broker.id

    def clock_ms(self) -> int:
        return self.cluster.now_ms

    def tell(self, changed: list[NodeChanged]) -> None:
        self.cluster.show(changed)

    def reply(self, connection: int, chunks: list[Buffer]) -> None:
        self.cluster.pending[connection].take(chunks)

    def send(self, effect: Send) -> None:
        """To nobody: there is no network."""

    def probe(self, effect: Probe) -> None:
        """Likewise."""


class Controllers:
    def __init__(self, count: int, **properties: str) -> None:
        self.keeper, self.now_ms = LossyTree(), 1_000_000
        self.properties = {key.replace("_", "."): value for key, value in properties.items()}
        self.brokers: dict[int, Broker] = {}
        self.blind: set[int] = set()
        self.pending: dict[int, Pending] = {}
        self.sent = 0
        for id in range(1, count + 1):
            self.start(id)

    # Brokers

    def start(self, id: int, *, is_clean: bool = True) -> None:
        own = {"broker.id": str(id), "log.dirs": "/data"}
        broker = self.brokers[id] = Broker(Disk(), random.Random(id), own | self.properties)
        broker.open(self.keeper.load(), self.now_ms)
        operations = [
            *founding(broker.image, "c"),
            *registration(id, plaintext("h", 9000 + id), None, is_clean=is_clean),
        ]
        changed, outcome = self.keeper.write(operations, id)
        assert isinstance(outcome, Written), outcome
        self.tell(changed)
        self.tick()

    def die(self, id: int) -> None:
        del self.brokers[id]
        self.blind.discard(id)
        self.tell(self.keeper.end(id))

    def lose_session(self, id: int) -> None:
        """The keeper gives up a broker that goes on, and hears nothing of it."""
        self.blind.add(id)
        self.tell(self.keeper.end(id))

    @property
    def controller(self) -> int | None:
        active = [id for id, broker in self.brokers.items() if broker.seat.is_active]
        assert len(active) <= 1 + len(self.blind)
        return next((id for id in active if id not in self.blind), None)

    # The world

    def tell(self, changed: list[NodeChanged]) -> None:
        self.show(changed)
        self.carry_out()

    def show(self, changed: list[NodeChanged]) -> None:
        for id, broker in list(self.brokers.items()):
            if id not in self.blind and changed:
                broker.on_nodes(changed, self.now_ms)

    def tick(self, ms: int = 200) -> None:
        self.now_ms += ms
        for broker in list(self.brokers.values()):
            broker.on_tick(self.now_ms)
        self.carry_out()

    def carry_out(self) -> None:
        while any(broker.outbox.effects for broker in self.brokers.values()):
            for broker in list(self.brokers.values()):
                Node(self, broker).carry_out_effects()

    def write(self, *operations: Operation) -> None:
        changed, outcome = self.keeper.write(operations, 0)
        assert isinstance(outcome, Written), outcome
        self.tell(changed)

    def create(self, topic: str, *assignment: tuple[int, ...], **configs: object) -> None:
        image = self.brokers[min(self.brokers)].image
        states = {
            p: State(one[0], 0, one, isr_epochs=tuple(image.brokers[id].epoch for id in one))
            for p, one in enumerate(assignment)
        }
        texts = {key.replace("_", "."): str(value).lower() for key, value in configs.items()}
        node = znodes.topic_node(topic.encode().ljust(16, b"-"), dict(enumerate(assignment)))
        self.write(
            Create(znodes.topic_path(topic), node),
            Create(znodes.state_path(topic), znodes.state_node(1, states)),
            Create(znodes.topic_config_path(topic), znodes.config_node(texts)),
        )

    def ask(self, id: int, request: Any, version: int | None = None) -> Pending:
        version = request.VERSIONS[1] if version is None else version
        self.sent += 1
        pending = self.pending[self.sent] = Pending(request, version, self.sent)
        frame = bytearray(pending.frame("c"))
        if isinstance(request, AlterPartitionRequest):
            self.brokers[id].identities.admit(self.sent, request.broker_id)
        answer = on_request(self.brokers[id], self.sent, memoryview(frame), self.now_ms)
        if not isinstance(answer, Silence):
            pending.take(answer)
        self.carry_out()
        return pending

    def state(self, topic: str, partition: int = 0) -> State:
        return znodes.parse_state_node(self.keeper.nodes[znodes.state_path(topic)][0])[partition]
