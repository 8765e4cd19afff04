"""Feature levels: what the whole cluster agreed to do (KIP-584), of which clients hear in ApiVersions.

    transaction.version   0  as before KIP-890
                          1  tagged fields in the records of `__transaction_state`
                          2  a producer's epoch moves on with every end of a transaction, and a partition is
                             added to it by the first batch that is written (transactions V2)

The levels are in one node, laid out as in ZooKeeper-era Kafka. A new cluster gets the highest in the write
that founds it. A tree without the node is from before there were transactions: nothing in it was written
at a lower level, and its clients get the highest, too, without an operator's doing. What that is must never
change (`WITHOUT_NODE`): a later level has to be asked for there.
"""

from collections.abc import Mapping
from enum import IntEnum
from typing import Final, NamedTuple

from ottla.base.errors import ApiError, ErrorCode
from ottla.controller import znodes
from ottla.controller.image import Image
from ottla.controller.keeper import Create, Operation, Put
from ottla.controller.znodes import TRANSACTION_VERSION


class Levels(NamedTuple):
    lowest: int
    highest: int


SUPPORTED: Final[Mapping[str, Levels]] = {TRANSACTION_VERSION: Levels(0, 2)}


class UpgradeType(IntEnum):
    UPGRADE = 1
    SAFE_DOWNGRADE = 2
    UNSAFE_DOWNGRADE = 3


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
    if upgrade_type not in UpgradeType.__members__.values():
        problem = f"There is no upgrade type {upgrade_type}."
    elif not levels.lowest <= level <= levels.highest:
        problem = f"This cluster supports levels {levels.lowest} to {levels.highest}."
    elif level < current and upgrade_type == UpgradeType.UPGRADE:
        problem = f"It is at {current}: to lower it, ask for a safe or an unsafe downgrade."
    elif level > current and upgrade_type != UpgradeType.UPGRADE:
        problem = f"It is at {current}, and a downgrade does not raise it: ask for an upgrade."
    if problem:
        raise ApiError(
            ErrorCode.INVALID_UPDATE_VERSION,
            f"Invalid update version {level} for feature {feature}. {problem}",
        )


def plan_update(image: Image, levels: Mapping[str, int]) -> list[Operation]:
    """Write these levels, and leave all others as they are; nothing, if all are as they should be."""
    features = {**image.features, **levels}
    if features == image.features:
        return []
    node = znodes.features_node(features)
    if image.features_version < 0:
        return [Create(znodes.FEATURES, node)]
    return [Put(znodes.FEATURES, node, image.features_version)]
