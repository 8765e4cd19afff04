"""Clients that fill all that a broker sets aside for them at the same time, with the default settings."""

import contextlib
import select
import socket
import struct
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from tests.hostile.healthy import Healthy
from tests.kafka_clients.harness import BrokerProcess, wait_for
from tests.kafka_clients.wire_client import Closed, Wire, frame_of

from ottla.base.errors import ErrorCode
from ottla.records.batch import set_crc
from ottla.records.builder import NewRecord, build_batch
from ottla.wire.messages.describe_groups import DescribeGroupsRequest
from ottla.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from ottla.wire.messages.find_coordinator import FindCoordinatorRequest
from ottla.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from ottla.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from ottla.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData

StartBroker = Callable[..., BrokerProcess]

MEBIBYTE = 1 << 20
MEMORY_BYTES_MAX = 1_000_000_000
JOIN_VERSION = 3  # the last one that makes somebody a member at once
JOINS = 90  # at a time: the answers, of 1 MB each, must not be more than may be unread
PARTITIONS = 8
PRODUCER_ID_AT = 43  # in a batch
PRODUCER_IDS = 208_000  # more than a broker remembers
SESSIONS = 15  # as many of the largest as there is room for
SESSION_PARTITIONS = 10_000


def fill_groups(port: int, stack: contextlib.ExitStack) -> None:
    """Members that say all they may about themselves, each in a group of its own, until some are refused."""
    wires = [stack.enter_context(Wire(port)) for _ in range(JOINS)]
    groups = [f"group-{number}" for number in range(6 * JOINS)]
    wires[0].call(FindCoordinatorRequest(key=groups[0], key_type=0), 2)

    def is_loaded() -> bool:
        described = wires[0].call(DescribeGroupsRequest(groups=groups), 5).groups
        return not any(group.error_code for group in described)

    wait_for(is_loaded, 60, "the coordinator to load its groups")
    protocol = JoinGroupRequestProtocol(name="range", metadata=bytes(1_040_000))
    codes: list[int] = []
    while groups and ErrorCode.GROUP_MAX_SIZE_REACHED not in codes:
        for wire in wires:
            request = JoinGroupRequest(
                group_id=groups.pop(),
                session_timeout_ms=300_000,
                rebalance_timeout_ms=300_000,
                member_id="",
                protocol_type="consumer",
                protocols=[protocol],
            )
            wire.send(request, JOIN_VERSION)
        codes += [wire.receive(JoinGroupRequest, JOIN_VERSION)[1].error_code for wire in wires]
    assert set(codes) == {ErrorCode.NONE, ErrorCode.GROUP_MAX_SIZE_REACHED}
    assert codes.count(ErrorCode.NONE) > 140


def fill_producer_ids(broker: BrokerProcess) -> None:
    record = NewRecord(None, b"v", timestamp=int(time.time() * 1000))
    batch = build_batch([record], producer_id=0, producer_epoch=0, base_sequence=0)

    def batch_of(producer_id: int) -> bytes:
        struct.pack_into(">q", batch, PRODUCER_ID_AT, producer_id)
        set_crc(batch)
        return bytes(batch)

    def request(first: int) -> ProduceRequest:
        parts = [PartitionProduceData(index=at, records=batch_of(first + at)) for at in range(PARTITIONS)]
        topic = TopicProduceData(name="flooded", partition_data=parts)
        return ProduceRequest(acks=0, timeout_ms=5000, topic_data=[topic])

    with Wire(broker.port) as wire:
        for first in range(10**6, 10**6 + PRODUCER_IDS, PARTITIONS):
            wire.send_bytes(frame_of(request(first), 9))
        wait_for(lambda: "ottla.producer.ids.max" in broker.log, 60, "all producer ids")


def fill_sessions(port: int) -> None:
    for session in range(SESSIONS + 1):
        topics = [
            FetchTopic(
                topic=f"{session}-{at:0240}",
                partitions=[FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1)],
            )
            for at in range(SESSION_PARTITIONS)
        ]
        request = FetchRequest(
            max_wait_ms=0, min_bytes=0, max_bytes=1, session_id=0, session_epoch=0, topics=topics
        )
        with Wire(port) as wire:
            is_granted = bool(wire.call(request, 11).session_id)
        assert is_granted == (session < SESSIONS)


def ask_and_never_read(port: int, stack: contextlib.ExitStack, readers: int) -> None:
    """Metadata of unknown topics, 2 MB there and 2 MB back; until all are answered or closed."""
    names = [MetadataRequestTopic(name=f"{at:0249}") for at in range(8_000)]
    frame = frame_of(MetadataRequest(topics=names, allow_auto_topic_creation=False), 8)
    poll = select.poll()
    for _ in range(readers):
        wire = stack.enter_context(Wire(port))
        wire.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)  # what is unread is the broker's
        poll.register(wire.socket, select.POLLIN)
        with contextlib.suppress(Closed, ConnectionError, TimeoutError):
            wire.send_bytes(frame)
            wire.socket.settimeout(0.05)  # a second one, as far as the broker takes it
            wire.send_bytes(frame)
    wait_for(lambda: len(poll.poll(0)) == readers, 60, "the readers to be answered or closed")


def send_all_but_the_end(broker: BrokerProcess, stack: contextlib.ExitStack, frames: int) -> None:
    """So many, and more until the log has it: of all that it closes within a second it names one."""

    def send() -> None:
        wire = stack.enter_context(Wire(broker.port))
        with contextlib.suppress(Closed, ConnectionError):
            wire.send_bytes(struct.pack(">i", 13 * MEBIBYTE) + bytes(12 * MEBIBYTE))

    for _ in range(frames):
        send()
    wait_for(lambda: "queued.max.request.bytes" in broker.log or send(), 30, "requests over the budget")


def test_with_every_budget_full_at_once_the_broker_stays_under_1_gb_and_serves_the_others(
    start_broker: StartBroker,
) -> None:
    broker = start_broker()
    broker.create_topic("healthy")
    broker.create_topic("flooded", PARTITIONS)
    with Healthy(broker), contextlib.ExitStack() as stack:
        with ThreadPoolExecutor(1) as pool:
            groups = pool.submit(fill_groups, broker.port, stack)
            fill_producer_ids(broker)
            fill_sessions(broker.port)
            groups.result()
        remembered = broker.rss_bytes()
        ask_and_never_read(broker.port, stack, 120)
        send_all_but_the_end(broker, stack, 24)
        ask_and_never_read(broker.port, stack, 60)
        peak = broker.peak_rss_bytes()
        assert peak < MEMORY_BYTES_MAX, f"{peak / 1e6:.0f} MB"
    for key in ("ottla.producer.ids.max", "ottla.unsent.max.bytes", "queued.max.request.bytes"):
        assert key in broker.log, "it was not full"
    wait_for(lambda: broker.rss_bytes() < remembered + 40 * MEBIBYTE, 60, "what connections held")
    assert broker.stop() == 0
    broker.start()
    with Healthy(broker):
        assert broker.rss_bytes() < MEMORY_BYTES_MAX
