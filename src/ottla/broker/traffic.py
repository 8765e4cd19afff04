"""What went in and out of this broker since it started, by topic, and what it refused.

A partition is given the counters of its topic when it is opened, so that nobody looks them up who has a
partition at hand. At most `ottla.metrics.topics.max` topics have counters of their own: those that were here
first. All others count together (`others`), so that no sum ever goes back. What belongs to no topic here any
more, or never did, is in the sum of all topics alone (`elsewhere`).

Failed requests are those that neither a client nor another broker should run into: Kafka counts neither what
a client learns from, such as who leads now, nor what it sent in a wrong size or with a wrong checksum.
"""

from collections.abc import Callable

from ottla.base.errors import ApiError, ErrorCode
from ottla.log.validation import Fault, FaultyBatchError, RejectedRecordsError
from ottla.replication.traffic import TopicTraffic

# That do not get as far as a partition.
UNCOUNTED_PRODUCE_ERRORS = frozenset({
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.INVALID_REQUIRED_ACKS,
})  # fmt: skip
EXPECTED_PRODUCE_ERRORS = frozenset({
    ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE,
    ErrorCode.CORRUPT_MESSAGE, ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.INVALID_TOPIC_EXCEPTION,
})  # fmt: skip
EXPECTED_FETCH_ERRORS = frozenset({
    ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.UNKNOWN_LEADER_EPOCH, ErrorCode.FENCED_LEADER_EPOCH,
    ErrorCode.REPLICA_NOT_AVAILABLE, ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.INCONSISTENT_TOPIC_ID,
    ErrorCode.OFFSET_OUT_OF_RANGE, ErrorCode.OFFSET_NOT_AVAILABLE, ErrorCode.STALE_BROKER_EPOCH,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
})  # fmt: skip


class Traffic:
    """`topics_max` says how many topics have counters of their own."""

    def __init__(self, topics_max: Callable[[], int]) -> None:
        self.topics: dict[str, TopicTraffic] = {}
        self.others = TopicTraffic()
        self.elsewhere = TopicTraffic()
        self.replication_bytes_in = 0
        self.replication_bytes_out = 0
        self.faults = dict.fromkeys(Fault, 0)
        self.records_without_key = 0
        self._topics_max = topics_max
        self._partitions: dict[str, int] = {}  # that are here, of each topic

    # -- topics that come and go --

    @property
    def left_out(self) -> int:
        """How many topics have no counters of their own."""
        return len(self._partitions) - len(self.topics)

    def enter(self, topic: str) -> TopicTraffic:
        """A partition of this topic comes: what it counts in."""
        count = self._partitions.get(topic, 0)
        self._partitions[topic] = count + 1
        if not count and len(self.topics) < self._topics_max():
            self.topics[topic] = TopicTraffic()
        return self.of(topic)

    def leave(self, topic: str) -> None:
        """A partition goes; with the last of its topic go the topic's counters."""
        self._partitions[topic] -= 1
        if not self._partitions[topic]:
            del self._partitions[topic]
            self._forget(topic)

    def relabel(self) -> bool:
        """There may be another limit. True if partitions must be given their counters again (`of`)."""
        topics_max, before = self._topics_max(), list(self.topics)
        for topic in before[topics_max:]:
            self._forget(topic)
        for topic in self._partitions:
            if len(self.topics) >= topics_max:
                break
            self.topics.setdefault(topic, TopicTraffic())
        return list(self.topics) != before

    def _forget(self, topic: str) -> None:
        gone = self.topics.pop(topic, None)
        if gone is not None:
            self.elsewhere.add(gone)

    def of(self, topic: str) -> TopicTraffic:
        traffic = self.topics.get(topic)
        if traffic is not None:
            return traffic
        return self.others if topic in self._partitions else self.elsewhere

    def total(self) -> TopicTraffic:
        total = TopicTraffic()
        for traffic in (self.elsewhere, self.others, *self.topics.values()):
            total.add(traffic)
        return total

    # -- what is refused --

    def on_refused_batch(self, topic: str, error: ApiError, size: int) -> None:
        """A producer's batch of `size` bytes is not in its log."""
        if error.code in UNCOUNTED_PRODUCE_ERRORS:
            return
        traffic = self.of(topic)
        traffic.produce_requests += 1
        if error.code == ErrorCode.MESSAGE_TOO_LARGE:
            traffic.bytes_rejected += size
        if error.code not in EXPECTED_PRODUCE_ERRORS:
            traffic.failed_produce_requests += 1
        if isinstance(error, FaultyBatchError):
            self.faults[error.fault] += 1
        elif isinstance(error, RejectedRecordsError):
            self.records_without_key += error.without_key

    def on_refused_fetch(self, topic: str, code: ErrorCode) -> None:
        """A partition that exists cannot be read."""
        traffic = self.of(topic)
        traffic.fetch_requests += 1
        if code not in EXPECTED_FETCH_ERRORS:
            traffic.failed_fetch_requests += 1
