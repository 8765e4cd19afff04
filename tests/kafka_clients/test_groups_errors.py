"""Wrong input to a group's coordinator gets Kafka's error codes; sent over a socket, as no client would."""

import itertools
from collections.abc import Iterator
from typing import Any

import pytest
from tests.kafka_clients.harness import BrokerProcess
from tests.kafka_clients.wire_client import Wire
from tests.support.groups import subscription

from ottla.base.errors import ErrorCode
from ottla.group.protocol import Assignment, encode_assignment
from ottla.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from ottla.wire.messages.delete_groups import DeleteGroupsRequest
from ottla.wire.messages.find_coordinator import FindCoordinatorRequest
from ottla.wire.messages.heartbeat import HeartbeatRequest
from ottla.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from ottla.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from ottla.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from ottla.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from ottla.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from ottla.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment

pytest_plugins = ["tests.kafka_clients.groups_fixtures"]

JOIN, SYNC, HEARTBEAT, LEAVE, COMMIT, FETCH, MODERN = 9, 5, 4, 5, 9, 9, 1


class Talk:
    """One connection, and the requests of a group with what is usual filled in."""

    def __init__(self, wire: Wire, group: str, topic: str) -> None:
        self.wire, self.group, self.topic = wire, group, topic

    def join(self, member: str = "", version: int = JOIN, **other: Any) -> JoinGroupResponse:
        wanted: dict[str, Any] = {
            "group_id": self.group,
            "session_timeout_ms": 30_000,
            "rebalance_timeout_ms": 30_000,
            "member_id": member,
            "protocol_type": "consumer",
            "protocols": [self.protocol("range")],
        }
        answer: JoinGroupResponse = self.wire.call(JoinGroupRequest(**wanted | other), version)
        return answer

    def protocol(self, name: str) -> JoinGroupRequestProtocol:
        metadata = subscription(self.topic)
        return JoinGroupRequestProtocol(name=name, metadata=metadata)

    def become_member(self, instance: str | None = None) -> JoinGroupResponse:
        """The only member, and so the leader, of a stable group."""
        joined = self.join(group_instance_id=instance)
        if joined.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            joined = self.join(joined.member_id)
        assert joined.error_code == ErrorCode.NONE
        assert self.sync(joined.member_id, joined.generation_id, instance) == ErrorCode.NONE
        return joined

    def sync(self, member: str, generation: int, instance: str | None = None, **other: Any) -> int:
        assignment = SyncGroupRequestAssignment(member_id=member, assignment=encode_assignment(Assignment()))
        wanted: dict[str, Any] = {
            "group_id": self.group,
            "generation_id": generation,
            "member_id": member,
            "group_instance_id": instance,
            "protocol_type": "consumer",
            "protocol_name": "range",
            "assignments": [assignment],
        }
        return int(self.wire.call(SyncGroupRequest(**wanted | other), SYNC).error_code)

    def heartbeat(self, member: str, generation: int, instance: str | None = None) -> int:
        request = HeartbeatRequest(
            group_id=self.group, generation_id=generation, member_id=member, group_instance_id=instance
        )
        return int(self.wire.call(request, HEARTBEAT).error_code)

    def leave(self, member: str, instance: str | None = None) -> int:
        request = LeaveGroupRequest(
            group_id=self.group, members=[MemberIdentity(member_id=member, group_instance_id=instance)]
        )
        answer = self.wire.call(request, LEAVE)
        return int(answer.error_code or answer.members[0].error_code)

    def commit(
        self,
        member: str = "",
        generation: int = -1,
        instance: str | None = None,
        *,
        topics: dict[str, list[int]] | None = None,
        offset: int = 1,
        metadata: str = "",
        version: int = COMMIT,
    ) -> dict[tuple[str, int], int]:
        """The code of each partition."""
        request = OffsetCommitRequest(
            group_id=self.group,
            generation_id_or_member_epoch=generation,
            member_id=member,
            group_instance_id=instance,
            topics=[
                OffsetCommitRequestTopic(
                    name=topic,
                    partitions=[
                        OffsetCommitRequestPartition(
                            partition_index=index, committed_offset=offset, committed_metadata=metadata
                        )
                        for index in partitions
                    ],
                )
                for topic, partitions in (topics or {self.topic: [0]}).items()
            ],
        )
        answer = self.wire.call(request, version)
        return {
            (topic.name, one.partition_index): one.error_code
            for topic in answer.topics
            for one in topic.partitions
        }

    def fetch(self, group: str, member: str | None = None, epoch: int = -1) -> Any:
        asked = OffsetFetchRequestGroup(
            group_id=group,
            member_id=member,
            member_epoch=epoch,
            topics=[OffsetFetchRequestTopics(name=self.topic, partition_indexes=[0])],
        )
        (found,) = self.wire.call(OffsetFetchRequest(groups=[asked]), FETCH).groups
        return found

    def delete(self) -> int:
        (result,) = self.wire.call(DeleteGroupsRequest(groups_names=[self.group]), 2).results
        return int(result.error_code)

    def modern(self, member: str = "m", epoch: int = 0, **other: Any) -> Any:
        """ConsumerGroupHeartbeat; a whole one if it joins."""
        whole: dict[str, Any] = {
            "rebalance_timeout_ms": 30_000,
            "subscribed_topic_names": [self.topic],
            "topic_partitions": [],
        }
        wanted = {
            "group_id": self.group,
            "member_id": member,
            "member_epoch": epoch,
            **(whole if epoch == 0 else {"topic_partitions": None}),
        }
        return self.wire.call(ConsumerGroupHeartbeatRequest(**wanted | other), MODERN)


