"""Partitions that are lost with a log directory, until the next start.

In a cluster the controller must know, so that others lead in our place: `OfflineNotice` writes what is lost
into this broker's node below /brokers/offline, which goes with its session.
"""

from ottla.base.ids import TopicPartition
from ottla.broker.outbox import Outbox
from ottla.controller import znodes
from ottla.controller.image import Image
from ottla.controller.keeper import ANY, Check, Create, Operation, Outcome, Put
from ottla.log.store import LogStore


class OfflineNotice:
    """Tells the cluster what is lost here, until the image shows it: one write at a time, tried again with
    the next change of the image or the next tick.

    The write is refused in a session in which this broker is not registered: the registration says it then.
    A broker with a keeper of its own (its epoch is 0) has nobody to tell.
    """

    def __init__(self, broker_id: int, image: Image, store: LogStore, outbox: Outbox) -> None:
        self._broker_id = broker_id
        self._image = image
        self._store = store
        self._outbox = outbox
        self._is_sent = False

    def pump(self) -> None:
        own_id, lost = self._broker_id, self._store.lost
        offline = self._image.offline.get(own_id)
        if self._is_sent or (not lost and not offline) or lost.keys() == offline:
            return
        if self._image.epoch_of(own_id) <= 0:
            return
        path, node = znodes.OFFLINE + str(own_id), znodes.offline_node(lost)
        told: Operation = Create(path, node, ephemeral=True) if offline is None else Put(path, node, ANY)
        self._is_sent = True
        self._outbox.write([Check(znodes.BROKERS + str(own_id), ANY), told], self._on_outcome)

    def _on_outcome(self, _outcome: Outcome, _now_ms: int) -> None:
        self._is_sent = False


def assume_lost(broker_id: int, image: Image, store: LogStore) -> None:
    """With a directory offline since the start, a partition that is nowhere else is taken to be there: an
    empty log in its place would be a lie."""
    if not store.offline:
        return
    directory = next(iter(store.offline))
    for topic in image.topics.values():
        for index, state in topic.partitions().items():
            topic_partition = TopicPartition(topic.name, index)
            if broker_id in state.replicas and topic_partition not in store.logs:
                store.lost[topic_partition] = directory
