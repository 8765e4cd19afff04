"""The ids that this broker gives to producers, in blocks from the keeper: none is ever given twice, over
restarts too.

An idempotent producer waits for the block that it needs. A coordinator of transactions cannot wait: when it
has used most of a block, the next one is fetched ahead, as in Kafka.
"""

from collections.abc import Callable, Sequence
from typing import Final

from ottla.base.errors import ApiError, ErrorCode
from ottla.broker.ports import OnOutcome
from ottla.controller import znodes
from ottla.controller.image import Image
from ottla.controller.keeper import Create, Operation, Outcome, Put, Written

BLOCK_IDS: Final = 1_000
FETCH_AHEAD_BELOW: Final = BLOCK_IDS // 10


class ProducerIds:
    """`write` writes to the keeper, and tells what became of it."""

    def __init__(
        self, broker_id: int, image: Image, write: Callable[[Sequence[Operation], OnOutcome], object]
    ) -> None:
        self._broker_id = broker_id
        self._image = image
        self._write = write
        self._next, self._end = 0, 0
        self._ahead: int | None = None  # where the block begins that comes after this one
        self._is_fetching = False

    @property
    def is_empty(self) -> bool:
        return self._next >= self._end

    def plan(self) -> tuple[int, Sequence[Operation]]:
        """Where the next block begins, by what is known, and what to write in order to have it."""
        start, version = self._image.producer_id_block_end + 1, self._image.producer_id_block_version
        node = znodes.producer_id_block_node(self._broker_id, start, start + BLOCK_IDS - 1)
        if version < 0:
            return start, [Create(znodes.PRODUCER_ID_BLOCK, node)]
        return start, [Put(znodes.PRODUCER_ID_BLOCK, node, version)]

    def add_block(self, start: int) -> None:
        """The keeper has given us a block. One that we have no room for is lost, which costs nothing."""
        if self.is_empty:
            self._next, self._end = start, start + BLOCK_IDS
        elif self._ahead is None:
            self._ahead = start

    def give(self) -> int:
        """The next id, of which there must be one."""
        producer_id, self._next = self._next, self._next + 1
        assert producer_id < self._end, "an id is given out of a block that we have"
        if self.is_empty and self._ahead is not None:
            start, self._ahead = self._ahead, None
            self.add_block(start)
        return producer_id

    def take(self) -> int:
        """The next id, for a coordinator; if there is none just now, its producer is to ask again."""
        self.fetch_ahead()
        if self.is_empty:
            raise ApiError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, "The next producer ids are on their way.")
        return self.give()

    def fetch_ahead(self) -> None:
        """See that there is another block when this one comes to its end."""
        if self._is_fetching or self._ahead is not None or self._end - self._next > FETCH_AHEAD_BELOW:
            return
        self._is_fetching = True
        start, operations = self.plan()

        def on_outcome(outcome: Outcome, _now_ms: int) -> None:
            self._is_fetching = False
            if isinstance(outcome, Written):
                self.add_block(start)

        self._write(operations, on_outcome)
