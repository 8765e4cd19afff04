"""kafka-acls of Apache Kafka, which is its Java admin client, against an Ottla with an authorizer."""

import subprocess
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from bench import apache
from tests.compat.test_sasl_tools import ADMIN, tool
from tests.kafka_clients.secure_broker import SecureBroker, secure_broker

ALICE = ("SCRAM-SHA-256", "scram.ScramLoginModule", "alice", "alice-secret")
COMMANDS = ("org.apache.kafka.tools.AclCommand", "kafka.admin.AclCommand")


@pytest.fixture(scope="module")
def secure(kafka_jars: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureBroker]:
    settings = {
        "authorizer_class_name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super_users": "User:ANONYMOUS;User:admin",
    }
    with secure_broker(tmp_path_factory.mktemp("acls"), **settings) as broker:
        yield broker


def command() -> str:
    """Kafka moved it from one package to the other."""
    classes = {
        name
        for jar in Path(apache._LIBS).glob("kafka*.jar")
        for name in zipfile.ZipFile(jar).namelist()
        if name.endswith("/AclCommand.class")
    }
    return next(name for name in COMMANDS if f"{name.replace('.', '/')}.class" in classes)


def test_kafka_acls_adds_lists_and_removes_what_a_java_client_is_held_to(
    secure: SecureBroker, tmp_path: Path
) -> None:
    def acls(*arguments: str) -> str:
        done = tool(secure, tmp_path, ADMIN, command(), *arguments)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def topics() -> "subprocess.CompletedProcess[str]":
        return tool(secure, tmp_path, ALICE, "org.apache.kafka.tools.TopicCommand", "--list")

    secure.create_topic("orders")
    assert "orders" not in topics().stdout
    acls("--add", "--allow-principal", "User:alice", "--consumer", "--topic", "orders", "--group", "g")
    listed = acls("--list")
    for line in (
        "resourceType=TOPIC, name=orders, patternType=LITERAL",
        "resourceType=GROUP, name=g, patternType=LITERAL",
        "(principal=User:alice, host=*, operation=READ, permissionType=ALLOW)",
    ):
        assert line in listed
    assert "orders" in topics().stdout
    acls(
        "--remove",
        "--force",
        "--allow-principal",
        "User:alice",
        "--consumer",
        "--topic",
        "orders",
        "--group",
        "g",
    )
    assert "orders" not in acls("--list")
    refused = tool(secure, tmp_path, ALICE, command(), "--list")
    assert "Cluster authorization failed" in refused.stdout + refused.stderr
