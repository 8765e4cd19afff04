"""The coordinator of groups as a whole: how many groups there are in which state, and what they go through.

The names are Kafka's: of its `GroupMetadataManager`, and of `group-coordinator-metrics`, which came with
KIP-848. What a group goes through is counted when and how Kafka counts it, but once it is stored.
"""

from collections import Counter
from collections.abc import Iterator
from typing import Final

from ottla.base.metrics import Family, Histogram, counter, gauge, histogram
from ottla.broker.coordinators import Coordinators
from ottla.broker.group_activity import GroupActivity
from ottla.broker.groups import Groups
from ottla.group.classic.group import ClassicGroup
from ottla.group.classic.states import GroupState
from ottla.group.consumer.group import ConsumerGroup
from ottla.group.consumer.state import ASSIGNING, EMPTY, RECONCILING, STABLE

DEAD: Final = "Dead"  # which no consumer group is: it is gone then
CONSUMER_STATES: Final = (EMPTY, ASSIGNING, RECONCILING, STABLE, DEAD)
_MANAGER: Final = "kafka_coordinator_group_groupmetadatamanager"
_METRICS: Final = "kafka_server_group_coordinator_metrics"


class GroupCoordinatorMetrics:
    GROUPS = gauge(
        f"{_MANAGER}_numgroups", "Groups of the classic protocol, also those that only store offsets."
    )
    OFFSETS = gauge(f"{_MANAGER}_numoffsets", "Offsets that groups have committed.")
    EMPTY = gauge(f"{_MANAGER}_numgroupsempty", "Classic groups without members.")
    PREPARING = gauge(
        f"{_MANAGER}_numgroupspreparingrebalance", "Classic groups whose members are to join again."
    )
    COMPLETING = gauge(
        f"{_MANAGER}_numgroupscompletingrebalance", "Classic groups that wait for their leader's assignment."
    )
    STABLE = gauge(f"{_MANAGER}_numgroupsstable", "Classic groups whose members have their assignments.")
    DEAD = gauge(f"{_MANAGER}_numgroupsdead", "Classic groups that are gone.")
    BY_PROTOCOL = gauge(f"{_METRICS}_group_count", "Groups by the protocol of their members.", "protocol")
    CONSUMER_BY_STATE = gauge(
        f"{_METRICS}_consumer_group_count", "Consumer groups (KIP-848) by state.", "state"
    )
    COMMITS = counter(f"{_METRICS}_offset_commit_count", "Offsets that were committed.")
    EXPIRATIONS = counter(f"{_METRICS}_offset_expiration_count", "Offsets that expired.")
    DELETIONS = counter(f"{_METRICS}_offset_deletion_count", "Offsets that an administrator deleted.")
    CLASSIC_REBALANCES = counter(
        f"{_METRICS}_group_completed_rebalance_count", "Rebalances of classic groups that were completed."
    )
    CONSUMER_REBALANCES = counter(
        f"{_METRICS}_consumer_group_rebalance_count",
        "Rebalances of consumer groups that members or topics brought about; as in Kafka, one because a"
        " member went does not count.",
    )
    PARTITIONS = gauge(
        f"{_METRICS}_num_partitions",
        "Partitions of __consumer_offsets that this broker leads: loading, active, or failed and not served.",
        "state",
    )
    TO_LOAD = gauge(
        "ottla_group_coordinator_load_offsets",
        "At most so many offsets of __consumer_offsets are yet to be read until all groups are served.",
    )
    LOAD_TIMES = histogram(
        "ottla_group_coordinator_load_seconds", "How long it took to load a partition of __consumer_offsets."
    )

    def __init__(self, coordinators: Coordinators) -> None:
        self._coordinators = coordinators

    def read(self, now_ms: int) -> Iterator[Family]:  # noqa: ARG002 - as every source
        groups = self._coordinators.groups_here
        shards = [] if groups is None else [shard for _, shard in groups.shards()]
        yield self.OFFSETS, [((), sum(shard.offsets.count for shard in shards))]
        yield from self._states(Counter(
            (group.kind, group.state_name) for shard in shards for group in shard.groups.values()
        ))  # fmt: skip
        yield from self._counts(groups.activity if groups is not None else None)
        yield from self._loads(groups)

    def _states(self, counts: Counter[tuple[str, str]]) -> Iterator[Family]:
        by_kind = {
            kind: sum(count for (of_kind, _), count in counts.items() if of_kind == kind)
            for kind in (ClassicGroup.kind, ConsumerGroup.kind)
        }
        yield self.GROUPS, [((), by_kind[ClassicGroup.kind])]
        yield self.BY_PROTOCOL, [((kind.lower(),), count) for kind, count in by_kind.items()]
        for metric, state in (
            (self.EMPTY, GroupState.EMPTY), (self.PREPARING, GroupState.PREPARING),
            (self.COMPLETING, GroupState.COMPLETING), (self.STABLE, GroupState.STABLE),
            (self.DEAD, GroupState.DEAD),
        ):  # fmt: skip
            yield metric, [((), counts[ClassicGroup.kind, state.value])]
        yield (
            self.CONSUMER_BY_STATE,
            [((state,), counts[ConsumerGroup.kind, state]) for state in CONSUMER_STATES],
        )

    def _counts(self, activity: GroupActivity | None) -> Iterator[Family]:
        yield self.COMMITS, [((), activity.offsets_committed if activity else 0)]
        yield self.EXPIRATIONS, [((), activity.offsets_expired if activity else 0)]
        yield self.DELETIONS, [((), activity.offsets_deleted if activity else 0)]
        yield self.CLASSIC_REBALANCES, [((), activity.classic_rebalances if activity else 0)]
        yield self.CONSUMER_REBALANCES, [((), activity.consumer_rebalances if activity else 0)]

    def _loads(self, groups: Groups | None) -> Iterator[Family]:
        runtime = groups.runtime if groups is not None else None
        yield (
            self.PARTITIONS,
            [
                (("loading",), len(runtime.loading) if runtime else 0),
                (("active",), len(runtime.shards) if runtime else 0),
                (("failed",), len(runtime.failed) if runtime else 0),
            ],
        )
        yield self.TO_LOAD, [((), runtime.offsets_to_load if runtime else 0)]
        yield self.LOAD_TIMES, [((), runtime.load_times if runtime else Histogram())]
