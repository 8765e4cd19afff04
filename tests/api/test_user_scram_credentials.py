"""DescribeUserScramCredentials and AlterUserScramCredentials."""

from typing import Any

import pytest
from tests.api.harness import Client, Machine
from tests.api.sasl import ALICE, LISTENER, add_user, authenticate, secure_machine, upsertion

from ottla.base.errors import ErrorCode
from ottla.controller import user_nodes, znodes
from ottla.controller.keeper import Create
from ottla.controller.user_nodes import Entity
from ottla.security.credentials import ScramCredential, ScramMechanism
from ottla.security.sasl.client import Credentials
from ottla.wire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from ottla.wire.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    UserName,
)

SHA_256, SHA_512 = ScramMechanism
UNKNOWN = 3


@pytest.fixture
def machine() -> Machine:
    return secure_machine()


@pytest.fixture
def client(machine: Machine) -> Client:
    return machine.client()


def alter(client: Client, *alterations: Any) -> dict[str, tuple[int, str | None]]:
    request = AlterUserScramCredentialsRequest(
        deletions=[one for one in alterations if isinstance(one, ScramCredentialDeletion)],
        upsertions=[one for one in alterations if isinstance(one, ScramCredentialUpsertion)],
    )
    results = client.send(request).results
    return {result.user: (result.error_code, result.error_message) for result in results}


def deletion(user: str, mechanism: int) -> ScramCredentialDeletion:
    return ScramCredentialDeletion(name=user, mechanism=mechanism)


def describe(client: Client, *users: str) -> dict[str, Any]:
    names = [UserName(name=user) for user in users]
    answer = client.send(DescribeUserScramCredentialsRequest(users=names or None))
    assert answer.error_code == 0
    return {
        result.user: result.error_code
        or {info.mechanism: info.iterations for info in result.credential_infos}
        for result in answer.results
    }


OK = (0, None)


def test_a_user_is_made_described_and_removed(client: Client) -> None:
    assert describe(client) == {}
    assert alter(client, upsertion("bob", "b", SHA_512, 8192), upsertion("alice", "a", SHA_256)) == {
        "bob": OK,
        "alice": OK,
    }
    assert list(describe(client).items()) == [("alice", {1: 4096}), ("bob", {2: 8192})], "by name"
    assert describe(client, "bob") == {"bob": {2: 8192}}
    assert alter(client, deletion("bob", SHA_512)) == {"bob": OK}
    assert describe(client) == {"alice": {1: 4096}}
    assert describe(client, "bob") == {"bob": ErrorCode.RESOURCE_NOT_FOUND}


def test_both_mechanisms_of_a_user_are_set_in_one_request(client: Client) -> None:
    assert alter(client, upsertion("alice", "a", SHA_256), upsertion("alice", "a", SHA_512)) == {"alice": OK}
    assert describe(client) == {"alice": {1: 4096, 2: 4096}}
    assert alter(client, deletion("alice", SHA_256), upsertion("alice", "b", SHA_512)) == {"alice": OK}
    assert describe(client) == {"alice": {2: 4096}}


def test_who_is_added_can_authenticate_at_once_and_who_is_removed_cannot(machine: Machine) -> None:
    add_user(machine, "alice", "alice-secret")
    assert authenticate(machine.stranger(LISTENER), "SCRAM-SHA-256", ALICE).error_code == 0
    alter(machine.client(), upsertion("alice", "another", SHA_256))
    failed = ErrorCode.SASL_AUTHENTICATION_FAILED
    assert authenticate(machine.stranger(LISTENER), "SCRAM-SHA-256", ALICE).error_code == failed
    other = Credentials("alice", "another")
    assert authenticate(machine.stranger(LISTENER), "SCRAM-SHA-256", other).error_code == 0
    alter(machine.client(), deletion("alice", SHA_256))
    assert authenticate(machine.stranger(LISTENER), "SCRAM-SHA-256", other).error_code == failed
    assert authenticate(machine.stranger(LISTENER), "SCRAM-SHA-512", ALICE).error_code == 0


