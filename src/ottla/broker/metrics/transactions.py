"""Transactions: those that this broker coordinates, and those that are open in partitions that it leads."""

from collections.abc import Callable, Iterator, Mapping
from typing import Final

from ottla.base.ids import TopicPartition
from ottla.base.metrics import Family, counter, gauge
from ottla.broker.coordinators import Coordinators
from ottla.replication.partition import Partition

LATE_MS: Final = 300_000  # so much later than the longest timeout, as with Kafka


class TransactionMetrics:
    OPEN = gauge("ottla_transactions_open", "Transactions that this broker coordinates and that are open.")
    ENDING = gauge(
        "ottla_transactions_ending",
        "Transactions that this broker coordinates, whose end is decided and not yet in all partitions.",
    )
    IDS = gauge("ottla_transactional_ids", "Transactional ids that this broker coordinates.")
    ENDED = counter(
        "ottla_transactions_ended_total",
        "Transactions that this broker ended in all their partitions: commit or abort.",
        "outcome",
    )
    MARKERS = gauge(
        "ottla_transaction_markers_outstanding",
        "Partitions in which the end of a transaction of this coordinator is yet to be written.",
    )
    DELAYED = gauge(
        "kafka_coordinator_transaction_transactionmarkerchannelmanager_unknowndestinationqueuesize",
        "Those of them that nobody leads, or whose leader did not answer: they are tried again.",
    )
    LATE = gauge(
        "kafka_server_replicamanager_partitionswithlatetransactionscount",
        "Partitions that this broker leads with a transaction that is open for much longer than"
        " transaction.max.timeout.ms: consumers with read_committed do not get past it.",
    )
    PRODUCERS = gauge(
        "kafka_server_replicamanager_produceridcount",
        "Producer ids that partitions of this broker remember, in all.",
    )

    def __init__(
        self,
        coordinators: Coordinators,
        partitions: Mapping[TopicPartition, Partition],
        timeout_ms_max: int,
        wall_ms: Callable[[int], int],
    ) -> None:
        self._coordinators = coordinators
        self._partitions = partitions
        self._timeout_ms_max = timeout_ms_max
        self._wall_ms = wall_ms

    def read(self, now_ms: int) -> Iterator[Family]:
        transactions = self._coordinators.transactions_here
        shards = [] if transactions is None else [shard for _, shard in transactions.shards()]
        markers = None if transactions is None else transactions.markers
        yield self.OPEN, [((), sum(shard.open_count for shard in shards))]
        yield self.ENDING, [((), sum(len(shard.missing) for shard in shards))]
        yield self.IDS, [((), sum(len(shard.transactions) for shard in shards))]
        committed, aborted = (markers.committed, markers.aborted) if markers is not None else (0, 0)
        yield self.ENDED, [(("commit",), committed), (("abort",), aborted)]
        yield self.MARKERS, [((), markers.outstanding() if markers is not None else 0)]
        yield self.DELAYED, [((), markers.delayed() if markers is not None else 0)]
        partitions = list(self._partitions.values())
        late_ms = self._wall_ms(now_ms) - self._timeout_ms_max - LATE_MS
        late = sum(_wrote_before(late_ms, partition) for partition in partitions if partition.is_leader)
        yield self.LATE, [((), late)]
        yield self.PRODUCERS, [((), sum([len(partition.log.producers.by_id) for partition in partitions]))]


def _wrote_before(time_ms: int, partition: Partition) -> bool:
    timestamp = partition.log.producers.oldest_transaction_timestamp
    return timestamp is not None and 0 < timestamp < time_ms
