"""A log directory goes offline: what that means for the broker.

Its partitions are gone from here until the next start. Requests for them are answered KAFKA_STORAGE_ERROR,
what is parked on them is woken to hear that, and the groups stored in them are no longer coordinated here.
The other directories serve on. Without any directory there is nothing to serve: the broker halts.
"""

import logging
from typing import TYPE_CHECKING

from ottla.base.errors import ApiError
from ottla.base.ids import TopicPartition
from ottla.broker.effects import Halt

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
    broker.answers.clear()
    gone = [partition for id in lost if (partition := broker.partitions.get(id)) is not None]
    for partition in gone:
        broker.release(partition)
    for id in lost:
        broker.waiting.wake(id, now_ms)
    for partition in gone:
        broker.replicas.wake(partition, now_ms)
    broker.replicas.pump(now_ms)


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
