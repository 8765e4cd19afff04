"""`ottla users`, `ottla acls` and `ottla quotas`, with Ottla and with Apache Kafka: both do the same."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from bench.servers import PeerError
from tests.cli import commands
from tests.cli.commands import Outcome, Run
from tests.compat.apache import Node
from tests.support.ports import free_ports
from tests.support.processes import OttlaProcess, running

SETTINGS = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
}
SERVERS = ["ottla", "apache"]
run = commands.run


class OneOttla(OttlaProcess):
    """A broker of its own."""

    def command(self) -> list[str]:
        return [*super().command(), "--data", str(self.folder / "data")]


@pytest.fixture(scope="module", params=SERVERS)
def bootstrap(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    if request.param == "ottla":
        [port] = free_ports(1)
        with running(OneOttla(tmp_path_factory.mktemp("ottla"), port, SETTINGS)) as broker:
            yield broker.address
        return
    try:
        node = Node(SETTINGS)
    except PeerError as error:
        pytest.skip(str(error))
    try:
        with node:
            yield node.bootstrap
    finally:
        node.close()


@pytest.fixture
def ottla(run: Run, bootstrap: str, monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.setenv("OTTLA_BOOTSTRAP", bootstrap)
    return run


def done(outcome: Outcome) -> Outcome:
    assert outcome.code == 0, outcome.err
    return outcome


def listed(ottla: Run, *arguments: str) -> Any:
    return json.loads(done(ottla(*arguments, "--json")).out)


# -- users --


def test_users_are_added_listed_and_removed(ottla: Run, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("a secret\nnot this\n")
    said = done(ottla("users", "add", "alice", "--password-file", str(secret)))
    assert said.err == "alice may log in with SCRAM-SHA-256 and SCRAM-SHA-512\n"
    done(ottla("users", "add", "bob", "--password-file", "-", "--mechanism", "scram-sha-512",
               "--iterations", "8192", stdin=b"bob's\n"))  # fmt: skip
    carol = json.loads(done(ottla("users", "add", "carol", "--generate", "--json")).out)
    assert len(carol.pop("password")) == 32
    assert carol == {"user": "carol", "mechanisms": ["SCRAM-SHA-256", "SCRAM-SHA-512"], "iterations": 4096}
    both = [{"mechanism": f"SCRAM-SHA-{bits}", "iterations": 4096} for bits in (256, 512)]
    assert listed(ottla, "users", "list") == [
        {"user": "alice", "credentials": both},
        {"user": "bob", "credentials": [{"mechanism": "SCRAM-SHA-512", "iterations": 8192}]},
        {"user": "carol", "credentials": both},
    ]
    assert "a secret" not in said.out + said.err
    done(ottla("users", "remove", "alice", "--mechanism", "SCRAM-SHA-256"))
    assert done(ottla("users", "remove", "carol")).err == "carol: removed SCRAM-SHA-256 and SCRAM-SHA-512\n"
    table = [line.split() for line in done(ottla("users", "list")).out.splitlines()]
    assert table == [
        ["USER", "MECHANISM", "ITERATIONS"],
        ["alice", "SCRAM-SHA-512", "4096"],
        ["bob", "SCRAM-SHA-512", "8192"],
    ]
    again = ottla("users", "remove", "alice", "--mechanism", "SCRAM-SHA-256")
    assert (again.code, again.err) == (1, "ottla: alice has no credential for SCRAM-SHA-256\n")
    slip = ottla("users", "remove", "bobb")
    assert (slip.code, slip.err) == (1, "ottla: there is no user 'bobb'; did you mean 'bob'?\n")
    for user in ("alice", "bob"):
        done(ottla("users", "remove", user))
    assert done(ottla("users", "list")).err == "there are no users; add one with `ottla users add NAME`\n"


# -- ACLs --


def acl(principal: str, operation: str, resource: str, name: str, **others: str) -> dict[str, str]:
    usual = {"permission": "Allow", "host": "*", "pattern": "Literal"}
    return {
        **usual,
        "principal": principal,
        "operation": operation,
        "resource": resource,
        "name": name,
        **others,
    }


def ordered(acls: list[dict[str, str]]) -> list[dict[str, str]]:
    return sorted(acls, key=lambda entry: sorted(entry.items()))


def test_acls_are_added_listed_and_removed(ottla: Run) -> None:
    done(ottla("acls", "add", "-p", "alice", "--producer", "--topic", "orders", "--transactional-id", "tx"))
    done(ottla("acls", "add", "-p", "User:bob", "--consumer", "--topic", "orders", "--group", "billing"))
    done(ottla("acls", "add", "-p", "bob", "-o", "Read", "-t", "ord", "--pattern", "prefixed"))
    done(ottla("acls", "add", "-p", "eve", "--deny", "-t", "*", "--host", "10.0.0.7"))
    done(ottla("acls", "add", "-p", "ops", "-o", "describe-configs", "-o", "ALTER_CONFIGS", "--cluster"))
    alices = [
        *(acl("User:alice", operation, "Topic", "orders") for operation in ("Write", "Create", "Describe")),
        *(acl("User:alice", operation, "TransactionalId", "tx") for operation in ("Write", "Describe")),
    ]
    assert ordered(listed(ottla, "acls", "list", "--principal", "alice")) == ordered(alices)
    bobs = [
        acl("User:bob", "Read", "Topic", "orders"),
        acl("User:bob", "Describe", "Topic", "orders"),
        acl("User:bob", "Read", "Group", "billing"),
        acl("User:bob", "Read", "Topic", "ord", pattern="Prefixed"),
    ]
    eves = [acl("User:eve", "All", "Topic", "*", permission="Deny", host="10.0.0.7")]
    ops = [
        acl("User:ops", operation, "Cluster", "kafka-cluster")
        for operation in ("DescribeConfigs", "AlterConfigs")
    ]
    assert ordered(listed(ottla, "acls", "list")) == ordered([*alices, *bobs, *eves, *ops])
    applying = listed(ottla, "acls", "list", "--topic", "orders", "--pattern", "match")
    assert ordered(applying) == ordered([*alices[:3], *bobs[:2], bobs[3], *eves])
    assert listed(ottla, "acls", "list", "--deny") == eves
    table = done(ottla("acls", "list", "--deny")).out.splitlines()
    assert table[0].split() == ["PRINCIPAL", "PERMISSION", "OPERATION", "HOST", "RESOURCE", "NAME", "PATTERN"]
    assert table[1].split() == ["User:eve", "Deny", "All", "10.0.0.7", "Topic", "*", "Literal"]

    removed = listed(ottla, "acls", "remove", "-p", "alice", "--producer", "-t", "orders", "--yes")
    assert ordered(removed) == ordered(alices[:3])
    removed = listed(ottla, "acls", "remove", "-t", "ord", "--pattern", "prefixed", "--yes")
    assert removed == [bobs[3]]
    asking = ottla("acls", "remove", "--principal", "bob")
    assert (asking.code, asking.err.splitlines()[-1]) == (
        2,
        "ottla: nothing was done: without a terminal to ask at, this takes --yes",
    )
    for principal in ("alice", "bob", "eve", "ops"):
        assert done(ottla("acls", "remove", "-p", principal, "--yes")).err.endswith(" removed\n")
    nothing = ottla("acls", "remove", "-p", "alice", "--yes")
    assert (nothing.code, nothing.err) == (1, "ottla: there are no ACLs like that\n")
    assert done(ottla("acls", "list")).err == "there are no ACLs\n"


# -- quotas --


def test_quotas_are_added_listed_and_removed(ottla: Run) -> None:
    said = done(
        ottla("quotas", "add", "--user", "alice", "producer_byte_rate=1000", "request_percentage=12.5")
    )
    assert said.err == "user alice: producer_byte_rate 1000, request_percentage 12.5\n"
    done(ottla("quotas", "add", "-u", "alice", "-c", "batch", "consumer_byte_rate=5"))
    done(ottla("quotas", "add", "--default-user", "consumer_byte_rate=7"))
    done(ottla("quotas", "add", "--default-client-id", "consumer_byte_rate=8"))
    done(ottla("quotas", "add", "--ip", "10.0.0.7", "connection_creation_rate=3"))
    alice = {
        "entity": {"user": "alice"},
        "quotas": {"producer_byte_rate": 1000.0, "request_percentage": 12.5},
    }
    batch = {"entity": {"user": "alice", "client-id": "batch"}, "quotas": {"consumer_byte_rate": 5.0}}
    assert listed(ottla, "quotas", "list") == [
        {"entity": {"user": None}, "quotas": {"consumer_byte_rate": 7.0}},
        alice,
        batch,
        {"entity": {"client-id": None}, "quotas": {"consumer_byte_rate": 8.0}},
        {"entity": {"ip": "10.0.0.7"}, "quotas": {"connection_creation_rate": 3.0}},
    ]
    assert listed(ottla, "quotas", "list", "--user", "alice") == [alice, batch]
    assert done(ottla("quotas", "list", "--user", "alice", "--client-id", "batch")).out.splitlines() == [
        "FOR                          QUOTA               VALUE",
        "user alice, client-id batch  consumer_byte_rate  5",
    ]
    done(ottla("quotas", "remove", "-u", "alice", "request_percentage"))
    assert listed(ottla, "quotas", "list", "-u", "alice")[0]["quotas"] == {"producer_byte_rate": 1000.0}
    wrong = ottla("quotas", "remove", "-u", "alice", "request_percentage")
    assert (wrong.code, wrong.err) == (1, "ottla: user alice has only producer_byte_rate\n")
    refused = ottla("quotas", "add", "-u", "alice", "connection_creation_rate=1")
    assert refused.code == 1
    assert refused.err.startswith("ottla: user alice: ")
    for whose in ("-u alice", "-u alice -c batch", "--default-user", "--default-client-id", "--ip 10.0.0.7"):
        done(ottla("quotas", "remove", *whose.split()))
    nothing = ottla("quotas", "remove", "-u", "alice")
    assert (nothing.code, nothing.err) == (1, "ottla: user alice has no quotas\n")
    assert done(ottla("quotas", "list")).err == "there are no quotas\n"
