"""Transactions over the wire, on one broker: from FindCoordinator to the markers in the partitions."""

from itertools import count, pairwise
from typing import Any

import pytest
from tests.api.asking import fetch
from tests.api.harness import Machine
from tests.api.transactions import (
    BUSY,
    FENCED,
    ID,
    NONE,
    OLD_FENCED,
    TIMEOUT_MS,
    add,
    add_request,
    codes,
    describe,
    end,
    end_request,
    find,
    init,
    listed,
    of_broker,
    producers,
    started,
)
from tests.log.simdisk import power_loss
from tests.support.transactions import open_transaction

from ottla.api.call import Call
from ottla.api.list_transactions import _listed
from ottla.base.errors import ErrorCode
from ottla.base.ids import OFFSETS_TOPIC, TRANSACTIONS_TOPIC, TopicPartition
from ottla.broker.effects import SyncLog
from ottla.broker.transactions import COMMIT_TIMEOUT_MS
from ottla.group.consumer.regex import Pattern
from ottla.txn.states import TransactionState
from ottla.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from ottla.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
)
from ottla.wire.messages.find_coordinator import FindCoordinatorRequest
from ottla.wire.messages.list_transactions import ListTransactionsRequest

# Finding the coordinator


@pytest.mark.parametrize("version", range(1, 7))
def test_the_coordinator_of_a_transactional_id_is_found_in_every_version(version: int) -> None:
    client = Machine({"transaction.state.log.num.partitions": "3"}).client()
    request = FindCoordinatorRequest(key_type=1, key=ID, coordinator_keys=[ID])
    answer = client.send(request, version)
    if version >= 4:
        (answer,) = answer.coordinators
    assert (answer.error_code, answer.node_id, answer.port) == (NONE, 1, 9092)


def test_the_first_search_makes_the_topic_as_kafka_does() -> None:
    machine = Machine({"transaction.state.log.segment.bytes": "1048576"})
    find(machine.client())
    topic = machine.broker.image.topics[TRANSACTIONS_TOPIC]
    assert len(topic.assignment) == 50
    config = machine.broker.partitions[TopicPartition(TRANSACTIONS_TOPIC, 0)].log.config
    assert (config.cleanup_policy, config.compression_type) == (("compact",), "uncompressed")
    assert (config.min_insync_replicas, config.segment_bytes) == (1, 1_048_576)
    assert (
        machine.broker.settings.topic_config(TRANSACTIONS_TOPIC)["unclean.leader.election.enable"] == "false"
    )


def test_the_topic_is_not_made_before_there_are_as_many_brokers_as_replicas() -> None:
    machine = Machine({"transaction.state.log.replication.factor": "2"})
    answer = find(machine.client())
    assert answer.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert TRANSACTIONS_TOPIC not in machine.broker.image.topics


def test_an_empty_transactional_id_has_no_coordinator() -> None:
    machine = Machine()
    client = machine.client()
    assert find(client, "").error_code == ErrorCode.INVALID_REQUEST
    assert init(client, "") == ErrorCode.INVALID_REQUEST
    assert end(client, (1, 1), version=3) == ErrorCode.NOT_COORDINATOR
    assert TRANSACTIONS_TOPIC not in machine.broker.image.topics


# A whole transaction


@pytest.mark.parametrize("committed", [True, False])
@pytest.mark.parametrize("version", range(6))
def test_a_transaction_ends_with_a_marker_in_every_partition(version: int, committed: bool) -> None:
    machine, client = started()
    producer = init(client, version=min(version, 5))
    assert add(client, producer, 0, 2, version=min(version, 3)) == [NONE, NONE]
    for index in (0, 2):
        open_transaction(machine.broker, "t", machine.now_ms, index, producer_id=producer[0])
        assert producers(machine, index).by_id[producer[0]].txn_first_offset == 0
    answer = end(client, producer, committed=committed, version=version)
    assert answer == ((producer[0], producer[1] + 1) if version >= 5 else (-1, -1))
    for index in (0, 2):
        assert producers(machine, index).by_id[producer[0]].txn_first_offset == -1
    assert producer[0] not in producers(machine, 1).by_id
    (described,) = describe(client)
    assert described.transaction_state == ("CompleteCommit" if committed else "CompleteAbort")
    assert described.producer_epoch == producer[1] + (version >= 5)


