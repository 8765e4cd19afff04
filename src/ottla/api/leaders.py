"""The leader to turn to, in answers that refuse a request: it spares clients a Metadata request (KIP-951)."""

from collections.abc import Iterable
from typing import Protocol, TypeVar

from ottla.broker.broker import Broker

Node = TypeVar("Node", covariant=True)


class NodeClass(Protocol[Node]):
    """The endpoint of a broker, as one of the messages has it."""

    def __call__(self, *, node_id: int, host: str, port: int, rack: str | None) -> Node: ...


def leader_of(broker: Broker, name: str, index: int) -> tuple[int, int] | None:
    """The leader of a partition and its epoch, as far as known."""
    topic = broker.image.topics.get(name)
    state = topic.states.get(index) if topic else None
    return (state.leader, state.leader_epoch) if state else None


def endpoints(broker: Broker, connection: int, leaders: Iterable[int], make: NodeClass[Node]) -> list[Node]:
    """The endpoints of the brokers that an answer names as leaders, for whoever asks on that connection."""
    brokers, listener = broker.image.brokers, broker.access.session(connection).listener
    there = [brokers[leader] for leader in sorted(set(leaders)) if leader in brokers]
    return [
        make(node_id=leader.id, host=address.host, port=address.port, rack=leader.rack)
        for leader in there
        if (address := leader.endpoints.get(listener)) is not None
    ]
