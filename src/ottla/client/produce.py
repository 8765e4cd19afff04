"""Produce: finished record batches to the leaders of their partitions.

A batch that gets no answer is sent again as it is. Its producer id and sequence let the broker see that it
has it already (KIP-98); a batch without them may then be in the log twice. A request holds one batch per
partition, as the protocol wants it, so that the order in a partition is the caller's: the next batch goes
after this one is acknowledged.
"""

from collections.abc import Iterator, Mapping

from ottla.base.errors import ErrorCode
from ottla.base.files import Buffer
from ottla.base.ids import TopicPartition
from ottla.client.cluster import Cluster
from ottla.client.errors import ClientError, check
from ottla.client.exchange import Answer, Exchange, by_topic
from ottla.client.retry import ANSWER_S, Deadline, until
from ottla.records.batch import HEADER_SIZE, LOG_OVERHEAD, read_header
from ottla.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from ottla.wire.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)

REQUEST_BYTES_MAX = 32 << 20  # brokers take 100 MiB; less keeps their memory and ours small
UNKNOWN_OFFSET = -1
_NO_TRANSACTION_MS = (1 << 31) - 1


def produce(
    cluster: Cluster,
    batches: Mapping[TopicPartition, Buffer],
    *,
    acks: int,
    transactional_id: str | None,
    deadline: Deadline,
    refusals: dict[TopicPartition, ClientError] | None = None,
) -> dict[TopicPartition, int]:
    """The base offset of every batch; UNKNOWN_OFFSET where no broker says it (acks=0, old duplicates). A
    batch that is refused for good or given up is an error, or with `refusals` goes there."""
    if acks not in {-1, 0, 1}:
        raise ValueError(f"acks is -1, 0 or 1, not {acks}")
    for topic_partition, batch in batches.items():
        if len(batch) < HEADER_SIZE or read_header(batch).length + LOG_OVERHEAD != len(batch):
            raise ValueError(f"{topic_partition}: one whole record batch is wanted")

    def requests(topic_partitions: list[TopicPartition]) -> Iterator[ProduceRequest]:
        for portion in _portions(topic_partitions, batches):
            yield ProduceRequest(
                transactional_id=transactional_id,
                acks=acks,
                timeout_ms=int(deadline.within(ANSWER_S) * 1000),
                topic_data=[
                    TopicProduceData(
                        name=topic,
                        partition_data=[
                            PartitionProduceData(index=number, records=batches[TopicPartition(topic, number)])
                            for number in numbers
                        ],
                    )
                    for topic, numbers in by_topic(portion).items()
                ],
            )

    ask = Exchange(
        "writing to",
        ProduceResponse,
        requests,
        _answers,
        silent=None if acks else UNKNOWN_OFFSET,
        refusals=refusals,
    )
    return ask.run(cluster, batches.keys(), deadline)


def producer_id(cluster: Cluster, deadline: Deadline) -> tuple[int, int]:
    """A new producer's id and epoch, for batches that can be sent twice and are stored once."""

    def attempt() -> tuple[int, int]:
        request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=_NO_TRANSACTION_MS)
        with cluster.borrow_any(deadline) as connection:
            response = connection.call(request, InitProducerIdResponse, deadline)
        check(response.error_code, "asking for a producer id")
        return response.producer_id, response.producer_epoch

    return until(deadline, "asking for a producer id", attempt)


def _answers(response: ProduceResponse) -> Iterator[Answer[int]]:
    for topic in response.responses:
        for partition in topic.partition_responses:
            code, said = partition.error_code, partition.error_message
            if code == ErrorCode.DUPLICATE_SEQUENCE_NUMBER:
                code = 0
            if partition.record_errors and partition.record_errors[0].batch_index_error_message:
                said = partition.record_errors[0].batch_index_error_message
            blamed = tuple(record.batch_index for record in partition.record_errors)
            topic_partition = TopicPartition(topic.name, partition.index)
            yield Answer(topic_partition, code, partition.base_offset, said, blamed)


def _portions(
    topic_partitions: list[TopicPartition], batches: Mapping[TopicPartition, Buffer]
) -> Iterator[list[TopicPartition]]:
    """Few enough at a time for a request."""
    portion: list[TopicPartition] = []
    size = 0
    for topic_partition in topic_partitions:
        if portion and size + len(batches[topic_partition]) > REQUEST_BYTES_MAX:
            yield portion
            portion, size = [], 0
        portion.append(topic_partition)
        size += len(batches[topic_partition])
    if portion:
        yield portion
