"""Lists that are made as they are encoded: of items, and of items that are there as bytes."""

from collections.abc import Iterator

import pytest

from ottla.wire.codec import encode, encode_in_slices, encode_part_in_slices
from ottla.wire.encoders import CHUNK_BYTES
from ottla.wire.lazy import Encoded, lazily_in_steps
from ottla.wire.messages.metadata import (
    MetadataResponse,
    MetadataResponsePartition,
    MetadataResponseTopic,
)


def topic(at: int) -> MetadataResponseTopic:
    """Every third is larger than a piece of a chunk."""
    partitions = [
        MetadataResponsePartition(partition_index=index, leader_id=at, error_code=index % 2 * 5)
        for index in range(CHUNK_BYTES // 10 if at % 3 == 0 else 2)
    ]
    return MetadataResponseTopic(name=f"t{at}", partitions=partitions, error_code=at % 5)


@pytest.mark.parametrize("version", range(14))
def test_items_that_are_there_as_bytes_stand_among_others_and_their_codes_count(version: int) -> None:
    pauses = 0

    def make(at: int) -> Iterator[MetadataResponseTopic | Encoded | None]:
        nonlocal pauses
        if at % 2:
            yield topic(at)
            return
        steps = encode_part_in_slices(topic(at), MetadataResponse, version)
        encoded = yield from steps
        pauses += 1
        yield None
        yield encoded

    plain = MetadataResponse(topics=[topic(at) for at in range(20)])
    mixed = MetadataResponse(topics=lazily_in_steps(make, range(20)))
    expected: dict[int, int] = {}
    list(encode_in_slices(plain, version, expected))
    errors: dict[int, int] = {}
    chunks = list(encode_in_slices(mixed, version, errors))
    assert b"".join(filter(None, chunks)) == encode(plain, version)
    assert errors == expected
    assert chunks.count(None) >= pauses == 10
    assert b"" not in chunks
