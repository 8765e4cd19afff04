"""What is counted of requests: exact, for every API, whatever way its answer is made."""

import dataclasses
import logging
from collections import Counter
from typing import Any

import pytest
from tests.api import groups
from tests.api.asking import BY_NAME, batch, create, fetch, fetch_of, produce, to
from tests.api.examples import EXAMPLES
from tests.api.harness import Client, Machine
from tests.api.test_client_quotas import entry, set_quotas
from tests.api.test_long_requests import describe_configs, unknown_names
from tests.support.groups import joining

from ottla.api.call import CloseConnection
from ottla.api.table import TABLE
from ottla.base.errors import ErrorCode
from ottla.base.metrics import Histogram
from ottla.broker.effects import Close, SyncLog
from ottla.broker.long_work import Slices
from ottla.broker.metrics.requests import RequestMetrics
from ottla.broker.unserved_requests import KINDS_MAX, LOGGED_MAX, NAME_MAX
from ottla.wire.codec import encode
from ottla.wire.header import RequestHeader, encode_request_header
from ottla.wire.messages.api_versions import ApiVersionsRequest
from ottla.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from ottla.wire.primitives import ProtocolError

UNKNOWN = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@pytest.fixture
def machine() -> Machine:
    machine = Machine({"auto.create.topics.enable": "false"})
    create(machine.client(), "t")
    return machine


@pytest.fixture
def client(machine: Machine) -> Client:
    return machine.client()


def samples(machine: Machine, name: str) -> dict[tuple[str, ...], Any]:
    broker = machine.broker
    source = RequestMetrics(broker.requests, broker.waiting, broker.slices)
    return next(dict(found) for metric, found in source.read(machine.now_ms) if metric.name == name)


def errors(machine: Machine) -> dict[tuple[str, ...], int]:
    return samples(machine, "kafka_network_requestmetrics_errors_total")


def requests(machine: Machine) -> dict[tuple[str, ...], int]:
    return samples(machine, "kafka_network_requestmetrics_requests_total")


def seconds(machine: Machine, part: str, request: str) -> tuple[int, int]:
    """How many, and how many microseconds together."""
    durations: Histogram = samples(machine, f"ottla_request{part}_seconds")[request,]
    return sum(durations.counts), durations.total_us


def codes_in(part: Any) -> Counter[str]:
    """By looking at all of an answer, which nobody does for every request."""
    codes: Counter[str] = Counter()
    if isinstance(part, list):
        for item in part:
            codes += codes_in(item)
    elif dataclasses.is_dataclass(part):
        for field in dataclasses.fields(part):
            value = getattr(part, field.name)
            if field.name in {"error_code", "partition_error_code"} and value:
                codes[ErrorCode(value).name] += 1
            codes += codes_in(value)
    return codes


# -- requests and errors --


@pytest.mark.parametrize("name", sorted(EXAMPLES))
def test_every_api_counts_its_requests_by_version_and_the_errors_in_their_answers(name: str) -> None:
    machine = Machine()
    client = machine.client()
    topic_id = create(client, "t")
    (api,) = (api for api in TABLE.values() if api.name == name)
    before, asked_before = Counter(errors(machine)), Counter(requests(machine))
    told: Counter[str] = Counter()
    low, high = api.versions
    for version in range(low, high + 1):
        pending = client.ask(EXAMPLES[name](version, topic_id), version)
        machine.pass_time(60_000)
        told += codes_in(pending.answer)
    after = Counter(errors(machine)) - before
    assert after == {(api.title, code): count for code, count in told.items()}
    asked = Counter(requests(machine)) - asked_before
    of_api = {version: count for (title, version), count in asked.items() if title == api.title}
    assert of_api == {str(version): 1 for version in range(low, high + 1)}


def test_each_partition_of_a_produce_and_of_a_fetch_that_fails_counts(
    machine: Machine, client: Client
) -> None:
    client.send(to("t", batch(), batch(), batch()), BY_NAME)  # it has one
    client.send(fetch_of(("t", 0, 0), ("t", 1, 0), ("t", 0, 99), ("unknown", 0, 0)), BY_NAME)
    assert errors(machine) == {
        ("Produce", "UNKNOWN_TOPIC_OR_PARTITION"): 2,
        ("Fetch", "UNKNOWN_TOPIC_OR_PARTITION"): 2,
        ("Fetch", "OFFSET_OUT_OF_RANGE"): 1,
    }


def test_an_error_that_comes_after_the_wait_counts_and_the_one_before_it_does_not(
    machine: Machine, client: Client
) -> None:
    machine.hold(SyncLog)
    create(client, "durable", flush_messages="1")
    pending = client.ask(to("durable", batch(), timeout_ms=1_000), BY_NAME)
    assert errors(machine) == {}
    machine.pass_time(1_000)
    assert codes_in(pending.answer) == {"REQUEST_TIMED_OUT": 1}
    assert errors(machine) == {("Produce", "REQUEST_TIMED_OUT"): 1}


