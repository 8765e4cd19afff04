"""A broker with transactions, over the wire: its requests and what is in its partitions."""

from typing import Any

from tests.api.asking import create
from tests.api.harness import Client, Machine

from ottla.base.errors import ErrorCode
from ottla.base.ids import TopicPartition
from ottla.log.producers import Producers
from ottla.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from ottla.wire.messages.describe_transactions import DescribeTransactionsRequest
from ottla.wire.messages.end_txn import EndTxnRequest
from ottla.wire.messages.find_coordinator import FindCoordinatorRequest
from ottla.wire.messages.init_producer_id import InitProducerIdRequest
from ottla.wire.messages.list_transactions import ListTransactionsRequest

ID = "payments"
TIMEOUT_MS = 60_000
NONE, BUSY = ErrorCode.NONE, ErrorCode.CONCURRENT_TRANSACTIONS
FENCED, OLD_FENCED = ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH


def started(partitions: int = 3, **properties: str) -> tuple[Machine, Client]:
    given = {key.replace("_", "."): value for key, value in properties.items()}
    machine = Machine({"transaction.state.log.num.partitions": str(partitions), **given})
    client = machine.client()
    create(client, "t", 3)
    assert find(client).error_code == NONE
    return machine, client


def find(client: Client, *transactional_ids: str) -> Any:
    request = FindCoordinatorRequest(key_type=1, coordinator_keys=list(transactional_ids or (ID,)))
    return client.send(request, 6).coordinators[0]


def init_request(transactional_id: str = ID, had: tuple[int, int] = (-1, -1)) -> InitProducerIdRequest:
    return InitProducerIdRequest(
        transactional_id=transactional_id,
        transaction_timeout_ms=TIMEOUT_MS,
        producer_id=had[0],
        producer_epoch=had[1],
    )


def init(client: Client, transactional_id: str = ID, version: int = 5, **options: Any) -> Any:
    answer = client.send(init_request(transactional_id, **options), version)
    return ErrorCode(answer.error_code) if answer.error_code else (answer.producer_id, answer.producer_epoch)


def add_request(producer: tuple[int, int], *partitions: int, topic: str = "t") -> AddPartitionsToTxnRequest:
    return AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=ID,
        v3_and_below_producer_id=producer[0],
        v3_and_below_producer_epoch=producer[1],
        v3_and_below_topics=[AddPartitionsToTxnTopic(name=topic, partitions=list(partitions or (0,)))],
    )


def codes(results: Any) -> list[ErrorCode]:
    return [
        ErrorCode(partition.partition_error_code)
        for topic in results
        for partition in topic.results_by_partition
    ]


def add(
    client: Client, producer: tuple[int, int], *partitions: int, version: int = 3, topic: str = "t"
) -> list[ErrorCode]:
    answer = client.send(add_request(producer, *partitions, topic=topic), version)
    return codes(answer.results_by_topic_v3_and_below)


def of_broker(
    producer: tuple[int, int], *partitions: int, transactional_id: str = ID, verify_only: bool = False
) -> AddPartitionsToTxnTransaction:
    return AddPartitionsToTxnTransaction(
        transactional_id=transactional_id,
        producer_id=producer[0],
        producer_epoch=producer[1],
        verify_only=verify_only,
        topics=[AddPartitionsToTxnTopic(name="t", partitions=list(partitions or (0,)))],
    )


def end_request(producer: tuple[int, int], *, committed: bool = True) -> EndTxnRequest:
    return EndTxnRequest(
        transactional_id=ID, producer_id=producer[0], producer_epoch=producer[1], committed=committed
    )


def end(client: Client, producer: tuple[int, int], *, committed: bool = True, version: int = 5) -> Any:
    answer = client.send(end_request(producer, committed=committed), version)
    return ErrorCode(answer.error_code) if answer.error_code else (answer.producer_id, answer.producer_epoch)


def describe(client: Client, *names: str) -> Any:
    return client.send(DescribeTransactionsRequest(transactional_ids=list(names or (ID,)))).transaction_states


def producers(machine: Machine, index: int = 0, topic: str = "t") -> Producers:
    return machine.broker.partitions[TopicPartition(topic, index)].log.producers


def listed(client: Client, version: int = 2, **filters: Any) -> list[str]:
    answer = client.send(ListTransactionsRequest(**filters), version)
    assert answer.error_code == NONE
    return sorted(state.transactional_id for state in answer.transaction_states)
