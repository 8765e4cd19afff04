"""Clients over a quota: what they are told, for how long they are muted, and who is left alone."""

import pytest
from tests.api.asking import BY_NAME, batch, create, fetch, fetch_of, new_topic, parts, produce, to
from tests.api.harness import Client, Machine
from tests.api.test_client_quotas import entry, set_quotas

from ottla.base.errors import ErrorCode
from ottla.broker import usage
from ottla.broker.access import Session
from ottla.controller.user_nodes import Entity, write
from ottla.security.principals import Principal
from ottla.wire.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from ottla.wire.messages.create_topics import CreateTopicsRequest
from ottla.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from ottla.wire.messages.metadata import MetadataRequest, MetadataRequestTopic

KILOBYTE = "x" * 1_000


@pytest.fixture
def machine() -> Machine:
    machine = Machine({"auto.create.topics.enable": "false"})
    create(machine.client(), "t")
    return machine


def client_of(machine: Machine, user: str = "ANONYMOUS", client_id: str = "app") -> Client:
    client = machine.client()
    client.client_id = client_id
    machine.broker.access.begin(client.number, Session(principal=Principal("User", user)))
    return client


def limit(machine: Machine, values: dict[str, float | None], **entity: str | None) -> None:
    assert set_quotas(machine.client(), entry(values, **entity)) == [(ErrorCode.NONE, None)]


# -- bytes --


def test_a_producer_over_its_rate_is_told_and_muted_for_as_long(machine: Machine) -> None:
    limit(machine, {"producer_byte_rate": 1_000.0}, user="ANONYMOUS")
    client = client_of(machine)
    answer = client.send(to("t", batch(*[KILOBYTE] * 5)), BY_NAME)
    assert (answer.throttle_time_ms, client.muted_ms) == (0, 0)
    answer = client.send(to("t", batch(*[KILOBYTE] * 15)), BY_NAME)
    assert answer.responses[0].partition_responses[0].error_code == ErrorCode.NONE, (
        "it is written all the same"
    )
    assert client.muted_ms == answer.throttle_time_ms
    assert 10_000 <= client.muted_ms <= 11_000


def test_a_producer_that_wants_no_answer_is_muted_too(machine: Machine) -> None:
    limit(machine, {"producer_byte_rate": 100.0}, user="ANONYMOUS")
    client = client_of(machine)
    pending = client.ask(to("t", batch(*[KILOBYTE] * 5), acks=0), BY_NAME)
    assert pending.wants_no_reply
    assert client.muted_ms > 10_000


def test_who_comes_back_on_another_connection_has_used_as_much(machine: Machine) -> None:
    limit(machine, {"producer_byte_rate": 1_000.0}, client_id="app")
    client = client_of(machine)
    client.send(to("t", batch(*[KILOBYTE] * 20)), BY_NAME)
    first_ms = client.muted_ms
    client.close()
    again = client_of(machine)
    again.send(to("t", batch("v")), BY_NAME)
    assert again.muted_ms >= first_ms > 0


def test_others_are_left_alone(machine: Machine) -> None:
    limit(machine, {"producer_byte_rate": 10.0}, user="alice", client_id="app")
    for user, client_id in (("bob", "app"), ("alice", "other"), ("ANONYMOUS", "")):
        client = client_of(machine, user, client_id)
        assert client.send(to("t", batch(*[KILOBYTE] * 5)), BY_NAME).throttle_time_ms == 0
        assert client.muted_ms == 0
    limited = client_of(machine, "alice", "app")
    assert limited.send(to("t", batch(KILOBYTE)), BY_NAME).throttle_time_ms > 0


def test_all_clients_of_a_user_share_what_is_for_the_user(machine: Machine) -> None:
    limit(machine, {"producer_byte_rate": 1_000.0}, user="alice")
    first, second = client_of(machine, "alice", "one"), client_of(machine, "alice", "two")
    first.send(to("t", batch(*[KILOBYTE] * 9)), BY_NAME)
    second.send(to("t", batch(*[KILOBYTE] * 9)), BY_NAME)
    assert (first.muted_ms, second.muted_ms > 0) == (0, True)


