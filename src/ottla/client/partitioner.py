"""Which partition clients put a key into: Java's by murmur2, librdkafka's, unless told otherwise, by CRC-32.

For people who look for a key. What sends records by the thousand has `arrow/partitioner`.
"""

import zlib

_M = 0x5BD1E995
_SEED = 0x9747B28C
_WORD = 0xFFFFFFFF


def murmur2(key: bytes) -> int:
    """Kafka's 32-bit murmur2."""
    size = len(key)
    digest = _SEED ^ size
    whole = size & ~3
    for at in range(0, whole, 4):
        word = int.from_bytes(key[at : at + 4], "little") * _M & _WORD
        word = (word ^ word >> 24) * _M & _WORD
        digest = digest * _M & _WORD ^ word
    if size > whole:
        digest = (digest ^ int.from_bytes(key[whole:], "little")) * _M & _WORD
    digest = (digest ^ digest >> 13) * _M & _WORD
    return digest ^ digest >> 15


def partition_of(key: bytes, count: int) -> int:
    """As Java's clients do it, and Kafka Streams, Connect and Spark with them."""
    return (murmur2(key) & 0x7FFFFFFF) % count


def likely_partitions(key: bytes, count: int) -> list[int]:
    """Where a key is, if the producer had no partitioner of its own."""
    return sorted({partition_of(key, count), zlib.crc32(key) % count})