def test_an_error_that_a_producer_without_acks_is_not_told_counts(machine: Machine, client: Client) -> None:
    with pytest.raises(CloseConnection):
        client.ask(to("t", batch(), batch(), acks=0), BY_NAME)
    assert errors(machine) == {("Produce", UNKNOWN.name): 1}
    assert requests(machine)["Produce", str(BY_NAME)] == 1


def test_the_errors_of_a_long_answer_count_once(machine: Machine, client: Client) -> None:
    answer = client.send(unknown_names(20_000))
    assert codes_in(answer) == {UNKNOWN.name: 20_000}
    assert errors(machine) == {("Metadata", UNKNOWN.name): 20_000}
    client.send(describe_configs(*(f"unknown-{at}" for at in range(500))))
    assert errors(machine)["DescribeConfigs", UNKNOWN.name] == 500


def test_the_errors_of_an_answer_that_nobody_waits_for_any_more_do_not_count(
    machine: Machine, client: Client
) -> None:
    machine.hold(Slices)
    client.ask(unknown_names(5_000))
    for _ in range(3):
        machine.broker.slices.on_deadline(machine.now_ms)
    client.close()
    machine.release()
    assert errors(machine) == {}


def test_an_answer_that_was_kept_counts_each_time(machine: Machine, client: Client) -> None:
    request = MetadataRequest(topics=[MetadataRequestTopic(name="unknown")], allow_auto_topic_creation=False)
    client.send(request)
    assert len(machine.broker.answers) == 1
    client.send(request)
    assert errors(machine) == {("Metadata", UNKNOWN.name): 2}
    assert requests(machine)["Metadata", str(MetadataRequest.VERSIONS[1])] == 2
    assert seconds(machine, "", "Metadata")[0] == 2


def test_fetches_of_followers_count_apart_from_those_of_consumers_and_together(
    machine: Machine, client: Client
) -> None:
    fetch(client, "t")
    client.send(fetch_of(("t", 0, 0), replica_id=2), BY_NAME)  # it may not
    assert {kind: count for kind, count in requests(machine).items() if "Fetch" in kind[0]} == {
        ("FetchConsumer", "12"): 1,
        ("FetchFollower", "12"): 1,
        ("Fetch", "12"): 2,
    }
    assert errors(machine) == {("Fetch", "TOPIC_AUTHORIZATION_FAILED"): 1}
    assert seconds(machine, "_local", "Fetch")[0] == 2


def test_bytes_of_requests_and_answers_are_those_of_their_frames(machine: Machine, client: Client) -> None:
    frame = encode_request_header(RequestHeader(18, 3, 1, "me")) + encode(
        ApiVersionsRequest(client_software_name="me", client_software_version="1"), 3
    )
    sent = 0
    for _ in range(2):  # the second is a kept answer
        answer = client.raw(frame)
        assert isinstance(answer, list)
        sent += len(b"".join(answer)) - 4
    assert samples(machine, "ottla_request_bytes_total")["ApiVersions",] == 2 * len(frame)
    assert samples(machine, "ottla_response_bytes_total")["ApiVersions",] == sent


# -- time --


def test_a_request_that_waits_for_others_is_remote_for_as_long(machine: Machine, client: Client) -> None:
    machine.broker.requests.clock_ns = lambda: machine.now_ms * 1_000_000
    client.ask(fetch_of(("t", 0, 0), max_wait_ms=400), BY_NAME)
    machine.pass_time(150)
    assert samples(machine, "kafka_server_delayedoperationpurgatory_purgatorysize")["Fetch",] == 1
    produce(machine.client(), "t")
    assert samples(machine, "kafka_server_delayedoperationpurgatory_purgatorysize")["Fetch",] == 0
    assert seconds(machine, "_remote", "FetchConsumer") == (1, 150_000)
    assert seconds(machine, "", "FetchConsumer") == (1, 150_000)
    assert seconds(machine, "_local", "FetchConsumer") == (1, 0)
    assert seconds(machine, "_remote", "Produce") == (1, 0), "it waited for no time"


def test_a_request_that_waits_for_its_turn_is_in_the_queue_for_as_long(
    machine: Machine, client: Client
) -> None:
    machine.broker.requests.clock_ns = lambda: machine.now_ms * 1_000_000
    machine.hold(Slices)
    pending = client.ask(unknown_names(5_000))
    assert samples(machine, "kafka_network_requestchannel_requestqueuesize") == {(): 1}
    assert requests(machine).get(("Metadata", str(pending.version))) is None, (
        "it is bytes, and not understood"
    )
    machine.pass_time(70)
    machine.release()
    assert samples(machine, "kafka_network_requestchannel_requestqueuesize") == {(): 0}
    assert seconds(machine, "_queue", "Metadata") == (1, 70_000)
    assert seconds(machine, "", "Metadata") == (1, 70_000)


