"""Producer state on disk: `<offset>.snapshot`, in Kafka's format, version 1.

    int16 version · uint32 crc of what follows · int32 count · per producer: id, epoch, last sequence,
    last offset, offset delta, timestamp, coordinator epoch, first offset of its open transaction (or -1)

A snapshot named N holds what all batches below N amount to, except that only the last batch of each producer
is in it. One is taken when a segment is rolled and when a log is closed; a damaged one is as good as none.
"""

from operator import itemgetter
from struct import Struct

from ottla.log.producers import PRODUCERS_MAX, AppendedBatch, Producer, Producers
from ottla.records.batch import SEQUENCES
from ottla.records.checksum import crc32c

SNAPSHOT = ".snapshot"
VERSION = 1
_HEAD = Struct(">hIi")
_ENTRY = Struct(">qhiqiqiq")
_LAST_OFFSET = itemgetter(3)  # the order in which producers last wrote
_CRC_COVERS_FROM = 6


class SnapshotError(Exception):
    """A snapshot file that cannot be read."""


def encode(producers: Producers) -> bytes:
    entries = b"".join(_encode_entry(*item) for item in sorted(producers.by_id.items()))
    covered = len(producers.by_id).to_bytes(4, "big") + entries
    return _HEAD.pack(VERSION, crc32c(covered), len(producers.by_id)) + entries


def _encode_entry(producer_id: int, producer: Producer) -> bytes:
    last = producer.batches[-1] if producer.batches else AppendedBatch(-1, -1, -1, 0, -1)
    return _ENTRY.pack(
        producer_id, producer.epoch, last.last_sequence, last.last_offset, last.offset_delta,
        producer.last_timestamp, producer.coordinator_epoch, producer.txn_first_offset,
    )  # fmt: skip


def decode(data: bytes, end_offset: int) -> Producers:
    """The producers in a snapshot named `end_offset`."""
    if len(data) < _HEAD.size:
        raise SnapshotError("too short")
    version, crc, count = _HEAD.unpack_from(data)
    if version != VERSION:
        raise SnapshotError(f"unknown version {version}")
    if crc32c(memoryview(data)[_CRC_COVERS_FROM:]) != crc:
        raise SnapshotError("the checksum is wrong")
    if len(data) != _HEAD.size + count * _ENTRY.size:
        raise SnapshotError(f"{count} entries do not fill {len(data)} bytes")
    producers = Producers()
    producers.end_offset = end_offset
    for fields in sorted(_ENTRY.iter_unpack(data[_HEAD.size :]), key=_LAST_OFFSET):
        producer_id, epoch, sequence, offset, delta, timestamp, coordinator_epoch, txn_first_offset = fields
        producer = Producer(epoch, coordinator_epoch, timestamp)
        producer.txn_first_offset = txn_first_offset
        if offset >= 0:
            first = (sequence - delta) % SEQUENCES
            producer.remember(AppendedBatch(first, sequence, offset, delta, timestamp))
        producers.put(producer_id, producer)
    producers.forget_first(count - PRODUCERS_MAX)
    return producers
