"""TLS of a connection: the context of a client, the handshake, and what to check where it fails.

A certificate in the truststore is believed as it is, also one that is no root, as Java does.
"""

import socket
import ssl

from ottla.base.private_file import private_file
from ottla.client.errors import ClientError
from ottla.client.security import stores
from ottla.client.security.stores import OwnKey
from ottla.client.security.tls_settings import TlsSettings

_VERSIONS = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
# OpenSSL's numbers of what can be wrong with a certificate.
_EXPIRED = {9, 10}
_OTHER_NAME = {62, 64}


def context(tls: TlsSettings) -> ssl.SSLContext:
    trusted = stores.trusted(tls)
    try:
        made = ssl.create_default_context(cadata=trusted or None)
    except ssl.SSLError:
        raise ClientError(f"{tls.trusted.name}: a certificate in it cannot be read") from None
    # Newer Pythons ask more of a certificate than Java and librdkafka do.
    made.verify_flags &= ~ssl.VERIFY_X509_STRICT
    made.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    made.minimum_version, made.maximum_version = _VERSIONS[tls.versions[0]], _VERSIONS[tls.versions[-1]]
    if not (tls.is_name_checked and tls.is_verified):
        made.check_hostname = False
    if not tls.is_verified:
        made.verify_mode = ssl.CERT_NONE
    if tls.ciphers:
        try:
            made.set_ciphers(tls.ciphers)
        except ssl.SSLError:
            raise ClientError(
                "ssl.cipher.suites has none that OpenSSL knows; it takes OpenSSL's names"
            ) from None
    own = stores.own(tls)
    if own is not None:
        _load(made, own, tls.key.name)
    return made


def wrap(made: ssl.SSLContext, plain: socket.socket, host: str, tls: TlsSettings) -> ssl.SSLSocket:
    """The socket with TLS on it. OSError: it may be better another time; ClientError: it will not."""
    try:
        return made.wrap_socket(plain, server_hostname=host)
    except ssl.SSLCertVerificationError as error:
        raise ClientError(_distrust(error, host, tls)) from None
    except (ssl.SSLEOFError, ssl.SSLZeroReturnError, ConnectionError):
        raise ConnectionError(
            "the connection was closed in the middle of the TLS handshake; is it a port without TLS "
            "(security.protocol=PLAINTEXT or SASL_PLAINTEXT), or one that wants a certificate of the client "
            "(ssl.keystore.location)?"
        ) from None
    except ssl.SSLError as error:
        reason = error.reason or str(error)
        if reason in {
            "WRONG_VERSION_NUMBER",
            "RECORD_LAYER_FAILURE",
            "HTTP_REQUEST",
            "PACKET_LENGTH_TOO_LONG",
        }:
            raise ClientError(
                "what answers does not speak TLS; is it a port of another kind "
                "(security.protocol=PLAINTEXT or SASL_PLAINTEXT)?"
            ) from None
        raise ClientError(f"the TLS handshake failed ({_words(reason)}){_remedy(reason)}") from None


def explain(error: ssl.SSLError) -> str:
    """What went wrong once the handshake was over: with TLS 1.3 a client's certificate is looked at later."""
    reason = error.reason or str(error)
    return f"TLS: {_words(reason)}{_remedy(reason)}"


def _words(reason: str) -> str:
    return reason.replace("_", " ").lower()


def _remedy(reason: str) -> str:
    if "CERTIFICATE" in reason or "BAD_CERT" in reason or "UNKNOWN_CA" in reason:
        return ": the broker wants a certificate of this client that it believes; see ssl.keystore.location"
    if "VERSION" in reason:
        return ": the broker has none of these versions; see ssl.enabled.protocols"
    return ""


def _distrust(error: ssl.SSLCertVerificationError, host: str, tls: TlsSettings) -> str:
    if error.verify_code in _OTHER_NAME:
        return (
            f"the broker's certificate is not for {host}; connect under a name that it has, or, if that is "
            "how it must be, set ssl.endpoint.identification.algorithm= (empty) to accept any name"
        )
    said = error.verify_message or "it cannot be verified"
    if error.verify_code in _EXPIRED:
        return f"the broker's certificate is not valid now: {said}; is the clock right?"
    where = tls.trusted.name or "the system's authorities (ssl.truststore.location is not given)"
    return f"the broker's certificate is not believed: {said}; is its authority in {where}?"


def _load(made: ssl.SSLContext, own: OwnKey, name: str) -> None:
    """OpenSSL takes them from a file alone."""
    try:
        with private_file(f"{own.key}\n{own.certificates}".encode()) as path:
            made.load_cert_chain(path, password=own.password)
    except ssl.SSLError as error:
        if error.reason == "KEY_VALUES_MISMATCH":
            raise ClientError(f"{name}: the key is not that of the certificate") from None
        raise ClientError(f"{name}: the key cannot be read; is ssl.key.password right?") from None
