"""Feature levels: what each broker knows, and what the whole cluster agreed on (KIP-584)."""

from collections.abc import Mapping
from typing import NamedTuple

from ottla.client.admin.refusals import check_answer
from ottla.client.admin.requests import Cluster
from ottla.client.connection import API_VERSIONS
from ottla.controller.feature_levels import Levels, UpgradeType
from ottla.wire.messages.api_versions import ApiVersionsResponse
from ottla.wire.messages.update_features import (
    FeatureUpdateKey,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)


class Feature(NamedTuple):
    """`level` is what the cluster agreed on. Level 0 of a feature is as if there were no such feature."""

    name: str
    level: int
    brokers: dict[int, Levels]  # what each broker knows

    @property
    def highest(self) -> int:
        """Of the levels that every broker knows."""
        return min(levels.highest for levels in self.brokers.values())


def listed(cluster: Cluster) -> list[Feature]:
    answers = {
        node: cluster.ask_broker(node, API_VERSIONS, ApiVersionsResponse) for node in sorted(cluster.racks())
    }
    knowledge = {
        node: {
            feature.name: Levels(feature.min_version, feature.max_version)
            for feature in answer.supported_features
        }
        for node, answer in answers.items()
    }
    newest = max(answers.values(), key=lambda answer: answer.finalized_features_epoch)
    agreed = {feature.name: feature.max_version_level for feature in newest.finalized_features}
    names = sorted({*agreed, *(name for levels in knowledge.values() for name in levels)})
    return [
        Feature(
            name,
            agreed.get(name, 0),
            {node: levels.get(name, Levels(0, 0)) for node, levels in knowledge.items()},
        )
        for name in names
    ]


def change(
    cluster: Cluster, levels: Mapping[str, int], upgrade_type: UpgradeType, *, only_check: bool = False
) -> None:
    """All of them, or none: what is wrong with one ends the command."""
    updates = [
        FeatureUpdateKey(
            feature=name,
            max_version_level=level,
            allow_downgrade=upgrade_type is not UpgradeType.UPGRADE,
            upgrade_type=upgrade_type,
        )
        for name, level in levels.items()
    ]
    request = UpdateFeaturesRequest(feature_updates=updates, validate_only=only_check)
    answer = cluster.ask_controller(request, UpdateFeaturesResponse)
    check_answer(answer.error_code, "nothing was changed", answer.error_message)
    for result in answer.results:
        check_answer(result.error_code, f"{result.feature} was not changed", result.error_message)
