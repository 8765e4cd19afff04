"""Finding a record by its time: the batch by the time index, the record by a walk over that batch.

Most batches are walked at once. To open and walk a large one takes up to half a second: whoever must not wait
for that gives `done`, the walks that a worker has done. One that is missing is raised (`LargeWalkError`), and
when it has been run and added, the search is begun anew. So the log may change meanwhile.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from ottla.base.errors import ApiError
from ottla.base.files import Bytes
from ottla.log.cold import ColdError, Warmth
from ottla.log.scan import LOOKUP_BYTES, TornError, corrupt, headers
from ottla.log.segment import Segment
from ottla.records.batch import BatchHeader
from ottla.records.compression import OverLimitError
from ottla.records.record import open_body
from ottla.records.times import first_since

RECORDS_AT_ONCE = 16_384
BYTES_AT_ONCE = 1 << 20


class TimestampedOffset(NamedTuple):
    offset: int
    timestamp: int
    leader_epoch: int


class LargeWalkError(Exception):
    """To look into this batch takes longer than others should wait."""

    def __init__(self, walk: "Walk") -> None:
        super().__init__()
        self.walk = walk


class Walk:
    """The search in one batch."""

    __slots__ = ("_batch", "_offset", "_outcome", "_timestamp", "header")
    waits_for_disk = False

    def __init__(self, header: BatchHeader, batch: Bytes, timestamp: int, offset: int) -> None:
        self.header = header
        self._batch = batch
        self._timestamp, self._offset = timestamp, offset
        self._outcome: TimestampedOffset | Exception | None = None

    @property
    def held_bytes(self) -> int:
        return len(self._batch)

    def is_of(self, other: "Walk") -> bool:
        """Is it the same search in the same batch?"""
        mine = (self.header, self._timestamp, self._offset)
        return mine == (other.header, other._timestamp, other._offset)

    def run(self, pause: Callable[[], None]) -> None:
        """By a worker, with a pause every millisecond or so."""
        try:
            self._outcome = self.find(pause=pause)
        except Exception as error:  # noqa: BLE001 - it is raised where the record is wanted
            error.__traceback__ = error.__context__ = None  # they hold the body
            self._outcome = error
        self._batch = b""

    def outcome(self) -> TimestampedOffset | None:
        if isinstance(self._outcome, ApiError):
            raise ApiError(self._outcome.code, self._outcome.message)
        if isinstance(self._outcome, Exception):
            raise self._outcome
        return self._outcome

    def find_at_once(self) -> TimestampedOffset | None:
        """LargeWalkError if that would take long."""
        if self.header.count > RECORDS_AT_ONCE:
            raise LargeWalkError(self)
        try:
            return self.find(BYTES_AT_ONCE)
        except OverLimitError:
            raise LargeWalkError(self) from None

    def find(
        self, limit: int | None = None, pause: Callable[[], None] = lambda: None
    ) -> TimestampedOffset | None:
        header = self.header
        base, time = header.base_offset, header.base_timestamp
        body = (
            open_body(self._batch, header) if limit is None else open_body(self._batch, header, limit=limit)
        )
        time_delta = -(1 << 63) if header.is_log_append_time else self._timestamp - time
        deltas = first_since(body, header.count, time_delta, self._offset - base, pause)
        if deltas is None:
            return None
        time = header.max_timestamp if header.is_log_append_time else time + deltas[1]
        return TimestampedOffset(base + deltas[0], time, header.leader_epoch)


def offset_for_timestamp(
    segments: Sequence[Segment],
    timestamp: int,
    log_start_offset: int,
    done: Sequence[Walk] | None = None,
    warmth: Warmth | None = None,
) -> TimestampedOffset | None:
    """The first record at least as new as `timestamp`, in these segments and not before the log's start."""
    _check_times(segments, warmth)
    for walk in _walks(segments, timestamp, log_start_offset, warmth):
        if done is None:
            record = walk.find()
        else:
            walked = next((other for other in done if walk.is_of(other)), None)
            record = walk.find_at_once() if walked is None else walked.outcome()
        if record is not None:
            return record
    return None


def offset_of_max_timestamp(
    segments: Sequence[Segment], log_start_offset: int, done: Sequence[Walk] | None, warmth: Warmth | None
) -> TimestampedOffset | None:
    """The first record with the newest timestamp (KIP-734)."""
    _check_times(segments, warmth)
    newest = max(segment.max_timestamp for segment in segments)
    return None if newest < 0 else offset_for_timestamp(segments, newest, log_start_offset, done, warmth)


def _check_times(segments: Sequence[Segment], warmth: Warmth | None) -> None:
    """Is the newest time of every segment known, or can be read at once?"""
    if warmth is not None:
        unknown = [
            segment for segment in segments if not segment.has_times and not warmth.has(segment.path())
        ]
        if unknown:
            raise ColdError([piece for segment in unknown for piece in segment.pieces()])


def _walks(
    segments: Sequence[Segment], timestamp: int, log_start_offset: int, warmth: Warmth | None
) -> Iterator[Walk]:
    for segment in segments:
        start = log_start_offset
        while segment.max_timestamp >= timestamp:
            batch = _first_batch_since(segment, timestamp, start, warmth)
            if batch is None:
                break
            yield Walk(*batch, timestamp, log_start_offset)
            start = batch[0].next_offset


def _first_batch_since(
    segment: Segment, timestamp: int, offset: int, warmth: Warmth | None
) -> tuple[BatchHeader, Bytes] | None:
    """The first batch that ends at or after `offset` and has a record at least as new as `timestamp`."""
    segment.check_open(warmth)
    since = max(segment.times.floor(timestamp) + segment.base_offset, offset)
    start = segment.index.floor(since - segment.base_offset)
    try:
        for position, header in headers(segment.readable(warmth), start, segment.size, LOOKUP_BYTES):
            if header.max_timestamp >= timestamp and header.last_offset >= offset:
                return header, segment.read(position, header.size, warmth)
    except TornError as torn:
        raise corrupt(torn) from None
    return None
