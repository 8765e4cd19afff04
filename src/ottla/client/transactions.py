"""Transactions: begun, written to and ended, not necessarily by the same process.

Every transaction begins with InitProducerId, and so has an epoch of its own: a request of an earlier one that
comes late is fenced, and an end is for this transaction and no other. The requests are those of before
transactions V2 (KIP-890): partitions are added before they are written to, and an EndTxn that is sent again
with the same producer id and epoch is answered as the first one was.

There is no state here. Who ends a transaction needs the `Transaction` alone, which is a value to be sent
anywhere: confluent-kafka cannot end what another process has begun.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

from ottla.base.addresses import Address
from ottla.base.errors import ErrorCode
from ottla.base.ids import TopicPartition
from ottla.client.cluster import TRANSACTION, Cluster
from ottla.client.connection import Connection
from ottla.client.errors import RETRIABLE, Again, check, code_of
from ottla.client.exchange import by_topic
from ottla.client.groups import Committed, at_coordinator
from ottla.client.retry import Deadline, until
from ottla.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from ottla.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
)
from ottla.wire.messages.end_txn import EndTxnRequest, EndTxnResponse
from ottla.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from ottla.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
)

R = TypeVar("R")


class Transaction(NamedTuple):
    transactional_id: str
    producer_id: int
    producer_epoch: int


def begin(cluster: Cluster, transactional_id: str, timeout_ms: int, deadline: Deadline) -> Transaction:
    what = f"beginning a transaction of {transactional_id!r}"
    request = InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=timeout_ms)
    begun = []

    def accept(_: str, response: InitProducerIdResponse) -> None:
        hint = None
        if response.error_code == ErrorCode.INVALID_TRANSACTION_TIMEOUT:
            hint = f"{timeout_ms} ms are more than the brokers' transaction.max.timeout.ms"
        check(response.error_code, what, hint)
        begun.append(Transaction(transactional_id, response.producer_id, response.producer_epoch))

    _at_coordinators(cluster, what, {transactional_id: request}, InitProducerIdResponse, accept, deadline)
    return begun[-1]


def add_partitions(
    cluster: Cluster, transaction: Transaction, partitions: Iterable[TopicPartition], deadline: Deadline
) -> None:
    what = f"adding partitions to the transaction of {transaction.transactional_id!r}"
    request = AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=transaction.transactional_id,
        v3_and_below_producer_id=transaction.producer_id,
        v3_and_below_producer_epoch=transaction.producer_epoch,
        v3_and_below_topics=[
            AddPartitionsToTxnTopic(name=topic, partitions=numbers)
            for topic, numbers in by_topic(sorted(partitions)).items()
        ],
    )

    def accept(_: str, response: AddPartitionsToTxnResponse) -> None:
        for topic in response.results_by_topic_v3_and_below:
            for partition in topic.results_by_partition:
                # Said of those that were fine, because of another one that was not.
                if partition.partition_error_code != ErrorCode.OPERATION_NOT_ATTEMPTED:
                    topic_partition = TopicPartition(topic.name, partition.partition_index)
                    check(partition.partition_error_code, f"{what}, {topic_partition}")

    requests = {transaction.transactional_id: request}
    _at_coordinators(cluster, what, requests, AddPartitionsToTxnResponse, accept, deadline)


def commit_offsets(
    cluster: Cluster,
    transaction: Transaction,
    group: str,
    offsets: Mapping[TopicPartition, Committed],
    deadline: Deadline,
) -> None:
    """AddOffsetsToTxn to the one coordinator, then TxnOffsetCommit to the other."""
    what = f"committing offsets of group {group!r} in the transaction of {transaction.transactional_id!r}"
    add = AddOffsetsToTxnRequest(
        transactional_id=transaction.transactional_id,
        producer_id=transaction.producer_id,
        producer_epoch=transaction.producer_epoch,
        group_id=group,
    )
    _at_coordinators(
        cluster,
        what,
        {transaction.transactional_id: add},
        AddOffsetsToTxnResponse,
        lambda _, response: check(response.error_code, what),
        deadline,
    )
    topics = [
        TxnOffsetCommitRequestTopic(
            name=topic,
            partitions=[
                TxnOffsetCommitRequestPartition(
                    partition_index=number,
                    committed_offset=offsets[TopicPartition(topic, number)].offset,
                    committed_metadata=offsets[TopicPartition(topic, number)].metadata,
                )
                for number in numbers
            ],
        )
        for topic, numbers in by_topic(sorted(offsets)).items()
    ]
    request = TxnOffsetCommitRequest(
        transactional_id=transaction.transactional_id,
        group_id=group,
        producer_id=transaction.producer_id,
        producer_epoch=transaction.producer_epoch,
        topics=topics,
    )

    def attempt(connection: Connection) -> None:
        for topic in connection.call(request, TxnOffsetCommitResponse, deadline).topics:
            for partition in topic.partitions:
                topic_partition = TopicPartition(topic.name, partition.partition_index)
                check(partition.error_code, f"{what}, {topic_partition}")

    at_coordinator(cluster, group, what, attempt, deadline)


def end(
    cluster: Cluster, ended: Sequence[Transaction], deadline: Deadline, *, committed: bool
) -> dict[Transaction, ErrorCode]:
    """Those that were refused. An answer says that the end is decided; markers follow."""
    what = "committing transactions" if committed else "aborting transactions"
    by_id = {transaction.transactional_id: transaction for transaction in ended}
    assert len(by_id) == len(ended), "one transaction is open under a transactional id"
    refused: dict[Transaction, ErrorCode] = {}

    def accept(transactional_id: str, response: EndTxnResponse) -> None:
        code = code_of(response.error_code)
        if code in RETRIABLE:
            check(code, f"{what}, {transactional_id!r}")
        if code is not ErrorCode.NONE:
            refused[by_id[transactional_id]] = code

    requests = {
        transaction.transactional_id: EndTxnRequest(
            transactional_id=transaction.transactional_id,
            producer_id=transaction.producer_id,
            producer_epoch=transaction.producer_epoch,
            committed=committed,
        )
        for transaction in ended
    }
    _at_coordinators(cluster, what, requests, EndTxnResponse, accept, deadline)
    return refused


def _at_coordinators(
    cluster: Cluster,
    what: str,
    requests: Mapping[str, Any],
    response: type[R],
    accept: Callable[[str, R], None],
    deadline: Deadline,
) -> None:
    """One request for each transactional id, to its coordinator: all are sent before an answer is awaited,
    and those that fail for a reason that may pass are sent again."""
    left = dict(requests)

    def attempt() -> None:
        failures = []
        for address, names in _by_coordinator(cluster, list(left), deadline).items():
            with cluster.borrow(address, deadline) as connection:
                for name in names:
                    connection.send(left[name], response, deadline)
                for name in names:
                    answer = connection.receive(response, deadline)
                    try:
                        accept(name, answer)
                    except Again as error:
                        failures.append(error)
                    else:
                        del left[name]
        if failures:
            raise failures[0]

    until(deadline, what, attempt)


def _by_coordinator(
    cluster: Cluster, transactional_ids: Sequence[str], deadline: Deadline
) -> dict[Address, list[str]]:
    names: dict[Address, list[str]] = {}
    if transactional_ids:
        coordinators = cluster.coordinators_of(transactional_ids, deadline, TRANSACTION)
        for name in transactional_ids:
            names.setdefault(coordinators[name].address, []).append(name)
    return names
