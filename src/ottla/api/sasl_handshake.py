"""SaslHandshake (key 17): the mechanism with which somebody wants to authenticate.

On every listener it may be the one with which a broker proves to be one (design note 009). Of the others,
UNSUPPORTED_SASL_MECHANISM is told those there are, and ends the connection. Where it is out of turn, because
the listener has no SASL or because authentication is under way or over: ILLEGAL_SASL_STATE.

v1 is followed by SaslAuthenticate, v0 by bytes without a header.
"""

from ottla.api.call import Call
from ottla.api.failed_authentication import ending
from ottla.base.errors import ErrorCode
from ottla.broker.parked import Parked
from ottla.security.sasl.exchange import Stage
from ottla.wire.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse

AUTHENTICATE_SINCE = 1


def sasl_handshake(call: Call, request: SaslHandshakeRequest) -> SaslHandshakeResponse | Parked:
    is_bare = call.version < AUTHENTICATE_SINCE
    authentication = call.broker.authentication
    exchange = authentication.find(call.connection)
    is_out_of_turn = exchange is None or exchange.stage in {Stage.TOKEN, Stage.COMPLETE}
    if not is_bare and call.broker.identities.begin(call.connection, request.mechanism):
        if exchange is not None and not is_out_of_turn:
            exchange.stage = Stage.TOKEN
        return SaslHandshakeResponse(mechanisms=[request.mechanism])
    if exchange is None or exchange.stage is Stage.COMPLETE:
        return SaslHandshakeResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE)
    if exchange.stage is Stage.TOKEN:
        response = SaslHandshakeResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE)
    elif authentication.handshake(exchange, request.mechanism, is_bare=is_bare):
        return SaslHandshakeResponse(mechanisms=exchange.names)
    else:
        response = SaslHandshakeResponse(
            error_code=ErrorCode.UNSUPPORTED_SASL_MECHANISM, mechanisms=exchange.names
        )
    reason = f"a handshake for {request.mechanism!r:.100} is refused, error {response.error_code}"
    authentication.complain(call.who, reason, call.now_ms)
    return ending(call.broker, call.connection, call.now_ms, reason, response)
