"""InitProducerId (key 22), versions 0 to 5.

Generated from kio's schemas by tools/generate_messages.py: change that, then run `make messages`.
"""

from typing import Annotated

from ottla.wire.schema import i16, i32, i64, message, since


@message(key=22, versions=(0, 5), flexible=2)
class InitProducerIdRequest:
    transactional_id: str | None = None
    transaction_timeout_ms: i32
    producer_id: Annotated[i64, since(3)] = -1
    producer_epoch: Annotated[i16, since(3)] = -1


@message(key=22, versions=(0, 5), flexible=2)
class InitProducerIdResponse:
    throttle_time_ms: i32 = 0
    error_code: i16 = 0
    producer_id: i64 = -1
    producer_epoch: i16
