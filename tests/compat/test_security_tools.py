"""Apache Kafka's Java client, kafka-acls and kafka-configs, with TLS, SASL and ACLs."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from confluent_kafka.admin import ScramMechanism
from tests.compat.tools_jvm import Outcome, ToolsJvm
from tests.kafka_clients.secure_broker import AUTHORITY, WITHIN_S, SecureBroker, secure_broker

ACLS, CONFIGS = "org.apache.kafka.tools.AclCommand", "kafka.admin.ConfigCommand"
TOPICS, ROUND_TRIP = "org.apache.kafka.tools.TopicCommand", "RoundTrip"
CREDENTIALS = "SCRAM-SHA-256=[iterations=8192,password=dave-secret],SCRAM-SHA-512=[password=dave-secret]"
SCRAM = ("SCRAM-SHA-256", "SCRAM-SHA-512")
SETTINGS = {
    "authorizer_class_name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super_users": "User:ANONYMOUS;User:admin;User:dave",
}


class Login(NamedTuple):
    user: str
    mechanism: str = "PLAIN"


ADMIN = Login("admin")


@pytest.fixture(scope="module")
def secure(kafka_jars: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureBroker]:
    with secure_broker(tmp_path_factory.mktemp("secure"), **SETTINGS) as broker:
        yield broker


def client_file(secure: SecureBroker, folder: Path, login: Login) -> str:
    module = "plain.PlainLoginModule" if login.mechanism == "PLAIN" else "scram.ScramLoginModule"
    trusted, file = folder / "ca.pem", folder / f"{login.user}-{login.mechanism}.properties"
    trusted.write_text(AUTHORITY.pem)
    file.write_text(
        f"bootstrap.servers={secure.secure_with_tls}\n"
        "security.protocol=SASL_SSL\n"
        f"ssl.truststore.type=PEM\nssl.truststore.location={trusted}\n"
        f"sasl.mechanism={login.mechanism}\n"
        f"sasl.jaas.config=org.apache.kafka.common.security.{module} required "
        f'username="{login.user}" password="{login.user}-secret";\n'
    )
    return str(file)


@pytest.fixture
def tool(secure: SecureBroker, kafka_tools: ToolsJvm, tmp_path: Path) -> Callable[..., Outcome]:
    """Runs one over TLS, as the user of a login."""

    def run(login: Login, name: str, *arguments: str) -> Outcome:
        config = client_file(secure, tmp_path, login)
        at = ("--bootstrap-server", secure.secure_with_tls, "--command-config", config)
        return kafka_tools.run(name, *at, *arguments)

    return run


def done(outcome: Outcome) -> str:
    assert outcome.code == 0, outcome.said
    return outcome.said


def test_kafka_configs_adds_describes_and_removes_users_who_log_in_with_the_java_client(
    secure: SecureBroker, tool: Callable[..., Outcome]
) -> None:
    dave = ("--entity-type", "users", "--entity-name", "dave")

    def log_in(mechanism: str) -> Outcome:
        return tool(Login("dave", mechanism), TOPICS, "--list")

    secure.create_topic("there")
    done(tool(ADMIN, CONFIGS, *dave, "--alter", "--add-config", CREDENTIALS))
    description = secure.admin.describe_user_scram_credentials(["dave"])["dave"].result(WITHIN_S)
    assert [(info.mechanism, info.iterations) for info in description.scram_credential_infos] == [
        (ScramMechanism.SCRAM_SHA_256, 8192),
        (ScramMechanism.SCRAM_SHA_512, 4096),
    ]
    for mechanism in SCRAM:
        assert "there" in done(log_in(mechanism))
    done(tool(ADMIN, CONFIGS, *dave, "--alter", "--add-config", "producer_byte_rate=1024"))
    said = done(tool(ADMIN, CONFIGS, "--describe", "--entity-type", "users"))
    assert "SCRAM credential configs for user-principal 'dave' are" in said
    assert "SCRAM-SHA-256=iterations=8192, SCRAM-SHA-512=iterations=4096" in said
    assert "SCRAM credential configs for user-principal 'alice' are" in said
    assert re.search(r"user-principal 'dave' are producer_byte_rate=1024\.0", said), said
    assert "secret" not in said
    for config in ("SCRAM-SHA-256", "producer_byte_rate"):  # the tool takes one kind at a time
        done(tool(ADMIN, CONFIGS, *dave, "--alter", "--delete-config", config))
    said = done(tool(ADMIN, CONFIGS, "--describe", *dave))
    assert "are SCRAM-SHA-512=iterations=4096" in said
    assert "producer_byte_rate" not in said
    refused = log_in("SCRAM-SHA-256")
    assert refused.code != 0
    problem = "Authentication failed due to invalid credentials with SASL mechanism SCRAM-SHA-256"
    assert problem in refused.said


def test_kafka_acls_adds_lists_and_removes_what_java_clients_are_held_to(
    secure: SecureBroker, tool: Callable[..., Outcome], kafka_tools: ToolsJvm, tmp_path: Path
) -> None:
    """The producer, the consumer and the admin client, over TLS by every mechanism."""
    orders, who = ("--topic", "orders"), ("--allow-principal", "User:alice")
    groups = ("--group", "g", "--resource-pattern-type", "prefixed")

    def round_trip(mechanism: str) -> Outcome:
        config = client_file(secure, tmp_path, Login("alice", mechanism))
        return kafka_tools.run(ROUND_TRIP, config, f"orders-{mechanism}", f"g-{mechanism}", "100")

    for mechanism in ("PLAIN", *SCRAM):
        secure.create_topic(f"orders-{mechanism}")
    assert "orders" not in done(tool(Login("alice"), TOPICS, "--list"))
    refused = round_trip("PLAIN")
    assert "TopicAuthorizationException" in refused.said
    done(tool(ADMIN, ACLS, "--add", *who, "--consumer", *orders, *groups))
    done(tool(ADMIN, ACLS, "--add", *who, "--producer", *orders, "--resource-pattern-type", "prefixed"))
    listed = done(tool(ADMIN, ACLS, "--list"))
    for line in (
        "resourceType=TOPIC, name=orders, patternType=PREFIXED",
        "resourceType=GROUP, name=g, patternType=PREFIXED",
        "(principal=User:alice, host=*, operation=READ, permissionType=ALLOW)",
        "(principal=User:alice, host=*, operation=WRITE, permissionType=ALLOW)",
    ):
        assert line in listed
    assert "orders-PLAIN" in done(tool(Login("alice"), TOPICS, "--list"))
    numbers = ",".join(map(str, range(100)))
    for mechanism in ("PLAIN", *SCRAM):
        assert done(round_trip(mechanism)).splitlines()[-2:] == [f"orders-{mechanism}-0 100", numbers]
    for kind in (("--consumer", *groups), ("--producer", "--resource-pattern-type", "prefixed")):
        done(tool(ADMIN, ACLS, "--remove", "--force", *who, *kind, *orders))
    assert "orders" not in done(tool(ADMIN, ACLS, "--list"))
    assert "orders" not in done(tool(Login("alice"), TOPICS, "--list"))
    assert "Cluster authorization failed" in tool(Login("alice"), ACLS, "--list").said
