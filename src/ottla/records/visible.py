"""Which of the batches of a fetch a reader sees: no markers, and nothing of transactions that were aborted.

Not obvious: a fetch names an aborted transaction by its producer and its first offset; it ends at that
producer's next abort marker. One that began before the fetch is named as well, so every fetch stands alone.
"""

from collections.abc import Callable, Iterable, Iterator

from ottla.records.batch import BatchHeader
from ottla.records.control import ControlType, control_type
from ottla.records.fetched import Aborted
from ottla.records.record import read_records


def is_abort(header: BatchHeader, batch: memoryview) -> bool:
    """Whether a control batch ends a transaction that was aborted. ApiError: it is damaged."""
    return any(control_type(record.key) is ControlType.ABORT for record in read_records(batch, header))


def visible(
    batches: Iterable[tuple[BatchHeader, memoryview]],
    aborted: Iterable[Aborted],
    ends_aborted: Callable[[BatchHeader, memoryview], bool] = is_abort,
) -> Iterator[tuple[BatchHeader, memoryview]]:
    """`ends_aborted` is `is_abort`, with whatever the caller says of one that is damaged."""
    waiting = sorted(aborted, key=lambda transaction: transaction.first_offset, reverse=True)
    dropped: set[int] = set()
    for header, batch in batches:
        while waiting and waiting[-1].first_offset <= header.last_offset:
            dropped.add(waiting.pop().producer_id)
        if header.is_control:
            if header.producer_id in dropped and ends_aborted(header, batch):
                dropped.discard(header.producer_id)
        elif not (header.is_transactional and header.producer_id in dropped):
            yield header, batch
