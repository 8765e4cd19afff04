"""Feature levels: what ApiVersions announces, and what UpdateFeatures changes."""

import json
from typing import Any

import pytest
from tests.api.harness import Client, Machine
from tests.support.endpoints import plaintext

from ottla.base.errors import ErrorCode
from ottla.controller import znodes
from ottla.controller.feature_levels import supports
from ottla.controller.keeper import Create, Delete, Put, Refused
from ottla.wire.messages.api_versions import ApiVersionsRequest
from ottla.wire.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest

UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE = 1, 2, 3
FEATURE = "transaction.version"


@pytest.fixture
def machine() -> Machine:
    return Machine()


def announced(client: Client, version: int = 4) -> Any:
    request = ApiVersionsRequest(client_software_name="a", client_software_version="1")
    return client.send(request, version)


def finalized(client: Client, version: int = 4) -> dict[str, tuple[int, int]]:
    features = announced(client, version).finalized_features
    return {feature.name: (feature.min_version_level, feature.max_version_level) for feature in features}


def update(
    client: Client,
    level: int,
    upgrade_type: int = UPGRADE,
    *,
    feature: str = FEATURE,
    validate_only: bool = False,
) -> tuple[int, str | None]:
    key = FeatureUpdateKey(feature=feature, max_version_level=level, upgrade_type=upgrade_type)
    answer = client.send(UpdateFeaturesRequest(feature_updates=[key], validate_only=validate_only))
    return answer.error_code, answer.error_message


def test_a_new_cluster_begins_with_transactions_of_level_2(machine: Machine) -> None:
    answer = announced(machine.client())
    (supported,) = answer.supported_features
    assert (supported.name, supported.min_version, supported.max_version) == (FEATURE, 0, 2)
    assert finalized(machine.client()) == {FEATURE: (2, 2)}
    assert answer.finalized_features_epoch >= 0, "clients ignore levels without an epoch"
    assert machine.broker.image.transaction_version == 2
    assert machine.keeper.nodes["/feature"].data == (
        b'{"version":2,"status":1,"features":{"transaction.version":{"max_version_level":2}}}'
    )


def test_clients_that_cannot_read_a_minimum_of_0_hear_only_what_is_finalized(machine: Machine) -> None:
    answer = announced(machine.client(), version=3)
    assert answer.supported_features == []
    assert finalized(machine.client(), version=3) == {FEATURE: (2, 2)}


def test_the_level_is_lowered_and_raised_and_survives_a_restart(machine: Machine) -> None:
    client = machine.client()
    epoch = announced(client).finalized_features_epoch
    assert update(client, 1, SAFE_DOWNGRADE) == (ErrorCode.NONE, None)
    assert finalized(client) == {FEATURE: (1, 1)}
    assert announced(client).finalized_features_epoch > epoch
    machine.restart()
    client = machine.client()
    assert machine.broker.image.transaction_version == 1
    assert finalized(client) == {FEATURE: (1, 1)}
    assert update(client, 0, UNSAFE_DOWNGRADE) == (ErrorCode.NONE, None)
    assert (finalized(client), machine.broker.image.transaction_version) == ({}, 0)
    assert update(client, 2) == (ErrorCode.NONE, None)
    assert finalized(client) == {FEATURE: (2, 2)}


def test_a_tree_from_before_there_were_levels_counts_as_level_2_and_can_be_changed(machine: Machine) -> None:
    machine.write(Delete(znodes.FEATURES))
    machine.restart()
    client = machine.client()
    assert znodes.FEATURES not in machine.keeper.nodes, "only a new cluster is given the node"
    assert machine.broker.image.transaction_version == 2
    assert announced(client).finalized_features_epoch >= 0
    assert finalized(client) == {FEATURE: (2, 2)}
    assert update(client, 1, SAFE_DOWNGRADE) == (ErrorCode.NONE, None)
    assert finalized(client) == {FEATURE: (1, 1)}


@pytest.mark.parametrize(
    ("level", "upgrade_type", "said"),
    [
        (1, UPGRADE, "ask for a safe or an unsafe downgrade"),
        (3, UPGRADE, "supports levels 0 to 2"),
        (-1, UNSAFE_DOWNGRADE, "supports levels 0 to 2"),
        (2, 0, "no upgrade type 0"),
        (2, 4, "no upgrade type 4"),
    ],
)
def test_what_cannot_be_is_refused_and_nothing_changes(
    machine: Machine, level: int, upgrade_type: int, said: str
) -> None:
    code, message = update(machine.client(), level, upgrade_type)
    assert code == ErrorCode.INVALID_UPDATE_VERSION
    assert message is not None
    assert said in message
    assert finalized(machine.client()) == {FEATURE: (2, 2)}


