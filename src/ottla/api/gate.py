"""The gate on a listener with SASL: what a connection may send before it has authenticated, and when it has
to do so again.

As in Kafka: ApiVersions once, SaslHandshake, SaslAuthenticate, in this order. A second SaslHandshake in place
of SaslAuthenticate is told ILLEGAL_SASL_STATE. Whatever else comes out of turn has no answer, and is not even
decoded (Kafka decodes and answers what comes in place of SaslAuthenticate). In either case the connection
ends, after connection.failed.authentication.delay.ms.
"""

from typing import Any

from ottla.api.call import CloseConnection, Silence
from ottla.api.dispatch import on_request
from ottla.api.failed_authentication import ending
from ottla.api.table import TABLE
from ottla.base.files import Buffer
from ottla.broker.broker import Broker
from ottla.broker.effects import Close
from ottla.broker.request_meter import RequestMeter
from ottla.security.sasl.exchange import AuthenticationError, Stage
from ottla.wire.frame import LENGTH
from ottla.wire.header import API_VERSIONS

SASL_HANDSHAKE, SASL_AUTHENTICATE = 17, 36
_ALLOWED = {
    Stage.VERSIONS_OR_HANDSHAKE: {API_VERSIONS, SASL_HANDSHAKE},
    Stage.HANDSHAKE: {SASL_HANDSHAKE},
    Stage.TOKEN: {SASL_AUTHENTICATE, SASL_HANDSHAKE},
    Stage.FAILED: set[int](),
}


def on_gated_request(
    broker: Broker,
    connection: int,
    frame: memoryview,
    now_ms: int,
    client_host: str = "",
    meter: RequestMeter | None = None,
) -> list[Buffer] | Silence:
    """As `on_request`, on a connection that has to authenticate first, and perhaps again later."""
    exchange = broker.authentication.exchange(connection)
    if exchange.stage is Stage.BARE_TOKEN:
        return _on_bare_token(broker, connection, bytes(frame), now_ms, client_host)
    api_key = int.from_bytes(frame[:2], signed=True)
    if exchange.stage is Stage.COMPLETE:
        expires_ms = broker.access.session(connection).expires_ms
        if expires_ms is None or broker.identities.is_broker(connection):
            pass
        elif api_key == SASL_HANDSHAKE and exchange.may_begin_again(now_ms):
            exchange.begin_again(now_ms)
        elif now_ms > expires_ms:
            raise CloseConnection("its authentication has expired (connections.max.reauth.ms)")
    elif api_key not in _ALLOWED[exchange.stage]:
        return _end(broker, connection, client_host, f"API {api_key} came out of turn", now_ms)
    answer = on_request(broker, connection, frame, now_ms, client_host, meter)
    if api_key == API_VERSIONS and exchange.stage is Stage.VERSIONS_OR_HANDSHAKE and _is_answered(frame):
        exchange.on_versions()
    return answer


def _is_answered(frame: memoryview) -> bool:
    """Whether it was an ApiVersions of a version that there is: else the client asks again for another."""
    low, high = TABLE[API_VERSIONS].versions
    return low <= int.from_bytes(frame[2:4], signed=True) <= high


def _on_bare_token(
    broker: Broker, connection: int, token: bytes, now_ms: int, client_host: str
) -> list[Buffer] | Silence:
    authentication = broker.authentication
    try:
        step = authentication.authenticate(connection, token, now_ms, broker.storage.wall_ms(now_ms))
    except AuthenticationError as error:
        return _end(broker, connection, client_host, str(error), now_ms)
    return [LENGTH.pack(len(step.reply)) + step.reply]


def _end(broker: Broker, connection: int, client_host: str, reason: str, now_ms: int) -> Silence:
    broker.authentication.complain(client_host.removeprefix("/"), reason, now_ms)
    parked = ending(broker, connection, now_ms, f"it did not authenticate: {reason}")
    parked.owner = connection
    parked.reply = lambda last: _close(broker, connection, last)
    broker.waiting.park(parked)
    return Silence.PARKED


def _close(broker: Broker, connection: int, last: Any) -> None:
    broker.outbox.put(Close(connection, str(last)))
