"""DescribeTransactions (key 65), versions 0 to 0.

Generated from kio's schemas by tools/generate_messages.py: change that, then run `make messages`.
"""

from dataclasses import field

from ottla.wire.schema import i16, i32, i64, message, struct


@message(key=65, versions=(0, 0), flexible=0)
class DescribeTransactionsRequest:
    transactional_ids: list[str] = field(default_factory=list)


@struct
class TopicData:
    topic: str
    partitions: list[i32] = field(default_factory=list)


@struct
class TransactionState:
    error_code: i16 = 0
    transactional_id: str
    transaction_state: str
    transaction_timeout_ms: i32
    transaction_start_time_ms: i64
    producer_id: i64
    producer_epoch: i16
    topics: list[TopicData] = field(default_factory=list)


@message(key=65, versions=(0, 0), flexible=0)
class DescribeTransactionsResponse:
    throttle_time_ms: i32 = 0
    transaction_states: list[TransactionState] = field(default_factory=list)