def test_a_downgrade_does_not_raise_the_level(machine: Machine) -> None:
    client = machine.client()
    update(client, 0, SAFE_DOWNGRADE)
    assert update(client, 2, SAFE_DOWNGRADE)[0] == ErrorCode.INVALID_UPDATE_VERSION
    assert machine.broker.image.transaction_version == 0


def test_a_validation_says_what_would_happen_and_changes_nothing(machine: Machine) -> None:
    client = machine.client()
    assert update(client, 1, SAFE_DOWNGRADE, validate_only=True) == (ErrorCode.NONE, None)
    assert update(client, 7, validate_only=True)[0] == ErrorCode.INVALID_UPDATE_VERSION
    assert finalized(client) == {FEATURE: (2, 2)}


def test_one_wrong_update_undoes_all_of_a_request(machine: Machine) -> None:
    updates = [
        FeatureUpdateKey(feature=FEATURE, max_version_level=1, upgrade_type=SAFE_DOWNGRADE),
        FeatureUpdateKey(feature="metadata.version", max_version_level=7),
    ]
    client = machine.client()
    answer = client.send(UpdateFeaturesRequest(feature_updates=updates))
    assert answer.error_code == ErrorCode.INVALID_UPDATE_VERSION
    assert "metadata.version" in answer.error_message
    assert machine.broker.image.transaction_version == 2
    results = client.send(UpdateFeaturesRequest(feature_updates=updates), 1).results
    assert [result.error_code for result in results] == [ErrorCode.INVALID_UPDATE_VERSION] * 2


def test_version_0_says_with_a_flag_that_a_downgrade_is_meant(machine: Machine) -> None:
    client = machine.client()
    for allowed, code in ((False, ErrorCode.INVALID_UPDATE_VERSION), (True, ErrorCode.NONE)):
        key = FeatureUpdateKey(feature=FEATURE, max_version_level=1, allow_downgrade=allowed)
        (result,) = client.send(UpdateFeaturesRequest(feature_updates=[key]), 0).results
        assert result.error_code == code
    assert machine.broker.image.transaction_version == 1


def test_a_keeper_that_refuses_each_time_is_feature_update_failed(machine: Machine) -> None:
    keeper_write = machine.keeper.write
    machine.keeper.write = lambda operations, session=None: ([], Refused("/feature", "no"))  # type: ignore[method-assign, assignment]
    code, message = update(machine.client(), 1, SAFE_DOWNGRADE)
    machine.keeper.write = keeper_write  # type: ignore[method-assign]
    assert (code, message) == (ErrorCode.FEATURE_UPDATE_FAILED, "no")


def test_features_of_a_later_release_at_level_0_stay_in_the_node(machine: Machine) -> None:
    machine.write(Put(znodes.FEATURES, znodes.features_node({"later.version": 0, FEATURE: 2})))
    assert update(machine.client(), 1, SAFE_DOWNGRADE)[0] == ErrorCode.NONE
    assert machine.broker.image.features == {"later.version": 0, FEATURE: 1}


def test_a_level_is_raised_when_the_last_broker_knows_it(machine: Machine) -> None:
    client = machine.client()
    assert update(client, 0, SAFE_DOWNGRADE)[0] == ErrorCode.NONE
    node = znodes.parse(znodes.broker_node(plaintext("other", 9093), None))
    assert node["features"] == {FEATURE: {"min_version": 0, "max_version": 2}}
    node["features"] = {FEATURE: {"min_version": 0, "max_version": 1}}
    machine.write(Create("/brokers/ids/2", json.dumps(node).encode(), ephemeral=True))
    assert update(client, 1) == (ErrorCode.NONE, None), "both know that one"
    code, message = update(client, 2)
    assert (code, machine.broker.image.transaction_version) == (ErrorCode.INVALID_UPDATE_VERSION, 1)
    assert message is not None
    assert message.endswith("Brokers that do not know it: 2. Upgrade them first.")
    machine.write(Delete("/brokers/ids/2"))
    assert update(client, 2) == (ErrorCode.NONE, None)


def test_a_broker_that_says_nothing_of_levels_is_from_when_there_was_one_feature(machine: Machine) -> None:
    node = znodes.parse(znodes.broker_node(plaintext("other", 9093), None))
    del node["features"]
    machine.write(Create("/brokers/ids/2", json.dumps(node).encode(), ephemeral=True))
    assert update(machine.client(), 0, SAFE_DOWNGRADE) == (ErrorCode.NONE, None)
    assert update(machine.client(), 2) == (ErrorCode.NONE, None)
    assert not supports(machine.broker.image.brokers[2].features, "later.version", 1)
