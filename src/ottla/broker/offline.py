"""A log directory goes offline: what that means for the broker.

Its partitions are gone from here until the next start. Requests for them are answered KAFKA_STORAGE_ERROR,
what is parked on them is woken to hear that, and the groups stored in them are no longer coordinated here.
The other directories serve on. Without any directory there is nothing to serve: the broker halts.

In a cluster the controller must know, so that others lead in our place: `Notice` writes what is lost into
this broker's node below /brokers/offline, which goes with its session.
"""

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ottla.base.errors import ApiError
from ottla.base.ids import TopicPartition
from ottla.broker.effects import Halt
from ottla.controller import znodes
from ottla.controller.keeper import ANY, Check, Create, Operation, Outcome, Put

if TYPE_CHECKING:
    from ottla.broker.broker import Broker

log = logging.getLogger(__name__)

DAMAGE_MAX = 1_000


def take_offline(broker: "Broker", directory: str, reason: str, now_ms: int) -> None:
    """Told more than once, the first time counts: many a request may run into the same broken disk."""
    store = broker.store
    if directory not in store.disks:
        return
    store.fail(directory, reason)
    if not store.disks:
        broker.effects.append(Halt(f"the last log directory failed: {reason}"))
        return
    lost = [id for id, home in store.lost.items() if home == directory]
    log.error("%s is offline, with %d partitions, until the next start: %s", directory, len(lost), reason)
    broker.answers = {}
    gone = [partition for id in lost if (partition := broker.partitions.get(id)) is not None]
    for partition in gone:
        broker.release(partition, now_ms)
    for id in lost:
        broker.waiting.wake(id, now_ms)
    for partition in gone:
        broker.followers.wake(partition, now_ms)
    broker.replicas.pump(now_ms)
    broker.notice.pump()


@dataclass(slots=True)
class Notice:
    """Tells the cluster what is lost here, until the image shows it: one write at a time, tried again with
    the next change of the image or the next tick.

    The write is refused in a session in which this broker is not registered: the registration says it then.
    A broker with a keeper of its own (its epoch is 0) has nobody to tell.
    """

    broker: "Broker"
    is_sent: bool = False

    def pump(self) -> None:
        broker = self.broker
        offline, lost = broker.image.offline.get(broker.id), broker.store.lost
        if self.is_sent or broker.epoch <= 0 or (not lost and not offline) or lost.keys() == offline:
            return
        path, node = znodes.OFFLINE + str(broker.id), znodes.offline_node(lost)
        told: Operation = Create(path, node, ephemeral=True) if offline is None else Put(path, node, ANY)
        self.is_sent = True
        broker.write([Check(znodes.BROKERS + str(broker.id), ANY), told], self._on_outcome)

    def _on_outcome(self, _outcome: Outcome, _now_ms: int) -> None:
        self.is_sent = False


def report_damage(broker: "Broker", id: TopicPartition, damage: ApiError) -> None:
    """Something in a log cannot be read: say where, once, however often its readers come back for it."""
    if str(damage) not in broker.damage:
        if len(broker.damage) >= DAMAGE_MAX:
            broker.damage.clear()
        broker.damage.add(str(damage))
        log.error("%s is damaged: %s", id, damage)


def assume_lost(broker: "Broker") -> None:
    """With a directory offline since the start, a partition that is nowhere else is taken to be there: an
    empty log in its place would be a lie."""
    store = broker.store
    if not store.offline:
        return
    directory = next(iter(store.offline))
    for topic in broker.image.topics.values():
        for index, state in topic.partitions().items():
            id = TopicPartition(topic.name, index)
            if broker.id in state.replicas and id not in store.logs:
                store.lost[id] = directory