def test_clients_do_not_share_what_is_for_any_client_id(machine: Machine) -> None:
    limit(machine, {"producer_byte_rate": 1_000.0}, client_id=None)
    for client_id in ("one", "two"):
        client = client_of(machine, client_id=client_id)
        client.send(to("t", batch(*[KILOBYTE] * 9)), BY_NAME)
        assert client.muted_ms == 0


def test_a_consumer_over_its_rate_gets_nothing_and_loses_nothing(machine: Machine) -> None:
    client = client_of(machine)
    for number in range(12):
        produce(client, "t", batch(f"{number}" + KILOBYTE))
    limit(machine, {"consumer_byte_rate": 500.0}, user="ANONYMOUS")
    read, offset = 0, 0
    for _ in range(4):
        part = fetch(client, "t", offset, partition_max_bytes=1_200)
        read, offset = read + len(part.records or b""), offset + 1
    assert client.muted_ms == 0
    answer = client.send(fetch_of(("t", 0, offset), partition_max_bytes=3_000), BY_NAME)
    assert answer.responses == []
    assert client.muted_ms == answer.throttle_time_ms > 0
    machine.pass_time(11_000)
    part = fetch(client, "t", offset, partition_max_bytes=3_000)
    assert len(part.records or b"") > 1_000
    assert client.muted_ms == 0


def test_a_fetch_is_never_larger_than_what_can_ever_be_given(machine: Machine) -> None:
    client = client_of(machine)
    for _ in range(12):
        produce(client, "t", batch(KILOBYTE))
    limit(machine, {"consumer_byte_rate": 500.0}, user="ANONYMOUS")
    part = fetch(client, "t", 0, partition_max_bytes=1 << 20)
    assert 3_000 < len(part.records or b"") <= 5_000  # ten seconds' worth
    assert client.muted_ms == 0


def test_a_batch_that_is_more_than_a_window_is_given_to_who_had_nothing_in_that_time(
    machine: Machine,
) -> None:
    client = client_of(machine)
    produce(client, "t", batch(*[KILOBYTE] * 5))
    limit(machine, {"consumer_byte_rate": 100.0}, user="ANONYMOUS")
    fetch(client, "t", 5)
    answer = client.send(fetch_of(("t", 0, 0)), BY_NAME)
    assert (answer.responses, answer.throttle_time_ms > 30_000) == ([], True)
    machine.pass_time(answer.throttle_time_ms)
    answer = client.send(fetch_of(("t", 0, 0)), BY_NAME)
    assert len(parts(answer)["t", 0].records) > 5_000
    assert client.muted_ms == answer.throttle_time_ms > 30_000


def test_a_session_tells_after_a_throttle_what_it_left_out(machine: Machine) -> None:
    """A throttled answer is empty: the high watermark that it would have told is told in the next."""
    client = client_of(machine)
    produce(client, "t", batch(KILOBYTE))
    opened = client.send(fetch_of(("t", 0, 1), session_epoch=0), BY_NAME)
    limit(machine, {"consumer_byte_rate": 100.0}, user="ANONYMOUS")
    for _ in range(3):
        produce(machine.client(), "t", batch(KILOBYTE))
    session_id = opened.session_id
    assert session_id
    fetch(client, "t", 4)
    throttled = client.send(fetch_of(session_id=session_id, session_epoch=1), BY_NAME)
    assert (throttled.throttle_time_ms > 0, throttled.session_id) == (True, session_id)
    assert parts(throttled) == {}
    machine.pass_time(11_000)
    answer = client.send(fetch_of(("t", 0, 4), session_id=session_id, session_epoch=2), BY_NAME)
    assert parts(answer)["t", 0].high_watermark == 4


def test_a_session_does_not_begin_with_a_throttled_answer(machine: Machine) -> None:
    client = client_of(machine)
    produce(client, "t", batch(*[KILOBYTE] * 3))
    limit(machine, {"consumer_byte_rate": 100.0}, user="ANONYMOUS")
    fetch(client, "t", 3)
    answer = client.send(fetch_of(("t", 0, 0), session_epoch=0), BY_NAME)
    assert (answer.session_id, answer.throttle_time_ms > 0) == (0, True)
    assert machine.broker.sessions.by_id == {}


