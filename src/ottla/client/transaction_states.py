"""Transactions as their coordinators and the partitions see them, and the marker that ends one by force.

A coordinator knows a transaction by its transactional id, a partition by its producer id; nothing in the log
leads from one to the other, so whoever compares the two asks for both (KIP-664).
"""

from collections.abc import Collection, Iterable, Iterator
from typing import NamedTuple

from ottla.base.errors import ErrorCode
from ottla.base.ids import TopicPartition
from ottla.client.cluster import TRANSACTION, Cluster, Coordinator
from ottla.client.connection import Connection
from ottla.client.errors import ClientError, check, code_of
from ottla.client.exchange import Answer, Exchange, by_topic
from ottla.client.retry import Deadline, until
from ottla.wire.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    TopicRequest,
)
from ottla.wire.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    TransactionState,
)
from ottla.wire.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse
from ottla.wire.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)

PARTITIONS_MAX = 500  # of one request: a broker has other things to do
OPEN_STATES = ("Ongoing", "PrepareCommit", "PrepareAbort")
DURATIONS_SINCE, PATTERNS_SINCE = 1, 2  # versions of ListTransactions


class Filters(NamedTuple):
    """Which transactions to list; what is empty or None leaves nothing out."""

    states: Collection[str] = ()
    producer_ids: Collection[int] = ()
    longer_than_ms: int | None = None
    pattern: str | None = None  # RE2, of the whole transactional id


class Listed(NamedTuple):
    transactional_id: str
    coordinator: int
    producer_id: int
    state: str


class Described(NamedTuple):
    transactional_id: str
    coordinator: int
    producer_id: int
    producer_epoch: int
    state: str
    timeout_ms: int
    started_ms: int | None  # of the last transaction; None if there was none
    partitions: list[TopicPartition]  # those that have no marker yet

    @property
    def is_open(self) -> bool:
        return self.state in OPEN_STATES


class OpenTransaction(NamedTuple):
    """What a partition knows of a transaction that has no marker yet."""

    topic_partition: TopicPartition
    producer_id: int
    producer_epoch: int
    coordinator_epoch: int  # of the last marker before; -1 if there was none
    start_offset: int
    last_timestamp_ms: int


def listed(cluster: Cluster, node: int, filters: Filters, deadline: Deadline) -> list[Listed]:
    """The transactional ids that one broker coordinates."""
    what = f"listing the transactions of broker {node}"
    request = ListTransactionsRequest(
        state_filters=list(filters.states),
        producer_id_filters=list(filters.producer_ids),
        duration_filter=-1 if filters.longer_than_ms is None else filters.longer_than_ms,
        transactional_id_pattern=filters.pattern,
    )

    def attempt() -> ListTransactionsResponse:
        with cluster.borrow(cluster.address_of(node), deadline) as connection:
            _check_filters(connection, filters)
            response = connection.call(request, ListTransactionsResponse, deadline)
        check(response.error_code, what)
        return response

    response = until(deadline, what, attempt)
    return [
        Listed(state.transactional_id, node, state.producer_id, state.transaction_state)
        for state in response.transaction_states
    ]


def _check_filters(connection: Connection, filters: Filters) -> None:
    """A field that an older version lacks would be left out, and too much would be listed."""
    key: int = ListTransactionsRequest.API_KEY  # type: ignore[attr-defined]
    version = connection.version_of(key, "ListTransactions")
    for name, wanted, since in (
        ("duration", filters.longer_than_ms, DURATIONS_SINCE),
        ("pattern", filters.pattern, PATTERNS_SINCE),
    ):
        if wanted is not None and version < since:
            raise ClientError(
                f"the broker at {connection.address} cannot list transactions by {name}: that takes version "
                f"{since} of ListTransactions, and it has {version}",
                ErrorCode.UNSUPPORTED_VERSION,
            )


def described(cluster: Cluster, transactional_id: str, deadline: Deadline) -> Described | None:
    """What its coordinator knows of a transactional id; None if that is nothing."""
    return described_all(cluster, [transactional_id], deadline).get(transactional_id)


