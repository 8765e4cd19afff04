"""Where replicas go: partitions are spread over the brokers, followers are shifted against their leaders, and
no rack has two replicas of a partition while another has none (KIP-36).

The brokers stand in a ring, racks in turn. Partition p leads on broker (start + p) mod n. Its followers come
next, at a distance that grows by one each time the leaders have gone once around, so that the load of a dead
broker falls on all the others; whoever stands in a rack that has more of the partition than another is
passed over. Brokers that do not say where they stand are one rack of their own.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import zip_longest

from ottla.base.errors import ApiError, ErrorCode


def place(
    brokers: Sequence[int],
    racks: Mapping[int, str | None],
    partitions: range,
    replication_factor: int,
    start: int,
) -> dict[int, tuple[int, ...]]:
    """The replicas of each partition, leader first."""
    count = len(brokers)
    if not 1 <= replication_factor <= count:
        raise ApiError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"Replication factor {replication_factor} needs as many brokers; {count} are there.",
        )
    ring = _ring(brokers, racks)
    assignment = {}
    for partition in partitions:
        first = (start + partition) % count
        shift = (start + partition // count) % max(count - 1, 1)
        others = [ring[(first + 1 + (shift + i) % (count - 1)) % count] for i in range(count - 1)]
        assignment[partition] = _spread(ring[first], others, racks, replication_factor)
    return assignment


def _ring(brokers: Sequence[int], racks: Mapping[int, str | None]) -> list[int]:
    """The first broker of every rack, then the second, and so on."""
    by_rack: dict[str, list[int]] = {}
    for broker in brokers:
        by_rack.setdefault(racks.get(broker) or "", []).append(broker)
    rows = zip_longest(*(by_rack[rack] for rack in sorted(by_rack)))
    return [broker for row in rows for broker in row if broker is not None]


def _spread(
    leader: int, others: Sequence[int], racks: Mapping[int, str | None], count: int
) -> tuple[int, ...]:
    chosen, left = [leader], list(others)
    used = Counter([racks.get(leader)])
    while len(chosen) < count:
        least = min(used[racks.get(broker)] for broker in left)
        broker = next(broker for broker in left if used[racks.get(broker)] == least)
        left.remove(broker)
        chosen.append(broker)
        used[racks.get(broker)] += 1
    return tuple(chosen)
