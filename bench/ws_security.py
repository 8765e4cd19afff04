"""WS: what TLS costs. Bulk produce, bulk fetch and single messages, over a plaintext listener and a TLS
listener of the same broker; and what a check of ACLs takes.

`of plaintext` compares with the same broker without TLS, `of Apache` with Apache Kafka over the same kind of
listener, each within a round. Both brokers have the same certificate (P-256) and choose the cipher as they
are delivered. In single messages `rate` is messages a second, one in flight.
"""

import contextlib
import datetime
import itertools
import os
import tempfile
import timeit
from typing import Any

from bench.apache import ApacheKafka
from bench.clusters import ports
from bench.load import drive
from bench.report import Column, Figures, Outcome, Row, paired_ratio, spread
from bench.servers import HOST, Ottla, Peer, PeerError
from bench.targets import ACL_CHECK, TLS_RATIO, Verdict
from bench.workload import LOAD_TIMEOUT_S, Contender, Scale, take_turns, up
from ottla.security.acls import AclEntry, ResourcePattern
from ottla.security.authorizer import Authorizer
from ottla.security.principals import Principal
from ottla.security.resources import Operation, ResourceType
from ottla.shell.certificate_authority import Authority

COLUMNS = (
    Column("records_per_s", "k rec/s", 2, 1e-3),
    Column("mb_per_s", "MB/s"),
    Column("p50_us", "p50 us"),
    Column("p99_us", "p99 us"),
    Column("broker_cpu_s", "broker CPU-s", 2),
    Column("client_cpu_s", "client CPU-s", 2),
    Column("rate_spread", "spread %", 0, 100),
    Column("of_plaintext", "of plaintext", 2),
    Column("of_apache", "of Apache", 2),
)
BULK_BYTES, SINGLE_BYTES = 1024, 100
BATCH_BYTES = 1 << 20
FETCHED = "fetched"
SINGLE = "single"
TLS = ", TLS"
ACLS = 10_000
CHECKS = 100_000
# Deleted files are removed soon, so that later rounds get their memory. Where we measured, a write to memory
# that was not in use shortly before takes nine times as long, and whoever got such would look slow.
FREED_SOON = {"log.segment.delete.delay.ms": "1000"}
CASES = ("bulk produce", "bulk fetch", "single messages")

_topics = itertools.count()


class Certificates:
    """Of one authority: what a broker is set to, and how a client comes in."""

    def __init__(self, folder: str) -> None:
        authority = Authority(datetime.datetime.now(datetime.UTC))
        pair = authority.sign("bench", [HOST], days=2)
        self._keystore = self._write(folder, "broker.pem", pair.key + pair.certificate)
        self._authority = self._write(folder, "authority.pem", authority.certificate)

    def _write(self, folder: str, name: str, content: bytes) -> str:
        path = os.path.join(folder, name)
        with open(path, "wb") as out:
            out.write(content)
        return path

    @property
    def of_broker(self) -> dict[str, str]:
        return {"ssl.keystore.type": "PEM", "ssl.keystore.location": self._keystore}

    @property
    def of_client(self) -> dict[str, str]:
        return {"security.protocol": "SSL", "ssl.ca.location": self._authority}


class SecureOttla(Ottla):
    """With a second listener, for TLS."""

    def __init__(self, settings: tuple[str, ...], certificates: Certificates) -> None:
        port, self.tls_port = ports(2)
        keys = tuple(f"{key}={value}" for key, value in {**FREED_SOON, **certificates.of_broker}.items())
        super().__init__((*settings, *keys), port)

    def command(self, folder: str) -> list[str]:
        command = super().command(folder)
        command[command.index("--listen") + 1] = f"PLAINTEXT://{self.bootstrap},SSL://{HOST}:{self.tls_port}"
        return command


class SecureKafka(ApacheKafka):
    def __init__(self, certificates: Certificates) -> None:
        port, self.tls_port, controller = ports(3)
        listeners = {"PLAINTEXT": port, "SSL": self.tls_port, "CONTROLLER": controller}
        properties = {
            "controller.quorum.voters": f"1@{HOST}:{controller}",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SSL:SSL,CONTROLLER:PLAINTEXT",
            "listeners": ",".join(f"{name}://{HOST}:{number}" for name, number in listeners.items()),
        }
        super().__init__({**properties, **FREED_SOON, **certificates.of_broker}, port=port)


def _spec(peer: Peer, certificates: Certificates, is_tls: bool) -> dict[str, Any]:
    if not is_tls:
        return {"bootstrap": peer.bootstrap}
    assert isinstance(peer, (SecureOttla, SecureKafka))
    return {"bootstrap": f"{HOST}:{peer.tls_port}", "security": certificates.of_client}


