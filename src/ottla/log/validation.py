"""What a leader asks of a batch before it becomes part of the log: Kafka's LogValidator, for format 2 only.

Most batches are judged by their 61-byte header, their checksum, and a walk over the lengths of their records.
Records are looked at one by one only where a config asks for something that walk cannot answer: keys in a
compacted topic, the oldest timestamp. A batch is rewritten only for compression.type; broker time is set in
place, and so is the newest timestamp of the records where the header names another one.

A few bytes can hold a lot of work, and all of it would be done while everybody else waits. So what a header
promises is compared with the bytes it brings before anything is opened, and a check may be given a budget:
what exceeds it is a LargeBatchError, whose `check` somebody may run elsewhere (design note 010).

The answers: CORRUPT_MESSAGE for bytes that changed on the way, INVALID_RECORD for a batch that contradicts
itself, and the codes that name their reason. Where single records are at fault they are listed (KIP-467), up
to RECORD_ERRORS_MAX of them, so that an answer stays small. Nothing here changes the log.
"""

from collections.abc import Callable, Iterator
from enum import Enum
from functools import partial
from typing import NamedTuple, TypeAlias

from ottla.base.config import LONG_MAX
from ottla.base.errors import ApiError, ErrorCode
from ottla.base.files import Buffer
from ottla.log.config import LogConfig
from ottla.records.batch import (
    CODEC_MASK,
    HEADER_SIZE,
    LOG_APPEND_TIME,
    LOG_OVERHEAD,
    MAGIC,
    NO_TIMESTAMP,
    BatchHeader,
    crc_ok,
    read_header,
    set_log_append_time,
    set_max_timestamp,
    split,
)
from ottla.records.builder import seal
from ottla.records.check import HEADERS_MAX, RECORDS_MAX, Budget, check_records
from ottla.records.compression import DECOMPRESSED_BYTES_MAX, Codec, OverLimitError
from ottla.records.record import open_body
from ottla.records.times import walk_times

ZSTD = int(Codec.ZSTD)  # to look up a member of an enum takes longer
ZSTD_SINCE_PRODUCE = 7
RECORD_ERRORS_MAX = 1_000

# Offset deltas count up, and no codec squeezes a counter below half a byte a record. Headers repeat.
RECORDS_PER_BYTE_MAX = 4
HEADERS_PER_BYTE_MAX = 32
SMALL_BYTES = 1_024  # a body may always be this dense

# What may be done while others wait: at most for one request, of which it brings its share, and for all that
# are served in one round of the loop.
ITEMS_AT_ONCE = 32_768
ITEMS_MIN = 128
ITEMS_FREE = 1_024
ITEM_BYTES = 8
BYTES_AT_ONCE = 2 << 20
BYTES_FREE = 256 << 10
BYTES_RATIO = 16
ITEMS_PER_ROUND = 2 * ITEMS_AT_ONCE
ITEMS_FOR_SMALL = ITEMS_PER_ROUND // 4  # of these, for the smallest of those that wait for a round
_BYTES_PER_ITEM = 512  # that cost as much to decompress
COMPRESSION_COST = 16  # times that of decompression
SLICE_ITEMS = 1_024  # after which a check gives way
_SPAN = 256


# What whoever reads a topic asks of its records besides: it gets a sound body, the number of records in it,
# and the budget, and raises an ApiError. Such records have no headers.
Judge: TypeAlias = Callable[[Buffer, int, Budget], None]


class Fault(Enum):
    """What is wrong with a whole batch, where that is counted."""

    MAGIC = "magic"
    CHECKSUM = "checksum"
    OFFSET_OR_SEQUENCE = "offset or sequence"


class FaultyBatchError(ApiError):
    """A batch is refused for such a fault."""

    def __init__(self, fault: Fault, code: ErrorCode, message: str) -> None:
        super().__init__(code, message)
        self.fault = fault


class RejectedRecordsError(ApiError):
    """A batch is refused for some of its records: the index of each in the batch, and what is wrong; and how
    many of all have no key where they need one."""

    def __init__(self, code: ErrorCode, records: list[tuple[int, str]], without_key: int = 0) -> None:
        first, reason = records[0]
        super().__init__(code, f"The batch is refused for its record {first}, and perhaps others: {reason}.")
        self.records = records
        self.without_key = without_key


class Checked(NamedTuple):
    """A batch that may become part of the log, and the newest timestamp of its records."""

    view: memoryview
    header: BatchHeader
    newest: int


class SpentError(Exception):
    """The budget for now is used up."""


