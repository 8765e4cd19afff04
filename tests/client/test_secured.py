"""The client over TLS and SASL, by every mechanism, and what it says if it fails: against Apache Kafka and
Ottla."""

import re
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack
from functools import cache
from pathlib import Path

import pytest
from bench import apache
from bench.servers import PeerError
from tests.client.secured_kafka import SecuredKafka, secured_kafka
from tests.support.certificates import Authority
from tests.support.secured import SESSION_MS, Secured, SecuredOttla, client_of, secured_ottla
from tests.support.waiting import wait_for

from ottla.base.command_error import CommandError
from ottla.client import Client, ClientError, TopicPartition
from ottla.client.librdkafka import cluster, connections
from ottla.client.properties import client_properties
from ottla.client.retry import Deadline
from ottla.records.builder import NewRecord, build_batch
from ottla.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from ottla.wire.messages.metadata import MetadataRequest, MetadataResponse

pytestmark = pytest.mark.timeout(apache.FETCH_S + 120)
SERVERS: dict[str, Callable[[Path], AbstractContextManager[Secured]]] = {
    "apache": secured_kafka,
    "ottla": secured_ottla,
}
MECHANISMS = [
    pytest.param(name, mechanism, id=f"{name}-{mechanism}")
    for name, mechanisms in (("apache", SecuredKafka.mechanisms), ("ottla", SecuredOttla.mechanisms))
    for mechanism in mechanisms
]
BEARER = [param.values[0] for param in MECHANISMS if param.values[1] == "OAUTHBEARER"]
PASSWORD = "store-secret"


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], Secured]]:
    """Each is started once, when a test first asks for it."""
    made: dict[str, Secured] = {}
    with ExitStack() as stack:

        def server(name: str) -> Secured:
            if name not in made:
                try:
                    made[name] = stack.enter_context(SERVERS[name](tmp_path_factory.mktemp("secured")))
                except PeerError as error:
                    pytest.skip(f"needs Apache Kafka: {error}")
            return made[name]

        yield server


@pytest.fixture(params=list(SERVERS))
def server(request: pytest.FixtureRequest, servers: Callable[[str], Secured]) -> Secured:
    return servers(request.param)


def refusal(bootstrap: str, properties: dict[str, str], timeout_s: float = 3) -> str:
    with (
        pytest.raises(ClientError) as caught,
        Client(bootstrap, security=properties, timeout_s=timeout_s) as client,
    ):
        client.topics()
    return str(caught.value)


@cache
def refusals(server: Secured) -> dict[str, str]:
    """What is said to those who try until their time is over: all at once, for they do nothing but wait."""
    attempts = {
        "no certificate": ("MUTUAL", server.over("SSL")),
        "TLS": ("PLAINTEXT", server.over("SSL")),
        "no TLS": ("BOTH", server.over("PLAINTEXT")),
        "SASL without TLS": ("BOTH", server.over("SASL_PLAINTEXT", "PLAIN")),
        "no SASL": ("SASL", server.over("PLAINTEXT")),
        "TLS without SASL": ("BOTH", server.over("SSL")),
    }
    with ThreadPoolExecutor(len(attempts)) as pool:
        texts = pool.map(lambda attempt: refusal(server.addresses[attempt[0]], attempt[1]), attempts.values())
        return dict(zip(attempts, texts, strict=True))


def write_and_read(client: Client, topic: str) -> None:
    client.create_topics({topic: 1})
    topic_partition = TopicPartition(topic, 0)
    wait_for(lambda: client.partitions([topic]), 30, "the topic")
    large = NewRecord(None, b"x" * 900_000)
    assert client.produce({topic_partition: build_batch([large])}) == {topic_partition: 0}
    fetched = list(client.fetch(topic_partition, 0, 1))
    assert len(fetched[0].records) > 900_000


@pytest.mark.parametrize(("server", "mechanism"), MECHANISMS, indirect=["server"])
@pytest.mark.parametrize(("listener", "protocol"), [("SASL", "SASL_PLAINTEXT"), ("BOTH", "SASL_SSL")])
def test_records_are_written_and_read_by_every_mechanism(
    server: Secured, listener: str, protocol: str, mechanism: str
) -> None:
    properties = server.over(protocol, mechanism)
    with Client(server.addresses[listener], security=properties) as client:
        write_and_read(client, f"own-{protocol}-{mechanism}")


def test_records_are_written_and_read_over_tls_alone(server: Secured) -> None:
    with Client(server.addresses["TLS"], security=server.over("SSL")) as client:
        write_and_read(client, "own-tls")
        wait_for(lambda: client.topics(), 30, "the same connection, used again")


@pytest.mark.parametrize(("server", "mechanism"), MECHANISMS, indirect=["server"])
def test_librdkafka_gets_in_by_every_mechanism(server: Secured, mechanism: str) -> None:
    where = client_properties(server.over("SASL_SSL", mechanism), server.addresses["BOTH"])
    assert cluster.metadata(connections.admin(where)).cluster_id
    producer = connections.producer(where, {})
    producer.produce(f"librdkafka-{mechanism}", b"x")
    assert producer.flush(30) == 0


@pytest.mark.parametrize("server", BEARER, indirect=True)
def test_a_function_gives_the_token(server: Secured) -> None:
    asked = []

    def token() -> str:
        asked.append(1)
        return server.credentials("OAUTHBEARER")["sasl.oauthbearer.token"]

    properties = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "OAUTHBEARER"}
    with Client(server.addresses["SASL"], security=properties, token=token) as client:
        client.topics()
    assert asked == [1]


