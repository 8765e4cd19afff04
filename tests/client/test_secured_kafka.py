"""The client over TLS and SASL against Apache Kafka, by every mechanism, and what it says if it fails."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from bench import apache
from bench.servers import PeerError
from tests.client.secured_kafka import MECHANISMS, PASSWORD, SESSION_MS, SecuredKafka, jaas, secured_kafka
from tests.support.certificates import Authority
from tests.support.waiting import wait_for

from ottla.base.command_error import CommandError
from ottla.client import Client, ClientError, TopicPartition
from ottla.client.librdkafka import cluster, connections
from ottla.client.properties import client_properties
from ottla.records.builder import NewRecord, build_batch

pytestmark = pytest.mark.timeout(apache.FETCH_S + 120)


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredKafka]:
    try:
        with secured_kafka(tmp_path_factory.mktemp("secured")) as node:
            yield node
    except PeerError as error:
        pytest.skip(f"needs Apache Kafka: {error}")


def over(kafka: SecuredKafka, protocol: str, mechanism: str = "") -> dict[str, str]:
    properties = {"security.protocol": protocol}
    if protocol.endswith("SSL"):
        properties |= kafka.tls()
    return properties | (kafka.credentials(mechanism) if mechanism else {})


def refusal(bootstrap: str, properties: dict[str, str], timeout_s: float = 3) -> str:
    with (
        pytest.raises(ClientError) as caught,
        Client(bootstrap, security=properties, timeout_s=timeout_s) as client,
    ):
        client.topics()
    return str(caught.value)


def write_and_read(client: Client, topic: str) -> None:
    client.create_topics({topic: 1})
    topic_partition = TopicPartition(topic, 0)
    wait_for(lambda: client.partitions([topic]), 30, "the topic")
    large = NewRecord(None, b"x" * 900_000)
    assert client.produce({topic_partition: build_batch([large])}) == {topic_partition: 0}
    fetched = list(client.fetch(topic_partition, 0, 1))
    assert len(fetched[0].records) > 900_000


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize(("listener", "protocol"), [("SASL", "SASL_PLAINTEXT"), ("BOTH", "SASL_SSL")])
def test_records_are_written_and_read_by_every_mechanism(
    kafka: SecuredKafka, listener: str, protocol: str, mechanism: str
) -> None:
    properties = over(kafka, protocol, mechanism)
    with Client(kafka.addresses[listener], security=properties) as client:
        write_and_read(client, f"own-{protocol}-{mechanism}")


def test_records_are_written_and_read_over_tls_alone(kafka: SecuredKafka) -> None:
    with Client(kafka.addresses["TLS"], security=over(kafka, "SSL")) as client:
        write_and_read(client, "own-tls")
        wait_for(lambda: client.topics(), 30, "the same connection, used again")


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_librdkafka_gets_in_by_every_mechanism(kafka: SecuredKafka, mechanism: str) -> None:
    where = client_properties(over(kafka, "SASL_SSL", mechanism), kafka.addresses["BOTH"])
    assert cluster.metadata(connections.admin(where)).cluster_id
    producer = connections.producer(where, {})
    producer.produce(f"librdkafka-{mechanism}", b"x")
    assert producer.flush(30) == 0


def test_a_function_gives_the_token(kafka: SecuredKafka) -> None:
    asked = []

    def token() -> str:
        asked.append(1)
        return kafka.credentials("OAUTHBEARER")["sasl.oauthbearer.token"]

    properties = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "OAUTHBEARER"}
    with Client(kafka.addresses["SASL"], security=properties, token=token) as client:
        client.topics()
    assert asked == [1]


@pytest.mark.parametrize("form", ["pem", "encrypted", "file", "pkcs12"])
def test_a_client_shows_its_certificate_in_any_form(kafka: SecuredKafka, tmp_path: Path, form: str) -> None:
    own = kafka.authority.issue("client")
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
    properties = {**over(kafka, "SSL"), **said}
    with Client(kafka.addresses["MUTUAL"], security=properties) as client:
        client.topics()
    where = client_properties(properties, kafka.addresses["MUTUAL"])
    assert cluster.metadata(connections.admin(where)).cluster_id


def test_a_session_that_ends_is_begun_again_on_the_same_connection(kafka: SecuredKafka) -> None:
    """KIP-368: the broker closes a connection on which a request comes after the end of its session."""
    properties = over(kafka, "SASL_PLAINTEXT", "SCRAM-SHA-256")
    with Client(kafka.addresses["SHORT"], security=properties) as client:
        client.topics()
        (connections_,) = client._cluster._idle.values()
        (connection,) = connections_
        first = connection._authenticate_at_s
        assert first < time.monotonic() + SESSION_MS / 1000
        wait_for(lambda: client.topics() is not None and time.monotonic() > first + 3, 30, "a second session")
        assert connection._authenticate_at_s > first
        assert client._cluster._idle[connection.address] == [connection], "it is still the same connection"


# -- what is said where it fails --------------------


def test_a_wrong_password_is_told_at_once_and_not_shown(kafka: SecuredKafka) -> None:
    for mechanism in MECHANISMS[:3]:
        wrong = {**over(kafka, "SASL_SSL", mechanism), "sasl.jaas.config": jaas(mechanism, "not-her-secret")}
        said = refusal(kafka.addresses["BOTH"], wrong)
        assert f"does not accept user 'alice' by SASL {mechanism}" in said
        assert "check user and password" in said
        assert "not-her-secret" not in said
        with pytest.raises(CommandError, match="does not accept user 'alice'"):
            connections.admin(client_properties(wrong, kafka.addresses["BOTH"]))


def test_a_token_that_is_none_is_told(kafka: SecuredKafka) -> None:
    wrong = {**over(kafka, "SASL_SSL", "OAUTHBEARER"), "sasl.oauthbearer.token": "not-a-token"}
    said = refusal(kafka.addresses["BOTH"], wrong)
    assert "does not accept this token" in said
    assert "not-a-token" not in said


def test_sasl_against_a_port_without_it_is_told(kafka: SecuredKafka) -> None:
    said = refusal(kafka.bootstrap, over(kafka, "SASL_PLAINTEXT", "PLAIN"))
    assert "expects no SASL on this port" in said


def test_an_unknown_authority_is_told_with_where_to_put_it(kafka: SecuredKafka) -> None:
    said = refusal(kafka.addresses["TLS"], {"security.protocol": "SSL"})
    assert "is not believed" in said
    assert "ssl.truststore.location is not given" in said
    other = {"security.protocol": "SSL", "ssl.truststore.certificates": Authority("other").pem}
    assert "is its authority in ssl.truststore.certificates?" in refusal(kafka.addresses["TLS"], other)
    unverified = {"security.protocol": "SSL", "enable.ssl.certificate.verification": "false"}
    with Client(kafka.addresses["TLS"], security=unverified) as client:
        client.topics()


def test_a_client_without_a_certificate_is_told_that_it_needs_one(kafka: SecuredKafka) -> None:
    said = refusal(kafka.addresses["MUTUAL"], over(kafka, "SSL"))
    assert "ssl.keystore.location" in said


def test_tls_against_a_port_without_it_is_told(kafka: SecuredKafka) -> None:
    said = refusal(kafka.bootstrap, over(kafka, "SSL"))
    assert "is it a port without TLS (security.protocol=PLAINTEXT or SASL_PLAINTEXT)" in said
    with pytest.raises(CommandError, match="is it a port without TLS"):
        connections.admin(client_properties(over(kafka, "SSL"), kafka.bootstrap))


@pytest.mark.parametrize("protocol", ["PLAINTEXT", "SASL_PLAINTEXT"])
def test_a_port_with_tls_is_told_to_who_comes_without(kafka: SecuredKafka, protocol: str) -> None:
    properties = over(kafka, protocol, "PLAIN" if protocol.startswith("SASL") else "")
    said = refusal(kafka.addresses["BOTH"], properties)
    assert "this port speaks TLS; set security.protocol to SSL or SASL_SSL" in said
    with pytest.raises(CommandError, match="this port speaks TLS"):
        connections.admin(client_properties(properties, kafka.addresses["BOTH"]))


@pytest.mark.parametrize(("listener", "protocol"), [("SASL", "PLAINTEXT"), ("BOTH", "SSL")])
def test_a_port_with_sasl_is_told_to_who_comes_without(
    kafka: SecuredKafka, listener: str, protocol: str
) -> None:
    said = refusal(kafka.addresses[listener], over(kafka, protocol))
    assert "is it a port with SASL (security.protocol=SASL_PLAINTEXT or SASL_SSL)?" in said