class LargeBatchError(Exception):
    """To check this batch costs more than was allowed for at once. `check` makes the same, for a worker."""

    def __init__(self, check: Callable[[], "LargeCheck"]) -> None:
        super().__init__()
        self.check = check


class LargeCheck:
    """The check of one batch, on a copy of it, to be run by a worker."""

    __slots__ = ("_arguments", "_judge", "_outcome", "_validator")
    waits_for_disk = False

    def __init__(
        self,
        validator: "Validator",
        view: memoryview,
        now_ms: int,
        produce_version: int,
        judge: Judge | None,
    ) -> None:
        self._validator = validator
        self._arguments = (memoryview(bytearray(view)), now_ms, produce_version)
        self._judge = judge
        self._outcome: Checked | Exception | None = None

    def run(self, pause: Callable[[], None] = lambda: None) -> None:
        """`pause` is called every millisecond or so."""

        def refill() -> int:
            pause()
            return SLICE_ITEMS

        budget = Budget(SLICE_ITEMS, refill=refill)
        try:
            self._outcome = self._validator.inspect(
                *self._arguments, internal=False, budget=budget, judge=self._judge
            )
        except ApiError as answer:
            # Its traceback holds the body, and would lead back here: a cycle of 64 MiB.
            answer.__traceback__ = answer.__context__ = None
            self._outcome = answer
        except SpentError:
            pass  # it was stopped by `pause`, and begins anew when it is run again
        except Exception as bug:  # noqa: BLE001 - it is raised where the batch is wanted
            self._outcome = bug

    @property
    def view(self) -> memoryview:
        return self._arguments[0]

    @property
    def count(self) -> int:
        """How many records it says it has."""
        return read_header(self.view).count

    def take(self) -> Checked:
        """What came of it, once."""
        outcome, self._outcome = self._outcome, None
        assert outcome is not None, "the check has not been run"
        if isinstance(outcome, Checked):
            return outcome
        try:
            raise outcome
        finally:
            del outcome  # or its traceback would lead back to it


def _stop() -> int:
    raise SpentError