@pytest.mark.parametrize("form", ["pem", "encrypted", "file", "pkcs12"])
def test_a_client_shows_its_certificate_in_any_form(server: Secured, tmp_path: Path, form: str) -> None:
    own = server.authority.issue("client")
    store = tmp_path / "own.p12"
    store.write_bytes(own.pkcs12(PASSWORD))
    said = {
        "pem": {"ssl.keystore.key": own.key_pem(), "ssl.keystore.certificate.chain": own.chain_pem},
        "encrypted": {
            "ssl.key.pem": own.key_pem(PASSWORD),
            "ssl.certificate.pem": own.chain_pem,
            "ssl.key.password": PASSWORD,
        },
        "file": {
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": own.write(tmp_path / "own.pem"),
        },
        "pkcs12": {
            "ssl.keystore.location": str(store),
            "ssl.keystore.password": PASSWORD,
        },
    }[form]
    properties = {**server.over("SSL"), **said}
    with Client(server.addresses["MUTUAL"], security=properties) as client:
        client.topics()
    where = client_properties(properties, server.addresses["MUTUAL"])
    assert cluster.metadata(connections.admin(where)).cluster_id


def test_a_session_that_ends_is_begun_again_on_the_same_connection(server: Secured) -> None:
    """KIP-368. It is due after most of the time that the broker allows; here, the time is set forward."""
    with client_of(server, "SHORT", "SCRAM-SHA-256") as client:
        client.topics()
        ((connection,),) = client._cluster._idle.values()
        due_s = connection._authenticate_at_s
        assert due_s < time.monotonic() + SESSION_MS / 1000
        connection._authenticate_at_s = 0
        client.topics()
        assert due_s <= connection._authenticate_at_s < float("inf")
        assert client._cluster._idle[connection.address] == [connection], "it is still the same connection"


def test_answers_that_are_due_when_a_session_ends_are_not_lost(server: Secured) -> None:
    deadline = Deadline(30)
    with client_of(server, "SHORT", "PLAIN") as client, client._cluster.borrow_any(deadline) as connection:
        connection.send(MetadataRequest(topics=[]), MetadataResponse, deadline)
        connection._authenticate_at_s = 0
        connection.send(FindCoordinatorRequest(coordinator_keys=["g"]), FindCoordinatorResponse, deadline)
        assert connection.in_flight == 2
        assert connection.receive(MetadataResponse, deadline).brokers
        assert connection.receive(FindCoordinatorResponse, deadline).coordinators


# -- what is said where it fails --------------------


def test_a_wrong_password_is_told_at_once_and_not_shown(server: Secured) -> None:
    for mechanism in ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"):
        wrong = server.over("SASL_SSL") | server.credentials(mechanism, "not-her-secret")
        said = refusal(server.addresses["BOTH"], wrong)
        assert f"does not accept user 'alice' by SASL {mechanism}" in said
        assert "check user and password" in said
        assert "not-her-secret" not in said
        with pytest.raises(CommandError, match="does not accept user 'alice'"):
            connections.admin(client_properties(wrong, server.addresses["BOTH"]))


@pytest.mark.parametrize("server", BEARER, indirect=True)
def test_a_token_that_is_none_is_told(server: Secured) -> None:
    wrong = {**server.over("SASL_SSL", "OAUTHBEARER"), "sasl.oauthbearer.token": "not-a-token"}
    said = refusal(server.addresses["BOTH"], wrong)
    assert "does not accept this token" in said
    assert "not-a-token" not in said


def test_sasl_against_a_port_without_it_is_told(server: Secured) -> None:
    said = refusal(server.addresses["PLAINTEXT"], server.over("SASL_PLAINTEXT", "PLAIN"))
    assert "expects no SASL on this port" in said


def test_an_unknown_authority_is_told_with_where_to_put_it(server: Secured) -> None:
    said = refusal(server.addresses["TLS"], {"security.protocol": "SSL"})
    assert "is not believed" in said
    assert "ssl.truststore.location is not given" in said
    other = {"security.protocol": "SSL", "ssl.truststore.certificates": Authority("other").pem}
    assert "is its authority in ssl.truststore.certificates?" in refusal(server.addresses["TLS"], other)
    unverified = {"security.protocol": "SSL", "enable.ssl.certificate.verification": "false"}
    with Client(server.addresses["TLS"], security=unverified) as client:
        client.topics()


def test_a_client_without_a_certificate_is_told_that_it_needs_one(server: Secured) -> None:
    assert "ssl.keystore.location" in refusals(server)["no certificate"]


def test_tls_against_a_port_without_it_is_told(server: Secured) -> None:
    told = "is it a port without TLS (security.protocol=PLAINTEXT or SASL_PLAINTEXT)"
    assert told in refusals(server)["TLS"]
    with pytest.raises(CommandError, match="is it a port without TLS"):
        connections.admin(client_properties(server.over("SSL"), server.addresses["PLAINTEXT"]))


@pytest.mark.parametrize("protocol", ["PLAINTEXT", "SASL_PLAINTEXT"])
def test_a_port_with_tls_is_told_to_who_comes_without(server: Secured, protocol: str) -> None:
    properties = server.over(protocol, "PLAIN" if protocol.startswith("SASL") else "")
    said = refusals(server)["SASL without TLS" if protocol.startswith("SASL") else "no TLS"]
    told = r"this port speaks TLS; set security\.protocol|is it a port with TLS \(security\.protocol=SSL"
    assert re.search(told, said)
    with pytest.raises(CommandError, match=told):
        connections.admin(client_properties(properties, server.addresses["BOTH"]))


@pytest.mark.parametrize("who", ["no SASL", "TLS without SASL"])
def test_a_port_with_sasl_is_told_to_who_comes_without(server: Secured, who: str) -> None:
    told = "is it a port with SASL (security.protocol=SASL_PLAINTEXT or SASL_SSL)?"
    assert told in refusals(server)[who]
