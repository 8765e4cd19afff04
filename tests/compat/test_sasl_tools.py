"""Apache Kafka's own tools, and with them its Java client, against an Ottla that demands SASL."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from bench import apache
from bench.servers import clean_environment
from confluent_kafka.admin import ScramMechanism
from tests.compat.apache import QUICK_JVM
from tests.kafka_clients.secure_broker import WITHIN_S, SecureBroker, secure_broker

TOOL_S = 120.0
ADMIN = ("PLAIN", "plain.PlainLoginModule", "admin", "admin-secret")
CREDENTIALS = "SCRAM-SHA-256=[iterations=8192,password=dave-secret],SCRAM-SHA-512=[password=dave-secret]"


@pytest.fixture(scope="module")
def secure(kafka_jars: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureBroker]:
    with secure_broker(tmp_path_factory.mktemp("secure")) as broker:
        yield broker


def tool(
    secure: SecureBroker, folder: Path, login: tuple[str, str, str, str], name: str, *arguments: str
) -> "subprocess.CompletedProcess[str]":
    mechanism, module, user, password = login
    file = folder / "client.properties"
    file.write_text(
        "security.protocol=SASL_PLAINTEXT\n"
        f"sasl.mechanism={mechanism}\n"
        f"sasl.jaas.config=org.apache.kafka.common.security.{module} required "
        f'username="{user}" password="{password}";\n'
    )
    command = apache.java(
        name, "--bootstrap-server", secure.secure, "--command-config", str(file), *arguments
    )
    environment = clean_environment() | QUICK_JVM
    return subprocess.run(command, capture_output=True, text=True, timeout=TOOL_S, env=environment)


def log_in(secure: SecureBroker, folder: Path, mechanism: str) -> "subprocess.CompletedProcess[str]":
    dave = (mechanism, "scram.ScramLoginModule", "dave", "dave-secret")
    return tool(secure, folder, dave, "org.apache.kafka.tools.TopicCommand", "--list")


def test_kafka_configs_adds_and_removes_users_who_log_in_with_the_java_client(
    secure: SecureBroker, tmp_path: Path
) -> None:
    def alter(*change: str) -> None:
        done = tool(
            secure, tmp_path, ADMIN, "kafka.admin.ConfigCommand",
            "--entity-type", "users", "--entity-name", "dave", "--alter", *change,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr

    secure.create_topic("there")
    alter("--add-config", CREDENTIALS)
    description = secure.admin.describe_user_scram_credentials(["dave"])["dave"].result(WITHIN_S)
    assert [(info.mechanism, info.iterations) for info in description.scram_credential_infos] == [
        (ScramMechanism.SCRAM_SHA_256, 8192),
        (ScramMechanism.SCRAM_SHA_512, 4096),
    ]
    for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512"):
        assert "there" in log_in(secure, tmp_path, mechanism).stdout
    alter("--delete-config", "SCRAM-SHA-256")
    refused = log_in(secure, tmp_path, "SCRAM-SHA-256")
    assert refused.returncode != 0
    assert (
        "Authentication failed due to invalid credentials with SASL mechanism SCRAM-SHA-256" in refused.stdout
    )
