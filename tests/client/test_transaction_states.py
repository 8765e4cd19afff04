"""Transactions, as brokers tell of them: errors and moves that a healthy cluster does not show."""

from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import pytest
from tests.cli.commands import Run
from tests.cli.commands import run as run
from tests.client.fake import FakeBroker, in_turn, leads

from ottla.base.errors import ErrorCode
from ottla.client import ClientError, TopicPartition, transaction_states
from ottla.client.cluster import Cluster
from ottla.client.retry import Deadline
from ottla.client.transaction_states import Filters, OpenTransaction
from ottla.wire.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)
from ottla.wire.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    TopicData,
)
from ottla.wire.messages.describe_transactions import TransactionState as DescribedState
from ottla.wire.messages.find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse
from ottla.wire.messages.list_transactions import (
    ListTransactionsRequest,
    ListTransactionsResponse,
    TransactionState,
)
from ottla.wire.messages.metadata import MetadataRequest
from ottla.wire.messages.write_txn_markers import (
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)

HELD = TopicPartition("orders", 0)
OPEN = OpenTransaction(HELD, 7, 2, -1, 5, 1_000)


@pytest.fixture
def brokers() -> Iterator[tuple[FakeBroker, FakeBroker]]:
    """Broker 1 leads the partition; 2 coordinates."""
    with FakeBroker() as first, FakeBroker() as second:
        metadata = leads("orders", 1, {1: first.port, 2: second.port})
        for broker in (first, second):
            broker.handlers |= {
                MetadataRequest: metadata,
                FindCoordinatorRequest: coordinated_by(second.port),
                DescribeProducersRequest: producers(OPEN),
                ListTransactionsRequest: listing(),
            }
        yield first, second


@pytest.fixture
def cluster(brokers: tuple[FakeBroker, FakeBroker]) -> Iterator[Cluster]:
    with closing(Cluster(brokers[0].bootstrap, "test")) as cluster:
        cluster.refresh([], Deadline(30))
        yield cluster


def coordinated_by(port: int) -> Callable[[Any, int], Any]:
    def answer(request: FindCoordinatorRequest, _version: int) -> FindCoordinatorResponse:
        assert request.key_type == 1
        (key,) = request.coordinator_keys
        return FindCoordinatorResponse(
            coordinators=[Coordinator(key=key, node_id=2, host="127.0.0.1", port=port)]
        )

    return answer


def listing(*transactions: tuple[str, int, str], error: int = 0) -> Callable[[Any, int], Any]:
    states = [
        TransactionState(transactional_id=name, producer_id=number, transaction_state=state)
        for name, number, state in transactions
    ]
    return lambda _request, _version: ListTransactionsResponse(error_code=error, transaction_states=states)


def description(*partitions: int, error: int = 0, producer: int = 7) -> Callable[[Any, int], Any]:
    def answer(request: DescribeTransactionsRequest, _version: int) -> DescribeTransactionsResponse:
        state = DescribedState(
            error_code=error,
            transactional_id=request.transactional_ids[0],
            transaction_state="Ongoing",
            transaction_timeout_ms=60_000,
            transaction_start_time_ms=-1,
            producer_id=producer,
            producer_epoch=2,
            topics=[TopicData(topic="orders", partitions=list(partitions))],
        )
        return DescribeTransactionsResponse(transaction_states=[state])

    return answer


def producers(*transactions: OpenTransaction, error: int = 0) -> Callable[[Any, int], Any]:
    states = [
        ProducerState(
            producer_id=transaction.producer_id,
            producer_epoch=transaction.producer_epoch,
            coordinator_epoch=transaction.coordinator_epoch,
            last_timestamp=transaction.last_timestamp_ms,
            current_txn_start_offset=transaction.start_offset,
        )
        for transaction in transactions
    ]
    partition = PartitionResponse(partition_index=0, error_code=error, active_producers=states)
    topic = TopicResponse(name="orders", partitions=[partition])
    return lambda _request, _version: DescribeProducersResponse(topics=[topic])


def marked(error: int = 0, sent: list[Any] | None = None) -> Callable[[Any, int], Any]:
    def answer(request: WriteTxnMarkersRequest, _version: int) -> WriteTxnMarkersResponse:
        (marker,) = request.markers
        if sent is not None:
            sent.append(marker)
        result = WritableTxnMarkerPartitionResult(partition_index=0, error_code=error)
        topic = WritableTxnMarkerTopicResult(name="orders", partitions=[result])
        return WriteTxnMarkersResponse(
            markers=[WritableTxnMarkerResult(producer_id=marker.producer_id, topics=[topic])]
        )

    return answer


def test_a_coordinator_that_loads_or_moved_is_asked_again(
    brokers: tuple[FakeBroker, FakeBroker], cluster: Cluster
) -> None:
    brokers[1].handlers[ListTransactionsRequest] = in_turn(
        listing(error=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS), listing(("copy", 7, "Ongoing"))
    )
    (listed,) = transaction_states.listed(cluster, 2, Filters(), Deadline(30))
    assert listed == ("copy", 2, 7, "Ongoing")
    brokers[1].handlers[DescribeTransactionsRequest] = in_turn(
        description(error=ErrorCode.NOT_COORDINATOR), description(0, 1)
    )
    described = transaction_states.described(cluster, "copy", Deadline(30))
    assert described is not None
    assert (described.coordinator, described.started_ms) == (2, None)
    assert described.partitions == [("orders", 0), ("orders", 1)]