def test_users_outlive_a_restart(machine: Machine) -> None:
    add_user(machine, "alice", "alice-secret")
    machine.restart()
    assert authenticate(machine.stranger(LISTENER), "SCRAM-SHA-512", ALICE).error_code == 0


@pytest.mark.parametrize(
    ("alterations", "code", "message"),
    [
        ([upsertion("", "a", SHA_256)], ErrorCode.UNACCEPTABLE_CREDENTIAL, "Username must not be empty"),
        ([deletion("", SHA_256)], ErrorCode.UNACCEPTABLE_CREDENTIAL, "Username must not be empty"),
        ([upsertion("u", "a", SHA_256, 4095)], ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too few iterations"),
        ([upsertion("u", "a", SHA_256, 16385)], ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too many iterations"),
        ([deletion("u", UNKNOWN)], ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism"),
        ([deletion("u", 0)], ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism"),
        (
            [upsertion("u", "a", SHA_256), deletion("u", SHA_256)],
            ErrorCode.DUPLICATE_RESOURCE,
            "A user credential cannot be altered twice in the same request",
        ),
        (
            [upsertion("u", "a", SHA_256), deletion("u", SHA_512)],
            ErrorCode.RESOURCE_NOT_FOUND,
            "Attempt to delete a user credential that does not exist",
        ),
    ],
)
def test_what_is_wrong_for_one_user_is_refused_as_a_whole_and_others_go_on(
    client: Client, alterations: list[Any], code: ErrorCode, message: str
) -> None:
    results = alter(client, *alterations, upsertion("other", "a", SHA_256))
    assert results.pop("other") == OK
    assert list(results.values()) == [(code, message)]
    assert describe(client) == {"other": {1: 4096}}


def test_a_user_named_twice_or_without_a_name_is_not_described(client: Client) -> None:
    alter(client, upsertion("alice", "a", SHA_256))
    assert describe(client, "alice", "alice", "") == {
        "alice": ErrorCode.DUPLICATE_RESOURCE,
        "": ErrorCode.RESOURCE_NOT_FOUND,
    }


def test_only_what_a_password_is_recognised_by_is_stored_under_kafkas_name(
    machine: Machine, client: Client
) -> None:
    alter(client, upsertion("CN=al/ice", "hunter2", SHA_256))
    content = machine.keeper.nodes["/config/users/CN%3Dal%2Fice"].data
    config = znodes.parse(content)["config"]
    assert list(config) == ["SCRAM-SHA-256"]
    assert ScramCredential.parse(config["SCRAM-SHA-256"], SHA_256).iterations == 4096
    salted = upsertion("x", "hunter2", SHA_256).salted_password
    assert b"hunter2" not in content
    assert salted.hex() not in content.decode()


def test_quotas_of_the_same_user_stay(machine: Machine, client: Client) -> None:
    alice = Entity("alice")
    machine.write(Create(alice.path, znodes.config_node({"producer_byte_rate": "1000"})))
    assert describe(client) == {}
    assert alter(client, upsertion("alice", "a", SHA_256)) == {"alice": OK}
    assert alter(client, deletion("alice", SHA_256)) == {"alice": OK}
    assert machine.broker.image.entity_configs[alice].values == {"producer_byte_rate": "1000"}


def test_a_user_whose_last_credential_goes_keeps_its_clients(machine: Machine, client: Client) -> None:
    (create,) = user_nodes.write(Entity("alice", "app"), {"producer_byte_rate": "1"}, -1)
    machine.write(create)
    alter(client, upsertion("alice", "a", SHA_256))
    alter(client, deletion("alice", SHA_256))
    assert machine.broker.image.entity_configs[Entity("alice", "app")].values == {"producer_byte_rate": "1"}


def test_a_damaged_credential_is_said_to_be_and_lets_nobody_in(machine: Machine, client: Client) -> None:
    machine.write(Create("/config/users/alice", znodes.config_node({"SCRAM-SHA-256": "salt=YQ=="})))
    assert describe(client, "alice") == {"alice": ErrorCode.UNKNOWN_SERVER_ERROR}
    answer = authenticate(machine.stranger(LISTENER), "SCRAM-SHA-256", ALICE)
    assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
