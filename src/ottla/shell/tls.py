"""TLS contexts, made from settings and the files that these name: of a listener, and of connections to other
brokers and to ZooKeeper.

Private keys are in memory alone: where OpenSSL wants a file it is given a private one. The files of an
operator are read where they are.
"""

import os
import re
import ssl

from ottla.base.config import ConfigError
from ottla.base.private_file import private_file
from ottla.security.pkcs12 import JAVA_MAGIC, open_pkcs12
from ottla.security.tls_config import VERSIONS, TlsConfig

_MODES = {"none": ssl.CERT_NONE, "requested": ssl.CERT_OPTIONAL, "required": ssl.CERT_REQUIRED}
_LIMITS = dict(zip(VERSIONS, (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3), strict=True))
_PEM = re.compile(rb"-----BEGIN [A-Z0-9 ]+-----.+?-----END [A-Z0-9 ]+-----", re.DOTALL)
FILE_BYTES_MAX = 4 << 20


def server_context(config: TlsConfig) -> ssl.SSLContext:
    """ConfigError: it cannot be made."""
    if not (config.keystore_location or config.keystore_key):
        raise ConfigError(
            "ssl.keystore.location: a listener with TLS needs a private key and a certificate, from such a "
            "file or from ssl.keystore.key and ssl.keystore.certificate.chain"
        )
    context = _context(config, ssl.PROTOCOL_TLS_SERVER)
    context.verify_mode = _MODES[config.client_auth]
    context.num_tickets = 0  # with TLS 1.3 every client proves itself anew
    context.options |= ssl.OP_NO_RENEGOTIATION
    if config.client_auth != "none":
        _trust(context, config, ssl.Purpose.CLIENT_AUTH)
    return context


def client_context(config: TlsConfig) -> ssl.SSLContext:
    """How this broker connects to others. ConfigError: it cannot be made."""
    context = _context(config, ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = bool(config.endpoint_identification)
    _trust(context, config, ssl.Purpose.SERVER_AUTH)
    return context


def _context(config: TlsConfig, role: int) -> ssl.SSLContext:
    context = ssl.SSLContext(role)
    context.minimum_version, context.maximum_version = (_LIMITS[config.versions[at]] for at in (0, -1))
    if config.older_suites:
        try:
            context.set_ciphers(":".join(config.older_suites))
        except ssl.SSLError:
            raise ConfigError("ssl.cipher.suites: OpenSSL has none of these suites") from None
    if config.keystore_location or config.keystore_key:
        _load_key(context, config)
    return context


# -- the private key --


def _load_key(context: ssl.SSLContext, config: TlsConfig) -> None:
    where = "ssl.keystore.location" if config.keystore_location else "ssl.keystore.key"
    password = config.key_password
    if not config.keystore_location:
        pem = f"{config.keystore_key.strip()}\n{config.keystore_chain.strip()}\n".encode()
    else:
        pem = _read(where, config.keystore_location)
        if config.keystore_type.upper() == "PEM":
            if not _PEM.search(pem):
                raise ConfigError(f"{where}: {config.keystore_location} has no PEM; see ssl.keystore.type")
        else:
            store_password = config.keystore_password
            pem, password = _pem_of_pkcs12(where, config.keystore_location, pem, store_password), ""
    try:
        with private_file(pem) as path:
            # Without a password OpenSSL would ask for one on the terminal.
            context.load_cert_chain(path, password=lambda: password)
    except (ssl.SSLError, ValueError, OSError) as error:
        raise ConfigError(f"{where}: {_problem(error, pem, password)}") from None


def _problem(error: Exception, pem: bytes, password: str) -> str:
    """In words of ours: those of OpenSSL say little, and may name a file that is none."""
    reason = getattr(error, "reason", None) or ""
    if b"PRIVATE KEY" not in pem:
        return "there is no private key in it"
    if b"BEGIN CERTIFICATE" not in pem:
        return "there is no certificate in it"
    if b"ENCRYPTED" in pem and (not password or "DECRYPT" in reason or not reason):
        return f"the private key is encrypted, and ssl.key.password is {'wrong' if password else 'not given'}"
    if "VALUES_MISMATCH" in reason:
        return "the private key is not that of the first certificate"
    return f"key and certificate cannot be read ({reason.replace('_', ' ').lower() or 'unknown form'})"


# -- trusted authorities --


def _trust(context: ssl.SSLContext, config: TlsConfig, purpose: ssl.Purpose) -> None:
    where = "ssl.truststore.certificates"
    if config.truststore_certificates:
        pem = config.truststore_certificates.encode()
    elif config.truststore_location:
        where = "ssl.truststore.location"
        pem = _read(where, config.truststore_location)
        if config.truststore_type.upper() != "PEM":
            pem = _pem_of_pkcs12(where, config.truststore_location, pem, config.truststore_password)
    else:
        context.load_default_certs(purpose)
        return
    if b"\0" in pem:  # such as a log, in which anybody may have put a certificate
        raise ConfigError(f"{where}: it is not PEM")
    certificates = [part for part in _PEM.findall(pem) if part.startswith(b"-----BEGIN CERTIFICATE-----")]
    if not certificates:
        raise ConfigError(f"{where}: there is no certificate in it")
    try:
        context.load_verify_locations(cadata=b"\n".join(certificates).decode("ascii", "replace"))
    except (ssl.SSLError, ValueError):
        raise ConfigError(f"{where}: a certificate in it cannot be read") from None


# -- files --


def _read(where: str, path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            content = file.read(FILE_BYTES_MAX + 1)
    except OSError as error:
        raise ConfigError(f"{where}: cannot read {path}: {os.strerror(error.errno or 0)}") from None
    if len(content) > FILE_BYTES_MAX:
        raise ConfigError(f"{where}: {path} is too large to be a key or a certificate")
    return content


def _pem_of_pkcs12(where: str, path: str, content: bytes, password: str) -> bytes:
    """Java reads PKCS12 whichever of its types is given, and so do we."""
    kind = where.removesuffix(".location")
    if content.startswith(JAVA_MAGIC):
        raise ConfigError(
            f"{where}: {path} is in Java's own format; convert it with keytool -importkeystore "
            f"-srckeystore {path} -destkeystore {path}.p12 -deststoretype PKCS12"
        )
    if content.lstrip().startswith(b"-----BEGIN"):
        raise ConfigError(f"{where}: {path} is PEM; set {kind}.type=PEM")
    try:
        store = open_pkcs12(content, password)
    except ImportError:
        raise ConfigError(
            f"{where}: to read PKCS12 takes cryptography (pip install 'ottla[tls]'); PEM does not"
        ) from None
    except ValueError:
        raise ConfigError(f"{where}: {path} is no PKCS12, or {kind}.password is wrong") from None
    return "".join((store.key, store.own, *store.others)).encode()
