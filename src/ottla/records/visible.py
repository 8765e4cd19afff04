"""What a reader sees of what it has fetched: no markers, nothing of aborted transactions, nothing damaged."""

from collections.abc import Iterable, Iterator

from ottla.base.errors import ApiError, ErrorCode
from ottla.base.files import Buffer
from ottla.base.ids import TopicPartition
from ottla.records.batch import BatchHeader, crc_ok, split
from ottla.records.control import ControlType, control_type
from ottla.records.fetched import Fetched
from ottla.records.record import read_records


def visible(
    topic_partition: TopicPartition, chunks: Iterable[Fetched | Buffer]
) -> Iterator[tuple[BatchHeader, memoryview]]:
    """Batches whose records a reader sees, with their checksums checked."""
    for chunk in chunks:
        records, aborted = chunk if isinstance(chunk, Fetched) else (chunk, ())
        waiting = sorted(aborted, key=lambda transaction: transaction.first_offset, reverse=True)
        dropped: set[int] = set()
        for header, batch in _split(topic_partition, records):
            if not crc_ok(batch, header):
                raise damaged(topic_partition, header, "its checksum is wrong")
            while waiting and waiting[-1].first_offset <= header.last_offset:
                dropped.add(waiting.pop().producer_id)
            if header.is_control:
                if header.producer_id in dropped and _is_abort(topic_partition, header, batch):
                    dropped.discard(header.producer_id)
            elif not (header.is_transactional and header.producer_id in dropped):
                yield header, batch


def _split(topic_partition: TopicPartition, records: Buffer) -> Iterator[tuple[BatchHeader, memoryview]]:
    try:
        yield from split(records)
    except ApiError as error:
        sentence = f"{topic_partition}: what was fetched is no record batch: {error}"
        raise ApiError(error.code, sentence) from None


def _is_abort(topic_partition: TopicPartition, header: BatchHeader, batch: memoryview) -> bool:
    try:
        return any(control_type(record.key) is ControlType.ABORT for record in read_records(batch, header))
    except ApiError as error:
        raise damaged(topic_partition, header, str(error)) from None


def damaged(topic_partition: TopicPartition, header: BatchHeader, why: str) -> ApiError:
    offsets = f"offsets {header.base_offset} to {header.last_offset}"
    return ApiError(
        ErrorCode.CORRUPT_MESSAGE, f"{topic_partition}: the record batch of {offsets} is damaged: {why}"
    )
