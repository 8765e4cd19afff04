"""The partitions of an internal topic: how it is created, which of them stores a key, and what is said of one
that is damaged."""

import logging
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from ottla.base.ids import TopicPartition
from ottla.base.log_fields import fields
from ottla.controller.topics import NewTopic
from ottla.coordinator.damage import Unreadable
from ottla.coordinator.runtime import Failed

log = logging.getLogger(__name__)

HASHES_KEPT: Final = 4096
KEPT_LENGTH_MAX: Final = 256  # of a key: anybody makes them up, and they may have 32 KiB
PLACES_NAMED: Final = 10


@dataclass(slots=True)
class InternalTopic:
    """It is not created with fewer replicas than wanted, because brokers may still be starting, and nobody
    would add the missing ones later. `users` wait for it, which is said once for each number of brokers."""

    name: str
    users: str
    factor_key: str
    _too_few: int = -1  # the number of brokers that was last said to be too small

    def new(self, brokers: int, partitions: int, factor: int, configs: dict[str, str]) -> NewTopic:
        """What it is created as, where there are so many brokers."""
        if brokers < factor and brokers != self._too_few:
            self._too_few = brokers
            log.warning(
                "%s wait for brokers: there are %d, and %s needs %d (%s)",
                self.users, brokers, self.name, factor, self.factor_key,
            )  # fmt: skip
        return NewTopic(name=self.name, partitions=partitions, replication_factor=factor, configs=configs)


def shard_of_key(key: str, count: int) -> int:
    """The partition, of so many, that stores a group or a transactional id, as Java's Utils.abs has it: the
    smallest int has no absolute value, and becomes 0."""
    value = java_hash(key) if len(key) <= KEPT_LENGTH_MAX else java_hash.__wrapped__(key)
    return 0 if value == -(1 << 31) else abs(value) % count


@lru_cache(HASHES_KEPT)
def java_hash(text: str) -> int:
    """String.hashCode of Java, over UTF-16 units: every client and tool computes a key's partition with
    it."""
    value = 0
    units = text.encode("utf-16-be", "surrogatepass")
    for at in range(0, len(units), 2):
        value = (31 * value + (units[at] << 8 | units[at + 1])) & 0xFFFFFFFF
    return value - (1 << 32) if value & 0x80000000 else value


def report_failure(topic: str, stored: str, index: int, failed: Failed) -> None:
    """One line: what is wrong, where, and what to do."""
    topic_partition, first = TopicPartition(topic, index), failed.unreadable[0]
    places = [unreadable.offset for unreadable in failed.unreadable if unreadable.offset >= 0]
    if len(places) < len(failed.unreadable):
        remedy = "restore the folder from another replica or a backup"
    else:
        named = " ".join(map(str, places[:PLACES_NAMED]))
        remedy = f"to leave it out for good: ottla skip {topic_partition} {named}"
    if len(failed.unreadable) > 1:
        remedy = f"and {len(failed.unreadable) - 1} more; {remedy}"
    where = f"{failed.journal.place(first.offset)}, offset {first.offset}: " if first.offset >= 0 else ""
    log.error(
        "the %s stored in %s are not served: %s%s; %s", stored, topic_partition, where, first.problem, remedy,
        extra=fields(topic=topic, partition=index, reason=first.problem),
    )  # fmt: skip


def report_left_out(topic: str, index: int, left_out: list[Unreadable]) -> None:
    named = ", ".join(str(unreadable.offset) for unreadable in left_out[:PLACES_NAMED])
    more = f" and {len(left_out) - PLACES_NAMED} more" if len(left_out) > PLACES_NAMED else ""
    log.warning(
        "%s-%d is served without what cannot be read at offset %s%s, as an operator said (ottla skip)",
        topic, index, named, more, extra=fields(topic=topic, partition=index),
    )  # fmt: skip