@pytest.fixture
def talk(groups_broker: BrokerProcess, group: str, topic: str) -> Iterator[Talk]:
    groups_broker.create_topic(topic, 2)
    with Wire(groups_broker.port) as wire:
        wire.call(FindCoordinatorRequest(coordinator_keys=[group]), 4)
        yield Talk(wire, group, topic)


def test_somebody_who_is_not_a_member(talk: Talk) -> None:
    assert talk.join("nobody").error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert talk.heartbeat("nobody", 1) == ErrorCode.UNKNOWN_MEMBER_ID
    assert talk.sync("nobody", 1) == ErrorCode.UNKNOWN_MEMBER_ID
    assert talk.leave("nobody") == ErrorCode.UNKNOWN_MEMBER_ID
    known = talk.become_member()
    assert talk.join("nobody").error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert talk.heartbeat("nobody", known.generation_id) == ErrorCode.UNKNOWN_MEMBER_ID
    assert talk.sync("nobody", known.generation_id) == ErrorCode.UNKNOWN_MEMBER_ID
    assert talk.leave("nobody") == ErrorCode.UNKNOWN_MEMBER_ID
    assert talk.commit("nobody", known.generation_id) == {(talk.topic, 0): ErrorCode.UNKNOWN_MEMBER_ID}
    assert talk.commit() == {(talk.topic, 0): ErrorCode.UNKNOWN_MEMBER_ID}
    assert talk.leave(known.member_id) == ErrorCode.NONE
    assert talk.heartbeat(known.member_id, known.generation_id) == ErrorCode.UNKNOWN_MEMBER_ID


def test_another_generation(talk: Talk) -> None:
    known = talk.become_member()
    for generation in (known.generation_id - 1, known.generation_id + 1):
        assert talk.heartbeat(known.member_id, generation) == ErrorCode.ILLEGAL_GENERATION
        assert talk.sync(known.member_id, generation) == ErrorCode.ILLEGAL_GENERATION
        assert talk.commit(known.member_id, generation) == {(talk.topic, 0): ErrorCode.ILLEGAL_GENERATION}
    assert talk.commit(known.member_id, known.generation_id) == {(talk.topic, 0): ErrorCode.NONE}


def test_a_generation_of_a_group_that_is_not_there(talk: Talk) -> None:
    assert talk.commit("m", 5) == {(talk.topic, 0): ErrorCode.GROUP_ID_NOT_FOUND}
    assert talk.commit("m", 5, version=8) == {(talk.topic, 0): ErrorCode.ILLEGAL_GENERATION}


