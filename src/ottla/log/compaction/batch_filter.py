"""What compaction leaves of one batch: all of it, some of its records, an empty header, or nothing.

    batch of an aborted           emptied (see `transactions`, also for what follows)
      transaction
    marker that nobody needs      gets a delete horizon, and goes once that has passed; except the last of a
                                  producer that has written nothing since, as it holds the producer's epoch
    any other control batch       kept
    record past the map's end     kept
    record without a key          dropped
    not the latest of its key     dropped
    tombstone                     kept until the batch's delete horizon (KIP-534) has passed; a batch that has
                                  tombstones and no horizon gets one now
    batch without records left    dropped, except the last of each producer, whose header holds its sequence,
                                  and the last of the cleaning, so that a reader is led past the hole

Records keep their offset, order, time and headers; the batch keeps its base offset, last offset, sequence,
epochs and codec. Kept records are copied as bytes, as their deltas are relative to a base that stays; only a
new delete horizon, which takes the base timestamp's place, makes it necessary to encode them again.

Not obvious: batches past the map's end are looked at as well, since transactions reach over it.
"""

from collections.abc import Mapping
from typing import NamedTuple

from ottla.log.compaction.offset_map import OffsetMap, check_crc
from ottla.log.compaction.record_keys import keys_of, starts_of, time_delta_of
from ottla.log.compaction.transactions import CleanedTransactions
from ottla.log.transaction_index import AbortedTransaction, TransactionIndex
from ottla.records.batch import CODEC_MASK, DELETE_HORIZON, NO_TIMESTAMP, BatchHeader, read_header
from ottla.records.builder import encode_record, seal
from ottla.records.compression import Codec
from ottla.records.control import read_marker
from ottla.records.record import RawRecord, open_body, walk

NO_OFFSET = -1


class Kept(NamedTuple):
    """A batch as it goes into the cleaned segment."""

    header: BatchHeader
    batch: memoryview | bytearray


class LastWrite(NamedTuple):
    """What a producer wrote last: the end of its last batch of records in its epoch, or, with NO_OFFSET, a
    marker."""

    offset: int
    producer_epoch: int


class Filter:
    """The rules of one cleaning. `last_writes` has the active producers; the transactions that were aborted,
    and of which there is still something, are added to `retained`."""

    __slots__ = ("_horizon_ms", "_last_writes", "_latest", "_now_ms", "_transactions", "_upper", "retained")

    def __init__(
        self,
        latest: OffsetMap,
        last_writes: Mapping[int, LastWrite],
        transactions: CleanedTransactions,
        *,
        upper: int,
        now_ms: int,
        delete_retention_ms: int,
    ) -> None:
        self._latest = latest
        self._last_writes = last_writes
        self._transactions = transactions
        self.retained = TransactionIndex()
        self._upper = upper
        self._now_ms = now_ms
        self._horizon_ms = now_ms + delete_retention_ms

    def apply(self, header: BatchHeader, view: memoryview) -> Kept | None:
        """What is left of a batch; None if nothing is."""
        latest = self._latest
        if header.is_control:
            return self._marker(header, view)
        if self._transactions.is_aborted(header):
            return self._emptied(header)
        if header.base_offset >= latest.next_offset:
            return Kept(header, view)
        if latest.covers(header):
            surviving = latest.surviving(header)
            if not surviving:
                return self._emptied(header)
            if not latest.has_tombstones(header):
                if len(surviving) == header.count:
                    return self._unchanged(header, view)
                return _some(header, _body(header, view), surviving)
        elif not header.count:
            return self._emptied(header)
        elif header.last_offset < latest.first and not self._is_past_horizon(header):
            body = _body(header, view)
            keys, tombstones = keys_of(body, header.count)
            if not tombstones or header.has_delete_horizon:
                newer = latest.offsets
                if newer.keys().isdisjoint(keys) and None not in keys:
                    return self._unchanged(header, view)
                left = [at for at, key in enumerate(keys) if key is not None and key not in newer]
                return _some(header, body, left) if left else self._emptied(header)
        return self._one_by_one(header, view)

    def _marker(self, header: BatchHeader, view: memoryview) -> Kept | None:
        records = list(walk(_body(header, view), header.count))
        marker = read_marker(records[0][4], records[0][5]) if records else None
        if records and marker is None:
            return Kept(header, view)  # a control batch of another kind
        outcome = self._transactions.end(header, marker)
        if isinstance(outcome, AbortedTransaction):
            self.retained.append(outcome)
        is_last_of_producer = self._last_writes.get(header.producer_id) == (NO_OFFSET, header.producer_epoch)
        if outcome is not True or is_last_of_producer:
            return Kept(header, view)
        if not records or self._is_past_horizon(header):
            return self._emptied(header)
        if header.has_delete_horizon:
            return Kept(header, view)
        return _with_horizon(header, records, self._horizon_ms)

    def _unchanged(self, header: BatchHeader, view: memoryview) -> Kept:
        check_crc(header, view)
        return Kept(header, view)

    def _is_past_horizon(self, header: BatchHeader) -> bool:
        return header.has_delete_horizon and header.base_timestamp <= self._now_ms

    def _one_by_one(self, header: BatchHeader, view: memoryview) -> Kept | None:
        """The general case."""
        body = _body(header, view)
        newest, base = self._latest.offsets, header.base_offset
        drop_tombstones = self._is_past_horizon(header)
        kept = [
            raw
            for raw in walk(body, header.count)
            if raw[4] is not None
            and newest.get(raw[4], -1) <= base + raw[2]
            and not (drop_tombstones and raw[5] is None)
        ]
        if not kept:
            return self._emptied(header)
        if any(raw[5] is None for raw in kept) and not header.has_delete_horizon:
            return _with_horizon(header, kept, self._horizon_ms)
        pieces = [body[raw[0] : raw[1]] for raw in kept]
        return _rewritten(header, pieces, len(kept), max(raw[3] for raw in kept))

    def _emptied(self, header: BatchHeader) -> Kept | None:
        last = self._last_writes.get(header.producer_id)
        is_last_of_producer = last is not None and last.offset == header.last_offset
        if not is_last_of_producer and header.next_offset != self._upper:
            return None
        attributes = header.attributes & ~(CODEC_MASK | DELETE_HORIZON)
        empty = header._replace(attributes=attributes, base_timestamp=NO_TIMESTAMP, count=0)
        return _sealed(empty, b"", Codec.NONE)


