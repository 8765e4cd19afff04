"""The keys of SASL. Each may be set for one listener, as `listener.name.X.KEY`, and those of one mechanism as
`listener.name.X.MECHANISM.KEY`; the most particular wins (`sasl/settings`).
"""

from dataclasses import dataclass

from ottla.base.config import LONG_MAX, ConfigType, at_least, between, key

GSSAPI = "GSSAPI"
SUPPORTED = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
RECEIVE_BYTES_MAX = 512 * 1024
ENABLED_KEY, JAAS_KEY = "sasl.enabled.mechanisms", "sasl.jaas.config"
INTER_BROKER_KEY = "sasl.mechanism.inter.broker.protocol"
REAUTHENTICATION_KEY = "connections.max.reauth.ms"


@dataclass(frozen=True, slots=True, kw_only=True)
class SaslConfig:
    enabled_mechanisms: tuple[str, ...] = key(
        ENABLED_KEY,
        (GSSAPI,),
        f"The SASL mechanisms of a listener, of {', '.join(SUPPORTED)}. GSSAPI, which Kafka means when "
        "nothing is said, is not there: a listener with SASL needs this key.",
    )
    inter_broker_mechanism: str = key(
        INTER_BROKER_KEY, GSSAPI, "The SASL mechanism with which brokers authenticate to each other."
    )
    jaas: str = key(
        JAAS_KEY,
        "",
        "A JAAS line, as listener.name.X.MECHANISM.sasl.jaas.config: for PLAIN with the users, as "
        'user_NAME="password"; for a mechanism between brokers with username and password.',
        type=ConfigType.PASSWORD,
    )
    receive_bytes_max: int = key(
        "sasl.server.max.receive.size",
        RECEIVE_BYTES_MAX,
        "The most bytes of a request before authentication.",
        check=at_least(1),
    )
    reauthentication_ms_max: int = key(
        REAUTHENTICATION_KEY,
        0,
        "How long an authentication is good for; then a client has to authenticate again on the same "
        "connection (KIP-368). 0: for ever, or as long as its token.",
        type=ConfigType.LONG,
        check=between(0, LONG_MAX),
    )
    failure_delay_ms: int = key(
        "connection.failed.authentication.delay.ms",
        100,
        "How long who fails to authenticate waits for the answer, and for the end of the connection.",
        check=at_least(0),
    )
    authentication_ms_max: int = key(
        "ottla.authentication.timeout.ms",
        10_000,
        "How long after connecting a client may take to authenticate. (Ours: Kafka has no such limit.)",
        check=at_least(1),
    )
    unauthenticated_max: int = key(
        "ottla.unauthenticated.connections.max",
        1_024,
        "How many connections there may be that have not authenticated; for one more, the one that has been "
        "there longest is closed. (Ours: Kafka has no such limit.)",
        check=at_least(1),
    )
