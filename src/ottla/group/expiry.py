"""Offsets that nobody has needed for long go, and groups that have nothing left, nor anything pending.

Expiry looks at some groups at a time, so that nobody has to wait for it. What cannot be stored is left to the
next round.
"""

from collections.abc import Mapping
from typing import Final

from ottla.coordinator.turn import TimerKey, Turn
from ottla.group.events import OffsetsExpired
from ottla.group.group import Group
from ottla.group.offsets import Offsets
from ottla.group.records import OffsetCommit, store

EXPIRE: Final = ("expire",)
EXPIRE_SLICE: Final = ("expire", "slice")
GROUPS_PER_SLICE: Final = 500  # about 5 ms, or 10 if all of them go
RECORDS_PER_SLICE: Final = 500
SLICE_PAUSE_MS: Final = 10


class Expiry:
    def __init__(self, groups: Mapping[str, Group], offsets: Offsets, interval_ms: int) -> None:
        self._groups = groups
        self._offsets = offsets
        self._interval_ms = interval_ms
        self._left: list[str] = []  # groups that this round is yet to look at

    def on_loaded(self, turn: Turn) -> None:
        turn.set_timer(EXPIRE, turn.now_ms + self._interval_ms)

    def on_timer(self, turn: Turn, key: TimerKey) -> None:
        if key == EXPIRE:
            self._left = self._left or list(self._groups)
            turn.set_timer(EXPIRE, turn.now_ms + self._interval_ms)
        turn.is_divisible = True
        for _ in range(min(GROUPS_PER_SLICE, len(self._left))):
            group = self._groups.get(self._left.pop())
            if group is not None:
                self._expire(turn, group)
            if len(turn.records) >= RECORDS_PER_SLICE:
                break
        if self._left:
            turn.set_timer(EXPIRE_SLICE, turn.now_ms + SLICE_PAUSE_MS)

    def _expire(self, turn: Turn, group: Group) -> None:
        expired = group.expired(self._offsets, turn.wall_ms)
        left = len(self._offsets.partitions(group.group_id)) - len(expired)
        if expired:
            turn.tell(OffsetsExpired(len(expired)))
        if not left and group.is_unused:
            forget(turn, group, self._offsets)
        else:
            turn.write(*(store(OffsetCommit(group.group_id, topic, index, None)) for topic, index in expired))


def forget(turn: Turn, group: Group, offsets: Offsets) -> None:
    """Tombstones for everything an empty group has stored. To end it before they are stored would leave a
    dead group if they cannot be."""
    for topic, index in offsets.partitions(group.group_id):
        turn.write(store(OffsetCommit(group.group_id, topic, index, None)))
    group.delete(turn)
