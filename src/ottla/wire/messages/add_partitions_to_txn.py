"""AddPartitionsToTxn (key 24), versions 0 to 5.

Generated from kio's schemas by tools/generate_messages.py: change that, then run `make messages`.
"""

from dataclasses import field
from typing import Annotated

from ottla.wire.schema import i16, i32, i64, message, since, struct, until


@struct
class AddPartitionsToTxnTopic:
    name: str
    partitions: list[i32] = field(default_factory=list)


@struct
class AddPartitionsToTxnTransaction:
    transactional_id: str
    producer_id: i64
    producer_epoch: i16
    verify_only: bool = False
    topics: list[AddPartitionsToTxnTopic] = field(default_factory=list)


@message(key=24, versions=(0, 5), flexible=3)
class AddPartitionsToTxnRequest:
    v3_and_below_transactional_id: Annotated[str, until(3)] = ""
    v3_and_below_producer_id: Annotated[i64, until(3)] = 0
    v3_and_below_producer_epoch: Annotated[i16, until(3)] = 0
    v3_and_below_topics: Annotated[list[AddPartitionsToTxnTopic], until(3)] = field(default_factory=list)
    transactions: Annotated[list[AddPartitionsToTxnTransaction], since(4)] = field(default_factory=list)


@struct
class AddPartitionsToTxnPartitionResult:
    partition_index: i32
    partition_error_code: i16 = 0


@struct
class AddPartitionsToTxnTopicResult:
    name: str
    results_by_partition: list[AddPartitionsToTxnPartitionResult] = field(default_factory=list)


@struct
class AddPartitionsToTxnResult:
    transactional_id: str
    topic_results: list[AddPartitionsToTxnTopicResult] = field(default_factory=list)


@message(key=24, versions=(0, 5), flexible=3)
class AddPartitionsToTxnResponse:
    throttle_time_ms: i32 = 0
    results_by_topic_v3_and_below: Annotated[list[AddPartitionsToTxnTopicResult], until(3)] = field(
        default_factory=list
    )
    error_code: Annotated[i16, since(4)] = 0
    results_by_transaction: Annotated[list[AddPartitionsToTxnResult], since(4)] = field(default_factory=list)
