"""Kafka Streams: Kafka's own first example, and the application that tests/transactions kills."""

from pathlib import Path

import pytest
from tests.compat import card, java_programs, toolchains
from tests.compat.background import running, tail
from tests.compat.card import Program
from tests.compat.own_tests import kafka_version, passes
from tests.compat.watched_topic import WatchedTopic, produce
from tests.support.waiting import wait_for
from tests.transactions.servers import Brokers

EXAMPLES = f"org.apache.kafka:kafka-streams-examples:{java_programs.VERSION}"
INPUT, OUTPUT = "streams-plaintext-input", "streams-wordcount-output"
WITHIN_S = 120.0
LINES = [f"all streams lead to number{n}" for n in range(400)]


def counts(seen: WatchedTopic) -> dict[str, int]:
    """The last one of each word."""
    pairs = [(message.key().decode(), message.value()) for message in list(seen.messages)]
    return {word: int.from_bytes(count, "big") for word, count in pairs}


class TestKafkaStreams:
    PROGRAM = Program(
        "Kafka Streams",
        java_programs.VERSION,
        card.PROCESSORS,
        "Maven: kafka-streams-examples, kafka-streams",
    )

    @pytest.mark.parametrize("guarantee", ["at_least_once", "exactly_once_v2"])
    def test_word_count(self, guarantee: str, brokers: Brokers, tmp_path: Path) -> None:
        """Kafka's WordCountDemo; it and a broker killed (-9)."""
        for topic in (INPUT, OUTPUT):
            brokers.create_topic(topic)
        settings = {
            "bootstrap.servers": brokers.bootstrap,
            "state.dir": tmp_path / "state",
            "commit.interval.ms": 100,
            "processing.guarantee": guarantee,
            "session.timeout.ms": 6_000,  # a killed one is missed so long
        }
        file = java_programs.properties(tmp_path / "streams.properties", settings)
        path = f"{toolchains.jars('streams-examples', EXAMPLES)}/*"
        main = "org.apache.kafka.streams.examples.wordcount.WordCountDemo"
        command = ["java", *java_programs.FLAGS, "-cp", path, main, file]

        def wait_counted(lines: int) -> None:
            words = {f"number{n}" for n in range(lines)}
            wait_for(
                lambda: words <= counts(seen).keys() and counts(seen)["streams"] >= lines, WITHIN_S,
                lambda: f"{len(words - counts(seen).keys())} words\n{tail(tmp_path / 'log')}",
            )  # fmt: skip

        with WatchedTopic(brokers.bootstrap, OUTPUT) as seen:
            produce(brokers.bootstrap, INPUT, LINES[:100])
            with running(command, tmp_path / "log"):
                wait_counted(100)
            produce(brokers.bootstrap, INPUT, LINES[100:200])
            with running(command, tmp_path / "log"):
                wait_counted(200)
                brokers.restart_leader(INPUT)
                produce(brokers.bootstrap, INPUT, LINES[200:])
                wait_counted(400)
        if guarantee == "exactly_once_v2":
            assert counts(seen)["streams"] == 400

    def test_exactly_once(self) -> None:
        """Sums with exactly_once_v2 and a state store, exact after kills of application and broker."""
        assert kafka_version() == self.PROGRAM.version
        passes("tests/transactions/test_streams.py")