def _measure(case: str, peer: Peer, how: dict[str, Any], scale: Scale) -> Figures:
    records = scale.bulk_records[BULK_BYTES]
    match case:
        case "bulk produce":
            topic = f"bulk-{next(_topics)}"
            peer.create_topic(topic)
            spec = {
                "topic": topic,
                "record_bytes": BULK_BYTES,
                "batch_bytes": BATCH_BYTES,
                "records": records,
            }
            try:
                result = drive("bulk", {**how, **spec}, peer, LOAD_TIMEOUT_S)
            finally:
                peer.delete_topic(topic)
        case "bulk fetch":
            result = drive("fetch", {**how, "topic": FETCHED, "records": records}, peer, LOAD_TIMEOUT_S)
        case _:
            spec = {"topic": SINGLE, "record_bytes": SINGLE_BYTES, "producers": 1, "seconds": scale.single_s}
            result = drive("single-rdkafka", {**how, **spec}, peer, LOAD_TIMEOUT_S)
    rate = result["records"] / result["seconds"]
    return {
        "records_per_s": rate,
        "mb_per_s": rate * (SINGLE_BYTES if case == CASES[2] else BULK_BYTES) / 1e6,
        "p50_us": result.get("p50_us"),
        "p99_us": result.get("p99_us"),
        "broker_cpu_s": result["broker_cpu_s"],
        "client_cpu_s": result.get("client_cpu_s"),
    }


def _prepare(running: list[Peer], certificates: Certificates, scale: Scale) -> None:
    """The records that are fetched, and work enough for a JVM to compile. A failure will show again."""
    spec = {
        "topic": FETCHED,
        "record_bytes": BULK_BYTES,
        "batch_bytes": BATCH_BYTES,
        "records": scale.bulk_records[BULK_BYTES],
    }
    for peer in running:
        scale.say(f"WS: warming up {peer.name}")
        peer.create_topic(FETCHED)
        peer.create_topic(SINGLE)
        drive("bulk", {"bootstrap": peer.bootstrap, **spec}, peer, LOAD_TIMEOUT_S)
        for case, is_tls in itertools.product(CASES, (False, True)):
            with contextlib.suppress(PeerError):
                _measure(case, peer, _spec(peer, certificates, is_tls), scale)


def _compare(outcome: Outcome) -> None:
    rows = {(row.case, row.peer): row for row in outcome.rows}
    apache = next((row.peer for row in outcome.rows if row.peer.startswith("Apache")), "").removesuffix(TLS)
    for at, row in enumerate(outcome.rows):
        is_tls = row.peer.endswith(TLS)
        other = rows.get((row.case, apache + TLS if is_tls else apache))
        figures = {
            **row.figures,
            "rate_spread": spread(row, "records_per_s"),
            "of_apache": paired_ratio(row, other, "records_per_s"),
        }
        if is_tls:
            plain = rows.get((row.case, row.peer.removesuffix(TLS)))
            figures["of_plaintext"] = paired_ratio(row, plain, "records_per_s")
        outcome.rows[at] = Row(row.case, row.peer, figures, row.note, row.rounds)


def run(brokers: list[Peer], scale: Scale) -> Outcome:
    outcome = Outcome("WS", f"TLS, {BULK_BYTES} B in bulk, {SINGLE_BYTES} B alone, acks=all", COLUMNS)
    with tempfile.TemporaryDirectory(prefix="ottla-bench-") as folder, contextlib.ExitStack() as stack:
        certificates = Certificates(folder)
        peers: list[Peer] = []
        for peer in brokers:
            if isinstance(peer, Ottla):
                peers.append(SecureOttla(peer.settings, certificates))
            elif isinstance(peer, ApacheKafka):
                peers.append(SecureKafka(certificates))
                stack.callback(peers[-1].close)
        running = stack.enter_context(up(peers, outcome, scale))
        _prepare(running, certificates, scale)
        for case in CASES:
            contenders = [
                _contender(case, peer, certificates, is_tls, scale)
                for peer in running
                for is_tls in (False, True)
            ]
            rounds = scale.bulk_rounds if case == CASES[0] else scale.single_rounds
            take_turns(case, contenders, outcome, rounds, scale.say)
    _compare(outcome)
    for case in CASES:
        ratio = outcome.figure(case, f"Ottla{TLS}", "of_apache")
        outcome.verdicts.append(Verdict(TLS_RATIO, ratio, case))
    outcome.verdicts.append(Verdict(ACL_CHECK, acl_check_us()))
    return outcome


def acl_check_us() -> float:
    """One check among 10,000 ACLs, which has been asked before: what every request pays for a topic."""
    authorizer = Authorizer()
    alice = Principal.parse("User:alice")
    entry = AclEntry(str(alice), Operation.WRITE)
    for number in range(ACLS):
        authorizer.replace(ResourcePattern(ResourceType.TOPIC, f"topic-{number}"), [entry])
    question = (alice, HOST, Operation.WRITE, ResourceType.TOPIC, "topic-7")
    assert authorizer.allows(*question)
    return min(timeit.repeat(lambda: authorizer.allows(*question), number=CHECKS, repeat=5)) / CHECKS * 1e6


def _contender(case: str, peer: Peer, certificates: Certificates, is_tls: bool, scale: Scale) -> Contender:
    name = peer.name + TLS if is_tls else peer.name
    return Contender(name, lambda: _measure(case, peer, _spec(peer, certificates, is_tls), scale))
