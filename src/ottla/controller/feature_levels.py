"""The levels of features that this release knows: of the formats that a whole cluster must be able to read.

    transaction.version   0  as before KIP-890
                          1  tagged fields in the records of `__transaction_state`
                          2  a producer's epoch moves on with every end of a transaction, and a partition is
                             added to it by the first batch that is written (transactions V2)

Everything else in the keeper and in internal logs has one format so far. A second one gets a feature here, in
the same commit: brokers that do not know it then refuse to start where its level has been raised, and nobody
can raise it while they are there (design note 021).
"""

from collections.abc import Mapping
from enum import IntEnum
from typing import Any, Final, NamedTuple

TRANSACTION_VERSION: Final = "transaction.version"


class UpgradeType(IntEnum):
    """What a change of a level is meant to be (KIP-778). A downgrade that is not safe may lose what only the
    higher level can say."""

    UPGRADE = 1
    SAFE_DOWNGRADE = 2
    UNSAFE_DOWNGRADE = 3


class Levels(NamedTuple):
    lowest: int
    highest: int


SUPPORTED: Final[Mapping[str, Levels]] = {TRANSACTION_VERSION: Levels(0, 2)}
# Of a cluster that has no node for them. A tree without it is from before there were transactions: nothing in
# it was written at a lower level, and its clients get this one without an operator's doing. It never changes.
WITHOUT_NODE: Final[Mapping[str, int]] = {TRANSACTION_VERSION: 2}
# Of a broker whose node does not name them: releases that did not say. It never changes either.
UNSAID: Final[Mapping[str, Levels]] = {TRANSACTION_VERSION: Levels(0, 2)}


def supports(release: Mapping[str, Levels], feature: str, level: int) -> bool:
    """Level 0 of a feature is as if there were no such feature."""
    levels = release.get(feature, Levels(0, 0))
    return level == 0 or levels.lowest <= level <= levels.highest


def beyond(features: Mapping[str, int]) -> str:
    """What this release cannot follow of what a cluster agreed on; '' if it can follow everything."""
    return ", ".join(
        f"{name} is at {level}, and this release knows {_range(SUPPORTED.get(name))}"
        for name, level in sorted(features.items())
        if not supports(SUPPORTED, name, level)
    )


def _range(levels: Levels | None) -> str:
    return f"{levels.lowest} to {levels.highest}" if levels else "no such feature"


def announcement() -> dict[str, dict[str, int]]:
    """What a broker's node says of them, as in ZooKeeper-era Kafka."""
    return {
        name: {"min_version": levels.lowest, "max_version": levels.highest}
        for name, levels in SUPPORTED.items()
    }


def announced(fields: Mapping[str, Any]) -> Mapping[str, Levels]:
    """The same, read from the fields of a broker's node."""
    features = fields.get("features")
    if features is None:
        return UNSAID
    return {
        name: Levels(int(said["min_version"]), int(said["max_version"])) for name, said in features.items()
    }
