"""How much may be done at once for clients, and how much they may leave unread, all of them together.

A round of the loop has so many records to check and so many bytes to read; who finds nothing left waits for
the next round (`ROUND`). Answers that clients have not read yet are counted by whoever holds them.
"""

from dataclasses import dataclass

from ottla.broker.long_work import SHARE_US, Slices
from ottla.broker.parked import ROUND, Waiting
from ottla.log.segment_reader import READ_BYTES_PER_ROUND
from ottla.log.validation import ITEMS_AT_ONCE, ITEMS_FOR_SMALL, ITEMS_PER_ROUND


@dataclass(slots=True)
class Allowance:
    waiting: Waiting
    slices: Slices
    items_left: int = ITEMS_PER_ROUND  # that may be checked in this round of the loop
    read_left: int = READ_BYTES_PER_ROUND  # that may be read for consumers and followers in this round
    unsent_bytes: int = 0  # answers that clients have not read yet, as far as is known
    held_bytes: int = 0  # of requests that are not answered yet

    def begin_round(self, now_ms: int) -> None:
        """What may be done at once is as much as ever, for who waits for it and then for who comes."""
        self.slices.spent_us, self.read_left = 0, READ_BYTES_PER_ROUND
        spared, self.items_left = ITEMS_PER_ROUND - ITEMS_FOR_SMALL, ITEMS_PER_ROUND
        self.waiting.wake_in_turn(ROUND, lambda: self.items_left - spared, now_ms)

    @property
    def is_round_spent(self) -> bool:
        """Is so little left, or does somebody wait, that a new round should begin?"""
        return (
            self.items_left < ITEMS_AT_ONCE
            or self.read_left <= 0
            or self.slices.spent_us > SHARE_US // 2
            or ROUND in self.waiting.by_key
        )
