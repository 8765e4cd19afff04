"""Where replicas go: partitions are spread over the brokers, followers are shifted against their leaders.

Partition p leads on broker (start + p) mod n. Its followers come next, at a distance that grows by one each
time the leaders have gone once around, so that the load of a dead broker falls on all the others.
"""

from collections.abc import Sequence

from ottla.base.errors import ApiError, ErrorCode


def place(
    brokers: Sequence[int], partitions: range, replication_factor: int, start: int
) -> dict[int, tuple[int, ...]]:
    """The replicas of each partition, leader first."""
    count = len(brokers)
    if not 1 <= replication_factor <= count:
        raise ApiError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"Replication factor {replication_factor} needs as many brokers; {count} are there.",
        )
    assignment = {}
    for partition in partitions:
        first = (start + partition) % count
        shift = (start + partition // count) % max(count - 1, 1)
        followers = ((first + 1 + (shift + i) % (count - 1)) % count for i in range(replication_factor - 1))
        assignment[partition] = (brokers[first], *(brokers[i] for i in followers))
    return assignment
