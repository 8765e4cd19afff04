"""Followers that are late, for the log of their leader: a line for each of them, with all its partitions.

That such a follower has left the ISR is said by the controller, once it is written (`controller_events`); how
late it was, only its leader knows.
"""

import logging
from dataclasses import dataclass, field

from ottla.base.log_fields import fields
from ottla.broker.event_digest import NAMES_MAX, names_of
from ottla.replication.leader import ProposeIsr
from ottla.replication.partition import Effects, Partition

log = logging.getLogger(__name__)


@dataclass(slots=True)
class LateFollowers:
    """Followers that leaders here would go on without: in how many partitions, and how late they are."""

    names: dict[int, list[str]] = field(default_factory=dict)  # by follower
    late_ms: dict[int, int] = field(default_factory=dict)  # the most

    def add(self, partition: Partition, effects: Effects, now_ms: int) -> None:
        assert partition.replication is not None, "only a leader with followers has late ones"
        for effect in effects:
            proposed = dict(effect.isr) if isinstance(effect, ProposeIsr) else partition.replication.isr
            for follower in partition.replication.isr.keys() - proposed.keys():
                late_ms = now_ms - partition.replication.followers[follower].caught_up_ms
                self.late_ms[follower] = max(late_ms, self.late_ms.get(follower, 0))
                self.names.setdefault(follower, []).append(str(partition.topic_partition))

    def say(self, lag_ms_max: int) -> None:
        for follower, names in sorted(self.names.items()):
            log.info(
                "%s: broker %d is late by %d ms (replica.lag.time.max.ms is %d) and shall leave the ISR",
                names_of(names[:NAMES_MAX], len(names)), follower, self.late_ms[follower], lag_ms_max,
                extra=fields(peer=follower, partitions=len(names), reason="late"),
            )  # fmt: skip
