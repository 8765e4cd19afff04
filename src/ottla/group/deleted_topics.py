"""Offsets in topics that were deleted: how far groups were in one says nothing about another that may get its
name. Nobody is told from then on; tombstones are written some at a time, or before a group commits again."""

from functools import partial
from itertools import islice

from ottla.base.errors import ApiError, ErrorCode
from ottla.coordinator.turn import Turn
from ottla.group.commits import Commit
from ottla.group.expiry import GROUPS_PER_SLICE, RECORDS_PER_SLICE, SLICE_PAUSE_MS
from ottla.group.offsets import Offsets
from ottla.group.records import OffsetCommit, store

FORGET_SLICE = ("forget", "slice")


class DeletedTopics:
    def __init__(self, offsets: Offsets) -> None:
        self._offsets = offsets
        self._left: dict[tuple[str, str], None] = {}  # groups and topics

    def forget(self, turn: Turn, topic: str) -> None:
        self._left.update(((group_id, topic), None) for group_id in self._offsets.hide(topic))
        if self._left:
            turn.set_timer(FORGET_SLICE, turn.now_ms)

    def on_timer(self, turn: Turn) -> None:
        turn.is_divisible = True
        for group_id, topic in list(islice(self._left, GROUPS_PER_SLICE)):
            self._forget(turn, group_id, topic)
            if len(turn.records) >= RECORDS_PER_SLICE:
                break
        if self._left:
            turn.set_timer(FORGET_SLICE, turn.now_ms + SLICE_PAUSE_MS)

    def before_commit(self, turn: Turn, commit: Commit) -> None:
        if self._left:
            for topic in dict.fromkeys(to.topic for to in commit.offsets):
                self._forget(turn, commit.group_id, topic)

    def check_transaction(self, commit: Commit) -> None:
        """Tombstones are no part of a transaction, so a commit that is has to wait for them."""
        if self._left and any((commit.group_id, to.topic) in self._left for to in commit.offsets):
            raise ApiError(
                ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
                "The offsets of a topic of this name that was deleted are being forgotten.",
            )

    def _forget(self, turn: Turn, group_id: str, topic: str) -> None:
        if (group_id, topic) in self._left:
            for name, index in self._offsets.partitions(group_id):
                if name == topic:
                    turn.write(store(OffsetCommit(group_id, topic, index, None)))
            turn.once_stored(partial(self._left.pop, (group_id, topic), None))
