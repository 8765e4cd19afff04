"""Apache Kafka's Java client: tests/compat/java_clients, compiled and run with each version."""

from pathlib import Path

import pytest
from tests.compat import card, java_programs, toolchains
from tests.compat.card import Program
from tests.compat.client_contract import ClientContract, share_partitions, survives
from tests.compat.guest import Guest
from tests.kafka_clients.harness import BrokerProcess

SOURCE = Path(__file__).parents[1] / "java_clients"
LOG = "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"


def built(version: str) -> list[str]:
    """How its programs are run."""
    toolchains.need("java", "mvn")
    folder = toolchains.copied(SOURCE, f"java_clients-{version}")
    toolchains.run(["mvn", "-B", "-q", f"-Dkafka.version={version}", "process-classes"], folder)
    return [
        "java",
        *java_programs.FLAGS,
        LOG,
        "-cp",
        f"{folder}/target/classes:{folder}/target/libs/*",
        "Steps",
    ]


def program(version: str) -> Program:
    series = version.rpartition(".")[0]
    return Program(f"Java client {series}", version, card.CLIENTS, "Maven: org.apache.kafka:kafka-clients")


class JavaClient(ClientContract):
    @pytest.fixture(scope="class")
    @classmethod
    def command(cls) -> list[str]:
        return built(cls.PROGRAM.version)

    @pytest.fixture
    def guest(self, command: list[str], tmp_path: Path) -> Guest:
        return Guest(command, tmp_path)


class TestJava39(JavaClient):
    PROGRAM = program("3.9.2")


class TestJava4(JavaClient):
    PROGRAM = program("4.4.0")

    def test_the_new_group_protocol(self, guest: Guest, broker: BrokerProcess) -> None:
        """The same group, and the broker's restart, with the protocol of KIP-848."""
        modern = guest.with_options(protocol="consumer")
        share_partitions(modern, broker.bootstrap, broker.create_topic("modern", 6))
        topic = broker.create_topic("modern-restart")
        survives(modern, broker.bootstrap, topic, broker, is_idempotent=True)
