"""The error codes of a message are counted while it is encoded."""

from collections import Counter
from typing import Any

import pytest

from ottla.wire.codec import encode, encode_in_slices, encoder
from ottla.wire.lazy import lazily
from ottla.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopicResult,
)
from ottla.wire.messages.create_topics import CreatableTopicResult, CreateTopicsResponse
from ottla.wire.messages.fetch import FetchableTopicResponse, FetchResponse, PartitionData
from ottla.wire.messages.metadata import MetadataResponse, MetadataResponseTopic


def topic(code: int) -> MetadataResponseTopic:
    return MetadataResponseTopic(error_code=code, name="t", partitions=[])


def counted(message: Any, version: int) -> dict[int, int]:
    """At once, and in slices."""
    errors: dict[int, int] = {}
    encoder(type(message), version)(message, errors)
    in_slices: dict[int, int] = {}
    assert b"".join(filter(None, encode_in_slices(message, version, in_slices))) == encode(message, version)
    assert errors == in_slices
    return errors


def test_each_code_counts_as_often_as_it_is_written_and_none_does_not() -> None:
    message = MetadataResponse(topics=[topic(code) for code in (0, 3, 29, 3, 0)])
    assert counted(message, 12) == {3: 2, 29: 1}


def test_the_items_of_a_lazy_list_count_once() -> None:
    made: Counter[int] = Counter()

    def make(at: int) -> MetadataResponseTopic:
        made[at] += 1
        return topic(at % 2 * 3)

    message, errors = MetadataResponse(topics=lazily(make, range(1_000))), dict[int, int]()
    for _ in encode_in_slices(message, 12, errors):
        pass
    assert errors == {3: 500}
    assert set(made.values()) == {1}


def test_codes_at_all_depths_count() -> None:
    part = PartitionData(partition_index=0, error_code=6, high_watermark=-1, records=b"")
    message = FetchResponse(
        error_code=71, responses=[FetchableTopicResponse(topic="t", partitions=[part, part])]
    )
    assert counted(message, 12) == {6: 2, 71: 1}


def test_a_code_that_a_version_does_not_carry_does_not_count() -> None:
    assert counted(FetchResponse(error_code=71, responses=[]), 6) == {}
    assert counted(FetchResponse(error_code=71, responses=[]), 7) == {71: 1}


def test_errors_of_a_topics_configs_are_no_errors_of_the_request() -> None:
    refused = CreatableTopicResult(name="t", error_code=36, topic_config_error_code=29)
    assert counted(CreateTopicsResponse(topics=[refused]), 7) == {36: 1}


@pytest.mark.parametrize("version", [3, 4])
def test_the_code_of_a_partition_in_a_transaction_has_a_name_of_its_own(version: int) -> None:
    partition = AddPartitionsToTxnPartitionResult(partition_index=0, partition_error_code=3)
    topics = [AddPartitionsToTxnTopicResult(name="t", results_by_partition=[partition] * 2)]
    transaction = AddPartitionsToTxnResult(transactional_id="x", topic_results=topics)
    message = AddPartitionsToTxnResponse(
        results_by_topic_v3_and_below=topics, results_by_transaction=[transaction]
    )
    assert counted(message, version) == {3: 2}


def test_whoever_does_not_count_encodes_the_same() -> None:
    message = MetadataResponse(topics=[topic(3)])
    assert encoder(MetadataResponse, 12)(message) == encoder(MetadataResponse, 12)(message, {})
