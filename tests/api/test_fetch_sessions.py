"""Incremental fetch sessions (KIP-227), as a client sees them."""

from typing import Any

from tests.api.asking import BY_NAME, batch, create, fetch_of, parts, to, values
from tests.api.harness import Client, Machine

from ottla.base.errors import ErrorCode
from ottla.controller import znodes
from ottla.controller.keeper import Create, Delete
from ottla.replication.sessions import EVICTION_IDLE_MS
from ottla.wire.messages.fetch import FetchRequest, ForgottenTopic


def started(partitions: int = 2, **properties: str) -> tuple[Machine, Client]:
    machine = Machine({key.replace("_", "."): value for key, value in properties.items()})
    client = machine.client()
    create(client, "t", partitions)
    return machine, client


def put(client: Client, partition: int, one: bytes) -> None:
    request = to("t", one)
    request.topic_data[0].partition_data[0].index = partition
    client.send(request, BY_NAME)


def open_session(client: Client, *wanted: tuple[str, int, int], **more: Any) -> int:
    answer = client.send(fetch_of(*wanted, session_epoch=0, **more), BY_NAME)
    session_id: int = answer.session_id
    return session_id


def go_on(client: Client, session_id: int, epoch: int, *wanted: tuple[str, int, int], **more: Any) -> Any:
    return client.send(fetch_of(*wanted, session_id=session_id, session_epoch=epoch, **more), BY_NAME)


def test_a_session_answers_only_what_is_new() -> None:
    _, client = started()
    session = open_session(client, ("t", 0, 0), ("t", 1, 0))
    assert session > 0
    assert parts(go_on(client, session, 1)) == {}
    put(client, 1, batch("a"))
    answer = go_on(client, session, 2)
    assert answer.session_id == session
    assert {key: values(part) for key, part in parts(answer).items()} == {("t", 1): ["a"]}
    assert parts(go_on(client, session, 3, ("t", 1, 1))) == {}, "the reader has moved on"


def test_a_moved_watermark_is_news_even_without_records() -> None:
    machine, client = started()
    put(client, 0, batch("a"))
    session = open_session(client, ("t", 0, 1), ("t", 1, 0))
    partition = next(iter(machine.broker.partitions.values()))
    partition.delete_records(1)
    (part,) = parts(go_on(client, session, 1)).values()
    assert part.log_start_offset == 1
    assert parts(go_on(client, session, 2)) == {}


def test_an_incremental_fetch_waits_for_everything_in_the_session() -> None:
    machine, client = started()
    session = open_session(client, ("t", 0, 0), ("t", 1, 0))
    pending = client.ask(fetch_of(session_id=session, session_epoch=1, max_wait_ms=500), BY_NAME)
    assert pending.answer is None
    put(machine.client(), 1, batch("a"))
    assert list(parts(pending.answer)) == [("t", 1)]


def test_partitions_are_added_and_forgotten() -> None:
    _, client = started(partitions=3)
    session = open_session(client, ("t", 0, 0), ("t", 1, 0))
    request = fetch_of(("t", 2, 0), session_id=session, session_epoch=1)
    request.forgotten_topics_data = [ForgottenTopic(topic="t", partitions=[0])]
    assert list(parts(client.send(request, BY_NAME))) == [("t", 2)]
    for partition in range(3):
        put(client, partition, batch("a"))
    assert set(parts(go_on(client, session, 2))) == {("t", 1), ("t", 2)}


def test_an_error_is_repeated_until_it_is_gone() -> None:
    _, client = started()
    session = open_session(client, ("t", 0, 0), ("t", 5, 0))
    for epoch in (1, 2):
        (part,) = parts(go_on(client, session, epoch, max_wait_ms=500)).values()
        assert part.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_what_gave_records_comes_last_the_next_time() -> None:
    _, client = started()
    one = batch("x" * 100)
    for partition in (0, 1):
        put(client, partition, one)
        put(client, partition, one)
    session = open_session(client, ("t", 0, 0), ("t", 1, 0), max_bytes=1)
    (part,) = (part for part in parts(go_on(client, session, 1, max_bytes=1)).values() if part.records)
    assert part.partition_index == 1