def test_members_that_wait_for_a_rebalance_are_in_its_purgatory() -> None:
    machine, client, _ = groups.broker()
    member = client.send(joining()).member_id
    client.ask(joining(member))
    name = "kafka_server_delayedoperationpurgatory_purgatorysize"
    assert samples(machine, name)["Rebalance",] == 1
    client.close()
    assert samples(machine, name)["Rebalance",] == 0


def test_the_time_for_which_a_client_is_silent_counts(machine: Machine, client: Client) -> None:
    set_quotas(client, entry({"producer_byte_rate": 100.0}, user="ANONYMOUS"))
    client.send(to("t", batch("x" * 5_000)), BY_NAME)
    assert client.muted_ms > 0
    assert seconds(machine, "_throttle", "Produce") == (1, client.muted_ms * 1_000)
    before_ms = client.muted_ms
    client.ask(to("t", batch("x" * 5_000), acks=0), BY_NAME)
    assert seconds(machine, "_throttle", "Produce") == (2, (before_ms + client.muted_ms) * 1_000)


# -- what is not served --


def ask_unserved(client: Client, key: int, version: int, client_id: str = "old") -> None:
    with pytest.raises(ProtocolError):
        client.raw(encode_request_header(RequestHeader(key, version, 5, client_id), {key: None}))


def test_what_is_not_served_is_counted_and_said_once_for_each_client(
    machine: Machine, client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    client.host = "/10.0.0.7"
    for _ in range(3):
        ask_unserved(client, 71, 0)
    ask_unserved(client, 71, 0, "another")
    ask_unserved(client, 1, 2)
    assert samples(machine, "ottla_unserved_requests_total") == {("API 71", "0"): 4, ("Fetch", "2"): 1}
    ending = "which is not served (docs/reference/apis.md says what is)"
    assert caplog.messages == [
        f"client 'old' at 10.0.0.7 asked for API 71 v0, {ending}",
        f"client 'another' at 10.0.0.7 asked for API 71 v0, {ending}",
        f"client 'old' at 10.0.0.7 asked for Fetch v2, {ending}",
    ]


def test_a_version_of_apiversions_that_is_not_served_is_an_error_that_counts(
    machine: Machine, client: Client
) -> None:
    answer = client.raw(encode_request_header(RequestHeader(18, 99, 1, "new")))
    assert isinstance(answer, list)
    assert samples(machine, "ottla_unserved_requests_total") == {("ApiVersions", "99"): 1}
    assert errors(machine) == {("ApiVersions", "UNSUPPORTED_VERSION"): 1}
    assert ("ApiVersions", "99") not in requests(machine)


def test_a_client_that_asks_for_everything_makes_no_more_of_it_than_a_few_series(
    machine: Machine, client: Client
) -> None:
    unserved = machine.broker.requests.unserved
    for at in range(LOGGED_MAX + 500):
        ask_unserved(client, 1_000 + at % 300, 0, f"client-{at}")
    counts = samples(machine, "ottla_unserved_requests_total")
    assert len(counts) == KINDS_MAX + 1
    assert counts["(others)", ""] == 1_000
    assert sum(counts.values()) == LOGGED_MAX + 500
    assert len(unserved._logged) == LOGGED_MAX


def test_of_a_client_with_a_very_long_name_only_its_beginning_is_kept_and_logged(
    machine: Machine, client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    ask_unserved(client, 71, 0, "x" * 30_000)
    [[kept, *_]] = machine.broker.requests.unserved._logged
    assert len(kept) == len(caplog.records[0].fields["client"]) == NAME_MAX  # type: ignore[attr-defined]


def test_a_header_that_is_cut_is_counted_as_far_as_it_can_be_read(machine: Machine, client: Client) -> None:
    with pytest.raises(ProtocolError, match="no API with key 999"):
        client.raw(b"\x03\xe7\x00\x01")
    assert samples(machine, "ottla_unserved_requests_total") == {("API 999", "1"): 1}


# -- what is said of requests that failed --


def test_a_request_that_fails_is_logged_with_who_asked_and_its_number(
    machine: Machine, client: Client, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(machine.broker, "replicas", None)
    client.sent = 41
    with pytest.raises(CloseConnection, match="Produce failed"):
        client.ask(to("t", batch()), BY_NAME)
    assert "bug: Produce v12 from client 'a client' failed, correlation id 42" in caplog.messages
    (record,) = (record for record in caplog.records if record.levelname == "ERROR")
    assert record.fields == {  # type: ignore[attr-defined]
        "api": "Produce", "version": 12, "client": "a client", "correlation": 42, "host": "",
    }  # fmt: skip


def test_a_connection_that_ends_later_says_whose_request_it_was(
    machine: Machine, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    client.sent = 6
    machine.hold(Slices, Close)
    client.ask(unknown_names(5_000))
    monkeypatch.setattr(machine.broker, "proofs", None)
    machine.release(still_hold=True)
    machine.holding.remove(Slices)
    machine.carry_out()
    (close,) = machine.held
    assert close == Close(client.number, "Metadata failed", sender="client 'a client', correlation id 7")
