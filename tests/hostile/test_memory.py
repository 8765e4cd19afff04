"""Clients that have a broker remember things: members of groups, committed offsets, producer ids."""

import contextlib
import time
from collections import Counter
from collections.abc import Callable

from tests.hostile.healthy import Healthy
from tests.kafka_clients.harness import BrokerProcess, wait_for
from tests.kafka_clients.wire_client import Wire, frame_of, produce_request

from ottla.base.errors import ErrorCode
from ottla.log.producers import PRODUCERS_MAX
from ottla.records.builder import NewRecord, build_batch
from ottla.wire.messages.find_coordinator import FindCoordinatorRequest
from ottla.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from ottla.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from ottla.wire.messages.produce import ProduceRequest

StartBroker = Callable[..., BrokerProcess]

MEBIBYTE = 1 << 20
JOIN_VERSION = 3  # the last one that makes somebody a member at once
PRODUCER_IDS = 52_000  # more than a partition remembers


def joining(group: str, size: int) -> JoinGroupRequest:
    return JoinGroupRequest(
        group_id=group,
        session_timeout_ms=30_000,
        rebalance_timeout_ms=60_000,
        member_id="",
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=bytes(size))],
    )


def test_large_members_are_refused_and_what_the_others_hold_is_given_back(start_broker: StartBroker) -> None:
    settings = {"group.initial.rebalance.delay.ms": "0", "ottla.groups.max.bytes": str(64 * MEBIBYTE)}
    broker = start_broker(settings)
    broker.create_topic("healthy")
    with Healthy(broker), Wire(broker.port) as wire:
        wire.call(FindCoordinatorRequest(key="g", key_type=0), 2)
        wait_for(lambda: wire.call(joining("small", 10), JOIN_VERSION).error_code == ErrorCode.NONE)
        before = broker.rss_bytes()
        for _ in range(20):
            answer = wire.call(joining("g", 15 * MEBIBYTE), JOIN_VERSION)
            assert answer.error_code == ErrorCode.INVALID_REQUEST
        members: dict[str, str] = {}
        for number in range(100):
            answer = wire.call(joining(f"g{number}", MEBIBYTE - 1000), JOIN_VERSION)
            if answer.error_code == ErrorCode.GROUP_MAX_SIZE_REACHED:
                break
            assert answer.error_code == ErrorCode.NONE
            members[f"g{number}"] = answer.member_id
        assert 50 < len(members) < 65
        assert broker.rss_bytes() - before < 130 * MEBIBYTE
        for group, member in members.items():
            leaving = LeaveGroupRequest(group_id=group, members=[MemberIdentity(member_id=member)])
            assert wire.call(leaving, 4).error_code == ErrorCode.NONE
        wait_for(lambda: broker.rss_bytes() - before < 60 * MEBIBYTE, 30, "the memory to come back")
        assert wire.call(joining("g", MEBIBYTE - 1000), JOIN_VERSION).error_code == ErrorCode.NONE
    assert broker.stop() == 0
    broker.start()


def test_made_up_producer_ids_are_bounded_and_honest_producers_stay_idempotent(
    start_broker: StartBroker,
) -> None:
    broker = start_broker({})
    broker.create_topic("healthy")
    broker.create_topic("flooded")
    with Healthy(broker), contextlib.ExitStack() as stack:
        wire, faithful = (stack.enter_context(Wire(broker.port)) for _ in range(2))
        now_ms = int(time.time() * 1000)

        def batch(producer_id: int, sequence: int) -> bytes:
            record = NewRecord(None, b"v", timestamp=now_ms)
            batch = build_batch([record], producer_id=producer_id, producer_epoch=0, base_sequence=sequence)
            return bytes(batch)

        before = broker.rss_bytes()
        quiet = faithful.produce("flooded", batch(6, 0))
        sent, codes = 0, Counter[int]()
        for first in range(0, PRODUCER_IDS, 100):
            answer = faithful.produce("flooded", batch(7, sent))
            assert answer.error_code == ErrorCode.NONE
            sent += 1
            for number in range(first, first + 100):
                request = produce_request("flooded", batch(1_000_000 + number, 0), acks=1)
                wire.send_bytes(frame_of(request, 9))
            for _ in range(100):
                _, refused = wire.receive(ProduceRequest, 9)
                codes[refused.responses[0].partition_responses[0].error_code] += 1
        assert codes[ErrorCode.NONE] == PRODUCERS_MAX - 2
        assert codes[ErrorCode.THROTTLING_QUOTA_EXCEEDED] == PRODUCER_IDS - codes[ErrorCode.NONE]
        assert broker.rss_bytes() - before < 40 * MEBIBYTE
        for first_answer, resent in ((answer, batch(7, sent - 1)), (quiet, batch(6, 0))):
            again = faithful.produce("flooded", resent)
            assert (again.error_code, again.base_offset) == (ErrorCode.NONE, first_answer.base_offset)
    broker.kill()
    broker.start()
    assert broker.stop() == 0
