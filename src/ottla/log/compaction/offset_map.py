"""The latest offset of every key in a stretch of a log: what decides which records compaction keeps.

The memory it takes is bounded (log.cleaner.dedupe.buffer.size); when it is full, the stretch ends there, and
the rest waits for the next cleaning. A batch is taken in whole or not at all, and at least one is.

Not obvious: what was aborted supersedes nothing, and whatever else is below the last stable offset was
committed, wherever its marker is. It counts now: the next cleaning begins behind it.
"""

from array import array
from bisect import bisect_left

from ottla.base.errors import ApiError, ErrorCode
from ottla.log.compaction.record_keys import keys_of
from ottla.log.compaction.transactions import CleanedTransactions
from ottla.records.batch import BatchHeader, crc_ok
from ottla.records.control import read_marker
from ottla.records.record import open_body, walk

# What an entry costs besides the bytes of its key: a slot of the table, and two objects.
ENTRY_BYTES = 120
_SAMPLE = 16


class OffsetMap:
    __slots__ = (
        "_budget", "_survivors", "_tombstones", "_transactions", "bytes_used", "first", "next_offset",
        "offsets",
    )  # fmt: skip

    def __init__(self, first: int, memory_bytes: int, transactions: CleanedTransactions) -> None:
        self.first = first
        self.next_offset = first
        self.offsets: dict[bytes, int] = {}
        self.bytes_used = 0
        self._budget = memory_bytes
        self._transactions = transactions
        self._tombstones: set[int] = set()
        self._survivors: array[int] | None = None

    @property
    def is_full(self) -> bool:
        return self.bytes_used >= self._budget

    def take(self, header: BatchHeader, view: memoryview) -> None:
        """Take in the next batch of the log."""
        check_crc(header, view)
        if header.is_control:
            records = list(walk(open_body(view, header), header.count))
            self._transactions.end(header, read_marker(records[0][4], records[0][5]) if records else None)
        elif header.last_offset >= self.first and not self._transactions.is_aborted(header):
            self._take_records(header, view)
        self.next_offset = max(self.next_offset, header.next_offset)

    def _take_records(self, header: BatchHeader, view: memoryview) -> None:
        body = bytes(open_body(view, header))
        keys, tombstones = keys_of(body, header.count)
        if tombstones:
            self._tombstones.add(header.base_offset)
        target = self.offsets
        before = len(target)
        if is_dense(header) and header.base_offset >= self.first and None not in keys:
            offsets = range(header.base_offset, header.next_offset)
            target.update(zip(keys, offsets, strict=True))  # type: ignore[arg-type]
        else:
            base, first = header.base_offset, self.first
            for _, _, delta, _, key, _, _ in walk(body, header.count):
                if key is not None and base + delta >= first:
                    target[key] = base + delta
        added = len(target) - before
        if added:
            # Keys of one topic are of about one size, so a few tell how large the new ones are.
            some = keys[:: len(keys) // _SAMPLE + 1]
            self.bytes_used += added * (ENTRY_BYTES + sum(len(key or b"") for key in some) // len(some))

    def decide(self) -> None:
        """All is taken in: sort the offsets that survive."""
        self._survivors = array("q", sorted(self.offsets.values()))

    def covers(self, header: BatchHeader) -> bool:
        """Whether `surviving` can answer for this batch: all of it was taken in, and nothing is special."""
        return (
            header.base_offset >= self.first
            and not header.is_transactional
            and not header.has_delete_horizon
            and is_dense(header)
        )

    def surviving(self, header: BatchHeader) -> list[int]:
        """Which records of a covered batch are the latest of their key, counted from 0."""
        assert self._survivors is not None, "the offsets have not been sorted"
        base = header.base_offset
        start = bisect_left(self._survivors, base)
        stop = bisect_left(self._survivors, header.next_offset, start)
        return [offset - base for offset in self._survivors[start:stop]]

    def has_tombstones(self, header: BatchHeader) -> bool:
        """Whether a covered batch has any."""
        return header.base_offset in self._tombstones


def is_dense(header: BatchHeader) -> bool:
    """Whether the batch still has all its records, so that a record's place gives its offset."""
    return header.count == header.last_offset_delta + 1


def check_crc(header: BatchHeader, view: memoryview) -> None:
    """Refuse to judge by a damaged batch, or to hand it on as a sound one."""
    if not crc_ok(view, header):
        raise ApiError(ErrorCode.CORRUPT_MESSAGE, f"the batch at {header.base_offset} has a wrong checksum")
