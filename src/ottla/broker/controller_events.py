"""What the controller has done to partitions, as soon as it is written: counted, and said with the reason."""

import logging
from dataclasses import dataclass, field

from ottla.base.ids import TopicPartition
from ottla.base.log_fields import fields
from ottla.base.metrics import Histogram
from ottla.broker.digest import Digest
from ottla.controller.causes import Reason
from ottla.controller.draft import Draft
from ottla.controller.election import Rule

log = logging.getLogger(__name__)


@dataclass(slots=True)
class ControllerEvents:
    digest: Digest
    elections: dict[Reason, int] = field(default_factory=lambda: dict.fromkeys(Reason, 0))  # of partitions
    unclean_elections: int = 0
    election_durations: Histogram = field(
        default_factory=Histogram
    )  # of writes with elections, until written

    def on_written(self, drafts: list[Draft], took_ms: int) -> None:
        """These were written together, so long after they were decided on."""
        if any(draft.elected for draft in drafts):
            self.election_durations.observe(took_ms * 1000)
        for draft in drafts:
            self._on_written(draft)

    def _on_written(self, draft: Draft) -> None:
        topic, add, said = draft.topic.name, self.digest.add, set[tuple[int, int]]()
        for partition, (before, leader, cause, rule) in draft.elected.items():
            self.elections[cause.reason] += 1
            self.unclean_elections += rule is Rule.UNCLEAN
            said |= {(partition, before), (partition, leader)}
            why = str(cause) if rule is Rule.ISR else f"{cause} ({rule.value})"
            extra = fields(leader=leader, reason=cause.reason.label)
            name = TopicPartition(topic, partition)
            add(log, logging.INFO, "%s: broker %d leads now, as %s", name, leader, why, extra=extra)
        for (partition, member), cause in draft.left.items():
            if (partition, member) not in said:
                extra = fields(peer=member, reason=cause.reason.label)
                name = TopicPartition(topic, partition)
                add(log, logging.INFO, "%s: broker %d left the ISR, as %s", name, member, cause, extra=extra)
        for partition, member in sorted(draft.joined.keys() - said):
            name = TopicPartition(topic, partition)
            add(log, logging.INFO, "%s: broker %d is in sync", name, member, extra=fields(peer=member))
        for alarm in draft.alarms:
            add(log, logging.WARNING, "%s: %s", alarm.topic_partition, alarm.text, extra=fields())
