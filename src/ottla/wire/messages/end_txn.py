"""EndTxn (key 26), versions 0 to 5.

Generated from kio's schemas by tools/generate_messages.py: change that, then run `make messages`.
"""

from typing import Annotated

from ottla.wire.schema import i16, i32, i64, message, since


@message(key=26, versions=(0, 5), flexible=3)
class EndTxnRequest:
    transactional_id: str
    producer_id: i64
    producer_epoch: i16
    committed: bool


@message(key=26, versions=(0, 5), flexible=3)
class EndTxnResponse:
    throttle_time_ms: i32 = 0
    error_code: i16 = 0
    producer_id: Annotated[i64, since(5)] = -1
    producer_epoch: Annotated[i16, since(5)] = -1