def test_a_second_member_with_the_same_instance_id_fences_the_first(talk: Talk) -> None:
    first = talk.become_member("i")
    second = talk.join(group_instance_id="i")
    assert second.error_code == ErrorCode.NONE
    assert second.member_id != first.member_id
    generation = second.generation_id
    assert talk.heartbeat(first.member_id, generation, "i") == ErrorCode.FENCED_INSTANCE_ID
    assert talk.sync(first.member_id, generation, "i") == ErrorCode.FENCED_INSTANCE_ID
    assert talk.join(first.member_id, group_instance_id="i").error_code == ErrorCode.FENCED_INSTANCE_ID
    assert talk.commit(first.member_id, generation, "i") == {(talk.topic, 0): ErrorCode.FENCED_INSTANCE_ID}
    assert talk.leave(first.member_id, "i") == ErrorCode.FENCED_INSTANCE_ID
    assert talk.heartbeat(second.member_id, generation, "i") == ErrorCode.NONE


def test_a_protocol_that_the_others_do_not_have(talk: Talk) -> None:
    assert talk.join(protocols=[]).error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert talk.join(protocol_type="").error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    known = talk.become_member()
    other = [talk.protocol("roundrobin")]
    assert talk.join(protocols=other).error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert talk.join(protocol_type="connect").error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    code = talk.sync(known.member_id, known.generation_id, protocol_name="roundrobin")
    assert code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL


@pytest.mark.parametrize("session_ms", [-1, 0, 999, 1_800_001])
def test_a_session_that_is_too_short_or_too_long(talk: Talk, session_ms: int) -> None:
    assert talk.join(session_timeout_ms=session_ms).error_code == ErrorCode.INVALID_SESSION_TIMEOUT


def test_a_new_member_is_asked_to_come_again_with_its_id(talk: Talk) -> None:
    asked = talk.join()
    assert asked.error_code == ErrorCode.MEMBER_ID_REQUIRED
    assert asked.member_id
    assert talk.join(version=3).error_code == ErrorCode.NONE


