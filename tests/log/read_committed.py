"""A consumer that reads what is committed only, as clients do it: by the batches and the list of aborted
transactions that a fetch brings."""

from collections.abc import Iterable, Iterator
from typing import Any

from ottla.log.log import Log
from ottla.records.batch import split
from ottla.records.control import ControlType, control_type
from ottla.records.record import Record, read_records


def committed(records: Any, aborted: Iterable[tuple[int, int]]) -> Iterator[Record]:
    """What is left of fetched batches, given (producer id, first offset) of aborted transactions."""
    begun = sorted(aborted, key=lambda transaction: transaction[1])
    dropped = set[int]()
    for header, view in split(records):
        while begun and begun[0][1] <= header.last_offset:
            dropped.add(begun.pop(0)[0])
        if header.is_control:
            for record in read_records(view, header):
                if control_type(record.key) is ControlType.ABORT:
                    dropped.discard(header.producer_id)
        elif not (header.is_transactional and header.producer_id in dropped):
            yield from read_records(view, header)


def read_committed(
    log: Log, *, start: int | None = None, high_watermark: int | None = None, max_bytes: int = 1 << 20
) -> list[Record]:
    """All that such a consumer sees from an offset on, in reads of so many bytes."""
    high_watermark = log.log_end_offset if high_watermark is None else high_watermark
    end = log.last_stable_offset(high_watermark)
    offset, seen = log.log_start_offset if start is None else start, list[Record]()
    while offset < end:
        read, aborted = log.read_committed(offset, max_bytes, end=end)
        if not read.records:
            break
        pairs = [(transaction.producer_id, transaction.first_offset) for transaction in aborted]
        seen += [record for record in committed(read.records, pairs) if record.offset >= offset]
        assert read.next_offset > offset
        offset = read.next_offset
    return seen
