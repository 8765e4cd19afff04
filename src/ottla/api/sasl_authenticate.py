"""SaslAuthenticate (key 36): a step of an authentication, or of a broker that proves to be one (design note
009).

Without a handshake before it, or after it is over: ILLEGAL_SASL_STATE. Who fails is told
SASL_AUTHENTICATION_FAILED and one sentence, whatever the reason, and the connection ends; on a listener
without SASL it goes on, as nobody's.

v1 session lifetime (KIP-368) · v2 flexible
"""

from ottla.api.call import Call
from ottla.api.failed_authentication import ending
from ottla.base.errors import ErrorCode
from ottla.broker.parked import Parked
from ottla.security.sasl.exchange import AuthenticationError, Stage
from ottla.wire.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse


def sasl_authenticate(call: Call, request: SaslAuthenticateRequest) -> SaslAuthenticateResponse | Parked:
    token, broker = bytes(request.auth_bytes), call.broker
    if broker.identities.has_begun(call.connection):
        return _prove(call, token)
    exchange = broker.authentication.find(call.connection)
    if exchange is None or exchange.stage is not Stage.TOKEN:
        return SaslAuthenticateResponse(
            error_code=ErrorCode.ILLEGAL_SASL_STATE,
            error_message="This listener has no SASL, or the handshake is over.",
            auth_bytes=b"",
        )
    wall_ms = broker.storage.wall_ms(call.now_ms)
    try:
        step = broker.authentication.authenticate(call.connection, token, call.now_ms, wall_ms)
    except AuthenticationError as error:
        broker.authentication.complain(call.who, f"{exchange.mechanism}: {error}", call.now_ms)
        sentence = (
            f"Authentication failed due to invalid credentials with SASL mechanism {exchange.mechanism}"
        )
        reason = f"it did not authenticate: {error}"
        return ending(broker, call.connection, call.now_ms, reason, _refusal(sentence))
    lifetime_ms = (step.lifetime_ms or 0) if step.principal else 0
    return SaslAuthenticateResponse(auth_bytes=step.reply, session_lifetime_ms=lifetime_ms)


def _prove(call: Call, token: bytes) -> SaslAuthenticateResponse | Parked:
    """A step of a broker's proof. On a listener with SASL that is an authentication, too."""
    from ottla.security.peer_handshake import HandshakeError  # a broker that is alone has no use for it

    broker = call.broker
    exchange = broker.authentication.find(call.connection)
    try:
        answer = broker.identities.go_on(call.connection, token)
    except HandshakeError as error:
        sentence = f"{call.who} did not prove to be a broker: {error}"
        broker.identities.refuse(call.connection, sentence, call.now_ms)
        response = _refusal("This connection did not prove to be a broker's.")
        if exchange is None or exchange.stage is Stage.COMPLETE:
            return response
        reason = f"it did not prove to be a broker's: {error}"
        return ending(broker, call.connection, call.now_ms, reason, response)
    if exchange is not None and broker.identities.is_broker(call.connection):
        broker.authentication.admit_broker(call.connection, exchange)
    return SaslAuthenticateResponse(auth_bytes=answer)


def _refusal(sentence: str) -> SaslAuthenticateResponse:
    code = ErrorCode.SASL_AUTHENTICATION_FAILED
    return SaslAuthenticateResponse(error_code=code, error_message=sentence, auth_bytes=b"")
