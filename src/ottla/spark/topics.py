"""Which partitions a query reads now: its subscription, asked of the cluster.

New partitions, and new topics of a pattern, appear by themselves. What is asked for can be kept for a while
(`partition.metadata.cache.ttl.ms`); by default it is asked for every batch.
"""

import time

from ottla.base.ids import INTERNAL_TOPICS
from ottla.client import Client, TopicPartition
from ottla.spark.errors import unknown_topics
from ottla.spark.options import Assigned, Pattern, Subscription, Topics


class Subscribed:
    def __init__(self, client: Client, subscription: Subscription, ttl_ms: int = -1) -> None:
        self._client = client
        self._subscription = subscription
        self._ttl_ms = ttl_ms
        self._kept: list[TopicPartition] = []
        self._kept_at_ms = 0.0

    def topic_partitions(self) -> list[TopicPartition]:
        """All partitions that are there, in order. A topic that is not there has none."""
        now_ms = time.monotonic() * 1000
        if not self._kept or self._ttl_ms < 0 or now_ms - self._kept_at_ms >= self._ttl_ms:
            self._kept, self._kept_at_ms = self._ask(), now_ms
        return self._kept

    def must_exist(self) -> list[TopicPartition]:
        """The same for a query that begins: what it names has to be there. A pattern names nothing."""
        topic_partitions = self.topic_partitions()
        match self._subscription:
            case Topics(names):
                missing = set(names) - {topic_partition.topic for topic_partition in topic_partitions}
            case Assigned(wanted):
                missing = {str(topic_partition) for topic_partition in set(wanted) - set(topic_partitions)}
            case Pattern():
                missing = set()
        if missing:
            raise unknown_topics(missing)
        return topic_partitions

    def _ask(self) -> list[TopicPartition]:
        match self._subscription:
            case Topics(names):
                topics = list(names)
            case Pattern() as pattern:
                everything = self._client.topics()
                topics = [
                    name for name in everything if name not in INTERNAL_TOPICS and pattern.matches(name)
                ]
            case Assigned(wanted):
                topics = sorted({topic_partition.topic for topic_partition in wanted})
        if not topics:
            return []
        partitions = self._client.partitions(topics)
        topic_partitions = [
            TopicPartition(topic, number) for topic, numbers in partitions.items() for number in numbers
        ]
        if isinstance(self._subscription, Assigned):
            topic_partitions = [
                topic_partition
                for topic_partition in topic_partitions
                if topic_partition in self._subscription.topic_partitions
            ]
        return sorted(topic_partitions)