def test_only_what_cannot_be_committed_is_refused(talk: Talk) -> None:
    codes = talk.commit(topics={talk.topic: [0, 7], "no-such-topic": [0]})
    assert codes == {
        (talk.topic, 0): ErrorCode.NONE,
        (talk.topic, 7): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ("no-such-topic", 0): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
    assert talk.fetch(talk.group).topics[0].partitions[0].committed_offset == 1


def test_metadata_beyond_the_limit(talk: Talk) -> None:
    assert talk.commit(metadata="x" * 100) == {(talk.topic, 0): ErrorCode.NONE}
    too_large = {(talk.topic, 0): ErrorCode.OFFSET_METADATA_TOO_LARGE}
    assert talk.commit(metadata="y" * 101, offset=2) == too_large
    (found,) = talk.fetch(talk.group).topics[0].partitions
    assert (found.committed_offset, found.metadata) == (1, "x" * 100)


def test_a_group_without_a_name(talk: Talk) -> None:
    talk.group = ""
    assert talk.join().error_code == ErrorCode.INVALID_GROUP_ID
    assert talk.sync("m", 1) == ErrorCode.INVALID_GROUP_ID
    assert talk.heartbeat("m", 1) == ErrorCode.INVALID_GROUP_ID
    assert talk.leave("m") == ErrorCode.INVALID_GROUP_ID
    assert talk.modern().error_code == ErrorCode.INVALID_REQUEST


def test_a_group_that_has_members_is_not_deleted(talk: Talk) -> None:
    assert talk.delete() == ErrorCode.GROUP_ID_NOT_FOUND
    known = talk.become_member()
    assert talk.commit(known.member_id, known.generation_id) == {(talk.topic, 0): ErrorCode.NONE}
    assert talk.delete() == ErrorCode.NON_EMPTY_GROUP
    request = OffsetDeleteRequest(
        group_id=talk.group,
        topics=[
            OffsetDeleteRequestTopic(
                name=talk.topic, partitions=[OffsetDeleteRequestPartition(partition_index=0)]
            )
        ],
    )
    (topic,) = talk.wire.call(request, 0).topics
    assert topic.partitions[0].error_code == ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
    assert talk.leave(known.member_id) == ErrorCode.NONE
    assert talk.delete() == ErrorCode.NONE
    assert talk.fetch(talk.group).topics[0].partitions[0].committed_offset == -1


def test_the_offsets_of_a_group_nobody_knows(talk: Talk) -> None:
    found = talk.fetch("never-heard-of")
    (partition,) = found.topics[0].partitions
    assert (found.error_code, partition.error_code, partition.committed_offset) == (0, 0, -1)


def test_a_member_of_the_new_protocol_with_a_wrong_epoch(talk: Talk) -> None:
    assert talk.modern(epoch=3).error_code == ErrorCode.GROUP_ID_NOT_FOUND
    epoch = talk.modern().member_epoch
    assert epoch > 0
    assert talk.modern("nobody", epoch).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert talk.modern("m", epoch + 1).error_code == ErrorCode.FENCED_MEMBER_EPOCH
    assert talk.commit("m", epoch + 1) == {(talk.topic, 0): ErrorCode.STALE_MEMBER_EPOCH}
    assert talk.commit("nobody", epoch) == {(talk.topic, 0): ErrorCode.UNKNOWN_MEMBER_ID}
    assert talk.commit() == {(talk.topic, 0): ErrorCode.UNKNOWN_MEMBER_ID}
    assert talk.commit("m", epoch) == {(talk.topic, 0): ErrorCode.NONE}
    assert talk.fetch(talk.group, "m", epoch + 1).error_code == ErrorCode.STALE_MEMBER_EPOCH
    assert talk.fetch(talk.group, "nobody", epoch).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert talk.fetch(talk.group, "m", epoch).topics[0].partitions[0].committed_offset == 1
    assert talk.delete() == ErrorCode.NON_EMPTY_GROUP
    assert talk.modern("m", -1).error_code == ErrorCode.NONE
    assert talk.commit("m", epoch) == {(talk.topic, 0): ErrorCode.UNKNOWN_MEMBER_ID}
    assert talk.delete() == ErrorCode.NONE


def test_a_static_member_of_the_new_protocol_keeps_its_place(talk: Talk) -> None:
    epoch = talk.modern("one", instance_id="i").member_epoch
    assert talk.modern("two", instance_id="i").error_code == ErrorCode.UNRELEASED_INSTANCE_ID
    assert talk.modern("one", -2, instance_id="i").error_code == ErrorCode.NONE
    assert talk.modern("two", instance_id="i").error_code == ErrorCode.NONE
    assert talk.modern("one", epoch, instance_id="i").error_code == ErrorCode.FENCED_INSTANCE_ID


@pytest.mark.parametrize(
    ("wrong", "code"),
    [
        ({"server_assignor": "no-such"}, ErrorCode.UNSUPPORTED_ASSIGNOR),
        ({"subscribed_topic_regex": "a(b"}, ErrorCode.INVALID_REGULAR_EXPRESSION),
        ({"rebalance_timeout_ms": -1}, ErrorCode.INVALID_REQUEST),
        ({"topic_partitions": None}, ErrorCode.INVALID_REQUEST),
        ({"subscribed_topic_names": None}, ErrorCode.INVALID_REQUEST),
        ({"member_id": ""}, ErrorCode.INVALID_REQUEST),
        ({"member_epoch": -3}, ErrorCode.INVALID_REQUEST),
        ({"member_epoch": -2, "topic_partitions": None}, ErrorCode.INVALID_REQUEST),
        ({"instance_id": ""}, ErrorCode.INVALID_REQUEST),
        ({"rack_id": ""}, ErrorCode.INVALID_REQUEST),
    ],
)
def test_a_heartbeat_of_the_new_protocol_that_makes_no_sense(
    talk: Talk, wrong: dict[str, Any], code: ErrorCode
) -> None:
    assert talk.modern(**wrong).error_code == code


def test_the_group_survives_all_of_this(talk: Talk, groups_broker: BrokerProcess) -> None:
    """Wrong input changes nothing: a member of a group goes on through a volley of it from elsewhere."""
    known = talk.become_member()
    with Wire(groups_broker.port) as wire:
        hostile = Talk(wire, talk.group, talk.topic)
        for member, generation in itertools.product(("nobody", known.member_id, ""), (-5, 0, 99)):
            hostile.heartbeat(member, generation)
            hostile.sync(member, generation)
            hostile.commit(member, generation)
        hostile.modern("m", 7)
        hostile.delete()
    assert talk.heartbeat(known.member_id, known.generation_id) == ErrorCode.NONE
