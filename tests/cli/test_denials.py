"""What somebody sees who is let in and may do little: one line, and what to do."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)
from tests.cli.commands import Run

from ottla import Broker

WITHIN_S = 30.0
PASSWORD = "alice-secret"
NOT_ALLOWED = "you are not allowed to"
ADVICE = "an administrator can allow it with `ottla acls add`\n"


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The client properties of alice, who may read the topic `letters`, and nothing else."""
    with Broker(secure=True) as broker:
        for topic in ("letters", "diaries"):
            broker.create_topic(topic)
        admin = AdminClient(broker.client_config)
        info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096)
        user = UserScramCredentialUpsertion("alice", info, PASSWORD.encode())
        admin.alter_user_scram_credentials([user])["alice"].result(WITHIN_S)
        allowed = (AclOperation.READ, AclPermissionType.ALLOW)
        acl = AclBinding(
            ResourceType.TOPIC, "letters", ResourcePatternType.LITERAL, "User:alice", "*", *allowed
        )
        admin.create_acls([acl])[acl].result(WITHIN_S)
        producer = Producer(broker.client_config)
        producer.produce("letters", b"hello")
        assert producer.flush(WITHIN_S) == 0
        own = broker.client_config | {"sasl.username": "alice", "sasl.password": PASSWORD}
        path = tmp_path_factory.mktemp("denials") / "alice.properties"
        path.write_text("".join(f"{name}={value}\n" for name, value in own.items()))
        yield str(path)


@pytest.fixture
def alice(run: Run, file: str, monkeypatch: pytest.MonkeyPatch) -> Run:
    """`ottla`, run by alice."""
    monkeypatch.setenv("OTTLA_CONFIG", file)
    return run


def test_who_may_read_a_topic_needs_no_right_on_any_group(alice: Run) -> None:
    outcome = alice("consume", "letters", "--max", "1")
    assert (outcome.code, outcome.out) == (0, "hello\n"), outcome.err


def test_a_producer_that_may_write_nowhere_is_told_in_one_line(alice: Run, tmp_path: Path) -> None:
    refusal = f"ottla: topic letters: {NOT_ALLOWED} write; {ADVICE}"
    for lines in (b"one\n", b"many\n" * 5000):
        outcome = alice("produce", "letters", stdin=lines)
        assert (outcome.code, outcome.err) == (
            1,
            f"ottla: topic letters: {NOT_ALLOWED} write; {ADVICE}",
        )
    log = tmp_path / "app.log"
    log.write_text("first\nsecond\n")
    state = str(tmp_path / "state.json")
    outcome = alice("ship", str(log), "--topic", "letters", "--once", "--state", state)
    assert (outcome.code, outcome.err) == (1, refusal)


@pytest.mark.parametrize(
    ("command", "line"),
    [
        (("topics", "create", "essays"), f"topic essays: {NOT_ALLOWED} do that with this topic; "),
        (("topics", "delete", "letters", "--yes"), f"topic letters: {NOT_ALLOWED} do that with this topic; "),
        (("consume", "letters", "--group", "readers"), f"{NOT_ALLOWED} do that with this group; "),
        (("groups", "describe", "readers"), f"group readers: {NOT_ALLOWED} do that with this group; "),
        (("configs", "describe", "--broker", "1"), f"broker 1: {NOT_ALLOWED} do that in this cluster; "),
    ],
)  # fmt: skip
def test_what_is_denied_is_one_line_with_the_remedy(alice: Run, command: tuple[str, ...], line: str) -> None:
    outcome = alice(*command)
    assert (outcome.code, outcome.err) == (1, f"ottla: {line}{ADVICE}")


def test_administration_that_is_denied_says_where_the_right_is_written(alice: Run) -> None:
    for command in (("users", "list"), ("acls", "list"), ("quotas", "list")):
        outcome = alice(*command)
        assert outcome.code == 1
        assert "it takes a super user, or an ACL that allows it on the cluster" in outcome.err


def test_a_topic_that_may_not_be_seen_is_not_there(alice: Run) -> None:
    assert alice("topics", "list").out.split()[-5:] == ["letters", "1", "1", "1", "-"]
    assert alice("topics", "describe", "diaries").err == "ottla: there is no topic 'diaries'\n"


def test_a_client_without_sasl_is_told_at_once_that_the_port_has_it(alice: Run) -> None:
    outcome = alice("topics", "list", "-X", "security.protocol=SSL")
    assert outcome.code == 1
    assert outcome.err.startswith("ottla: broker 127.0.0.1:")
    assert "is it a port with SASL" in outcome.err
