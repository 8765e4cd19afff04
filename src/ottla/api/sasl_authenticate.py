"""SaslAuthenticate (key 36): here, the steps of a broker that proves to be one (design note 009).

Without such a handshake before it, or after it is over: ILLEGAL_SASL_STATE, as a listener without SASL
answers in Kafka. Who fails is told SASL_AUTHENTICATION_FAILED, and is nobody.

v1 session lifetime · v2 flexible
"""

from ottla.api.call import Call
from ottla.base.errors import ErrorCode
from ottla.wire.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse


def sasl_authenticate(call: Call, request: SaslAuthenticateRequest) -> SaslAuthenticateResponse:
    from ottla.security.peer_handshake import HandshakeError  # a broker that is alone has no use for it

    try:
        answer = call.broker.identities.go_on(call.connection, bytes(request.auth_bytes))
    except HandshakeError as error:
        sentence = f"{call.who} did not prove to be a broker: {error}"
        call.broker.identities.refuse(call.connection, sentence, call.now_ms)
        return SaslAuthenticateResponse(
            error_code=ErrorCode.SASL_AUTHENTICATION_FAILED,
            error_message="This connection did not prove to be a broker's.",
            auth_bytes=b"",
        )
    if answer is None:
        return SaslAuthenticateResponse(
            error_code=ErrorCode.ILLEGAL_SASL_STATE,
            error_message="This listener has no SASL, or the handshake is over.",
            auth_bytes=b"",
        )
    return SaslAuthenticateResponse(auth_bytes=answer)
