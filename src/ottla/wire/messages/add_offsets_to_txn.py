"""AddOffsetsToTxn (key 25), versions 0 to 4.

Generated from kio's schemas by tools/generate_messages.py: change that, then run `make messages`.
"""

from ottla.wire.schema import i16, i32, i64, message


@message(key=25, versions=(0, 4), flexible=3)
class AddOffsetsToTxnRequest:
    transactional_id: str
    producer_id: i64
    producer_epoch: i16
    group_id: str


@message(key=25, versions=(0, 4), flexible=3)
class AddOffsetsToTxnResponse:
    throttle_time_ms: i32 = 0
    error_code: i16 = 0
