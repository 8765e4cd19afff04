"""Real clients that come with a token."""

import asyncio
import json
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from aiokafka import AIOKafkaProducer
from aiokafka.abc import AbstractTokenProvider
from confluent_kafka import Consumer, KafkaError, Producer
from confluent_kafka.admin import AdminClient
from kafka import KafkaProducer
from kafka.net.sasl.oauth import AbstractTokenProvider as KafkaPythonTokenProvider
from tests.support.pem_files import Certificates, certificates
from tests.support.tokens import jwks, rsa_key, token
from tests.support.waiting import wait_for

from ottla import Broker
from ottla.shell.lock import StartError

DEADLINE_S = 30.0
AUDIENCE = "kafka"


def now_token(**changes: Any) -> str:
    return token(now_ms=time.time_ns() // 1_000_000, aud=AUDIENCE, **changes)


class Secured:
    """A broker whose clients need a token; `protocol` with or without TLS."""

    def __init__(self, folder: Path, protocol: str) -> None:
        self.protocol = protocol
        self.keys = folder / "keys.json"
        self.keys.write_text(json.dumps(jwks(rsa_key())))
        self.pem: Certificates | None = certificates(folder / "pem") if protocol == "SASL_SSL" else None
        self.broker = Broker({
            "listeners": f"{protocol}://127.0.0.1:0",
            "inter.broker.listener.name": protocol,
            "sasl.enabled.mechanisms": "OAUTHBEARER",
            "sasl.oauthbearer.jwks.endpoint.url": self.keys.as_uri(),
            "sasl.oauthbearer.expected.audience": AUDIENCE,
            **({"ssl.keystore.type": "PEM", "ssl.keystore.location": self.pem.broker} if self.pem else {}),
        })  # fmt: skip

    def config(self, text: Any, **more: Any) -> dict[str, Any]:
        """Of confluent-kafka; `text` gives a token."""
        return {
            "bootstrap.servers": self.broker.bootstrap_servers,
            "security.protocol": self.protocol,
            "sasl.mechanism": "OAUTHBEARER",
            "oauth_cb": lambda _: (text(), time.time() + 300),
            **({"ssl.ca.location": self.pem.ca} if self.pem else {}),
            **more,
        }


@pytest.fixture(params=["SASL_PLAINTEXT", "SASL_SSL"])
def secured(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Secured]:
    secured = Secured(tmp_path, request.param)
    with secured.broker:
        yield secured


def test_confluent_kafka_produces_and_consumes_with_a_token(secured: Secured) -> None:
    producer = Producer(secured.config(now_token))
    producer.produce("letters", b"hello")
    assert producer.flush(DEADLINE_S) == 0
    consumer = Consumer(secured.config(now_token, **{"group.id": "any", "auto.offset.reset": "earliest"}))
    try:
        consumer.subscribe(["letters"])
        assert [message.value() for message in consumer.consume(1, DEADLINE_S)] == [b"hello"]
    finally:
        consumer.close()


def test_aiokafka_produces_with_a_token(secured: Secured) -> None:
    class Provider(AbstractTokenProvider):
        async def token(self) -> str:
            return now_token()

    async def produce() -> int:
        from aiokafka.helpers import create_ssl_context

        async with AIOKafkaProducer(
            bootstrap_servers=secured.broker.bootstrap_servers,
            security_protocol=secured.protocol,
            sasl_mechanism="OAUTHBEARER",
            sasl_oauth_token_provider=Provider(),
            ssl_context=create_ssl_context(cafile=secured.pem.ca) if secured.pem else None,
        ) as producer:
            return (await producer.send_and_wait("letters", b"hello")).offset

    assert asyncio.run(asyncio.wait_for(produce(), DEADLINE_S)) == 0


def test_kafka_python_produces_with_a_token(secured: Secured) -> None:
    class Provider(KafkaPythonTokenProvider):
        def token(self) -> str:
            return now_token()

    producer = KafkaProducer(
        bootstrap_servers=secured.broker.bootstrap_servers,
        security_protocol=secured.protocol,
        sasl_mechanism="OAUTHBEARER",
        sasl_oauth_token_provider=Provider(),
        ssl_cafile=secured.pem.ca if secured.pem else None,
    )
    try:
        assert producer.send("letters", b"hello").get(DEADLINE_S).offset == 0
    finally:
        producer.close()


@pytest.mark.parametrize(
    "bad", [{"aud": "other"}, {"exp": 1_000_000_000}, {"key": rsa_key("forged"), "header": {"kid": "today"}}]
)
def test_a_bad_token_is_refused(tmp_path: Path, bad: dict[str, Any]) -> None:
    secured = Secured(tmp_path, "SASL_PLAINTEXT")
    with secured.broker:
        refusals: list[KafkaError] = []
        claims = {"aud": AUDIENCE, **bad}
        config = secured.config(
            lambda: token(now_ms=time.time_ns() // 1_000_000, **claims), error_cb=refusals.append
        )
        producer = Producer(config)
        producer.produce("letters", b"hello")
        wait_for(lambda: producer.poll(0.1) is not None and refusals, DEADLINE_S)
        assert refusals[0].code() == KafkaError._AUTHENTICATION
        producer.purge()


def test_a_client_authenticates_again_before_its_token_expires_and_its_connection_goes_on(
    tmp_path: Path,
) -> None:
    """KIP-368. librdkafka fetches a token every second at most, so a shorter one would be late."""
    secured = Secured(tmp_path, "SASL_PLAINTEXT")
    ends: list[float] = []

    def short(_: object) -> tuple[str, float]:
        ends.append(time.time() + 6)
        return now_token(exp=ends[-1]), ends[-1]

    errors: list[KafkaError] = []
    with secured.broker:
        producer = Producer({**secured.config(None, error_cb=errors.append), "oauth_cb": short})

        def outlives_the_first_token() -> bool:
            producer.produce("letters", b"x")
            assert producer.flush(DEADLINE_S) == 0
            return time.time() > ends[0] + 1

        wait_for(outlives_the_first_token, 60)
        assert len(ends) > 1
        assert errors == []  # a connection that is lost would be one


def test_keys_that_are_new_at_the_address_are_taken_up_without_a_restart(tmp_path: Path) -> None:
    secured = Secured(tmp_path, "SASL_PLAINTEXT")
    secured.broker.config["sasl.oauthbearer.jwks.endpoint.refresh.ms"] = "200"
    with secured.broker:
        secured.keys.write_text(json.dumps(jwks(rsa_key(), rsa_key("tomorrow"))))
        admin = AdminClient(secured.config(lambda: now_token(key=rsa_key("tomorrow"))))
        assert admin.list_topics(timeout=DEADLINE_S).brokers


def test_a_broker_whose_keys_cannot_be_read_does_not_start(tmp_path: Path) -> None:
    secured = Secured(tmp_path, "SASL_PLAINTEXT")
    secured.keys.write_text("{}")
    with pytest.raises(StartError, match="it is not a JSON Web Key Set"):
        secured.broker.start()
    secured.keys.unlink()
    with pytest.raises(StartError, match="No such file"):
        secured.broker.start()


def test_keys_that_cannot_be_read_for_a_while_go_on_to_count(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    answers = [(200, jwks(rsa_key()))]

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            status, body = answers[-1]
            self.send_response(status)
            self.end_headers()
            self.wfile.write(json.dumps(body).encode())

        def log_message(self, *_: object) -> None:
            pass

    def connects(key: Any) -> bool:
        config = secured.config(lambda: now_token(key=key), error_cb=lambda _: None)
        return bool(AdminClient(config).list_topics(timeout=DEADLINE_S).brokers)

    secured = Secured(tmp_path, "SASL_PLAINTEXT")
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        secured.broker.config |= {
            "sasl.oauthbearer.jwks.endpoint.url": f"http://127.0.0.1:{server.server_port}/keys",
            "sasl.oauthbearer.jwks.endpoint.refresh.ms": "100",
            "sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms": "200",
        }
        try:
            with secured.broker:
                answers.append((503, {}))
                wait_for(lambda: "it answers 503" in caplog.text)
                assert connects(rsa_key())
                answers.append((200, {"keys": []}))
                wait_for(lambda: "it has no key that could verify a signature" in caplog.text)
                assert connects(rsa_key())
                answers.append((200, jwks(rsa_key("tomorrow"))))
                assert connects(rsa_key("tomorrow"))
        finally:
            server.shutdown()
            thread.join()