def _body(header: BatchHeader, view: memoryview) -> bytes:
    check_crc(header, view)
    return bytes(open_body(view, header))


def _some(header: BatchHeader, body: bytes, numbers: list[int]) -> Kept:
    """The records with these numbers, from 0. Those that follow each other are copied as one piece."""
    starts = starts_of(body, header.count)
    pieces = []
    first, after = numbers[0], numbers[0]
    for number in numbers:
        if number != after:
            pieces.append(body[starts[first] : starts[after]])
            first = number
        after = number + 1
    pieces.append(body[starts[first] : starts[after]])
    newest = _newest_delta(body, starts, numbers, header.max_timestamp - header.base_timestamp)
    return _rewritten(header, pieces, len(numbers), newest)


def _newest_delta(body: bytes, starts: list[int], numbers: list[int], limit: int) -> int:
    """The largest timestamp delta of these records. None is above `limit`, and it is often the last."""
    newest = time_delta_of(body, starts[numbers[-1]])
    for number in reversed(numbers):
        if newest >= limit:
            break
        newest = max(newest, time_delta_of(body, starts[number]))
    return newest


def _rewritten(header: BatchHeader, pieces: list[bytes], count: int, newest_delta: int) -> Kept:
    if not header.is_log_append_time:
        header = header._replace(max_timestamp=header.base_timestamp + newest_delta)
    return _sealed(header._replace(count=count), b"".join(pieces), header.codec)


def _with_horizon(header: BatchHeader, kept: list[RawRecord], horizon_ms: int) -> Kept:
    shift = header.base_timestamp - horizon_ms
    body = b"".join(
        encode_record(delta, time_delta + shift, key, value, headers)
        for _, _, delta, time_delta, key, value, headers in kept
    )
    if not header.is_log_append_time:
        newest = header.base_timestamp + max(raw[3] for raw in kept)
        header = header._replace(max_timestamp=newest)
    header = header._replace(
        attributes=header.attributes | DELETE_HORIZON, base_timestamp=horizon_ms, count=len(kept)
    )
    return _sealed(header, body, header.codec)


def _sealed(header: BatchHeader, body: bytes, codec: Codec) -> Kept:
    batch = seal(header, body, codec)
    return Kept(read_header(batch), batch)
