"""What the groups of this broker go through: counted, and of rebalances there are lines in the log, why one
begins and how long it took. A group that begins again before it has settled is timed from the first time."""

import logging
from collections.abc import Callable
from dataclasses import dataclass, field

from ottla.base.log_fields import fields
from ottla.group import events
from ottla.group.consumer.state import STABLE
from ottla.group.group import Group

log = logging.getLogger(__name__)


@dataclass(slots=True)
class GroupActivity:
    """`group` finds one of a shard."""

    group: Callable[[int, str], Group | None]
    offsets_committed: int = 0
    offsets_expired: int = 0
    offsets_deleted: int = 0
    classic_rebalances: int = 0  # that were completed
    consumer_rebalances: int = 0  # that were begun
    _begun_ms: dict[int, dict[str, int]] = field(default_factory=dict)  # by shard and group

    def forget(self, shard: int) -> None:
        """Its groups are in other hands, or as they were when they were stored last."""
        self._begun_ms.pop(shard, None)

    def on_event(self, shard: int, event: object, now_ms: int) -> None:
        match event:
            case events.OffsetsCommitted(count):
                self.offsets_committed += count
            case events.OffsetsExpired(count):
                self.offsets_expired += count
            case events.OffsetsDeleted(count):
                self.offsets_deleted += count
            case events.RebalanceBegun():
                self._begin(shard, event, now_ms)
            case events.ClassicRebalanceEnded(group_id, generation, members):
                self.classic_rebalances += members > 0
                self._end(shard, group_id, generation, members, now_ms)
            case events.MemberReconciled(group_id) if group_id in self._begun_ms.get(shard, {}):
                self._end_if_stable(shard, group_id, now_ms)
            case events.LastMemberGone(group_id):
                self._end(shard, group_id, -1, 0, now_ms)

    def _begin(self, shard: int, event: events.RebalanceBegun, now_ms: int) -> None:
        self.consumer_rebalances += event.is_counted
        self._begun_ms.setdefault(shard, {}).setdefault(event.group_id, now_ms)
        log.info(
            "group %.200r rebalances: %s (generation %d)", event.group_id, event.reason, event.epoch,
            extra=fields(group=event.group_id, generation=event.epoch, reason=event.reason),
        )  # fmt: skip

    def _end_if_stable(self, shard: int, group_id: str, now_ms: int) -> None:
        group = self.group(shard, group_id)
        if group is not None and group.state_name == STABLE:
            self._end(shard, group_id, group.epoch, len(group.members), now_ms)

    def _end(self, shard: int, group_id: str, generation: int, members: int, now_ms: int) -> None:
        begun_ms = self._begun_ms.get(shard, {}).pop(group_id, None)
        took_ms = 0 if begun_ms is None else now_ms - begun_ms
        if members:
            log.info(
                "group %.200r is stable after %.3f s: generation %d, members %d",
                group_id, took_ms / 1000, generation, members,
                extra=fields(group=group_id, generation=generation, members=members, took_ms=took_ms),
            )  # fmt: skip
        else:
            log.info(
                "group %.200r is empty after %.3f s", group_id, took_ms / 1000,
                extra=fields(group=group_id, members=0, took_ms=took_ms),
            )  # fmt: skip
