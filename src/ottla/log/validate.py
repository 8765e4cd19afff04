"""What a leader asks of a batch before it becomes part of the log: Kafka's LogValidator, for format 2 only.

Most batches are judged by their 61-byte header, their checksum, and a walk over the lengths of their records.
Records are looked at one by one only where a config asks for something that walk cannot answer: keys in a
compacted topic, the oldest timestamp. A batch is rewritten only for compression.type; broker time is set in
place, and so is the newest timestamp of the records where the header names another one.

The answers: CORRUPT_MESSAGE for bytes that changed on the way, INVALID_RECORD for a batch that contradicts
itself, and the codes that name their reason. Where single records are at fault they are listed (KIP-467), up
to RECORD_ERRORS_MAX of them, so that an answer stays small. Nothing here changes the log.
"""

from collections.abc import Iterator

from ottla.base.errors import ApiError, ErrorCode
from ottla.base.files import Buffer
from ottla.log.config import LONG_MAX, LogConfig
from ottla.records.batch import (
    CODEC_MASK,
    HEADER_SIZE,
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
from ottla.records.builder import recompress
from ottla.records.check import check_records
from ottla.records.compression import Codec
from ottla.records.record import open_body, walk

ZSTD_SINCE_PRODUCE = 7
RECORD_ERRORS_MAX = 1_000


class RejectedRecordsError(ApiError):
    """A batch is refused for some of its records: the index of each in the batch, and what is wrong."""

    def __init__(self, code: ErrorCode, records: list[tuple[int, str]]) -> None:
        first, reason = records[0]
        super().__init__(code, f"The batch is refused for its record {first}, and perhaps others: {reason}.")
        self.records = records


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
        self, view: memoryview, now_ms: int, produce_version: int, *, internal: bool
    ) -> tuple[memoryview, BatchHeader]:
        """The one batch of a records field, as it is to be written, and its header; or an ApiError.

        `internal` batches come from this broker: they may be control batches and have no sequence.
        """
        header = self._check_header(view, internal)
        if header.attributes & CODEC_MASK == Codec.ZSTD and produce_version < ZSTD_SINCE_PRODUCE:
            raise ApiError(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, "zstd needs Produce version 7 or later.")
        body, newest = check_structure(view, header)
        if not internal:
            self._check_records(header, body, newest, now_ms)
        if self._codec is not None and self._codec != header.codec and not header.is_control:
            view = memoryview(recompress(view, header, self._codec, self._level))
            header = read_header(view)
            self._check_size(len(view))
        if self._append_time:
            set_log_append_time(view, now_ms)
            header = read_header(view)
        elif newest != header.max_timestamp and not header.is_log_append_time:
            set_max_timestamp(view, newest)
            header = read_header(view)
        return view, header

    def _check_header(self, view: memoryview, internal: bool) -> BatchHeader:
        size = len(view)
        if size < HEADER_SIZE:
            raise ApiError(ErrorCode.CORRUPT_MESSAGE, f"{size} bytes are too few for a record batch.")
        header = read_header(view)
        if header.magic != MAGIC:
            raise _wrong_magic(header.magic)
        if header.length + LOG_OVERHEAD != size:
            raise _wrong_size(header.length + LOG_OVERHEAD, size)
        if size > self._max_bytes or size > self._segment_bytes:
            self._check_size(size)
        if not crc_ok(view, header):
            raise ApiError(ErrorCode.CORRUPT_MESSAGE, "The batch's checksum is wrong.")
        if header.base_offset:
            raise _invalid(f"base offset {header.base_offset} where 0 belongs")
        if header.count <= 0 or header.count != header.last_offset_delta + 1:
            raise _invalid(f"{header.count} records with a last offset delta of {header.last_offset_delta}")
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

    def _check_records(self, header: BatchHeader, body: Buffer, newest: int, now_ms: int) -> None:
        """Most batches need not be opened to know that nothing is wrong with any record."""
        is_new = newest > min(now_ms + self._after_max_ms, LONG_MAX) and not self._append_time
        if is_new or self._compacts or self._before_max_ms < LONG_MAX or header.is_log_append_time:
            code, rejected = ErrorCode.INVALID_RECORD, list[tuple[int, str]]()
            for index, fault, reason in self._faults(header, body, now_ms):
                if fault is ErrorCode.INVALID_TIMESTAMP:
                    code = fault
                if len(rejected) < RECORD_ERRORS_MAX:
                    rejected.append((index, reason))
            if rejected:
                raise RejectedRecordsError(code, rejected)

    def _faults(self, header: BatchHeader, body: Buffer, now_ms: int) -> Iterator[tuple[int, ErrorCode, str]]:
        """What is wrong with which record. A missing key is said before a wrong timestamp."""
        oldest = -LONG_MAX if self._before_max_ms == LONG_MAX else now_ms - self._before_max_ms
        newest, base = min(now_ms + self._after_max_ms, LONG_MAX), header.base_timestamp
        has_limits, claims_broker_time = not self._append_time, header.is_log_append_time
        for index, raw in enumerate(walk(body, header.count)):
            timestamp = base + raw[3]
            if self._compacts and raw[4] is None:
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


def check_structure(view: memoryview, header: BatchHeader) -> tuple[Buffer, int]:
    """The batch's records, uncompressed, after a look at nothing but their lengths and timestamps; and the
    newest of these."""
    body = open_body(view, header) if header.attributes & CODEC_MASK else view[HEADER_SIZE:]
    newest = header.base_timestamp + check_records(body, header.count)
    return body, max(newest, NO_TIMESTAMP)


def _check_producer(header: BatchHeader) -> None:
    if header.is_control:
        raise _invalid("a control batch from a client")
    if header.producer_id >= 0:
        if header.base_sequence < 0 or header.producer_epoch < 0:
            raise _invalid(f"producer {header.producer_id} without a sequence or epoch")
    elif header.is_transactional:
        raise _invalid("a transaction without a producer id")


def _target_codec(name: str) -> Codec | None:
    if name == "producer":
        return None
    return Codec.NONE if name == "uncompressed" else Codec.from_name(name)


def _wrong_magic(magic: int) -> ApiError:
    if 0 <= magic < MAGIC:
        return ApiError(ErrorCode.INVALID_RECORD, f"Message format {magic} is not supported: only 2 is.")
    return ApiError(ErrorCode.CORRUPT_MESSAGE, f"Magic byte {magic} names no message format.")


def _wrong_size(announced: int, size: int) -> ApiError:
    if HEADER_SIZE <= announced < size:
        return ApiError(
            ErrorCode.INVALID_RECORD, "A produce request must hold exactly one batch per partition."
        )
    return ApiError(ErrorCode.CORRUPT_MESSAGE, f"A batch of {announced} bytes came as {size}.")


def _invalid(what: str) -> ApiError:
    return ApiError(ErrorCode.INVALID_RECORD, f"The batch is refused: {what}.")
