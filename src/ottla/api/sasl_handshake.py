"""SaslHandshake (key 17): here, the first step of a broker that proves to be one (design note 009).

To everybody else a listener without SASL says what Kafka's says, ILLEGAL_SASL_STATE, and the connection goes
on.

v1 is followed by SaslAuthenticate, v0 by bytes without a header: that one is never taken up.
"""

from ottla.api.call import Call
from ottla.base.errors import ErrorCode
from ottla.wire.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse

AUTHENTICATE_SINCE = 1


def sasl_handshake(call: Call, request: SaslHandshakeRequest) -> SaslHandshakeResponse:
    is_ours = call.version >= AUTHENTICATE_SINCE
    if is_ours and call.broker.identities.begin(call.connection, request.mechanism):
        return SaslHandshakeResponse(mechanisms=[request.mechanism])
    return SaslHandshakeResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE)
