"""AlterClientQuotas and DescribeClientQuotas (KIP-546): what is set, what is refused, where it is kept."""

import json
from typing import Any

import pytest
from tests.api.harness import Client, Machine

from ottla.base.errors import ErrorCode
from ottla.broker.effects import WriteNodes
from ottla.controller.keeper import Create, Put
from ottla.security.authorizer import Authorizer
from ottla.security.resources import Operation, ResourceType
from ottla.wire.messages import alter_client_quotas as alter
from ottla.wire.messages import describe_client_quotas as describe

EXACT, DEFAULT, SPECIFIED = 0, 1, 2


def entry(values: dict[str, float | None], **entity: str | None) -> alter.EntryData:
    """A value of None is removed; `client_id` is spelled with an underscore."""
    return alter.EntryData(
        entity=[
            alter.EntityData(entity_type=kind.replace("_", "-"), entity_name=name)
            for kind, name in entity.items()
        ],
        ops=[
            alter.OpData(key=name, value=value or 0.0, remove=value is None) for name, value in values.items()
        ],
    )


def set_quotas(client: Client, *entries: alter.EntryData, validate_only: bool = False) -> list[Any]:
    """(error code, message) of each entry."""
    request = alter.AlterClientQuotasRequest(entries=list(entries), validate_only=validate_only)
    answer = client.send(request)
    return [(result.error_code, result.error_message) for result in answer.entries]


def described(client: Client, *components: tuple[str, int, str | None], strict: bool = False) -> Any:
    """{entity: quotas}, an entity as {type: name}, sorted."""
    request = describe.DescribeClientQuotasRequest(
        components=[
            describe.ComponentData(entity_type=kind, match_type=match_type, match=match)
            for kind, match_type, match in components
        ],
        strict=strict,
    )
    answer = client.send(request)
    if answer.error_code:
        assert answer.entries is None
        return answer.error_code, answer.error_message
    return {
        tuple((part.entity_type, part.entity_name) for part in shown.entity): {
            value.key: value.value for value in shown.values
        }
        for shown in answer.entries
    }


def config_in(machine: Machine, path: str) -> dict[str, str]:
    config: dict[str, str] = json.loads(machine.keeper.nodes[path].data)["config"]
    return config


@pytest.fixture
def machine() -> Machine:
    return Machine()


@pytest.fixture
def client(machine: Machine) -> Client:
    return machine.client()


def test_quotas_are_kept_in_kafkas_nodes_and_described(machine: Machine, client: Client) -> None:
    results = set_quotas(
        client,
        entry({"producer_byte_rate": 1_024.0, "request_percentage": 12.5}, user="alice"),
        entry({"consumer_byte_rate": 2_048.0}, user="alice", client_id="app"),
        entry({"controller_mutation_rate": 5.0}, client_id=None),
        entry({"connection_creation_rate": 10.0}, ip="10.0.0.1"),
    )
    assert results == [(ErrorCode.NONE, None)] * 4
    assert config_in(machine, "/config/users/alice") == {
        "producer_byte_rate": "1024", "request_percentage": "12.5",
    }  # fmt: skip
    assert config_in(machine, "/config/users/alice/clients/app") == {"consumer_byte_rate": "2048"}
    assert config_in(machine, "/config/clients/<default>") == {"controller_mutation_rate": "5.0"}
    assert config_in(machine, "/config/ips/10.0.0.1") == {"connection_creation_rate": "10"}
    assert described(client) == {
        (("user", "alice"),): {"producer_byte_rate": 1_024.0, "request_percentage": 12.5},
        (("user", "alice"), ("client-id", "app")): {"consumer_byte_rate": 2_048.0},
        (("client-id", None),): {"controller_mutation_rate": 5.0},
        (("ip", "10.0.0.1"),): {"connection_creation_rate": 10.0},
    }


def test_quotas_outlive_a_restart(machine: Machine, client: Client) -> None:
    set_quotas(client, entry({"producer_byte_rate": 1_024.0}, user="alice"))
    machine.restart()
    assert described(machine.client()) == {(("user", "alice"),): {"producer_byte_rate": 1_024.0}}
    assert machine.broker.quotas.is_active