def test_brokers_have_no_quotas(machine: Machine) -> None:
    limit(machine, {"producer_byte_rate": 1.0, "request_percentage": 0.0001}, user=None)
    client = client_of(machine).as_broker(99)
    assert client.send(to("t", batch(*[KILOBYTE] * 50)), BY_NAME).throttle_time_ms == 0
    assert client.muted_ms == 0


def test_a_quota_holds_when_it_is_set_and_no_longer_than_it_is(machine: Machine) -> None:
    client = client_of(machine)
    large = to("t", batch(*[KILOBYTE] * 20))
    assert client.send(large, BY_NAME).throttle_time_ms == 0
    limit(machine, {"producer_byte_rate": 1_000.0}, user="ANONYMOUS")
    assert client.send(large, BY_NAME).throttle_time_ms > 0
    limit(machine, {"producer_byte_rate": 1_000_000.0}, user="ANONYMOUS")
    assert client.send(large, BY_NAME).throttle_time_ms == 0
    limit(machine, {"producer_byte_rate": None}, user="ANONYMOUS")
    assert client.send(large, BY_NAME).throttle_time_ms == 0
    assert not machine.broker.quotas.is_active


def test_an_answer_of_a_version_without_the_field_mutes_all_the_same(machine: Machine) -> None:
    limit(machine, {"request_percentage": 0.0001}, user="ANONYMOUS")
    client = client_of(machine)
    assert client.send(MetadataRequest(topics=None), 2).topics[0].name == "t"
    assert client.muted_ms > 0


# -- time --


def test_time_spent_on_requests_counts_and_a_throttle_is_one_sample_at_most(machine: Machine) -> None:
    """Without a clock every look at it takes 50 us."""
    limit(machine, {"request_percentage": 0.001}, user="ANONYMOUS")
    client = client_of(machine)
    answers = [client.send(MetadataRequest(topics=None)) for _ in range(3)]
    assert answers[-1].throttle_time_ms == client.muted_ms == 1_000
    other = client_of(machine, "alice")
    assert other.send(MetadataRequest(topics=None)).throttle_time_ms == 0


def test_a_wait_is_no_time_that_is_spent(machine: Machine) -> None:
    limit(machine, {"request_percentage": 0.05}, user="ANONYMOUS")
    client = client_of(machine)
    pending = client.ask(fetch_of(("t", 0, 0), max_wait_ms=400_000), BY_NAME)
    machine.pass_time(300_000)
    assert pending.answer is not None
    assert client.muted_ms == 0


def test_a_fetch_over_the_percentage_is_answered_empty(machine: Machine) -> None:
    produce(machine.client(), "t", batch(KILOBYTE))
    limit(machine, {"request_percentage": 0.0001}, user="ANONYMOUS")
    client = client_of(machine)
    answer = client.send(fetch_of(("t", 0, 0)), BY_NAME)
    assert (answer.responses, answer.throttle_time_ms) == ([], 1_000)


def test_a_long_request_counts_slice_by_slice(machine: Machine) -> None:
    """A describe of many topics is answered in slices; its time counts as well."""
    admin = machine.client()
    for number in range(20):
        create(admin, f"many-{number}", partitions=50)
    limit(machine, {"request_percentage": 1.0}, user="ANONYMOUS")
    client = client_of(machine)
    client.send(MetadataRequest(topics=None))
    (meter,) = machine.broker.quotas._meters._meters.values()
    assert meter.total > 0.1  # type: ignore[union-attr] - 100 us are 0.01 % of a second


# -- mutations --


def create_many(client: Client, *names: str, partitions: int = 10, version: int = 7) -> tuple[list[int], int]:
    topics = [new_topic(name, partitions, 1) for name in names]
    answer = client.send(CreateTopicsRequest(topics=topics), version)
    return [result.error_code for result in answer.topics], answer.throttle_time_ms


