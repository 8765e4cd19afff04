"""Every security property that Kafka's clients have, Java's and librdkafka's, and what becomes of it here."""

import difflib
from collections.abc import Iterable

from ottla.client.errors import ClientError

PREFIXES = ("security.", "ssl.", "sasl.", "https.", "enable.ssl.", "enable.sasl.")

_TLS = """
    ssl.protocol ssl.enabled.protocols ssl.cipher.suites ssl.endpoint.identification.algorithm
    ssl.truststore.type ssl.truststore.location ssl.truststore.password ssl.truststore.certificates
    ssl.keystore.type ssl.keystore.location ssl.keystore.password ssl.key.password
    ssl.keystore.key ssl.keystore.certificate.chain
    ssl.ca.location ssl.ca.pem ssl.certificate.location ssl.certificate.pem ssl.key.location ssl.key.pem
    enable.ssl.certificate.verification
"""
TLS = frozenset(_TLS.split())
_SASL = """
    sasl.mechanism sasl.mechanisms sasl.jaas.config sasl.username sasl.password
    sasl.login.callback.handler.class sasl.oauthbearer.jwt.retriever.class
    sasl.oauthbearer.token sasl.oauthbearer.token.endpoint.url sasl.oauthbearer.scope
    sasl.oauthbearer.client.id sasl.oauthbearer.client.secret sasl.oauthbearer.extensions
    sasl.oauthbearer.client.credentials.client.id sasl.oauthbearer.client.credentials.client.secret
    sasl.oauthbearer.header.urlencode sasl.oauthbearer.method sasl.oauthbearer.grant.type
    https.ca.location https.ca.pem
"""
SASL = frozenset(_SASL.split())
PROTOCOL = "security.protocol"
HONOURED = TLS | SASL | {PROTOCOL}

# How Java does a thing that is done in another way here, or what brokers check in any case.
_WITHOUT_EFFECT = """
    ssl.provider ssl.keymanager.algorithm ssl.trustmanager.algorithm ssl.secure.random.implementation
    sasl.login.refresh.window.factor sasl.login.refresh.window.jitter sasl.login.refresh.min.period.seconds
    sasl.login.refresh.buffer.seconds sasl.login.connect.timeout.ms sasl.login.read.timeout.ms
    sasl.login.retry.backoff.ms sasl.login.retry.backoff.max.ms
    sasl.kerberos.kinit.cmd sasl.kerberos.min.time.before.relogin sasl.kerberos.ticket.renew.jitter
    sasl.kerberos.ticket.renew.window.factor
    sasl.oauthbearer.clock.skew.seconds sasl.oauthbearer.expected.audience sasl.oauthbearer.expected.issuer
    sasl.oauthbearer.jwks.endpoint.url sasl.oauthbearer.jwks.endpoint.refresh.ms
    sasl.oauthbearer.jwks.endpoint.retry.backoff.ms sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms
    sasl.oauthbearer.jwt.validator.class sasl.oauthbearer.scope.claim.name sasl.oauthbearer.sub.claim.name
"""
WITHOUT_EFFECT = frozenset(_WITHOUT_EFFECT.split())

_JAVA_CLASS = "it names a Java class, and there is no Java here"
_NO_KERBEROS = "Kerberos (GSSAPI) is not supported; PLAIN, SCRAM and OAUTHBEARER are"
_NO_ASSERTION = "tokens are had by client credentials; for another grant fetch one, and name its file"
REFUSED = {
    "security.providers": _JAVA_CLASS,
    "ssl.engine.factory.class": _JAVA_CLASS,
    "sasl.client.callback.handler.class": _JAVA_CLASS,
    "sasl.login.class": _JAVA_CLASS,
    "sasl.kerberos.service.name": _NO_KERBEROS,
    "sasl.kerberos.principal": _NO_KERBEROS,
    "sasl.kerberos.keytab": _NO_KERBEROS,
    "sasl.oauthbearer.config": "set sasl.oauthbearer.token.endpoint.url or sasl.oauthbearer.token instead",
    "enable.sasl.oauthbearer.unsecure.jwt": "tokens without a signature are not made here",
    "ssl.crl.location": "revocation lists are not read; leave the certificate out of the truststore",
    "ssl.curves.list": "curves are chosen by the TLS library",
    "ssl.sigalgs.list": "signature algorithms are chosen by the TLS library",
    "ssl.providers": "OpenSSL's own providers are used",
    "ssl.engine.location": "OpenSSL's engines are not used",
    "ssl.engine.id": "OpenSSL's engines are not used",
    "ssl.ca.certificate.stores": "that is for Windows; set ssl.ca.location",
}
_REFUSED_PREFIXES = {"sasl.oauthbearer.assertion.": _NO_ASSERTION}


def is_security(name: str) -> bool:
    return name.startswith(PREFIXES)


def check_names(names: Iterable[str]) -> None:
    """ClientError for what is not supported, or is most likely misspelled."""
    for name in names:
        if name in HONOURED or name in WITHOUT_EFFECT:
            continue
        reason = REFUSED.get(name) or next(
            (text for prefix, text in _REFUSED_PREFIXES.items() if name.startswith(prefix)), None
        )
        if reason is not None:
            raise ClientError(f"{name} is not supported: {reason}")
        near = difflib.get_close_matches(name, sorted(HONOURED | WITHOUT_EFFECT), 1)
        raise ClientError(f"{name} is not known" + (f"; did you mean {near[0]}?" if near else ""))