def test_a_users_credentials_are_neither_shown_nor_touched(machine: Machine, client: Client) -> None:
    credential = {"SCRAM-SHA-256": "salt=c2FsdA=="}
    node = json.dumps({"version": 1, "config": credential}).encode()
    machine.write(Create("/config/users/alice", node))
    assert described(client) == {}
    set_quotas(client, entry({"producer_byte_rate": 5.0}, user="alice"))
    assert config_in(machine, "/config/users/alice") == credential | {"producer_byte_rate": "5"}
    set_quotas(client, entry({"producer_byte_rate": None, "SCRAM-SHA-256": None}, user="alice"))
    assert config_in(machine, "/config/users/alice") == credential
    assert described(client) == {}


def test_what_is_removed_is_gone_and_its_node_with_it_unless_it_is_a_users(
    machine: Machine, client: Client
) -> None:
    entities: list[dict[str, str | None]] = [
        {"user": "alice", "client_id": "app"}, {"client_id": "app"}, {"user": "alice"},
    ]  # fmt: skip
    set_quotas(client, *(entry({"producer_byte_rate": 5.0}, **entity) for entity in entities))
    set_quotas(client, *(entry({"producer_byte_rate": None}, **entity) for entity in entities))
    left = [path for path in machine.keeper.nodes if path.startswith(("/config/users", "/config/clients"))]
    assert left == ["/config/users/alice"]
    assert described(client) == {}
    assert not machine.broker.quotas.is_active
    assert set_quotas(client, entry({"producer_byte_rate": None}, user="nobody")) == [(ErrorCode.NONE, None)]


def test_a_request_that_only_validates_changes_nothing(machine: Machine, client: Client) -> None:
    good, bad = entry({"producer_byte_rate": 5.0}, user="a"), entry({"nonsense": 5.0}, user="b")
    results = set_quotas(client, good, bad, validate_only=True)
    assert [code for code, _ in results] == [ErrorCode.NONE, ErrorCode.INVALID_REQUEST]
    assert "/config/users/a" not in machine.keeper.nodes


@pytest.mark.parametrize(
    ("refused", "problem"),
    [
        (entry({"producer_byte_rate": 1.0}), "empty client quota entity"),
        (entry({"producer_byte_rate": 1.0}, user=""), "Empty user not supported"),
        (entry({"producer_byte_rate": 1.0}, group="g"), "Unhandled client quota entity type: group"),
        (entry({"producer_byte_rate": 1.0}, user="a", ip="10.0.0.1"), "combination"),
        (entry({"connection_creation_rate": 1.0}, ip="nowhere"), "nowhere is not a valid IP address"),
        (entry({"connection_creation_rate": 1.0}, user="a"), "Invalid configuration key"),
        (entry({"producer_byte_rate": 0.0}, user="a"), "greater than 0"),
        (entry({"producer_byte_rate": 1.5}, user="a"), "fractional"),
    ],
)
def test_what_kafka_refuses_is_refused_and_the_rest_of_a_request_is_done(
    machine: Machine, client: Client, refused: alter.EntryData, problem: str
) -> None:
    (code, message), good = set_quotas(client, refused, entry({"producer_byte_rate": 7.0}, user="good"))
    assert code == ErrorCode.INVALID_REQUEST
    assert problem in message
    assert good == (ErrorCode.NONE, None)
    assert config_in(machine, "/config/users/good") == {"producer_byte_rate": "7"}


def test_an_entity_or_a_key_given_twice_is_refused(client: Client) -> None:
    twice = entry({"producer_byte_rate": 1.0}, user="a")
    assert [code for code, _ in set_quotas(client, twice, twice)] == [ErrorCode.INVALID_REQUEST] * 2
    repeated = entry({"producer_byte_rate": 1.0}, user="a")
    repeated.ops *= 2
    assert [code for code, _ in set_quotas(client, repeated)] == [ErrorCode.INVALID_REQUEST]
    doubled = entry({"producer_byte_rate": 1.0}, user="a")
    doubled.entity *= 2
    assert [code for code, _ in set_quotas(client, doubled)] == [ErrorCode.INVALID_REQUEST]
    assert described(client) == {}


def test_somebody_who_was_faster_does_not_lose_what_they_wrote(machine: Machine, client: Client) -> None:
    """The write is refused by its version, and planned again on what is there now."""
    set_quotas(client, entry({"producer_byte_rate": 1.0}, user="a"))
    machine.hold(WriteNodes)
    request = alter.AlterClientQuotasRequest(
        entries=[entry({"request_percentage": 3.0}, user="a")], validate_only=False
    )
    pending = client.ask(request)
    node = json.dumps({"version": 1, "config": {"consumer_byte_rate": "2"}}).encode()
    machine.write(Put("/config/users/a", node))
    machine.release()
    assert pending.answer.entries[0].error_code == ErrorCode.NONE
    assert config_in(machine, "/config/users/a") == {"consumer_byte_rate": "2", "request_percentage": "3.0"}