def described_all(
    cluster: Cluster, transactional_ids: Iterable[str], deadline: Deadline
) -> dict[str, Described]:
    """The same of many, in one request for each coordinator; one that nobody knows is left out."""
    asked = sorted(set(transactional_ids))
    what = f"describing transactional id {asked[0]!r}" if len(asked) == 1 else "describing transactions"

    def attempt() -> dict[str, Described]:
        states = {}
        by_coordinator: dict[Coordinator, list[str]] = {}
        for name, coordinator in cluster.coordinators_of(asked, deadline, TRANSACTION).items():
            by_coordinator.setdefault(coordinator, []).append(name)
        for coordinator, names in by_coordinator.items():
            request = DescribeTransactionsRequest(transactional_ids=names)
            with cluster.borrow(coordinator.address, deadline) as connection:
                response = connection.call(request, DescribeTransactionsResponse, deadline)
            for state in response.transaction_states:
                if code_of(state.error_code) is not ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
                    check(state.error_code, what)
                    states[state.transactional_id] = _described(coordinator.node, state)
        return states

    return until(deadline, what, attempt) if asked else {}


def _described(coordinator: int, state: TransactionState) -> Described:
    return Described(
        state.transactional_id,
        coordinator,
        state.producer_id,
        state.producer_epoch,
        state.transaction_state,
        state.transaction_timeout_ms,
        state.transaction_start_time_ms if state.transaction_start_time_ms >= 0 else None,
        sorted(
            TopicPartition(topic.topic, partition) for topic in state.topics for partition in topic.partitions
        ),
    )


def open_transactions(
    cluster: Cluster, topic_partitions: Collection[TopicPartition], deadline: Deadline
) -> list[OpenTransaction]:
    """The transactions that are open in some partitions, as their leaders say."""

    def requests(led: list[TopicPartition]) -> Iterator[DescribeProducersRequest]:
        for begin in range(0, len(led), PARTITIONS_MAX):
            yield DescribeProducersRequest(
                topics=[
                    TopicRequest(name=topic, partition_indexes=numbers)
                    for topic, numbers in by_topic(led[begin : begin + PARTITIONS_MAX]).items()
                ]
            )

    ask = Exchange("asking for the producers of", DescribeProducersResponse, requests, _open_transactions)
    by_partition = ask.run(cluster, topic_partitions, deadline)
    return [transaction for transactions in by_partition.values() for transaction in transactions]


def _open_transactions(response: DescribeProducersResponse) -> Iterator[Answer[list[OpenTransaction]]]:
    for topic in response.topics:
        for partition in topic.partitions:
            topic_partition = TopicPartition(topic.name, partition.partition_index)
            transactions = [
                OpenTransaction(
                    topic_partition,
                    producer.producer_id,
                    producer.producer_epoch,
                    producer.coordinator_epoch,
                    producer.current_txn_start_offset,
                    producer.last_timestamp,
                )
                for producer in partition.active_producers
                if producer.current_txn_start_offset >= 0
            ]
            yield Answer(topic_partition, partition.error_code, transactions, partition.error_message)


def abort(cluster: Cluster, transaction: OpenTransaction, deadline: Deadline) -> None:
    """Have the leader write an abort marker, without the coordinator.

    Where no coordinator has ended a transaction of this producer in the partition, epoch 0 is one that none
    can be older than.
    """
    topic, partition = transaction.topic_partition
    marker = WritableTxnMarker(
        producer_id=transaction.producer_id,
        producer_epoch=transaction.producer_epoch,
        transaction_result=False,
        topics=[WritableTxnMarkerTopic(name=topic, partition_indexes=[partition])],
        coordinator_epoch=max(0, transaction.coordinator_epoch),
    )

    def requests(_led: Iterable[TopicPartition]) -> Iterator[WriteTxnMarkersRequest]:
        yield WriteTxnMarkersRequest(markers=[marker])

    def answers(response: WriteTxnMarkersResponse) -> Iterator[Answer[None]]:
        for written in response.markers:
            for topic_result in written.topics:
                for result in topic_result.partitions:
                    topic_partition = TopicPartition(topic_result.name, result.partition_index)
                    yield Answer(topic_partition, result.error_code, None)

    ask = Exchange("writing an abort marker to", WriteTxnMarkersResponse, requests, answers)
    ask.run(cluster, [transaction.topic_partition], deadline)
