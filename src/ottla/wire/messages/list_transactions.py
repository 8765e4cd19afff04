"""ListTransactions (key 66), versions 0 to 2.

Generated from kio's schemas by tools/generate_messages.py: change that, then run `make messages`.
"""

from dataclasses import field
from typing import Annotated

from ottla.wire.schema import i16, i32, i64, message, since, struct


@message(key=66, versions=(0, 2), flexible=0)
class ListTransactionsRequest:
    state_filters: list[str] = field(default_factory=list)
    producer_id_filters: list[i64] = field(default_factory=list)
    duration_filter: Annotated[i64, since(1)] = -1
    transactional_id_pattern: Annotated[str | None, since(2)] = None


@struct
class TransactionState:
    transactional_id: str
    producer_id: i64
    transaction_state: str


@message(key=66, versions=(0, 2), flexible=0)
class ListTransactionsResponse:
    throttle_time_ms: i32 = 0
    error_code: i16 = 0
    unknown_state_filters: list[str] = field(default_factory=list)
    transaction_states: list[TransactionState] = field(default_factory=list)
