"""What is said of a TLS handshake that fails, by servers that are only that far."""

import os
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from tests.support.certificates import Authority, Identity

from ottla.base.addresses import Address
from ottla.client import ClientError
from ottla.client.connection import Connection
from ottla.client.retry import Deadline
from ottla.client.security.handshakes import Handshakes
from ottla.client.security.settings import client_security
from ottla.client.security.tls import context

AUTHORITY = Authority()
TRUSTING = {"security.protocol": "SSL", "ssl.truststore.certificates": AUTHORITY.pem}


@contextmanager
def listening(serve: Callable[[socket.socket], None]) -> Iterator[int]:
    """One connection, served in a thread."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(30)

        def accept() -> None:
            connection, _ = server.accept()
            with connection:
                connection.settimeout(30)
                serve(connection)

        thread = threading.Thread(target=accept)
        thread.start()
        yield server.getsockname()[1]
        thread.join()


def shaking_hands(identity: Identity, tmp_path: Path) -> Callable[[socket.socket], None]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(identity.write(tmp_path / "server.pem"))

    def serve(connection: socket.socket) -> None:
        with suppress(OSError):
            context.wrap_socket(connection, server_side=True).close()

    return serve


def failure(port: int, properties: dict[str, str], error: type[Exception] = ClientError) -> str:
    with pytest.raises(error) as caught:
        Connection(Address("127.0.0.1", port), "test", Deadline(30), Handshakes(client_security(properties)))
    return str(caught.value)


def test_a_certificate_for_another_name_is_told_with_both_ways_out(tmp_path: Path) -> None:
    other = AUTHORITY.issue("broker", hosts=("elsewhere.example.com",))
    with listening(shaking_hands(other, tmp_path)) as port:
        said = failure(port, TRUSTING)
    assert f"broker 127.0.0.1:{port}: the broker's certificate is not for 127.0.0.1" in said
    assert "ssl.endpoint.identification.algorithm= (empty)" in said
    with listening(shaking_hands(other, tmp_path)) as port:
        any_name = {**TRUSTING, "ssl.endpoint.identification.algorithm": ""}
        assert "closed" in failure(port, any_name, OSError), "the handshake was fine, and there is no more"


def test_a_certificate_that_has_expired_is_told(tmp_path: Path) -> None:
    with listening(shaking_hands(AUTHORITY.issue("broker", days=-1), tmp_path)) as port:
        assert "is not valid now: certificate has expired" in failure(port, TRUSTING)


def test_a_certificate_that_is_trusted_itself_needs_no_authority(tmp_path: Path) -> None:
    own = AUTHORITY.issue("broker")
    pinned = own.chain_pem.split("-----END CERTIFICATE-----")[0] + "-----END CERTIFICATE-----\n"
    with listening(shaking_hands(own, tmp_path)) as port:
        said = failure(port, {"security.protocol": "SSL", "ssl.ca.pem": pinned}, OSError)
    assert "closed" in said


def test_what_does_not_speak_tls_is_told(tmp_path: Path) -> None:
    with listening(lambda connection: connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")) as port:
        assert "what answers does not speak TLS" in failure(port, TRUSTING)


def test_versions_without_one_in_common_are_told(tmp_path: Path) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(AUTHORITY.issue("broker").write(tmp_path / "server.pem"))
    context.maximum_version = ssl.TLSVersion.TLSv1_2

    def serve(connection: socket.socket) -> None:
        with pytest.raises(OSError):
            context.wrap_socket(connection, server_side=True)

    with listening(serve) as port:
        said = failure(port, {**TRUSTING, "ssl.enabled.protocols": "TLSv1.3"})
    assert "see ssl.enabled.protocols" in said


def test_a_key_of_another_certificate_and_a_wrong_password_are_told() -> None:
    own, other = AUTHORITY.issue("a"), AUTHORITY.issue("b")
    chain = {"ssl.keystore.certificate.chain": own.chain_pem}
    with listening(lambda connection: None) as port:
        said = failure(port, {**TRUSTING, **chain, "ssl.keystore.key": other.key_pem()})
    assert "ssl.keystore.key: the key is not that of the certificate" in said
    with listening(lambda connection: None) as port:
        wrong = {"ssl.keystore.key": own.key_pem("right"), "ssl.key.password": "wrong-secret"}
        said = failure(port, {**TRUSTING, **chain, **wrong})
    assert "is ssl.key.password right?" in said
    assert "wrong-secret" not in said


def test_a_client_has_a_certificate_also_on_systems_without_files_in_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    own = AUTHORITY.issue("a")
    monkeypatch.delattr(os, "memfd_create")
    security = client_security({
        **TRUSTING, "ssl.keystore.certificate.chain": own.chain_pem, "ssl.keystore.key": own.key_pem(),
    })  # fmt: skip
    assert security.tls is not None
    assert context(security.tls).verify_mode is ssl.CERT_REQUIRED