def items_at_once(request_bytes: int) -> int:
    """How much may be done for a request before others get their turn: some 20 ms in the worst case."""
    return min(ITEMS_AT_ONCE, ITEMS_FREE + request_bytes // ITEM_BYTES)


def budget_at_once(request_bytes: int, items_left: int = ITEMS_PER_ROUND) -> Budget:
    """The same, and less where `items_left` of the round are few."""
    items, room = ITEMS_FREE + request_bytes // ITEM_BYTES, BYTES_FREE + request_bytes * BYTES_RATIO
    if items > items_left or items > ITEMS_AT_ONCE or room > BYTES_AT_ONCE:  # which is not so for most
        items, room = max(min(items, ITEMS_AT_ONCE, items_left), ITEMS_MIN), min(room, BYTES_AT_ONCE)
    return Budget(items, room, _stop)


class Validator:
    """The rules of one topic's config, ready for use."""

    __slots__ = (
        "_after_max_ms", "_append_time", "_before_max_ms", "_codec", "_compacts", "_level", "_max_bytes",
        "_segment_bytes",
    )  # fmt: skip

    def __init__(self, config: LogConfig) -> None:
        self._max_bytes = config.max_message_bytes
        self._segment_bytes = config.segment_bytes
        self._append_time = config.message_timestamp_type == "LogAppendTime"
        self._after_max_ms = config.message_timestamp_after_max_ms
        self._before_max_ms = config.message_timestamp_before_max_ms
        self._compacts = config.compacts
        self._codec = _target_codec(config.compression_type)
        self._level = config.compression_level

    def check(
        self,
        batch: memoryview | Checked,
        now_ms: int,
        produce_version: int,
        *,
        internal: bool,
        budget: Budget | None = None,
        judge: Judge | None = None,
    ) -> tuple[memoryview, BatchHeader]:
        """The one batch of a records field, as it is to be written, and its header; or an ApiError.

        `internal` batches come from this broker: they may be control batches and have no sequence.
        """
        if isinstance(batch, Checked):
            view, header, newest = batch
        else:
            try:
                view, header, newest = self.inspect(
                    batch, now_ms, produce_version, internal=internal, budget=budget, judge=judge
                )
            except SpentError:
                check = partial(LargeCheck, self, batch, now_ms, produce_version, judge)
                raise LargeBatchError(check) from None
        if self._append_time:
            set_log_append_time(view, now_ms)
            header = read_header(view)
        elif newest != header.max_timestamp and not header.is_log_append_time:
            set_max_timestamp(view, newest)
            header = read_header(view)
        return view, header

    def inspect(
        self,
        view: memoryview,
        now_ms: int,
        produce_version: int,
        *,
        internal: bool,
        budget: Budget | None = None,
        judge: Judge | None = None,
    ) -> Checked:
        """All of `check` but the timestamps, which are the business of whoever appends."""
        header = self._check_header(view, internal)
        if header.attributes & CODEC_MASK == ZSTD and produce_version < ZSTD_SINCE_PRODUCE:
            raise ApiError(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, "zstd needs Produce version 7 or later.")
        if internal and (self._codec is None or self._codec == header.codec or header.is_control):
            return tuple.__new__(Checked, (view, header, header.max_timestamp))  # of our own making
        budget = Budget() if budget is None else budget
        headers_max = HEADERS_MAX if judge is None else 0
        body, newest = check_structure(view, header, budget, strict=not internal, headers_max=headers_max)
        if not internal:
            self._check_records(header, body, newest, now_ms, budget)
        if judge is not None:
            judge(body, header.count, budget)
        if self._codec is not None and self._codec != header.codec and not header.is_control:
            if COMPRESSION_COST * len(body) > budget.bytes:
                budget.refill()
            budget.bytes -= COMPRESSION_COST * len(body)
            view = memoryview(seal(header, body, self._codec, self._level))
            header = read_header(view)
            self._check_size(len(view))
        return tuple.__new__(Checked, (view, header, newest))

    def _check_header(self, view: memoryview, internal: bool) -> BatchHeader:
        size = len(view)
        if size < HEADER_SIZE:
            raise ApiError(ErrorCode.CORRUPT_MESSAGE, f"{size} bytes are too few for a record batch.")
        header = read_header(view)
        if header.magic != MAGIC:
            raise _wrong_magic(header.magic)
        if header.length + LOG_OVERHEAD != size:
            raise _wrong_size(header.length + LOG_OVERHEAD, size)
        if (size > self._max_bytes or size > self._segment_bytes) and not (internal and header.is_control):
            self._check_size(size)  # a marker is always written, or its transaction would never end
        if not internal and not crc_ok(view, header):
            raise FaultyBatchError(
                Fault.CHECKSUM, ErrorCode.CORRUPT_MESSAGE, "The batch's checksum is wrong."
            )
        if header.base_offset:
            raise _misnumbered(f"base offset {header.base_offset} where 0 belongs")
        if header.count <= 0 or header.count != header.last_offset_delta + 1:
            raise _misnumbered(
                f"{header.count} records with a last offset delta of {header.last_offset_delta}"
            )
        if not internal and (header.attributes & ~CODEC_MASK or header.producer_id >= 0):
            _check_producer(header)
        return header

    def _check_size(self, size: int) -> None:
        if size > self._max_bytes:
            raise ApiError(
                ErrorCode.MESSAGE_TOO_LARGE, f"The batch has {size} bytes, more than {self._max_bytes}."
            )
        if size > self._segment_bytes:
            raise ApiError(
                ErrorCode.RECORD_LIST_TOO_LARGE,
                f"The batch has {size} bytes, a segment {self._segment_bytes}.",
            )

    def _check_records(
        self, header: BatchHeader, body: Buffer, newest: int, now_ms: int, budget: Budget
    ) -> None:
        """Most batches need not be opened to know that nothing is wrong with any record."""
        is_strange = (
            newest > now_ms + self._after_max_ms or newest > LONG_MAX or header.base_timestamp < NO_TIMESTAMP
        )
        if (
            (is_strange and not self._append_time)
            or self._compacts
            or self._before_max_ms < LONG_MAX
            or header.attributes & LOG_APPEND_TIME
        ):
            code, rejected, without_key = ErrorCode.INVALID_RECORD, list[tuple[int, str]](), 0
            for index, fault, reason in self._faults(header, body, now_ms, budget):
                if fault is ErrorCode.INVALID_TIMESTAMP:
                    code = fault
                else:
                    without_key += 1
                if len(rejected) < RECORD_ERRORS_MAX:
                    rejected.append((index, reason))
            if rejected:
                raise RejectedRecordsError(code, rejected, without_key)

    def _faults(
        self, header: BatchHeader, body: Buffer, now_ms: int, budget: Budget
    ) -> Iterator[tuple[int, ErrorCode, str]]:
        """What is wrong with which record. A missing key is said before a wrong timestamp."""
        oldest = max(now_ms - self._before_max_ms, now_ms - LONG_MAX)
        newest, base = min(now_ms + self._after_max_ms, LONG_MAX), header.base_timestamp
        has_limits, claims_broker_time = not self._append_time, header.is_log_append_time
        for index, (delta, has_key) in enumerate(walk_times(body, header.count)):
            if not index % _SPAN:
                budget.spend(_SPAN)
            timestamp = base + delta
            if self._compacts and not has_key:
                yield index, ErrorCode.INVALID_RECORD, "a compacted topic takes no record without a key"
            elif claims_broker_time:
                yield index, ErrorCode.INVALID_TIMESTAMP, "a producer may not set the time of appending"
            elif has_limits and not oldest <= timestamp <= newest and timestamp != NO_TIMESTAMP:
                reason = f"its timestamp {timestamp} is too far from the broker's clock, {now_ms}"
                yield index, ErrorCode.INVALID_TIMESTAMP, reason


def check_replicated(view: memoryview, log_end: int) -> list[tuple[BatchHeader, memoryview]]:
    """The batches a follower got from its leader: whole, sound, and not before the end of its log."""
    checked = []
    for header, batch in split(view):
        if header.base_offset < log_end or header.last_offset_delta < 0:
            raise ApiError(
                ErrorCode.INVALID_RECORD, f"Offset {header.base_offset} where {log_end} or more belongs."
            )
        if not crc_ok(batch, header):
            raise ApiError(
                ErrorCode.CORRUPT_MESSAGE, f"The batch at {header.base_offset} has a wrong checksum."
            )
        checked.append((header, batch))
        log_end = header.next_offset
    return checked


def check_structure(
    view: memoryview,
    header: BatchHeader,
    budget: Budget,
    *,
    strict: bool = True,
    headers_max: int = HEADERS_MAX,
) -> tuple[Buffer, int]:
    """The batch's records, uncompressed, after a look at nothing but their lengths, offsets and timestamps;
    and the newest of these."""
    body: Buffer = view[HEADER_SIZE:]
    size = len(body)
    if header.count > RECORDS_MAX and strict:
        raise _invalid(f"{header.count} records are more than {RECORDS_MAX}")
    if header.attributes & CODEC_MASK:
        if strict:
            size = max(size, SMALL_BYTES)
            headers_max = min(headers_max, HEADERS_PER_BYTE_MAX * size)
            if header.count > RECORDS_PER_BYTE_MAX * size:
                raise _invalid(f"{header.count} records cannot be in {len(body)} compressed bytes")
        body = _open(view, header, budget, strict)
    delta = check_records(body, header.count, strict=strict, budget=budget, headers_max=headers_max)
    return body, max(header.base_timestamp + delta, NO_TIMESTAMP)


def _open(view: memoryview, header: BatchHeader, budget: Budget, strict: bool) -> Buffer:
    limit = min(DECOMPRESSED_BYTES_MAX, budget.bytes)
    try:
        body = open_body(view, header, limit=max(limit, 0), single=strict)
    except OverLimitError:
        if limit < DECOMPRESSED_BYTES_MAX:
            budget.refill()
        raise
    budget.bytes -= len(body)
    budget.spend(len(body) // _BYTES_PER_ITEM)
    return body


def _check_producer(header: BatchHeader) -> None:
    if header.is_control:
        raise _misnumbered("a control batch from a client")
    if header.producer_id >= 0:
        if header.base_sequence < 0 or header.producer_epoch < 0:
            raise _misnumbered(f"producer {header.producer_id} without a sequence or epoch")
    elif header.is_transactional:
        raise _invalid("a transaction without a producer id")


def _target_codec(name: str) -> Codec | None:
    if name == "producer":
        return None
    return Codec.NONE if name == "uncompressed" else Codec.from_name(name)


def _wrong_magic(magic: int) -> ApiError:
    if 0 <= magic < MAGIC:
        code, message = ErrorCode.INVALID_RECORD, f"Message format {magic} is not supported: only 2 is."
    else:
        code, message = ErrorCode.CORRUPT_MESSAGE, f"Magic byte {magic} names no message format."
    return FaultyBatchError(Fault.MAGIC, code, message)


def _wrong_size(announced: int, size: int) -> ApiError:
    if HEADER_SIZE <= announced < size:
        return ApiError(
            ErrorCode.INVALID_RECORD, "A produce request must hold exactly one batch per partition."
        )
    return ApiError(ErrorCode.CORRUPT_MESSAGE, f"A batch of {announced} bytes came as {size}.")


def _misnumbered(what: str) -> ApiError:
    """As Kafka, which counts a client's control batch here, too."""
    return FaultyBatchError(
        Fault.OFFSET_OR_SEQUENCE, ErrorCode.INVALID_RECORD, f"The batch is refused: {what}."
    )


def _invalid(what: str) -> ApiError:
    return ApiError(ErrorCode.INVALID_RECORD, f"The batch is refused: {what}.")
