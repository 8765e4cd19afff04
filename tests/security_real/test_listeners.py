"""A broker with listeners of all kinds: who is who by certificate, new certificates without a restart,
handshakes that hang or fail."""

import asyncio
import contextlib
import logging
import os
import socket
import ssl
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType
from tests.api.test_client_quotas import entry
from tests.support.certificates import PEM, Authority, Identity, subject
from tests.support.waiting import wait_for

from ottla import Broker
from ottla.base.addresses import Address
from ottla.base.config import ConfigError
from ottla.client.connection import Connection
from ottla.client.retry import Deadline
from ottla.shell.server import Server
from ottla.wire.frame import LENGTH
from ottla.wire.header import RequestHeader, encode_request_header
from ottla.wire.messages.alter_client_quotas import AlterClientQuotasRequest, AlterClientQuotasResponse

AUTHORITY = Authority()
TLS = AUTHORITY.properties()
WITHIN_S = 30.0


def server_of(broker: Broker) -> Server:
    server = broker._server
    assert server is not None
    return server


def port_of(broker: Broker, listener: str) -> int:
    return server_of(broker).clients.endpoints[listener].port


def trusting(identity: Identity | None = None, authority: Authority = AUTHORITY) -> ssl.SSLContext:
    context = ssl.create_default_context(cadata=authority.pem)
    if identity is not None:
        path = f"/dev/shm/ottla-{os.getpid()}.pem"
        try:
            with open(path, "w") as file:
                file.write(identity.key_pem() + identity.chain_pem)
            context.load_cert_chain(path)
        finally:
            os.unlink(path)
    return context


@contextmanager
def connected(port: int, context: ssl.SSLContext) -> Iterator[ssl.SSLSocket]:
    with (
        socket.create_connection(("127.0.0.1", port), timeout=WITHIN_S) as plain,
        context.wrap_socket(plain, server_hostname="localhost") as channel,
    ):
        yield channel


def asked(channel: socket.socket) -> bytes:
    """ApiVersions v0, and the correlation id of its answer."""
    frame = encode_request_header(RequestHeader(18, 0, 7, "a test"))
    channel.sendall(LENGTH.pack(len(frame)) + frame)
    return channel.recv(8)[4:]


ANSWER = (7).to_bytes(4, "big")


def serial_of(channel: ssl.SSLSocket) -> int:
    certificate = channel.getpeercert()
    assert certificate
    return int(str(certificate["serialNumber"]), 16)


def principals(broker: Broker) -> set[str]:
    server = server_of(broker)
    return {str(server.broker.access.session(number).principal) for number in server.clients.connections}


def test_each_listener_has_its_own_protocol_and_its_own_settings() -> None:
    other = Authority("another")
    config = {
        "listeners": "PLAINTEXT://127.0.0.1:0,SSL://127.0.0.1:0,OUTSIDE://127.0.0.1:0",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SSL:SSL,OUTSIDE:SSL",
        **TLS,
        **{f"listener.name.outside.{name}": value for name, value in other.properties().items()},
        "listener.name.outside.ssl.enabled.protocols": "TLSv1.2",
    }
    with Broker(config=config) as broker:
        with socket.create_connection(("127.0.0.1", port_of(broker, "PLAINTEXT"))) as channel:
            assert asked(channel) == ANSWER
        with connected(port_of(broker, "SSL"), trusting()) as channel:
            assert (asked(channel), channel.version()) == (ANSWER, "TLSv1.3")
        with connected(port_of(broker, "OUTSIDE"), trusting(authority=other)) as channel:
            assert (asked(channel), channel.version()) == (ANSWER, "TLSv1.2")
        with (
            pytest.raises(ssl.SSLCertVerificationError),
            connected(port_of(broker, "OUTSIDE"), trusting()),
        ):
            pass


def test_who_shows_a_certificate_is_its_owner_by_the_rules_and_others_are_anonymous() -> None:
    config = TLS | {
        "listeners": "SSL://127.0.0.1:0",
        "ssl.client.auth": "requested",
        "ssl.principal.mapping.rules": "RULE:^CN=(.*?),OU=Users.*$/$1/L,RULE:^CN=nobody$/DEFAULT/,DEFAULT",
    }
    alice = AUTHORITY.issue(subject("Alice", ORGANIZATIONAL_UNIT_NAME="Users"))
    with Broker(config=config) as broker, ExitStack() as open_connections:
        port = port_of(broker, "SSL")
        for context in (trusting(alice), trusting(AUTHORITY.issue("bob")), trusting()):
            assert asked(open_connections.enter_context(connected(port, context))) == ANSWER
        assert principals(broker) == {"User:alice", "User:CN=bob", "User:ANONYMOUS"}


