"""How well the partitions of this broker are replicated, and whether it is sure to lead them."""

from collections.abc import Collection, Iterator, Mapping

from ottla.base.ids import TopicPartition
from ottla.base.metrics import Family, Sample, counter, gauge
from ottla.broker.fetchers import Fetchers
from ottla.broker.leadership_proofs import Proofs
from ottla.broker.metrics.label_limits import LabelLimits
from ottla.broker.replica_counts import ReplicaCounts
from ottla.controller.image import Image
from ottla.replication.partition import Partition

REPLICA = ("Replica",)  # the client id by which Kafka's followers are known


class ReplicationMetrics:
    LEADERS = gauge("kafka_server_replicamanager_leadercount", "Partitions that this broker leads.")
    PARTITIONS = gauge("kafka_server_replicamanager_partitioncount", "Partitions that are on this broker.")
    UNDER_REPLICATED = gauge(
        "kafka_server_replicamanager_underreplicatedpartitions",
        "Partitions that this broker leads, some replicas of which are not in sync.",
    )
    UNDER_MIN_ISR = gauge(
        "kafka_server_replicamanager_underminisrpartitioncount",
        "Partitions that this broker leads and that refuse acks=all, as too few replicas are in sync.",
    )
    AT_MIN_ISR = gauge(
        "kafka_server_replicamanager_atminisrpartitioncount",
        "Partitions that this broker leads, with no more replicas in sync than min.insync.replicas asks for.",
    )
    OFFLINE = gauge(
        "kafka_server_replicamanager_offlinereplicacount",
        "Replicas of this broker that are in log directories that are offline.",
    )
    REASSIGNING = gauge(
        "kafka_server_replicamanager_reassigningpartitions",
        "Partitions that this broker leads and that are being moved to other brokers.",
    )
    SHRINKS = counter(
        "kafka_server_replicamanager_isrshrinks_total",
        "How often replicas left the ISR of a partition that this broker leads since, whoever decided it.",
    )
    EXPANDS = counter(
        "kafka_server_replicamanager_isrexpands_total",
        "How often replicas entered the ISR of a partition that this broker leads since.",
    )
    FAILED_UPDATES = counter(
        "kafka_server_replicamanager_failedisrupdates_total",
        "Changes of an ISR that this broker proposed and that the controller refused.",
    )
    IS_UNDER_REPLICATED = gauge(
        "kafka_cluster_partition_underreplicated",
        "1 for each partition that this broker leads and that is under-replicated; there are no others.",
        "topic",
        "partition",
    )
    IS_UNDER_MIN_ISR = gauge(
        "kafka_cluster_partition_underminisr",
        "1 for each partition that this broker leads and that refuses acks=all; there are no others.",
        "topic",
        "partition",
    )
    LAG = gauge(
        "kafka_server_replicafetchermanager_maxlag",
        "Records that were committed at a leader and not yet here when it last answered, of the replica of"
        " this broker that is furthest behind.",
        "clientId",
    )
    FAILED_FETCHES = gauge(
        "kafka_server_replicafetchermanager_failedpartitionscount",
        "Partitions that this broker follows and whose last fetch failed.",
        "clientId",
    )
    FETCH_REQUESTS = counter(
        "ottla_replica_fetch_requests_total", "Requests that this broker sent to leaders, as a follower."
    )
    FETCH_ERRORS = counter(
        "ottla_replica_fetch_errors_total",
        "What leaders answered to followers of this broker instead of records; NETWORK_EXCEPTION: nothing.",
        "error",
    )
    IN_DOUBT = gauge(
        "ottla_leadership_in_doubt",
        "Partitions that this broker led, and does not claim to lead now: followers and keeper are silent.",
    )
    AWAITED = gauge(
        "ottla_leadership_proofs_awaited",
        "Partitions of which answers wait for the proof that this broker still leads them.",
    )
    DOUBTS = counter(
        "ottla_leadership_doubts_total", "How often the leadership of a partition came in doubt."
    )

    def __init__(
        self,
        limits: LabelLimits,
        partitions: Mapping[TopicPartition, Partition],
        image: Image,
        lost: Collection[TopicPartition],
        counts: ReplicaCounts,
        fetchers: Fetchers,
        proofs: Proofs,
    ) -> None:
        self._limits = limits
        self._partitions = partitions
        self._image = image
        self._lost = lost
        self._counts = counts
        self._fetchers = fetchers
        self._proofs = proofs

    def read(self, now_ms: int) -> Iterator[Family]:  # noqa: ARG002 - as every source
        partitions, counts, proofs = self._partitions, self._counts, self._proofs
        led = [partition for partition in partitions.values() if partition.is_leader]
        few = [partition for partition in led if partition.is_under_replicated]
        too_few = [partition for partition in few if partition.is_under_min_isr]
        yield self.LEADERS, [((), len(led))]
        yield self.PARTITIONS, [((), len(partitions))]
        yield self.UNDER_REPLICATED, [((), len(few))]
        yield self.UNDER_MIN_ISR, [((), len(too_few))]
        yield self.AT_MIN_ISR, [((), sum(map(_is_at_min_isr, led)))]
        yield self.OFFLINE, [((), len(self._lost))]
        yield self.REASSIGNING, [((), self._reassigning())]
        yield self.SHRINKS, [((), counts.isr_shrinks)]
        yield self.EXPANDS, [((), counts.isr_expands)]
        yield self.FAILED_UPDATES, [((), counts.isr_updates_failed)]
        yield self.IS_UNDER_REPLICATED, self._named(few)
        yield self.IS_UNDER_MIN_ISR, self._named(too_few)
        yield from self._following()
        yield self.IN_DOUBT, [((), len(proofs.in_doubt))]
        yield self.AWAITED, [((), proofs.awaited)]
        yield self.DOUBTS, [((), proofs.doubts)]

    def _named(self, partitions: list[Partition]) -> list[Sample]:
        labels, _ = self._limits.rows({partition.topic_partition: partition for partition in partitions})
        return [(label, 1) for label in labels]

    def _reassigning(self) -> int:
        moving = (
            TopicPartition(topic.name, index)
            for topic in self._image.topics.values()
            if topic.adding or topic.removing
            for index in topic.adding.keys() | topic.removing.keys()
        )
        here = (self._partitions.get(topic_partition) for topic_partition in moving)
        return sum(partition is not None and partition.is_leader for partition in here)

    def _following(self) -> Iterator[Family]:
        followed = [
            follower
            for fetcher in self._fetchers.by_leader.values()
            for follower in fetcher.followed.values()
        ]
        yield self.LAG, [(REPLICA, max([follower.lag for follower in followed], default=0))]
        yield self.FAILED_FETCHES, [(REPLICA, sum(follower.failures > 0 for follower in followed))]
        yield self.FETCH_REQUESTS, [((), self._counts.fetch_requests)]
        errors = self._counts.fetch_errors
        yield self.FETCH_ERRORS, [((name,), count) for name, count in sorted(errors.items())]


def _is_at_min_isr(partition: Partition) -> bool:
    return len(partition.isr) == min(partition.log.config.min_insync_replicas, len(partition.replicas))
