"""What a broker of its own writes to its keeper when it starts, besides its registration."""

from typing import TYPE_CHECKING

from ottla.base.ids import KRAFT_TOPIC, TopicPartition, is_topic_name
from ottla.controller import znodes
from ottla.controller.keeper import Create, Operation
from ottla.controller.topics import PlannedTopic, plan_reelection

if TYPE_CHECKING:
    from ottla.broker.broker import Broker


def adopted_topics(broker: "Broker") -> list[Operation]:
    """A new keeper over a directory with logs: somebody brought them from elsewhere. Make their topics
    known."""
    if broker.image.cluster_id:
        return []
    found: dict[str, dict[int, tuple[int, ...]]] = {}
    for id in sorted(broker.store.logs):
        if id.topic != KRAFT_TOPIC and is_topic_name(id.topic):
            found.setdefault(id.topic, {})[id.partition] = (broker.id,)
    operations: list[Operation] = []
    for name, assignment in found.items():
        known = broker.store.topic_id(TopicPartition(name, min(assignment)))
        topic_id = known or broker.random.randbytes(16)
        epochs = {p: broker.store.logs[TopicPartition(name, p)].latest_epoch + 1 for p in assignment}
        planned = PlannedTopic(name=name, id=topic_id, assignment=assignment, configs={}, epochs=epochs)
        operations += planned.operations(broker.image)
    used = max((id for log in broker.store.logs.values() for id in log.producers.by_id), default=-1)
    if used >= 0:
        # An id given out again would make a new producer's records look like an old one's, sent twice.
        block = znodes.producer_id_block_node(broker.id, 0, used)
        operations.append(Create(znodes.PRODUCER_ID_BLOCK, block))
    return operations


def elections(broker: "Broker") -> list[Operation]:
    """After a crash the end of a log may be gone, and what comes in its place must be told apart from
    it: this broker leads what it led in a new epoch."""
    if broker.is_clean:
        return []
    return [
        operation
        for topic in broker.image.topics.values()
        for operation in plan_reelection(broker.image, topic, broker.id)
    ]