def test_a_session_that_is_not_there_or_out_of_step_is_an_error() -> None:
    _, client = started()
    session = open_session(client, ("t", 0, 0))

    def code(session_id: int, epoch: int) -> int:
        answer = go_on(client, session_id, epoch)
        assert (answer.session_id, answer.responses) == (0, [])
        error: int = answer.error_code
        return error

    assert code(session + 1, 1) == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert code(session, 2) == ErrorCode.INVALID_FETCH_SESSION_EPOCH
    assert go_on(client, session, 1).error_code == ErrorCode.NONE
    by_id = client.send(FetchRequest(max_wait_ms=0, min_bytes=1, session_id=session, session_epoch=2), 13)
    assert by_id.error_code == ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR


def test_epoch_minus_1_ends_a_session_and_epoch_0_begins_another() -> None:
    _, client = started()
    first = open_session(client, ("t", 0, 0))
    second = open_session(client, ("t", 0, 0), session_id=first)
    assert second not in {0, first}
    assert go_on(client, first, 1).error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    last = go_on(client, second, -1, ("t", 0, 0))
    assert (last.session_id, list(parts(last))) == (0, [("t", 0)])
    assert go_on(client, second, 1).error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_a_full_fetch_for_nothing_gets_no_session() -> None:
    _, client = started()
    assert open_session(client) == 0


def test_a_session_that_forgets_everything_ends() -> None:
    machine, client = started()
    session = open_session(client, ("t", 0, 0))
    request = fetch_of(session_id=session, session_epoch=1, max_wait_ms=500)
    request.forgotten_topics_data = [ForgottenTopic(topic="t", partitions=[0])]
    assert client.send(request, BY_NAME).session_id == 0
    assert machine.broker.sessions.by_id == {}


def test_a_full_cache_gives_no_session_until_one_has_been_idle_long_enough() -> None:
    machine, client = started(max_incremental_fetch_session_cache_slots="1")
    first = open_session(client, ("t", 0, 0))
    assert open_session(client, ("t", 0, 0)) == 0
    machine.pass_time(EVICTION_IDLE_MS)
    assert open_session(client, ("t", 0, 0)) > 0
    assert go_on(client, first, 1).error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_before_v7_there_are_no_sessions() -> None:
    machine, client = started()
    client.send(fetch_of(("t", 0, 0)), 6)
    assert machine.broker.sessions.by_id == {}


def test_an_id_that_becomes_known_is_resolved_within_the_session() -> None:
    machine, client = started()
    topic_id = machine.broker.image.topics["t"].id
    nodes = dict(machine.keeper.nodes)
    machine.write(Delete(znodes.topic_path("t")))
    answer = client.send(fetch_of((topic_id, 0, 0), session_epoch=0))
    assert answer.responses[0].partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_ID
    machine.write(
        *(Create(path, node.data) for path, node in nodes.items() if path.startswith(znodes.TOPICS))
    )
    again = client.send(fetch_of(session_id=answer.session_id, session_epoch=1))
    assert again.responses[0].partitions[0].error_code == ErrorCode.NONE


def test_a_topic_made_again_under_the_same_name_is_inconsistent_with_the_session() -> None:
    machine, client = started()
    topic_id = machine.broker.image.topics["t"].id
    session = client.send(fetch_of((topic_id, 0, 0), session_epoch=0)).session_id
    machine.write(Delete(znodes.topic_path("t")))
    (topic,) = client.send(fetch_of(session_id=session, session_epoch=1)).responses
    assert topic.partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    create(client, "t")
    (topic,) = client.send(fetch_of(session_id=session, session_epoch=2)).responses
    assert topic.partitions[0].error_code == ErrorCode.INCONSISTENT_TOPIC_ID


def test_the_session_of_a_follower_comes_before_those_of_consumers() -> None:
    machine, client = started(max_incremental_fetch_session_cache_slots="1")
    consumers = open_session(client, ("t", 0, 0))
    assert consumers
    assert open_session(client, ("t", 0, 0), replica_id=machine.broker.id) == 0, "it is no broker"
    follower = machine.client()
    assert open_session(follower.as_broker(99), ("t", 0, 0), replica_id=99) == 0, "there is no broker 99"
    assert open_session(follower.as_broker(1), ("t", 0, 0), replica_id=machine.broker.id) != 0
    assert go_on(client, consumers, 1).error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert open_session(client, ("t", 0, 0)) == 0