def test_too_many_partitions_are_refused_and_the_client_is_told_when_to_come_back(machine: Machine) -> None:
    limit(machine, {"controller_mutation_rate": 1.0}, user="ANONYMOUS")  # eleven can be saved
    client = client_of(machine)
    exceeded = ErrorCode.THROTTLING_QUOTA_EXCEEDED
    codes, throttle_ms = create_many(client, "a", "b", "c")
    assert codes == [ErrorCode.NONE, ErrorCode.NONE, exceeded]
    assert throttle_ms == client.muted_ms == 9_000
    assert "c" not in machine.broker.image.topics
    machine.pass_time(throttle_ms)
    assert create_many(client, "c")[0] == [ErrorCode.NONE]
    more = CreatePartitionsRequest(
        topics=[CreatePartitionsTopic(name="a", count=20, assignments=None)], timeout_ms=1_000,
        validate_only=False,
    )  # fmt: skip
    answer = client.send(more, 3)
    assert (answer.results[0].error_code, answer.throttle_time_ms) == (exceeded, 10_000)
    gone = DeleteTopicsRequest(topics=[DeleteTopicState(name="a", topic_id=bytes(16))], timeout_ms=1_000)
    answer = client.send(gone, 6)
    assert (answer.responses[0].error_code, answer.throttle_time_ms) == (exceeded, 10_000)
    assert "a" in machine.broker.image.topics


def test_an_old_client_gets_its_partitions_and_waits_afterwards(machine: Machine) -> None:
    limit(machine, {"controller_mutation_rate": 1.0}, user="ANONYMOUS")
    client = client_of(machine)
    codes, throttle_ms = create_many(client, "a", "b", "c", version=5)
    assert codes == [ErrorCode.NONE] * 3
    assert throttle_ms == client.muted_ms == 19_000


def test_topics_that_are_made_when_they_are_first_asked_for_count_too() -> None:
    machine = Machine({"num.partitions": "20"})
    limit(machine, {"controller_mutation_rate": 1.0}, user="ANONYMOUS")
    client = client_of(machine)
    answer = client.send(MetadataRequest(topics=[MetadataRequestTopic(name="new")]))
    assert [topic.error_code for topic in answer.topics] == [ErrorCode.NONE]
    assert answer.throttle_time_ms == client.muted_ms == 9_000


def test_what_is_refused_for_another_reason_does_not_count(machine: Machine) -> None:
    limit(machine, {"controller_mutation_rate": 1.0}, user="ANONYMOUS")
    client = client_of(machine)
    create_many(client, "t", "t", partitions=1_000)
    assert create_many(client, "a", "b")[0] == [ErrorCode.NONE] * 2


# -- memory --


def test_invented_client_ids_are_forgotten_the_quietest_first(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(usage, "METERS_MAX", 100)
    limit(machine, {"producer_byte_rate": 1_000.0}, client_id=None)
    steady = client_of(machine, client_id="steady")
    steady.send(to("t", batch(*[KILOBYTE] * 20)), BY_NAME)
    for number in range(300):
        machine.now_ms += 1
        client = client_of(machine, client_id=f"invented-{number}")
        client.send(to("t", batch("v")), BY_NAME)
        if number % 50 == 0:
            assert steady.send(to("t", batch("v")), BY_NAME).throttle_time_ms > 0
        assert len(machine.broker.quotas._meters._meters) <= 100
        assert len(machine.broker.quotas._meters._clients) <= 100


def test_who_was_quiet_for_an_hour_is_forgotten(machine: Machine) -> None:
    limit(machine, {"producer_byte_rate": 1_000.0}, client_id=None)
    client_of(machine).send(to("t", batch("v")), BY_NAME)
    machine.pass_time(3_500_000)
    assert len(machine.broker.quotas._meters._meters) == 1
    machine.pass_time(200_000)
    assert machine.broker.quotas._meters._meters == {}


def test_a_node_that_is_no_number_limits_nobody(machine: Machine) -> None:
    machine.write(*write(Entity(user="ANONYMOUS"), {"producer_byte_rate": "much"}, -1))
    assert not machine.broker.quotas.is_active
