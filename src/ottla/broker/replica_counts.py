"""What is counted of replication on a broker, from its start on.

A change of an ISR counts on the broker that leads the partition after it, whoever decided it: so each change
counts once in a cluster, also where a leader dies and the next one takes over without it.
"""

from collections.abc import Collection
from dataclasses import dataclass, field


@dataclass(slots=True)
class ReplicaCounts:
    isr_shrinks: int = 0
    isr_expands: int = 0
    isr_updates_failed: int = 0  # proposals that the controller refused, by partition
    fetch_requests: int = 0  # of this broker's followers
    fetch_errors: dict[str, int] = field(default_factory=dict)  # what they were answered, by Kafka's name

    def on_fetch_error(self, name: str) -> None:
        self.fetch_errors[name] = self.fetch_errors.get(name, 0) + 1

    def on_isr(self, before: Collection[int], after: Collection[int]) -> None:
        """The ISR of a partition that this broker leads has changed, or may have."""
        self.isr_shrinks += not set(before) <= set(after)
        self.isr_expands += not set(after) <= set(before)
