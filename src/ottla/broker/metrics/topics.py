"""What goes in and out of the topics of this broker, and what it refuses, as Kafka's BrokerTopicMetrics."""

from collections.abc import Iterator

from ottla.base.metrics import Family, Metric, Sample, counter, gauge
from ottla.broker.metrics.label_limits import OTHERS, topic_label
from ottla.broker.traffic import Traffic
from ottla.log.validation import Fault
from ottla.replication.traffic import TopicTraffic


def _of_topics(name: str, help: str) -> Metric:  # noqa: A002
    return counter(f"kafka_server_brokertopicmetrics_{name}_total", help, "topic")


def _of_all(name: str, help: str) -> Metric:  # noqa: A002
    return counter(f"kafka_server_brokertopicmetrics_{name}_total", help)


class TopicMetrics:
    MESSAGES_IN = _of_topics(
        "messagesin",
        "Records written to partitions that this broker leads: those of producers, of coordinators, and the"
        " ends of transactions. What a producer sent again and was not written again does not count.",
    )
    BYTES_IN = _of_topics("bytesin", "Bytes of the batches of these records, as they were sent.")
    BYTES_OUT = _of_topics("bytesout", "Bytes of batches given to consumers, by leaders and by followers.")
    BYTES_REJECTED = _of_topics("bytesrejected", "Bytes of batches that were refused as too large.")
    PRODUCE_REQUESTS = _of_topics(
        "totalproducerequests", "Batches that came for partitions that exist, written or refused."
    )
    FETCH_REQUESTS = _of_topics(
        "totalfetchrequests",
        "Partitions read for fetches of consumers and followers, with or without records in them.",
    )
    FAILED_PRODUCE_REQUESTS = _of_topics(
        "failedproducerequests",
        "Batches that were refused, but for what clients and disks are known to run into: another leader,"
        " a batch too large or corrupt, a failed disk.",
    )
    FAILED_FETCH_REQUESTS = _of_topics(
        "failedfetchrequests",
        "Partitions that could not be read, but for what clients and disks are known to run into.",
    )
    REPLICATION_BYTES_IN = _of_all("replicationbytesin", "Bytes of batches that this broker has followed.")
    REPLICATION_BYTES_OUT = _of_all("replicationbytesout", "Bytes of batches given to followers.")
    INVALID_MAGIC = _of_all(
        "invalidmagicnumberrecords", "Batches that were refused for their message format: only 2 is taken."
    )
    INVALID_CRC = _of_all(
        "invalidmessagecrcrecords", "Batches that were refused because their checksum was wrong."
    )
    INVALID_SEQUENCE = _of_all(
        "invalidoffsetorsequencerecords",
        "Batches that were refused for their offsets, for a missing sequence, or for being a control batch.",
    )
    NO_KEY = _of_all(
        "nokeycompactedtopicrecords", "Records without a key for which a compacted topic refused a batch."
    )
    LEFT_OUT = gauge(
        "ottla_metrics_topics_left_out",
        "Topics on this broker that are summed up as (others), by ottla.metrics.topics.max.",
    )

    def __init__(self, traffic: Traffic) -> None:
        self._traffic = traffic

    def read(self, now_ms: int) -> Iterator[Family]:  # noqa: ARG002 - as every source
        traffic = self._traffic
        total = traffic.total()
        yield self.MESSAGES_IN, self._samples(total, "messages_in")
        yield self.BYTES_IN, self._samples(total, "bytes_in")
        yield self.BYTES_OUT, self._samples(total, "bytes_out")
        yield self.BYTES_REJECTED, self._samples(total, "bytes_rejected")
        yield self.PRODUCE_REQUESTS, self._samples(total, "produce_requests")
        yield self.FETCH_REQUESTS, self._samples(total, "fetch_requests")
        yield self.FAILED_PRODUCE_REQUESTS, self._samples(total, "failed_produce_requests")
        yield self.FAILED_FETCH_REQUESTS, self._samples(total, "failed_fetch_requests")
        yield self.REPLICATION_BYTES_IN, [((), traffic.replication_bytes_in)]
        yield self.REPLICATION_BYTES_OUT, [((), traffic.replication_bytes_out)]
        yield self.INVALID_MAGIC, [((), traffic.faults[Fault.MAGIC])]
        yield self.INVALID_CRC, [((), traffic.faults[Fault.CHECKSUM])]
        yield self.INVALID_SEQUENCE, [((), traffic.faults[Fault.OFFSET_OR_SEQUENCE])]
        yield self.NO_KEY, [((), traffic.records_without_key)]
        yield self.LEFT_OUT, [((), traffic.left_out)]

    def _samples(self, total: TopicTraffic, counter_name: str) -> Iterator[Sample]:
        yield (), getattr(total, counter_name)
        others: int = getattr(self._traffic.others, counter_name)
        if others or self._traffic.left_out:
            yield (OTHERS,), others
        for topic, traffic in list(self._traffic.topics.items()):
            yield topic_label(topic), getattr(traffic, counter_name)