def test_a_reader_of_committed_records_sees_what_was_committed() -> None:
    machine, client = started()
    producer = init(client)
    for committed in (True, False):
        add(client, producer, 0)
        open_transaction(machine.broker, "t", machine.now_ms, producer_id=producer[0], epoch=producer[1])
        producer = end(client, producer, committed=committed)
    part = fetch(client, "t", isolation_level=1)
    assert part.error_code == NONE
    assert part.last_stable_offset == part.high_watermark == 4
    assert [aborted.first_offset for aborted in part.aborted_transactions or []] == [2]


def test_old_versions_hear_of_a_fenced_producer_in_their_own_words() -> None:
    _, client = started()
    old = init(client)
    new = init(client)
    assert init(client, had=old) == FENCED
    assert init(client, version=3, had=old) == OLD_FENCED
    for version in range(4):
        assert add(client, old, version=version) == [OLD_FENCED if version < 2 else FENCED]
    for version in range(5):
        code = OLD_FENCED if version < 2 else FENCED
        assert end(client, old, version=version) == code
        request = AddOffsetsToTxnRequest(
            transactional_id=ID, producer_id=old[0], producer_epoch=old[1], group_id="g"
        )
        assert client.send(request, version).error_code == code
    assert add(client, new) == [NONE]


def test_an_open_transaction_is_aborted_for_a_producer_that_starts_anew() -> None:
    machine, client = started()
    old = init(client)
    add(client, old)
    open_transaction(machine.broker, "t", machine.now_ms, producer_id=old[0])
    assert init(client) == BUSY
    assert producers(machine).by_id[old[0]].txn_first_offset == -1
    assert init(client) == (old[0], 2)


def test_a_transaction_whose_time_is_up_is_aborted() -> None:
    machine, client = started()
    producer = init(client)
    add(client, producer)
    open_transaction(machine.broker, "t", machine.now_ms, producer_id=producer[0])
    machine.pass_time(TIMEOUT_MS + 1)
    machine.pass_time(10_000)
    assert describe(client)[0].transaction_state == "CompleteAbort"
    assert producers(machine).by_id[producer[0]].txn_first_offset == -1


# Partitions


def test_partitions_that_do_not_exist_are_refused_and_the_others_not_attempted() -> None:
    machine, client = started()
    producer = init(client)
    unknown, not_attempted = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.OPERATION_NOT_ATTEMPTED
    assert add(client, producer, 0, 7) == [not_attempted, unknown]
    assert add(client, producer, topic="nobody") == [unknown]
    assert add(client, producer, topic=TRANSACTIONS_TOPIC) == [ErrorCode.TOPIC_AUTHORIZATION_FAILED]
    assert describe(client)[0].transaction_state == "Empty"
    assert machine.broker.coordinators.transactions.shard_of(ID).transactions[ID].partitions == frozenset()


def test_brokers_ask_about_several_transactions_at_once() -> None:
    _, client = started()
    first, second = init(client), init(client, "other")
    request = AddPartitionsToTxnRequest(
        transactions=[
            of_broker(first, 0, 1),
            of_broker(second, 1, 2, transactional_id="other", verify_only=True),
            of_broker(first, transactional_id="nobody"),
            of_broker((first[0], 9), 2),
            of_broker(first, 8),
        ]
    )
    answer = client.send(request, 5)
    assert answer.error_code == NONE
    abortable, fenced = ErrorCode.TRANSACTION_ABORTABLE, FENCED
    assert [
        (result.transactional_id, codes(result.topic_results)) for result in answer.results_by_transaction
    ] == [
        (ID, [NONE, NONE]),
        ("other", [abortable, abortable]),
        ("nobody", [ErrorCode.INVALID_PRODUCER_ID_MAPPING]),
        (ID, [fenced]),
        (ID, [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]),
    ]
    again = AddPartitionsToTxnRequest(transactions=[of_broker(first, 1, 2, verify_only=True)])
    (result,) = client.send(again, 4).results_by_transaction
    assert codes(result.topic_results) == [NONE, abortable]


def test_a_batch_is_answered_when_all_of_it_is_committed() -> None:
    machine, client = started(log_flush_interval_messages="1")
    first, second = init(client), init(client, "other")
    machine.hold(SyncLog)
    pending = client.ask(
        AddPartitionsToTxnRequest(
            transactions=[of_broker(first), of_broker(second, transactional_id="other")]
        ),
        5,
    )
    assert pending.answer is None
    machine.release()
    assert [codes(result.topic_results) for result in pending.answer.results_by_transaction] == [
        [NONE],
        [NONE],
    ]


