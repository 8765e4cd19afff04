"""Feature levels: what the whole cluster agreed to do (KIP-584), of which clients hear in ApiVersions.

The levels are in one node, laid out as in ZooKeeper-era Kafka. A new cluster gets the highest in the write
that founds it; after an upgrade an operator raises them, when the last broker knows them. Which there are is
in `feature_levels`.
"""

from collections.abc import Mapping

from ottla.base.errors import ApiError, ErrorCode
from ottla.controller import znodes
from ottla.controller.feature_levels import SUPPORTED, UpgradeType, supports
from ottla.controller.image import Image
from ottla.controller.keeper import Check, Create, Operation, Put


def first_features() -> bytes:
    """The node of a new cluster."""
    return znodes.features_node({name: levels.highest for name, levels in SUPPORTED.items()})


def check_update(image: Image, feature: str, level: int, upgrade_type: int) -> None:
    """ApiError where this level cannot be what the cluster agrees on."""
    levels = SUPPORTED.get(feature)
    if levels is None:
        raise ApiError(
            ErrorCode.INVALID_UPDATE_VERSION, f"The feature '{feature}' is not supported by this cluster."
        )
    current, problem = image.features.get(feature, 0), ""
    behind = sorted(
        broker.id for broker in image.brokers.values() if not supports(broker.features, feature, level)
    )
    if upgrade_type not in UpgradeType.__members__.values():
        problem = f"There is no upgrade type {upgrade_type}."
    elif not levels.lowest <= level <= levels.highest:
        problem = f"This cluster supports levels {levels.lowest} to {levels.highest}."
    elif level < current and upgrade_type == UpgradeType.UPGRADE:
        problem = f"It is at {current}: to lower it, ask for a safe or an unsafe downgrade."
    elif level > current and upgrade_type != UpgradeType.UPGRADE:
        problem = f"It is at {current}, and a downgrade does not raise it: ask for an upgrade."
    elif behind:
        problem = f"Brokers that do not know it: {', '.join(map(str, behind))}. Upgrade them first."
    if problem:
        raise ApiError(
            ErrorCode.INVALID_UPDATE_VERSION,
            f"Invalid update version {level} for feature {feature}. {problem}",
        )


def agreed(image: Image) -> list[Operation]:
    """For the write with which a broker enters: the levels are those that it has seen, and knows."""
    return [Check(znodes.FEATURES, image.features_version)] if image.features_version >= 0 else []


def plan_update(image: Image, levels: Mapping[str, int]) -> list[Operation]:
    """Write these levels, and leave all others as they are; nothing, if all are as they should be."""
    features = {**image.features, **levels}
    if features == image.features:
        return []
    node = znodes.features_node(features)
    if image.features_version < 0:
        return [Create(znodes.FEATURES, node)]
    return [Put(znodes.FEATURES, node, image.features_version)]
