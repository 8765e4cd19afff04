"""What is wrong with a cluster now, and what to do about it. Pure: from what was seen to sentences.

The worst first. A sentence names things, at most a few of many; the remedy is something that a person can do,
with the command where there is one.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from ottla.console.cluster.history import History
from ottla.console.cluster.measurement import Measurement
from ottla.console.cluster.sampler import LAG
from ottla.console.cluster.snapshot import NOBODY, Partition, Snapshot, is_internal
from ottla.console.figures import count, part, plural, size

NAMED_MAX = 3
RISING_SAMPLES = 12
LAG_MIN = 100
DISK_FULL_PART, DISK_LAST_PART = 0.85, 0.95
UNPREFERRED_PART = 0.1
BAD, WARN = "bad", "warn"


class Problem(NamedTuple):
    tone: str
    what: str
    remedy: str
    command: str = ""
    link: str = ""


def problems(snapshot: Snapshot, measured: Measurement | None, history: History) -> list[Problem]:
    problems = [*_of_shape(snapshot, measured)]
    if measured is not None:
        problems += [*_of_disks(measured), *_of_brokers(measured), *_of_groups(measured, history)]
    return sorted(problems, key=lambda problem: problem.tone != BAD)


def _of_shape(snapshot: Snapshot, measured: Measurement | None) -> Iterator[Problem]:
    if snapshot.controller == NOBODY or snapshot.controller not in snapshot.brokers:
        yield Problem(
            BAD,
            "There is no controller.",
            "Topics cannot be made, and leaders that fail are not replaced, until brokers elect one. If it "
            "stays so, look at the brokers' logs, and at ZooKeeper if the cluster has it.",
        )
    missing = snapshot.missing_brokers
    if missing:
        yield Problem(
            BAD if snapshot.offline else WARN,
            f"{plural(len(missing), 'broker')} of the cluster {'is' if len(missing) == 1 else 'are'} not "
            f"there: {_some(missing)}.",
            "Start it again; its replicas catch up by themselves. If it will not come back, move its "
            "replicas to others.",
            "ottla cluster rebalance",
            "/brokers",
        )
    if snapshot.offline:
        yield Problem(
            BAD,
            f"{plural(len(snapshot.offline), 'partition')} cannot be read or written: "
            f"{_partitions(snapshot.offline)}.",
            f"Nobody leads {'it' if len(snapshot.offline) == 1 else 'them'}. Start one of the brokers that "
            f"were last in sync: {_some(_last_in_sync(snapshot.offline))}.",
            link="/topics?trouble=1",
        )
    if snapshot.under_replicated:
        late = sorted(
            {
                broker
                for _, partition in snapshot.under_replicated
                for broker in set(partition.replicas) - set(partition.isr)
            }
        )
        below = list(_below_minimum(snapshot, measured))
        yield Problem(
            BAD if below else WARN,
            f"{plural(len(snapshot.under_replicated), 'partition')} "
            f"{'has' if len(snapshot.under_replicated) == 1 else 'have'} replicas that are not in sync"
            + (f"; {plural(len(below), 'partition')} refuse writes with acks=all" if below else "")
            + f": {_partitions(below or snapshot.under_replicated)}.",
            f"Broker {_some(late)} is behind or gone. Look whether it runs, and at its disk and network.",
            link="/topics?trouble=1",
        )
    yield from _of_leaders(snapshot)


def _of_leaders(snapshot: Snapshot) -> Iterator[Problem]:
    led = [
        partition
        for topic in snapshot.topics.values()
        for partition in topic.partitions
        if partition.leader in snapshot.brokers
    ]
    elsewhere = [
        partition
        for partition in led
        if partition.leader != partition.replicas[0]
        and partition.replicas[0] in snapshot.brokers
        and partition.replicas[0] in partition.isr
    ]
    if led and len(elsewhere) > UNPREFERRED_PART * len(led):
        yield Problem(
            WARN,
            f"{count(len(elsewhere))} of {count(len(led))} partitions are not led by their first replica.",
            "The load on brokers is uneven. Let the first replicas lead again.",
            "ottla cluster elect",
            "/brokers",
        )


def _below_minimum(snapshot: Snapshot, measured: Measurement | None) -> Iterator[tuple[str, Partition]]:
    if measured is None:
        return
    for name, partition in snapshot.under_replicated:
        minimum = measured.configs.get(name, {}).get("min.insync.replicas", "1")
        if minimum.isdigit() and len(partition.isr) < min(int(minimum), len(partition.replicas)):
            yield name, partition


def _of_disks(measured: Measurement) -> Iterator[Problem]:
    for directory in measured.directories:
        where = f"{directory.path} of broker {directory.broker}"
        link = f"/brokers/{directory.broker}"
        if directory.error:
            yield Problem(
                BAD,
                f"The log directory {where} is offline ({directory.error}).",
                "Look at the disk. The broker uses the directory again after a restart.",
                link=link,
            )
        used = directory.used_part
        if used is not None and used >= DISK_FULL_PART:
            yield Problem(
                BAD if used >= DISK_LAST_PART else WARN,
                f"The disk of {where} is {used:.0%} full: {size(directory.usable)} are left.",
                "Keep less (retention.ms, retention.bytes), move partitions to other brokers, or give it a "
                "larger disk. A full disk takes the directory offline.",
                "ottla configs set --topic NAME retention.ms=86400000",
                link,
            )


def _of_brokers(measured: Measurement) -> Iterator[Problem]:
    for broker, metrics in sorted(measured.metrics.items()):
        link = f"/brokers/{broker}"
        if metrics.get("ottla_keeper_connected") == 0:
            yield Problem(
                BAD,
                f"Broker {broker} has lost its connection to ZooKeeper.",
                "Look whether ZooKeeper runs and can be reached from that host.",
                link=link,
            )
        if metrics.get("kafka_log_logcleanermanager_uncleanable_partitions_count", 0) > 0:
            yield Problem(
                WARN,
                f"Broker {broker} cannot clean some of its compacted partitions.",
                "They grow without end. The broker's log says which record is in the way.",
                link=link,
            )


def _of_groups(measured: Measurement, history: History) -> Iterator[Problem]:
    for group in measured.groups.values():
        lag = group.lag or 0
        if lag < LAG_MIN:
            continue
        link = f"/groups/{part(group.id)}"
        if not group.members:
            if history.is_rising((LAG, group.id), RISING_SAMPLES):
                yield Problem(
                    WARN,
                    f"Group {group.id} is {count(lag)} records behind, more each moment, and has no members.",
                    "Start its consumers. If nobody needs it any more, delete it.",
                    link=link,
                )
        elif history.is_rising((LAG, group.id), RISING_SAMPLES):
            yield Problem(
                WARN,
                f"Group {group.id} is {count(lag)} records behind, and falls further behind.",
                "Its members are slower than its producers: start more of them (up to one for each "
                "partition), or look at what they wait for.",
                link=link,
            )


def _last_in_sync(offline: Iterable[tuple[str, Partition]]) -> list[int]:
    return sorted({broker for _, partition in offline for broker in partition.isr or partition.replicas})


def _partitions(troubled: Sequence[tuple[str, Partition]]) -> str:
    """Internal topics last: people know their own."""
    known_first = sorted(troubled, key=lambda pair: is_internal(pair[0]))
    return _some([f"{name} {partition.number}" for name, partition in known_first])


def _some(things: Sequence[object]) -> str:
    named = ", ".join(map(str, things[:NAMED_MAX]))
    return named + (f" and {len(things) - NAMED_MAX} more" if len(things) > NAMED_MAX else "")
