"""Small requests with enormous answers or arrays, and readers that never read."""

import contextlib
import re
import time
from collections.abc import Callable

import pytest
from tests.hostile.healthy import Healthy, Peak
from tests.hostile.largest import largest_requests
from tests.kafka_clients.harness import BrokerProcess, wait_for
from tests.kafka_clients.wire_client import Closed, Wire, batch, fetch_request, frame_of

from ottla.cli.broker.process import DEFAULT_LEVEL
from ottla.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from ottla.wire.messages.delete_topics import DeleteTopicsRequest
from ottla.wire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from ottla.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from ottla.wire.messages.metadata import MetadataRequest, MetadataRequestTopic

StartBroker = Callable[..., BrokerProcess]

MEBIBYTE = 1 << 20
CLOSINGS = 1_000
LARGEST = (
    "DescribeProducers",
    "OffsetFetch",
    "ListOffsets",
    "OffsetCommit",
    "DeleteTopics",
    "Metadata",
    "Fetch",
)


def outcome(wire: Wire) -> str:
    try:
        return f"{len(wire.receive_frame())} bytes"
    except (Closed, ConnectionError):
        return "closed"


def test_one_resource_a_hundred_thousand_times_is_described_once(
    broker: BrokerProcess, healthy: Healthy
) -> None:
    broker.create_topic("described")
    one = DescribeConfigsResource(resource_type=2, resource_name="described", configuration_keys=None)
    request = DescribeConfigsRequest(
        resources=[one] * 99_000, include_synonyms=True, include_documentation=True
    )
    before = broker.rss_bytes()
    with Peak(broker) as peak, Wire(broker.port) as wire:
        answer = wire.call(request, 4)
    assert [result.resource_name for result in answer.results] == ["described"]
    assert len(answer.results[0].configs) > 20
    assert peak.rss_bytes - before < 200 * MEBIBYTE


def test_the_largest_requests_keep_nobody_waiting(start_broker: StartBroker) -> None:
    broker = start_broker()
    broker.create_topic("t", 100)
    frames = [frame_of(request, version) for _, request, version in largest_requests(*LARGEST)]
    with Healthy(broker), Peak(broker) as peak, contextlib.ExitStack() as stack:
        wires = [stack.enter_context(Wire(broker.port)) for _ in frames]
        for wire, frame in zip(wires, frames, strict=True):
            wire.send_bytes(frame)
        outcomes = [outcome(wire) for wire in wires]
    assert "closed" not in outcomes
    assert peak.rss_bytes < 1024 * MEBIBYTE


def test_thousands_of_topics_and_partitions_come_and_go_and_keep_nobody_waiting(
    start_broker: StartBroker,
) -> None:
    broker = start_broker()
    many = [
        CreatableTopic(name=f"many-{number}", num_partitions=1, replication_factor=1)
        for number in range(2_000)
    ]
    large = CreatableTopic(name="large", num_partitions=4_000, replication_factor=1)
    names = [*(topic.name for topic in many), large.name]
    requests = (
        (CreateTopicsRequest(topics=many, timeout_ms=60_000), 5),
        (CreateTopicsRequest(topics=[large], timeout_ms=60_000), 5),
        (DeleteTopicsRequest(topic_names=names, timeout_ms=60_000), 5),
    )
    with Healthy(broker), Wire(broker.port, timeout_s=90) as wire:
        for request, version in requests:
            answer = wire.call(request, version)
            results = answer.topics if isinstance(request, CreateTopicsRequest) else answer.responses
            assert {result.error_code for result in results} == {0}
        wait_for(
            lambda: folders_in_use(broker) == {"healthy", "__consumer_offsets"}, 60, "the deleted folders"
        )


def folders_in_use(broker: BrokerProcess) -> set[str]:
    """The topics that have any."""
    folders = [path.name for path in broker.data.iterdir() if path.is_dir()]
    return {name.rpartition("-")[0] for name in folders if not name.endswith("-delete")}


@pytest.mark.parametrize(("kind", "readers", "budget_mib"), [("fetch", 300, 256), ("metadata", 120, 64)])
def test_readers_that_never_read_are_closed_and_their_memory_comes_back(
    start_broker: StartBroker, kind: str, readers: int, budget_mib: int
) -> None:
    broker = start_broker({"ottla.unsent.max.bytes": str(budget_mib * MEBIBYTE)}, log_level=DEFAULT_LEVEL)
    broker.create_topic("large", config={"max.message.bytes": str(3 * MEBIBYTE)})
    with Wire(broker.port) as wire:
        for _ in range(4):
            assert wire.produce("large", bytes(batch(b"x" * 2 * MEBIBYTE))).error_code == 0
    if kind == "fetch":
        frame = frame_of(fetch_request("large", partition_max_bytes=100 * MEBIBYTE), 11)
    else:
        names = [MetadataRequestTopic(name=f"{at:0240}") for at in range(8_000)]
        frame = frame_of(MetadataRequest(topics=names, allow_auto_topic_creation=False), 9)
    before = broker.rss_bytes()
    with Healthy(broker) as healthy, Peak(broker) as peak, contextlib.ExitStack() as stack:
        for _ in range(readers):
            wire = stack.enter_context(Wire(broker.port))
            with contextlib.suppress(Closed, ConnectionError):
                wire.send_bytes(frame)
                wire.wait_for_answer()  # requests that wait, all together, have a budget of their own
                wire.send_bytes(frame)
        wait_for(lambda: "ottla.unsent.max.bytes" in broker.log, 60, "the slowest readers to be closed")
        rounds = len(healthy.seconds)
        wait_for(lambda: len(healthy.seconds) > rounds + 20, 60, "the healthy client to go on")
    assert peak.rss_bytes < 1024 * MEBIBYTE, f"{peak.rss_bytes >> 20} MiB"
    wait_for(lambda: broker.rss_bytes() - before < 150 * MEBIBYTE, 60, "the memory to come back")


def test_a_thousand_closings_are_a_line_a_second_at_the_default_log_level(start_broker: StartBroker) -> None:
    """Each is there, or counted in a later line."""
    broker = start_broker(log_level=DEFAULT_LEVEL)
    member = MemberIdentity(member_id="", group_instance_id=None)
    frame = frame_of(LeaveGroupRequest(group_id="g", members=[member] * 20_001), 4)
    began = time.monotonic()
    for _ in range(CLOSINGS):
        with Wire(broker.port) as wire, contextlib.suppress(Closed):
            wire.send_bytes(frame)
            assert outcome(wire) == "closed"

    def lines() -> list[str]:
        return [line for line in broker.log.splitlines() if " closed: " in line]

    def closings() -> int:
        left_out = re.findall(r"(\d+) more since the last such line", broker.log)
        return sum("20001 items" in line for line in lines()) + sum(map(int, left_out))

    wait_for(lambda: closings() == CLOSINGS, 30, "all of them to be counted")
    assert len(lines()) <= time.monotonic() - began + 1
    assert " WARNING " in lines()[0]