def test_offsets_take_part_with_the_partition_of_their_group() -> None:
    machine, client = started(offsets_topic_num_partitions="1")
    client.send(FindCoordinatorRequest(key_type=0, coordinator_keys=["g"]), 6)
    producer = init(client)
    request = AddOffsetsToTxnRequest(
        transactional_id=ID, producer_id=producer[0], producer_epoch=producer[1], group_id="g"
    )
    assert client.send(request).error_code == NONE
    (described,) = describe(client)
    assert [(topic.topic, topic.partitions) for topic in described.topics] == [(OFFSETS_TOPIC, [0])]
    assert end(client, producer) == (producer[0], 1)
    assert describe(client)[0].transaction_state == "CompleteCommit"
    assert producer[0] in producers(machine, topic=OFFSETS_TOPIC).by_id, "its marker is there"


# Answers and markers wait for the disk


def test_an_end_is_answered_and_its_markers_written_when_it_is_committed() -> None:
    machine, client = started(log_flush_interval_messages="1")
    producer = init(client)
    add(client, producer)
    open_transaction(machine.broker, "t", machine.now_ms, producer_id=producer[0])
    machine.hold(SyncLog)
    pending = client.ask(end_request(producer))
    assert pending.answer is None
    assert producers(machine).by_id[producer[0]].txn_first_offset == 0
    machine.release()
    machine.pass_time(1)
    assert (pending.answer.error_code, pending.answer.producer_epoch) == (NONE, 1)
    assert producers(machine).by_id[producer[0]].txn_first_offset == -1
    machine.pass_time(1)
    assert describe(client)[0].transaction_state == "CompleteCommit"


def test_what_is_not_committed_in_time_is_answered_with_an_error_after_which_clients_ask_again() -> None:
    machine, client = started(log_flush_interval_messages="1")
    producer = init(client)
    machine.hold(SyncLog)
    pending = client.ask(add_request(producer), 3)
    machine.pass_time(COMMIT_TIMEOUT_MS)
    assert codes(pending.answer.results_by_topic_v3_and_below) == [ErrorCode.COORDINATOR_NOT_AVAILABLE]


@pytest.mark.parametrize("how", ["restart", "crash", "power loss"])
def test_the_next_process_goes_on_with_what_was_prepared(how: str) -> None:
    machine, client = started()
    producer = init(client)
    add(client, producer, 0)
    open_transaction(machine.broker, "t", machine.now_ms, producer_id=producer[0])
    # The end is decided, and the process dies before a marker is written.
    machine.broker.coordinators.transactions.markers = _Nowhere()
    assert end(client, producer) == (producer[0], 1)
    assert describe(client)[0].transaction_state == "PrepareCommit"
    assert end(client, producer) == BUSY
    if how == "restart":
        machine.restart()
    elif how == "crash":
        machine.crash()
    else:
        for partition in machine.broker.partitions.values():
            partition.log.flush()
        machine.crash(power_loss)
    client = machine.client()
    machine.pass_time(10)
    machine.pass_time(1_000)
    assert describe(client)[0].transaction_state == "CompleteCommit"
    assert producers(machine).by_id[producer[0]].txn_first_offset == -1
    assert end(client, producer) == (producer[0], 1), "sent again"


class _Nowhere:
    """Markers that are never sent."""

    def add(self, *_: Any) -> None: ...
    def drop(self, *_: Any) -> None: ...
    def pump(self, *_: Any) -> None: ...
    def next_ms(self) -> None: ...


# Producer ids


def test_producer_ids_are_fetched_ahead() -> None:
    _, client = started()
    given = [init(client, f"id-{number}")[0] for number in range(1_500)]
    assert given == sorted(set(given)), "each once"
    assert all(isinstance(producer_id, int) for producer_id in given), "and nobody had to ask again"


def test_while_there_is_no_producer_id_the_producer_is_to_ask_again() -> None:
    machine, client = started()
    machine.broker.producer_ids._next = machine.broker.producer_ids._end
    machine.broker.producer_ids._is_fetching = True
    assert init(client) == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    machine.broker.producer_ids._is_fetching = False
    assert init(client) == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert isinstance(init(client), tuple), "the block has come"


# Describe and list


