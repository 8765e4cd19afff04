"""A client's security in librdkafka's words. Certificates and keys go as text, whatever they came as."""

import time
from typing import Any

from ottla.client.errors import ClientError
from ottla.client.security import stores
from ottla.client.security.settings import ClientSecurity
from ottla.client.security.tls_settings import VERSIONS, TlsSettings
from ottla.client.security.tokens import Tokens

WITHOUT_END_S = 3600.0


def librdkafka_security(security: ClientSecurity) -> dict[str, Any]:
    settings: dict[str, Any] = {"security.protocol": security.protocol.lower()}
    if security.tls is not None:
        settings |= _tls(security.tls)
    if security.sasl is not None:
        settings["sasl.mechanisms"] = security.sasl.mechanism
        if security.sasl.tokens is None:
            settings |= {"sasl.username": security.sasl.username, "sasl.password": security.sasl.password}
        else:
            settings["oauth_cb"] = _token_function(Tokens(security.sasl.tokens))
    return settings


def _tls(tls: TlsSettings) -> dict[str, Any]:
    if tls.versions != VERSIONS:
        raise ClientError(
            "ssl.enabled.protocols cannot be told to librdkafka, which this command uses: it takes TLS 1.2 "
            "or 1.3, whatever the broker prefers"
        )
    settings: dict[str, Any] = {
        "ssl.endpoint.identification.algorithm": "https" if tls.is_name_checked else "none",
        "enable.ssl.certificate.verification": tls.is_verified,
    }
    if trusted := stores.trusted(tls):
        settings["ssl.ca.pem"] = trusted
    own = stores.own(tls)
    if own is not None:
        settings |= {"ssl.certificate.pem": own.certificates, "ssl.key.pem": own.key}
        if own.password:
            settings["ssl.key.password"] = own.password
    if tls.ciphers:
        settings["ssl.cipher.suites"] = tls.ciphers
    return settings


def _token_function(tokens: Tokens) -> Any:
    def token(_config: str) -> tuple[str, float, str, dict[str, str]]:
        """Called by confluent-kafka whenever librdkafka wants one."""
        fresh = tokens.token()
        # Without an end librdkafka does not take it: it asks again after most of an hour.
        expires_s = fresh.expires_s or time.time() + WITHOUT_END_S
        return fresh.text, expires_s, fresh.subject, dict(tokens.settings.extensions)

    return token
