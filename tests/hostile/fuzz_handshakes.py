"""The part of `make fuzz` that never gets in: lies of strangers about SASL and TLS, to a real broker.

A SASL exchange is an honest one up to the step that is a lie. Of TLS there are handshakes that are changed,
cut off or never were any, and records that are changed after a handshake, or come by the thousand. A stranger
ends with the end of what it sends: the broker must then close, whatever it was.
"""

import contextlib
import gc
import json
import random
import socket
import ssl
import struct
import tempfile
import time
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import psutil
from tests.hostile.arena import Report
from tests.hostile.healthy import Healthy
from tests.hostile.mutate import mutated
from tests.kafka_clients.secure_broker import AUTHORITY, MECHANISMS, SecureBroker
from tests.kafka_clients.wire_client import Closed, Wire, frame_of, framed
from tests.support import tokens
from tests.support.frames import decode_answer
from tests.support.waiting import wait_for

from ottla.security.sasl.client import Credentials, client_exchange
from ottla.security.sasl.exchange import AuthenticationError
from ottla.wire.messages.api_versions import ApiVersionsRequest
from ottla.wire.messages.metadata import MetadataRequest
from ottla.wire.messages.sasl_authenticate import SaslAuthenticateRequest
from ottla.wire.messages.sasl_handshake import SaslHandshakeRequest

ALL_MECHANISMS = (*MECHANISMS, "OAUTHBEARER")
ANSWER_S = 30.0
RSS_BYTES_MAX = 1 << 30
FLOOD = 2_000
AUDIENCE = "ottla"
PROBE_ID = 0x7EADBEEF


class Hostile(NamedTuple):
    what: str
    attack: Callable[[SecureBroker], str]  # what became of it


# Brokers


def make_broker(folder: Path) -> SecureBroker:
    """It offers all mechanisms, and does not make those wait who fail."""
    folder.mkdir(parents=True, exist_ok=True)
    keys = folder / "keys.json"
    keys.write_text(json.dumps(tokens.jwks(tokens.rsa_key())))
    return SecureBroker(
        folder,
        {
            "sasl.enabled.mechanisms": ",".join(ALL_MECHANISMS),
            "sasl.oauthbearer.jwks.endpoint.url": keys.as_uri(),
            "sasl.oauthbearer.expected.audience": AUDIENCE,
            "connection.failed.authentication.delay.ms": "0",
        },
    )


