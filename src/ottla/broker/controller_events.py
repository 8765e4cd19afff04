"""What the controller has done to partitions, as soon as it is written: counted, and said with the reason."""

import logging
from dataclasses import dataclass, field
from typing import Any

from ottla.base.ids import TopicPartition
from ottla.base.metrics import Histogram
from ottla.broker.event_digest import EventDigest
from ottla.controller.causes import Reason
from ottla.controller.draft import Draft
from ottla.controller.election import Rule

log = logging.getLogger(__name__)


@dataclass(slots=True)
class ControllerEvents:
    digest: EventDigest
    elections: dict[Reason, int] = field(default_factory=lambda: dict.fromkeys(Reason, 0))  # of partitions
    unclean_elections: int = 0
    election_durations: Histogram = field(default_factory=Histogram)  # from a decision until it is written

    def on_written(self, drafts: list[Draft], took_ms: int) -> None:
        """These were written together, so long after they were decided on."""
        if any(draft.elected for draft in drafts):
            self.election_durations.observe(took_ms * 1000)
        for draft in drafts:
            self._on_written(draft)

    def _on_written(self, draft: Draft) -> None:
        said = set[tuple[int, int]]()  # of which partition and broker
        for partition, (before, leader, cause, rule) in draft.elected.items():
            self.elections[cause.reason] += 1
            self.unclean_elections += rule is Rule.UNCLEAN
            said |= {(partition, before), (partition, leader)}
            why = str(cause) if rule is Rule.ISR else f"{cause} ({rule.value})"
            template, reason = "%s: broker %d leads now, as %s", cause.reason.label
            self._say(draft, partition, template, leader, why, leader=leader, reason=reason)
        for (partition, member), cause in draft.left.items():
            if (partition, member) not in said:
                template, reason = "%s: broker %d left the ISR, as %s", cause.reason.label
                self._say(draft, partition, template, member, cause, peer=member, reason=reason)
        for partition, member in sorted(draft.joined.keys() - said):
            self._say(draft, partition, "%s: broker %d is in sync", member, peer=member)
        for alarm in draft.alarms:
            self.digest.add(log, logging.WARNING, "%s: %s", alarm.topic_partition, alarm.text)

    def _say(self, draft: Draft, partition: int, template: str, *arguments: object, **named: Any) -> None:
        name = TopicPartition(draft.topic.name, partition)
        self.digest.add(log, logging.INFO, template, name, *arguments, **named)
