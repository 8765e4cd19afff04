"""Looks for records through what a broker answers, and makes records of as few batches as it can.

All bytes of an answer are searched at once for those that every match has (`Query.needles`). Only batches
that have them, and those that are compressed, are opened at all; of the latter the same is asked again. A
batch that is passed over is not checked either: its checksum matters to who believes its records.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from struct import Struct

from ottla.base.errors import ApiError
from ottla.client.formats import Decoders, Message
from ottla.client.formats.codecs import looks_framed
from ottla.console.records.batches import Problems, message_of, records_of, seen
from ottla.console.records.query import Query
from ottla.records.batch import CODEC_MASK, LOG_OVERHEAD, BatchHeader, read_header
from ottla.records.fetched import Fetched
from ottla.records.record import open_body, walk

_SKIM = Struct(">qi9xhi8xq14xi")  # base offset, length, attributes, last offset delta, max timestamp, count


@dataclass
class Part:
    """What one answer had. The times are those of its first and last batch, `after` the offset behind it."""

    messages: list[Message] = field(default_factory=list)
    records: int = 0
    after: int = 0
    first_ms: int = 0
    last_ms: int = 0


class Scan:
    def __init__(self, topic: str, query: Query, decoders: Decoders) -> None:
        self._topic = topic
        self._query = query
        self._decoders = decoders
        self._needles = sorted(query.needles, key=len, reverse=True)  # the longest is the rarest
        self._has_registry = decoders.value.registry is not None or decoders.key.registry is not None

    def __call__(self, partition: int, fetched: Fetched, start: int, end: int, problems: Problems) -> Part:
        """The matches from `start` up to, not including, `end`."""
        part = Part()
        chosen = set(self._chosen(fetched, part, start, end))
        if not chosen:
            return part
        for header, batch in seen(self._topic, partition, fetched, problems):
            if header.base_offset not in chosen:
                continue
            for record in records_of(self._topic, partition, header, batch, problems):
                if start <= record.offset < end and (
                    self._has_registry or self._query.may_match(record.key, record.value)
                ):
                    message = message_of(self._topic, partition, record)
                    if self._query.matches(message, self._decoders):
                        part.messages.append(message)
        return part

    def _chosen(self, fetched: Fetched, part: Part, start: int, end: int) -> Iterator[int]:
        """The base offsets of the batches that may have a match."""
        answer = _Answer(fetched.records, self._needles, self._query.is_folded)
        since_ms = -1 if self._query.since_ms is None else self._query.since_ms
        at, size, skim = 0, len(fetched.records), _SKIM.unpack_from
        while at < size:
            base, length, attributes, last_delta, time_ms, count = skim(fetched.records, at)
            if base >= end:  # brokers answer more than they were asked for
                return
            stop = at + LOG_OVERHEAD + length
            if not at:
                part.first_ms = time_ms
            part.last_ms = time_ms
            if base >= start:  # else it was counted with the span before
                part.records += count
            part.after = base + last_delta + 1
            if time_ms >= since_ms or time_ms < 0:
                if not attributes & CODEC_MASK:
                    may_match = answer.holds(at, stop)
                else:
                    may_match = self._is_inside(fetched.records[at:stop], answer)
                if may_match or (self._has_registry and _is_framed(fetched.records[at:stop])):
                    yield base
            at = stop

    def _is_inside(self, batch: memoryview, answer: "_Answer") -> bool:
        if not self._needles:
            return True
        try:
            return answer.is_in(open_body(batch))
        except ApiError:
            return True  # whoever reads it says what is wrong with it


class _Answer:
    """The bytes of an answer, searched from the front: where the rarest needle comes next is known."""

    def __init__(self, records: memoryview, needles: list[bytes], is_folded: bool) -> None:
        self._records = records
        self._needles = needles
        self._is_folded = is_folded
        self._bytes: bytes | None = None
        self._next = -1

    def holds(self, at: int, stop: int) -> bool:
        """Whether all needles are between these. To be asked from the front to the back."""
        if not self._needles:
            return True
        if self._bytes is None:
            self._bytes = bytes(self._records)
            if self._is_folded:
                self._bytes = self._bytes.lower()
        if self._next < at:
            position = self._bytes.find(self._needles[0], at)
            self._next = position if position >= 0 else len(self._bytes)
        return self._next < stop and all(
            self._bytes.find(needle, at, stop) >= 0 for needle in self._needles[1:]
        )

    def is_in(self, body: bytes | bytearray | memoryview) -> bool:
        """The same of bytes that were compressed."""
        opened = bytes(body) if isinstance(body, memoryview) else body
        if self._is_folded:
            opened = opened.lower()
        return all(needle in opened for needle in self._needles)


def _is_framed(batch: memoryview) -> bool:
    """Whether the first record looks as if a registry could explain it, and so the others."""
    header: BatchHeader = read_header(batch)
    try:
        for _, _, _, _, key, value, _ in walk(open_body(batch, header), header.count):
            return looks_framed(value) or looks_framed(key)
    except ApiError:
        pass
    return False