def credentials(mechanism: str) -> Credentials:
    if mechanism == "OAUTHBEARER":
        return Credentials(token=tokens.token(now_ms=time.time_ns() // 1_000_000, aud=AUDIENCE))
    return Credentials("alice", "alice-secret")


# What is sent


def cases(chance: random.Random) -> Iterator[Hostile]:
    while True:
        for mechanism in ALL_MECHANISMS:
            for lie in ("token", "token", "frame", "order"):
                is_bare, has_tls = chance.random() < 0.3, chance.random() < 0.2
                seed = chance.getrandbits(32)
                what = f"{mechanism} v{int(not is_bare)}, {lie}, TLS {has_tls}, seed {seed}"
                yield Hostile(what, Exchange(mechanism, lie, is_bare, has_tls, seed).run)
        for name, attack in TLS_ATTACKS.items():
            seed = chance.getrandbits(32)
            yield Hostile(
                f"TLS: {name}, seed {seed}", lambda broker, a=attack, s=seed: a(broker, random.Random(s))
            )


class Exchange(NamedTuple):
    """One login with one lie in it."""

    mechanism: str
    lie: str
    is_bare: bool
    has_tls: bool
    seed: int

    def run(self, broker: SecureBroker) -> str:
        chance = random.Random(self.seed)
        with connect(broker, has_tls=self.has_tls) as wire:
            try:
                return self._steps(wire, chance)
            except (Closed, AuthenticationError, ssl.SSLError):
                return "closed"

    def _steps(self, wire: Wire, chance: random.Random) -> str:
        exchange = client_exchange(self.mechanism, credentials(self.mechanism), chance.randbytes(32))
        handshake = frame_of(SaslHandshakeRequest(mechanism=self.mechanism), 0 if self.is_bare else 1)[4:]
        first = self._token(exchange.first())
        if self.lie == "order":
            frames = [handshake, first, frame_of(MetadataRequest(topics=None), 9)[4:], chance.randbytes(20)]
            return end(wire, b"".join(map(framed, chance.choices(frames, k=chance.randrange(1, 9)))))
        lies_at = chance.randrange(3 if "SCRAM" in self.mechanism else 2)
        if lies_at == 0:
            return end(wire, framed(mutated(handshake, chance)))
        wire.send_bytes(framed(handshake))
        wire.receive_frame()
        token = exchange.first()
        if lies_at == 2:
            wire.send_bytes(framed(first))
            token = exchange.on_reply(self._reply(wire)) or b""
        lie = mutated(token, chance) if self.lie == "token" else token
        frame = framed(self._token(lie))
        outcome = end(wire, mutated(frame, chance) if self.lie == "frame" else frame)
        return f"let in by {lie!r}" if outcome == "let in" and not self._is_good(token, lie) else outcome

    def _token(self, token: bytes) -> bytes:
        return token if self.is_bare else frame_of(SaslAuthenticateRequest(auth_bytes=token), 1)[4:]

    def _reply(self, wire: Wire) -> bytes:
        frame = wire.receive_frame()
        if self.is_bare:
            return bytes(frame)
        _, answer = decode_answer(SaslAuthenticateRequest, 1, frame)
        return bytes(answer.auth_bytes)

    def _is_good(self, token: bytes, lie: bytes) -> bool:
        """Whether a changed token is still the same proof: of PLAIN only who it is to be may be left out, a
        bearer's token may come with other extensions."""
        match self.mechanism:
            case "PLAIN":
                return lie.split(b"\0")[-2:] == token.split(b"\0")[-2:]
            case "OAUTHBEARER":
                return token.split(b"\x01")[1] in lie.split(b"\x01")
        return lie == token


def connect(broker: SecureBroker, *, has_tls: bool) -> Wire:
    wire = Wire(broker.tls_port if has_tls else broker.secure_port, ANSWER_S)
    if has_tls:
        context = ssl.create_default_context(cadata=AUTHORITY.pem)
        wire.socket = context.wrap_socket(wire.socket, server_hostname="127.0.0.1")
    return wire


def end(wire: Wire, data: bytes) -> str:
    """Send, ask something that only who is let in is told, and say no more."""
    wire.send_bytes(data + frame_of(MetadataRequest(topics=[]), 9, PROBE_ID))
    no_more(wire.socket)
    outcome = "closed"
    try:
        while True:
            frame = bytes(wire.receive_frame())
            outcome = "answered"
            if len(frame) >= 4 and struct.unpack_from(">i", frame)[0] == PROBE_ID:
                return "let in"
    except Closed:
        return outcome


def no_more(connection: socket.socket) -> None:
    """Tell TCP that there is no more to come; who has TLS still reads answers."""
    with contextlib.suppress(OSError):  # the broker has closed it already
        socket.socket.shutdown(connection, socket.SHUT_WR)


# TLS


VERSIONS = (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3)


class Handshake:
    """The client's side of TLS, whose bytes pass through our hands."""

    def __init__(self, version: ssl.TLSVersion | None = None) -> None:
        context = ssl.create_default_context(cadata=AUTHORITY.pem)
        if version is not None:
            context.maximum_version = version
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.tls = context.wrap_bio(self._incoming, self._outgoing, server_hostname="127.0.0.1")

    def flight(self, arrived: bytes = b"") -> bytes:
        """What comes next, after what has arrived."""
        self._incoming.write(arrived)
        with contextlib.suppress(ssl.SSLWantReadError):
            self.tls.do_handshake()
        return self._outgoing.read()

    def complete(self, connection: socket.socket) -> None:
        while True:
            connection.sendall(self.flight())
            try:
                self.tls.do_handshake()
            except ssl.SSLWantReadError:
                self._incoming.write(connection.recv(65536))
                continue
            connection.sendall(self._outgoing.read())
            return

    def records(self, data: bytes) -> bytes:
        self.tls.write(data)
        return self._outgoing.read()


def raw_end(broker: SecureBroker, data: Callable[[socket.socket], bytes]) -> str:
    """Send to the port with TLS what there is for this connection, and nothing more."""
    with socket.create_connection(("127.0.0.1", broker.tls_port), ANSWER_S) as stranger:
        received = 0
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            stranger.sendall(data(stranger))
            no_more(stranger)
            while chunk := stranger.recv(65536):
                received += len(chunk)
    return "answered" if received else "closed"


def raw(broker: SecureBroker, data: bytes) -> str:
    return raw_end(broker, lambda _stranger: data)


def inside(broker: SecureBroker, handshake: Handshake, records: Callable[[], bytes]) -> str:
    """Records that come after a handshake."""

    def data(stranger: socket.socket) -> bytes:
        handshake.complete(stranger)
        return records()

    return raw_end(broker, data)


def noise(broker: SecureBroker, chance: random.Random) -> str:
    return raw(broker, chance.randbytes(chance.choice((1, 5, 100, 5_000, 100_000))))


def hello(broker: SecureBroker, chance: random.Random) -> str:
    return raw(broker, mutated(Handshake().flight(), chance))


def hello_in_pieces(broker: SecureBroker, chance: random.Random) -> str:
    """Each byte of it a record of its own, which is allowed, up to a cut."""
    message = Handshake().flight()[5:]
    pieces = [record(22, message[at : at + 1]) for at in range(len(message))]
    return raw(broker, b"".join(pieces[: chance.randrange(len(pieces))]))


def cut_hello(broker: SecureBroker, chance: random.Random) -> str:
    first = Handshake().flight()
    return raw(broker, first[: chance.randrange(1, len(first))])


def second_flight(broker: SecureBroker, chance: random.Random) -> str:
    """The server has answered; what should complete the handshake is changed or cut off."""
    handshake = Handshake(chance.choice(VERSIONS))

    def data(stranger: socket.socket) -> bytes:
        stranger.sendall(handshake.flight())
        flight = b""
        while not flight:
            flight = handshake.flight(stranger.recv(65536))
        return chance.choice((flight[: chance.randrange(len(flight))], mutated(flight, chance)))

    return raw_end(broker, data)


def plaintext(broker: SecureBroker, chance: random.Random) -> str:
    return raw(broker, frame_of(ApiVersionsRequest(), chance.randrange(4)) * chance.choice((1, 200)))


def changed_records(broker: SecureBroker, chance: random.Random) -> str:
    handshake = Handshake(chance.choice(VERSIONS))
    asked = frame_of(ApiVersionsRequest(), 0)
    return inside(broker, handshake, lambda: mutated(handshake.records(asked), chance))


def cut_record(broker: SecureBroker, chance: random.Random) -> str:
    handshake = Handshake()
    return inside(broker, handshake, lambda: handshake.records(bytes(5_000))[: chance.randrange(1, 5_000)])


def plaintext_inside(broker: SecureBroker, chance: random.Random) -> str:
    """Sound records with what is no request in them."""
    handshake = Handshake()
    return inside(broker, handshake, lambda: handshake.records(chance.randbytes(30_000)))


def record(kind: int, content: bytes, version: int = 0x0303) -> bytes:
    return struct.pack(">BHH", kind, version, len(content)) + content


def flood(broker: SecureBroker, chance: random.Random) -> str:
    """Very many records: of no content, alerts that are only warnings, changes of the cipher, the largest."""
    content = chance.choice(
        ((20, b"\x01"), (21, b"\x01\x00"), (22, b""), (23, b""), (23, bytes(16_384)), (22, bytes(16_384)))
    )
    count = FLOOD if len(content[1]) < 100 else FLOOD // 50
    return raw(broker, chance.choice((b"", Handshake().flight())) + record(*content) * count)


def flood_inside(broker: SecureBroker, _chance: random.Random) -> str:
    """Records of one byte each, of a frame that never ends."""
    handshake = Handshake()
    return inside(broker, handshake, lambda: b"".join(handshake.records(b"\0") for _ in range(FLOOD)))


TLS_ATTACKS: dict[str, Callable[[SecureBroker, random.Random], str]] = {
    attack.__name__.replace("_", " "): attack
    for attack in (
        noise, hello, hello_in_pieces, cut_hello, second_flight, plaintext, changed_records, cut_record,
        plaintext_inside, flood, flood_inside,
    )
}  # fmt: skip


# The lane


def run(seed: int, count: int) -> Report:
    with tempfile.TemporaryDirectory() as folder:
        broker = make_broker(Path(folder))
        broker.start()
        try:
            broker.add_alice()
            with Healthy(broker):
                report = attack(broker, seed, count)
            gc.collect()  # the client goes before its broker does, and has nothing to complain about
            if broker.rss_bytes() > RSS_BYTES_MAX:
                report.found.append(f"the broker holds {broker.rss_bytes() >> 20} MB")
            if broker.stop() != 0:
                report.found.append("the broker did not stop cleanly")
            report.found += [f"the broker's log: {bug}" for bug in broker.bugs()]
        finally:
            broker.kill()
    return report


def attack(broker: SecureBroker, seed: int, count: int) -> Report:
    report = Report("handshakes")
    for hostile in islice(cases(random.Random(f"handshakes {seed}")), count):
        report.cases += 1
        began = time.monotonic()
        try:
            outcome = hostile.attack(broker)
        except TimeoutError:
            outcome = f"it was left open for {ANSWER_S:.0f} s"
        report.slowest_s = max(report.slowest_s, time.monotonic() - began)
        if outcome in {"closed", "answered", "let in"}:
            report.outcomes[outcome] += 1
        else:
            report.found.append(f"{hostile.what}: {outcome}")
        if not broker.is_running:
            report.found.append(f"{hostile.what} ended the broker")
            break
    for mechanism in ALL_MECHANISMS:
        check_login(broker, mechanism)
    return report


def check_login(broker: SecureBroker, mechanism: str) -> None:
    """Whoever is honest is let in, over TLS."""
    exchange = client_exchange(mechanism, credentials(mechanism), random.randbytes(32))
    with connect(broker, has_tls=True) as wire:
        assert not wire.call(SaslHandshakeRequest(mechanism=mechanism), 1).error_code
        token: bytes | None = exchange.first()
        while token is not None:
            answer = wire.call(SaslAuthenticateRequest(auth_bytes=token), 2)
            assert not answer.error_code, answer
            token = exchange.on_reply(answer.auth_bytes)
        assert wire.call(MetadataRequest(topics=[]), 9).brokers


def wait_gone(broker: SecureBroker) -> None:
    """All connections of strangers are closed, and not kept."""
    ports = {broker.secure_port, broker.tls_port}

    def connections() -> list[str]:
        open_ones = psutil.Process(broker.process.pid).net_connections("tcp")
        return [entry.status for entry in open_ones if entry.raddr and entry.laddr.port in ports]

    wait_for(lambda: not connections(), ANSWER_S, "the connections of strangers are closed")