def test_a_filter_that_the_broker_is_too_old_for_is_refused_and_not_left_out(
    brokers: tuple[FakeBroker, FakeBroker], cluster: Cluster
) -> None:
    brokers[1].versions[66] = (0, 0)
    for filters, name in ((Filters(longer_than_ms=0), "duration"), (Filters(pattern="a.*"), "pattern")):
        with pytest.raises(ClientError, match=f"cannot list transactions by {name}"):
            transaction_states.listed(cluster, 2, filters, Deadline(30))
    assert transaction_states.listed(cluster, 2, Filters(), Deadline(30)) == []


def test_a_marker_is_written_by_the_leader_with_an_epoch_that_no_coordinator_can_be_older_than(
    brokers: tuple[FakeBroker, FakeBroker], cluster: Cluster
) -> None:
    sent: list[Any] = []
    brokers[0].handlers[WriteTxnMarkersRequest] = in_turn(
        marked(ErrorCode.NOT_LEADER_OR_FOLLOWER), marked(0, sent)
    )
    transaction_states.abort(cluster, OPEN, Deadline(30))
    (marker,) = sent
    assert (marker.producer_id, marker.producer_epoch, marker.coordinator_epoch) == (7, 2, 0)
    assert (marker.transaction_result, marker.transaction_version) == (False, 0)


# -- as commands tell it --------------------

FIND = ("transactions", "find-hanging", "--topic", "orders")
ABORT = ("transactions", "abort", "-t", "orders", "-p", "0", "--start-offset", "5", "--yes")


def test_a_transaction_that_ended_while_it_was_looked_for_does_not_hang(
    brokers: tuple[FakeBroker, FakeBroker], run: Run
) -> None:
    brokers[0].handlers[DescribeProducersRequest] = in_turn(producers(OPEN), producers())
    outcome = run(*FIND, "--bootstrap", brokers[0].bootstrap)
    assert (outcome.code, outcome.out, outcome.err) == (0, "", "no transaction hangs in 1 partition\n")


def test_a_transaction_without_a_marker_yet_does_not_hang_and_one_in_another_partition_does(
    brokers: tuple[FakeBroker, FakeBroker], run: Run
) -> None:
    brokers[1].handlers[ListTransactionsRequest] = listing(("copy", 7, "PrepareCommit"))
    brokers[1].handlers[DescribeTransactionsRequest] = description(0)
    assert run(*FIND, "--bootstrap", brokers[0].bootstrap).out == ""
    brokers[1].handlers[DescribeTransactionsRequest] = description(1)
    assert "orders" in run(*FIND, "--bootstrap", brokers[0].bootstrap).out
    brokers[1].handlers[DescribeTransactionsRequest] = description(
        0, error=ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
    )
    assert "orders" in run(*FIND, "--bootstrap", brokers[0].bootstrap).out
    brokers[1].handlers[DescribeTransactionsRequest] = description(0, producer=8)  # it has a new id by now
    assert "orders" in run(*FIND, "--bootstrap", brokers[0].bootstrap).out


def test_nothing_is_said_to_hang_while_a_coordinator_does_not_answer(
    brokers: tuple[FakeBroker, FakeBroker], run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ottla.cli.transactions.search.REQUEST_S", 0.5)
    monkeypatch.setattr("ottla.cli.transactions.commands.REQUEST_S", 0.5)
    brokers[1].handlers[ListTransactionsRequest] = listing(error=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    address = ("--bootstrap", brokers[0].bootstrap)
    hanging = run(*FIND, *address)
    assert (hanging.code, hanging.out) == (1, "")
    assert hanging.err.startswith("ottla: listing the transactions of broker 2: COORDINATOR_LOAD_IN_PROGRESS")
    aborted = run(*ABORT, *address)
    assert aborted.code == 1
    assert aborted.err.endswith("; so it may not hang, and only --force aborts it\n")
    brokers[0].handlers[ListTransactionsRequest] = listing(("copy", 7, "Ongoing"))
    listed = run("transactions", "list", *address)
    assert (listed.code, listed.out.splitlines()[1].split()) == (0, ["copy", "1", "7", "Ongoing"])
    assert listed.err.startswith("the transactions of a broker are missing: listing the transactions of ")


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (ErrorCode.INVALID_PRODUCER_EPOCH, "producer 7 has a newer epoch than 2 in orders-0; look again "),
        (ErrorCode.TRANSACTION_COORDINATOR_FENCED, "orders-0 has seen a newer coordinator epoch than -1; "),
        (ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "writing an abort marker to orders-0: CLUSTER_AUTHOR"),
    ],
)
def test_a_marker_that_is_refused_is_one_line_with_the_reason(
    brokers: tuple[FakeBroker, FakeBroker], run: Run, error: ErrorCode, said: str
) -> None:
    brokers[0].handlers[WriteTxnMarkersRequest] = marked(error)
    outcome = run(*ABORT, "--bootstrap", brokers[0].bootstrap)
    assert (outcome.code, outcome.out) == (1, "")
    assert outcome.err.startswith(f"ottla: {said}")
