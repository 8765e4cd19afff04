"""Transactions as a cleaning walks over the log: which batches were aborted, and which markers may go.

    batch of an aborted transaction     dropped, if its marker lies in what is cleaned
    marker, and a batch of it was read  kept, and so is its entry in the index: a reader may still need both
    marker of which nothing was read    may go, after delete.retention.ms (KIP-534); its entry is dropped now

So a marker goes at least one cleaning later than the last batch of its transaction. An entry must not outlive
its marker: a reader leaves out what the producer writes until it comes to the marker, and would never stop.
"""

from collections import deque
from collections.abc import Iterable

from ottla.log.transaction_index import AbortedTransaction
from ottla.records.batch import BatchHeader
from ottla.records.control import EndTransaction


class CleanedTransactions:
    """`aborted` are all that have their marker in what is read. Batches are asked about in their order."""

    __slots__ = ("_aborted", "_begun", "_committed", "_read")

    def __init__(self, aborted: Iterable[AbortedTransaction]) -> None:
        self._aborted = deque(sorted(aborted, key=lambda transaction: transaction.first_offset))
        self._begun: dict[int, AbortedTransaction] = {}  # by producer, until the marker
        self._read = set[int]()  # of these, the producers of which a batch was read
        self._committed = set[int]()  # the producers of which one was read that is not aborted

    def is_aborted(self, header: BatchHeader) -> bool:
        """Whether a batch of records may go, as nobody will read it."""
        if not header.is_transactional:
            return False
        self._begin_until(header.last_offset)
        is_aborted = header.producer_id in self._begun
        (self._read if is_aborted else self._committed).add(header.producer_id)
        return is_aborted

    def end(self, header: BatchHeader, marker: EndTransaction | None) -> AbortedTransaction | bool:
        """Whether nobody needs a control batch any more; if it aborts a transaction of which there is still
        something, that transaction. None is a marker that was emptied before."""
        self._begin_until(header.last_offset)
        producer_id = header.producer_id
        if marker is None:
            return True
        if marker.committed:
            is_needed = producer_id in self._committed
            self._committed.discard(producer_id)
            return not is_needed
        aborted = self._begun.pop(producer_id, None)
        if aborted is None or producer_id not in self._read:
            return True
        self._read.discard(producer_id)
        return aborted

    def _begin_until(self, offset: int) -> None:
        while self._aborted and self._aborted[0].first_offset <= offset:
            transaction = self._aborted.popleft()
            self._begun.setdefault(transaction.producer_id, transaction)
