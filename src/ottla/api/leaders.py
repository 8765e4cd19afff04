"""Who leads instead, so that a client need not ask for metadata first (KIP-951)."""

from collections.abc import Iterable
from typing import Protocol, TypeVar

from ottla.broker.broker import Broker

Node = TypeVar("Node", covariant=True)


class NodeClass(Protocol[Node]):
    """The endpoint of a broker, as one of the messages has it."""

    def __call__(self, *, node_id: int, host: str, port: int, rack: str | None) -> Node: ...


def leader_of(broker: Broker, topic: str, index: int) -> tuple[int, int] | None:
    """The leader of a partition and its epoch, as far as known."""
    known = broker.image.topics.get(topic)
    state = known.states.get(index) if known else None
    return (state.leader, state.leader_epoch) if state else None


def endpoints(broker: Broker, leaders: Iterable[int], make: NodeClass[Node]) -> list[Node]:
    """Where the brokers are that an answer points to."""
    brokers = broker.image.brokers
    found = (brokers[leader] for leader in sorted(set(leaders)) if leader in brokers)
    return [make(node_id=one.id, host=one.host, port=one.port, rack=one.rack) for one in found]
