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
    sizes = Counter(racks.get(broker) for broker in ring)
    assignment = {}
    for partition in partitions:
        first = (start + partition) % count
        shift = (start + partition // count) % max(count - 1, 1)
        chosen, used = [ring[first]], Counter([racks.get(ring[first])])
        while len(chosen) < replication_factor:
            broker = _next(ring, first, shift, racks, sizes, chosen, used)
            chosen.append(broker)
            used[racks.get(broker)] += 1
        assignment[partition] = tuple(chosen)
    return assignment


def _ring(brokers: Sequence[int], racks: Mapping[int, str | None]) -> list[int]:
    """The first broker of every rack, then the second, and so on."""
    by_rack: dict[str, list[int]] = {}
    for broker in brokers:
        by_rack.setdefault(racks.get(broker) or "", []).append(broker)
    rows = zip_longest(*(by_rack[rack] for rack in sorted(by_rack)))
    return [broker for row in rows for broker in row if broker is not None]


def _next(
    ring: Sequence[int],
    first: int,
    shift: int,
    racks: Mapping[int, str | None],
    sizes: Counter[str | None],
    chosen: Sequence[int],
    used: Counter[str | None],
) -> int:
    """The next in the ring whose rack has least of the partition. It is near: of a hundred brokers few are
    looked at."""
    count = len(ring)
    is_one_free = len(used) < len(sizes)
    least = 0 if is_one_free else min(used[rack] for rack, size in sizes.items() if used[rack] < size)
    others = (ring[(first + 1 + (shift + i) % (count - 1)) % count] for i in range(count - 1))
    return next(broker for broker in others if broker not in chosen and used[racks.get(broker)] == least)