@pytest.fixture
def populated(client: Client) -> Client:
    rate = {"producer_byte_rate": 1.0}
    entities: list[dict[str, str | None]] = [
        {"user": "a"}, {"user": None}, {"user": "a", "client_id": "c"}, {"user": "a", "client_id": None},
        {"user": None, "client_id": "c"}, {"client_id": "c"}, {"client_id": None},
    ]  # fmt: skip
    set_quotas(client, *(entry(rate, **entity) for entity in entities))
    set_quotas(client, entry({"connection_creation_rate": 1.0}, ip="10.0.0.1"))
    return client


@pytest.mark.parametrize(
    ("components", "strict", "expected"),
    [
        ([("user", EXACT, "a")], False, ["a", "a/c", "a/*"]),
        ([("user", EXACT, "a")], True, ["a"]),
        ([("user", DEFAULT, None)], False, ["*", "*/c"]),
        ([("user", SPECIFIED, None)], True, ["a", "*"]),
        ([("user", SPECIFIED, None), ("client-id", EXACT, "c")], True, ["a/c", "*/c"]),
        ([("client-id", SPECIFIED, None)], True, ["-/c", "-/*"]),
        ([("client-id", DEFAULT, None)], False, ["a/*", "-/*"]),
        ([("user", EXACT, "nobody")], False, []),
        ([("ip", SPECIFIED, None)], True, ["10.0.0.1"]),
        ([], True, []),
    ],
)
def test_a_filter_names_whom_it_is_about(
    populated: Client, components: list[tuple[str, int, str | None]], strict: bool, expected: list[str]
) -> None:
    def short(entity: tuple[tuple[str, str | None], ...]) -> str:
        named = {kind: name or "*" for kind, name in entity}
        if "ip" in named:
            return named["ip"]
        client_id = f"/{named['client-id']}" if "client-id" in named else ""
        return named.get("user", "-") + client_id

    shown = described(populated, *components, strict=strict)
    assert sorted(map(short, shown)) == sorted(expected)


@pytest.mark.parametrize(
    ("components", "code"),
    [
        ([("", EXACT, "a")], ErrorCode.INVALID_REQUEST),
        ([("group", EXACT, "a")], ErrorCode.UNSUPPORTED_VERSION),
        ([("user", EXACT, None)], ErrorCode.INVALID_REQUEST),
        ([("user", DEFAULT, "a")], ErrorCode.INVALID_REQUEST),
        ([("user", SPECIFIED, "a")], ErrorCode.INVALID_REQUEST),
        ([("user", 3, None)], ErrorCode.INVALID_REQUEST),
        ([("user", EXACT, "a"), ("user", EXACT, "b")], ErrorCode.INVALID_REQUEST),
        ([("user", EXACT, "a"), ("ip", SPECIFIED, None)], ErrorCode.INVALID_REQUEST),
    ],
)
def test_a_filter_that_makes_no_sense_is_refused(
    populated: Client, components: list[tuple[str, int, str | None]], code: ErrorCode
) -> None:
    assert described(populated, *components)[0] == code


def test_who_may_not_change_configs_of_the_cluster_may_not_see_or_set_quotas(
    machine: Machine, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[Operation, ResourceType]] = []

    def refuse(_principal: Any, _host: str, operation: Operation, kind: ResourceType, _name: str) -> bool:
        asked.append((operation, kind))
        return False

    monkeypatch.setattr(machine.broker.access, "authorizer", Authorizer())
    monkeypatch.setattr(machine.broker.access, "allows", refuse)
    monkeypatch.setattr(machine.broker.access, "authorizer", Authorizer())  # without one nobody is asked
    refused = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    results = set_quotas(client, entry({"producer_byte_rate": 1.0}, user="a"))
    assert [code for code, _ in results] == [refused]
    assert described(client)[0] == refused
    assert set(asked) == {
        (Operation.ALTER_CONFIGS, ResourceType.CLUSTER), (Operation.DESCRIBE_CONFIGS, ResourceType.CLUSTER),
    }  # fmt: skip
    assert "/config/users/a" not in machine.keeper.nodes
