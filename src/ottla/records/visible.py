"""Which of the batches of a fetch a reader sees: no markers, and nothing of transactions that were aborted.

Not obvious: a fetch names an aborted transaction by its producer and its first offset; it ends at that
producer's next abort marker. One that began before the fetch is named as well, so every fetch stands alone.
"""

from collections.abc import Callable, Iterable, Iterator
from functools import partial

from ottla.base.errors import ApiError, ErrorCode
from ottla.base.files import Buffer
from ottla.base.ids import TopicPartition
from ottla.records.batch import BatchHeader, crc_ok, split
from ottla.records.control import ControlType, control_type
from ottla.records.fetched import Aborted, Fetched
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


def seen(
    topic_partition: TopicPartition, chunks: Iterable[Fetched | Buffer]
) -> Iterator[tuple[BatchHeader, memoryview]]:
    """What is visible of several fetches, with checksums checked. ApiError: something is damaged."""
    for chunk in chunks:
        records, aborted = chunk if isinstance(chunk, Fetched) else (chunk, ())
        yield from visible(_checked(topic_partition, records), aborted, partial(_is_abort, topic_partition))


def _checked(topic_partition: TopicPartition, records: Buffer) -> Iterator[tuple[BatchHeader, memoryview]]:
    for header, batch in _split(topic_partition, records):
        if not crc_ok(batch, header):
            raise damaged(topic_partition, header, "its checksum is wrong")
        yield header, batch


def _split(topic_partition: TopicPartition, records: Buffer) -> Iterator[tuple[BatchHeader, memoryview]]:
    try:
        yield from split(records)
    except ApiError as error:
        sentence = f"{topic_partition}: what was fetched is no record batch: {error}"
        raise ApiError(error.code, sentence) from None


def _is_abort(topic_partition: TopicPartition, header: BatchHeader, batch: memoryview) -> bool:
    try:
        return is_abort(header, batch)
    except ApiError as error:
        raise damaged(topic_partition, header, str(error)) from None


def damaged(topic_partition: TopicPartition, header: BatchHeader, why: str) -> ApiError:
    offsets = f"offsets {header.base_offset} to {header.last_offset}"
    return ApiError(
        ErrorCode.CORRUPT_MESSAGE, f"{topic_partition}: the record batch of {offsets} is damaged: {why}"
    )