def test_describe_tells_all_about_an_id() -> None:
    machine, client = started()
    producer = init(client)
    add(client, producer, 2, 0)
    described, missing, nameless = describe(client, ID, "nobody", "", ID)
    assert (described.error_code, described.transactional_id) == (NONE, ID)
    assert (described.producer_id, described.producer_epoch) == producer
    assert (described.transaction_state, described.transaction_timeout_ms) == ("Ongoing", TIMEOUT_MS)
    assert described.transaction_start_time_ms == machine.broker.storage.wall_ms(machine.now_ms)
    assert [(topic.topic, topic.partitions) for topic in described.topics] == [("t", [0, 2])]
    assert missing.error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
    assert nameless.error_code == ErrorCode.INVALID_REQUEST


def test_list_filters_by_state_producer_duration_and_name() -> None:
    machine, client = started()
    first = init(client)
    add(client, first)
    second = init(client, "other: 2 -> ü")
    assert listed(client, 0) == listed(client, 1) == listed(client) == ["other: 2 -> ü", ID]
    assert listed(client, state_filters=["Ongoing"]) == [ID]
    assert listed(client, producer_id_filters=[second[0]]) == ["other: 2 -> ü"]
    machine.pass_time(5_000)
    assert listed(client, state_filters=["Ongoing"], duration_filter=4_999) == [ID]
    assert listed(client, state_filters=["Ongoing"], duration_filter=5_000) == []
    assert listed(client, transactional_id_pattern="pay.*") == [ID]
    assert listed(client, transactional_id_pattern="pay") == []
    assert listed(client, transactional_id_pattern=r"other:\s2.*") == ["other: 2 -> ü"]
    assert listed(client, transactional_id_pattern=".*ü") == ["other: 2 -> ü"]
    assert listed(client, transactional_id_pattern="") == listed(client)


def test_list_names_states_that_there_are_not_and_refuses_a_pattern_that_is_none() -> None:
    _, client = started()
    init(client)
    answer = client.send(ListTransactionsRequest(state_filters=["Lost", "Empty"]))
    assert answer.unknown_state_filters == ["Lost"]
    assert [state.transactional_id for state in answer.transaction_states] == [ID]
    answer = client.send(ListTransactionsRequest(transactional_id_pattern="(("))
    assert answer.error_code == ErrorCode.INVALID_REGULAR_EXPRESSION


# Loading


def test_while_the_log_is_read_requests_are_to_come_back() -> None:
    machine, client = started(partitions=1)
    for number in range(700):
        init(client, f"id-{number}")
    machine.restart()
    client = machine.client()
    loading = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert init(client, "id-3") == loading
    assert describe(client, "id-3")[0].error_code == loading
    assert client.send(ListTransactionsRequest()).error_code == loading
    for _ in range(5):
        machine.pass_time(1)
    assert init(client, "id-3")[1] == 1
    assert len(listed(client)) == 700


def test_ids_that_this_broker_does_not_coordinate_are_refused() -> None:
    client = Machine().client()
    assert init(client) == ErrorCode.NOT_COORDINATOR
    assert describe(client)[0].error_code == ErrorCode.NOT_COORDINATOR
    assert end(client, (1, 1)) == ErrorCode.NOT_COORDINATOR
    assert listed(client) == []


def test_a_timeout_beyond_the_brokers_is_refused() -> None:
    _, client = started(transaction_max_timeout_ms="1000")
    assert init(client) == ErrorCode.INVALID_TRANSACTION_TIMEOUT


def test_at_level_0_transactions_are_stored_as_older_brokers_read_them() -> None:
    machine, client = started(partitions=1)
    machine.broker.image.features.clear()
    producer = init(client)
    add(client, producer)
    end(client, producer, version=4)
    shard = machine.broker.coordinators.transactions.shard_of(ID)
    assert shard.transactions[ID].state is TransactionState.COMPLETE_COMMIT
    journal = machine.broker.coordinators.transactions.runtime.shards[0].journal
    versions = {stored[0].value[:2] for stored in journal.stored()}  # type: ignore[index, union-attr]
    assert versions == {b"\0\0"}


def test_a_hard_pattern_and_a_long_id_hold_up_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    """A step over one character may take a fifth of a millisecond, and ids are up to 32 KiB long."""
    machine, client = started()
    init(client, "ab" * 5_000)
    steps, step = count(), Pattern._step
    monkeypatch.setattr(Pattern, "_step", lambda *place: (next(steps), step(*place))[1])
    call = Call(machine.broker, machine.now_ms, 2, "a client")
    request = ListTransactionsRequest(transactional_id_pattern="(a|b)*a(a|b){12}")
    walked = [next(steps) for _ in _listed(call, request)]
    assert len(walked) > 600
    assert max(after - before for before, after in pairwise(walked)) <= 17