def test_who_is_nobody_by_the_rules_or_of_another_authority_or_shows_nothing_is_not_let_in(
    caplog: pytest.LogCaptureFixture,
) -> None:
    config = TLS | {
        "listeners": "SSL://127.0.0.1:0",
        "ssl.client.auth": "required",
        "ssl.principal.mapping.rules": "RULE:^CN=alice$/alice/",
    }
    strangers = [
        AUTHORITY.issue("bob"),
        Authority("another").issue("alice"),
        AUTHORITY.issue("alice", days=-1),
    ]
    with Broker(config=config) as broker:
        port = port_of(broker, "SSL")
        for context in (*map(trusting, strangers), trusting()):
            # In TLS 1.3 a client learns only afterwards what the server thinks of it.
            try:
                with connected(port, context) as channel:
                    assert asked(channel) == b"", "the end, and no answer"
            except (ssl.SSLError, ConnectionError):
                continue
        with connected(port, trusting(AUTHORITY.issue("alice"))) as channel:
            assert asked(channel) == ANSWER
            assert principals(broker) == {"User:alice"}
    assert "no rule of ssl.principal.mapping.rules matches CN=bob" in caplog.text


def test_certificates_whose_files_change_are_taken_up_without_a_restart_and_what_is_broken_is_not(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store = tmp_path / "store.pem"
    first, second = AUTHORITY.issue("broker"), AUTHORITY.issue("broker")
    config = PEM | {"listeners": "SSL://127.0.0.1:0", "ssl.keystore.location": first.write(store)}
    with Broker(config=config) as broker:
        port = port_of(broker, "SSL")

        def shown() -> int:
            with connected(port, trusting()) as channel:
                assert asked(channel) == ANSWER
                return serial_of(channel)

        with connected(port, trusting()) as old:
            assert serial_of(old) == first.certificate.serial_number
            store.write_text("nothing of use")
            wait_for(lambda: "goes on with what it had" in caplog.text, WITHIN_S)
            assert shown() == first.certificate.serial_number
            second.write(tmp_path / "new.pem")
            os.replace(tmp_path / "new.pem", store)
            wait_for(lambda: shown() == second.certificate.serial_number, WITHIN_S)
            assert asked(old) == ANSWER, "who is there stays"


def alter(broker: Broker, **configs: str) -> None:
    client = AdminClient({"bootstrap.servers": f"127.0.0.1:{port_of(broker, 'PLAINTEXT')}"})
    entries = [
        ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
        for name, value in configs.items()
    ]
    resource = ConfigResource(ResourceType.BROKER, "1", incremental_configs=entries)
    client.incremental_alter_configs([resource])[resource].result(WITHIN_S)


def test_certificates_can_be_changed_with_kafka_configs_and_what_is_broken_is_refused(tmp_path: Path) -> None:
    first, second = AUTHORITY.issue("broker"), AUTHORITY.issue("broker")
    key = "listener.name.ssl.ssl.keystore.location"
    config = PEM | {
        "listeners": "PLAINTEXT://127.0.0.1:0,SSL://127.0.0.1:0",
        key: first.write(tmp_path / "first.pem"),
    }
    with Broker(config=config) as broker:

        def shown() -> int:
            with connected(port_of(broker, "SSL"), trusting()) as channel:
                return serial_of(channel)

        assert shown() == first.certificate.serial_number
        for name, value, said in (
            (key, "/no/such/file", "cannot read /no/such/file"),
            ("ssl.keystore.location", str(tmp_path), "for one listener alone"),
            ("listener.name.ssl.ssl.key.password", "hush", "cannot be changed while the broker runs"),
        ):
            with pytest.raises(KafkaException, match=said):
                alter(broker, **{name: value})
        alter(broker, **{key: second.write(tmp_path / "second.pem")})
        wait_for(lambda: shown() == second.certificate.serial_number, WITHIN_S)


def test_handshakes_that_hang_keep_nobody_waiting_and_end_after_a_while(
    caplog: pytest.LogCaptureFixture,
) -> None:
    config = TLS | {
        "listeners": "SSL://127.0.0.1:0",
        "ottla.authentication.timeout.ms": "1500",
        "ottla.unauthenticated.connections.max": "50",
    }
    with Broker(config=config) as broker, ExitStack() as hanging:
        port = port_of(broker, "SSL")
        channels = [
            hanging.enter_context(socket.create_connection(("127.0.0.1", port), timeout=WITHIN_S))
            for _ in range(200)
        ]
        for channel in channels[::2]:
            channel.sendall(b"\x16\x03\x01\x02\x00")  # a record that never comes
        handshakes = server_of(broker).clients.handshakes
        assert handshakes is not None
        wait_for(lambda: 0 < len(handshakes._unfinished) <= 50, WITHIN_S)
        with connected(port, trusting()) as channel:
            assert asked(channel) == ANSWER
        for channel in channels:
            try:
                assert channel.recv(1) == b""
            except ConnectionResetError:
                continue
        wait_for(lambda: not handshakes._unfinished, WITHIN_S)
        with connected(port, trusting()) as channel:
            assert asked(channel) == ANSWER
    lines = [record for record in caplog.records if "failed to begin TLS" in record.getMessage()]
    assert 1 <= len(lines) <= 10, "a line a second"


def test_whatever_is_sent_in_place_of_a_handshake_costs_its_connection_alone(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    noise = [
        os.urandom(300),
        b"\0\0\0\x10" + bytes(16),
        b"GET / HTTP/1.0\r\n\r\n",
        b"\x16\x03\x01\xff\xff" + b"x" * 70_000,
    ]
    with Broker(config=TLS | {"listeners": "SSL://127.0.0.1:0"}) as broker:
        port = port_of(broker, "SSL")
        with connected(port, trusting()) as healthy:
            for sent in noise:
                with socket.create_connection(("127.0.0.1", port), timeout=WITHIN_S) as channel:
                    try:
                        channel.sendall(sent)
                        while channel.recv(4096):
                            pass
                    except ConnectionError:
                        continue
            with (
                connected(port, trusting()) as damaged,
                socket.socket(fileno=os.dup(damaged.fileno())) as raw,
            ):
                raw.settimeout(WITHIN_S)
                raw.sendall(b"\x17\x03\x03\x00\x20" + os.urandom(32))  # a record that nobody sealed
                while raw.recv(4096):
                    pass
            assert asked(healthy) == ANSWER
    assert "bug" not in caplog.text
    assert "Traceback" not in caplog.text


def test_a_start_without_a_certificate_is_one_line() -> None:
    with pytest.raises(
        ConfigError, match=r"listener SSL: ssl\.keystore\.location: a listener with TLS needs"
    ):
        Broker(config={"listeners": "SSL://127.0.0.1:0"}).start()


def test_a_broker_on_asyncios_own_loop_serves_tls_too(tmp_path: Path) -> None:
    """uvloop has an implementation of its own."""
    halted: list[str] = []
    config = {"listeners": "SSL://127.0.0.1:0", "log.dirs": str(tmp_path)}
    limit = {"ottla.unauthenticated.connections.max": "2"}
    server = Server(TLS | config | limit, on_halt=halted.append)

    async def live() -> bytes:
        await server.start()
        try:
            address = server.address
            hanging = [await asyncio.open_connection(address.host, address.port) for _ in range(5)]
            async with asyncio.timeout(WITHIN_S):
                for reader, _ in hanging[:3]:
                    with contextlib.suppress(ConnectionError):
                        assert await reader.read() == b"", "others came"
            reader, writer = await asyncio.open_connection(
                address.host, address.port, ssl=trusting(), server_hostname="localhost"
            )
            frame = encode_request_header(RequestHeader(18, 0, 7, "a test"))
            writer.write(LENGTH.pack(len(frame)) + frame)
            async with asyncio.timeout(WITHIN_S):
                answer = await reader.readexactly(8)
            for _, opened in (*hanging, (reader, writer)):
                opened.close()
            return answer[4:]
        finally:
            await server.stop()

    assert asyncio.run(live()) == ANSWER
    assert halted == []


def test_an_address_over_its_connection_rate_gets_no_handshake() -> None:
    """A handshake costs the broker more than all that a connection does before it is refused."""
    listeners = "SSL://127.0.0.1:0,PLAINTEXT://127.0.0.1:0"
    config = {"listeners": listeners, "inter.broker.listener.name": "PLAINTEXT", **TLS}
    with Broker(config) as broker:
        context, deadline = trusting(), Deadline(WITHIN_S)
        request = AlterClientQuotasRequest(
            entries=[entry({"connection_creation_rate": 1.0}, ip="127.0.0.1")], validate_only=False
        )
        address = Address("127.0.0.1", port_of(broker, "PLAINTEXT"))

        def connect(times: int, stack: ExitStack) -> None:
            for _ in range(times):
                stack.enter_context(connected(port_of(broker, "SSL"), context))

        with Connection(address, "test", deadline) as admin:
            (result,) = admin.call(request, AlterClientQuotasResponse, deadline).entries
            assert not result.error_code
        with ExitStack() as stack, pytest.raises((ssl.SSLError, ConnectionError)):
            connect(100, stack)
