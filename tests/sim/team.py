"""Copiers that are members of a group (KIP-848) and share the input as it says: whoever gets a partition goes
on from an offset that is stable, and who lost it cannot commit for it (KIP-447)."""

from typing import Any

from tests.sim.client import Script
from tests.sim.copiers import COPIERS, Copier
from tests.sim.transactional import GROUP, OUTSIDE

from ottla.base.errors import ErrorCode
from ottla.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, TopicPartitions

JOINING = 0
REBALANCE_MS = 1_500


class TeamCopier(Copier):
    def __init__(self, *where: Any, **how: Any) -> None:
        super().__init__(*where, **how)
        self.sources = []
        self.joined = 0

    def keep_in_touch(self) -> Script:
        """Hear what is assigned. Nothing is under way now, so what is taken away is let go of at once."""
        if self.source not in self.topic_ids:
            yield from self.refresh(self.source)
        if not self.member_id or self.member_epoch < 0:
            self.joined += 1
            self.member_id, self.member_epoch = f"{self.name}-{self.joined}", JOINING
            self.sources = []
        owned = TopicPartitions(topic_id=self.topic_ids.get(self.source, bytes(16)), partitions=self.sources)
        request = ConsumerGroupHeartbeatRequest(
            group_id=COPIERS, member_id=self.member_id, member_epoch=self.member_epoch,
            rebalance_timeout_ms=REBALANCE_MS, subscribed_topic_names=[self.source],
            topic_partitions=[owned] if self.sources else [],
        )  # fmt: skip
        answer = yield from self.coordinated(GROUP, COPIERS, request, None)
        if answer is None:
            return
        if answer.error_code:
            self.coordinators.pop(f"{GROUP} {COPIERS}", None)
            self.world.note(f"{self.name} is told {ErrorCode(answer.error_code).name} by the group")
            if answer.error_code in OUTSIDE:
                self.member_epoch, self.sources = -1, []
            return
        self.member_epoch = answer.member_epoch
        if answer.assignment is not None:
            parts = [part for topic in answer.assignment.topic_partitions for part in topic.partitions]
            is_more = not set(parts) <= set(self.sources)
            self.sources = sorted(parts)
            if is_more:
                yield from self.read_offsets()

    def read_offsets(self) -> Script:
        if self.sources:
            yield from super().read_offsets()
