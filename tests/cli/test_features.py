"""`ottla features`: levels listed, raised and lowered."""

import json

import pytest
from tests.cli.commands import Run

from ottla import Broker
from ottla.client.admin import features
from ottla.client.admin.requests import Cluster
from ottla.wire.messages.api_versions import ApiVersionsResponse, FinalizedFeatureKey, SupportedFeatureKey

NAME = "transaction.version"


def test_levels_are_listed_lowered_and_raised(run: Run, quick_broker: Broker) -> None:
    at = ("--bootstrap", quick_broker.bootstrap_servers)
    assert run("features", "list", *at).out.split("\n")[1].split() == [NAME, "2", "0", "to", "2"]
    assert (
        run("features", "upgrade", *at).err == "every feature is at the highest level that all brokers know\n"
    )

    assert run("features", "downgrade", f"{NAME}=1", "--dry-run", *at).err == f"{NAME}: 2 would become 1\n"
    assert run("features", "downgrade", f"{NAME}=1", *at).err == f"{NAME}: 2 became 1\n"
    (feature,) = json.loads(run("features", "list", "--json", *at).out)
    assert feature == {
        "feature": NAME,
        "level": 1,
        "highest": 2,
        "brokers": {"1": {"lowest": 0, "highest": 2}},
    }
    assert run("features", "upgrade", *at).err == f"{NAME}: 1 became 2\n"
    assert run("features", "upgrade", f"{NAME}=2", *at).err == f"{NAME}: is at 2 already\n"


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("upgrade", f"{NAME}=9"), 1, "This cluster supports levels 0 to 2."),
        (("upgrade", f"{NAME}=1"), 1, "to lower it, ask for a safe or an unsafe downgrade"),
        (("upgrade", "kraft.version=1"), 1, f"there is no feature kraft.version; brokers know {NAME}"),
        (("upgrade", f"{NAME}=two"), 2, f"{NAME}: 'two' is not a level, which is a number from 0"),
        (("upgrade", NAME), 2, f"features takes KEY=VALUE, not '{NAME}'"),
    ],
)
def test_what_cannot_be_is_one_line(
    run: Run, quick_broker: Broker, arguments: tuple[str, ...], code: int, said: str
) -> None:
    outcome = run("features", *arguments, "--bootstrap", quick_broker.bootstrap_servers)
    assert outcome.code == code
    assert said in outcome.err
    assert outcome.err.count("\n") == 1


class HalfUpgraded(Cluster):
    """Broker 1 has been upgraded, broker 2 has not; and 2 has not heard yet of the level."""

    def racks(self) -> dict[int, str | None]:
        return {1: None, 2: None}

    def ask_broker(self, node: int, request: object, response: type) -> object:
        levels = [SupportedFeatureKey(name=NAME, min_version=0, max_version=4 - node)]
        if node == 1:
            levels.append(SupportedFeatureKey(name="new", min_version=1, max_version=1))
        agreed = [FinalizedFeatureKey(name=NAME, max_version_level=3 - node, min_version_level=3 - node)]
        return ApiVersionsResponse(
            supported_features=levels, finalized_features_epoch=10 - node, finalized_features=agreed
        )


def test_what_brokers_of_two_releases_know_is_what_both_know() -> None:
    found = {feature.name: feature for feature in features.listed(HalfUpgraded("nobody:1"))}
    assert (found[NAME].level, found[NAME].highest) == (2, 2)
    assert (found["new"].level, found["new"].highest) == (0, 0)
