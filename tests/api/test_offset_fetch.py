"""OffsetFetch, in all its shapes."""

from typing import Any

import pytest
from tests.api.asking import create
from tests.api.groups import broker, flush_every_commit, lead_offsets, stable, versions
from tests.support.groups import G, committing, consuming, fetching

from ottla.base.errors import ErrorCode
from ottla.broker.effects import SyncLog
from ottla.coordinator.runtime import TICK_RECORDS
from ottla.wire.messages.delete_topics import DeleteTopicsRequest
from ottla.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)

Row = tuple[int, int, str | None, int]


def rows(topic: Any) -> list[Row]:
    return [
        (one.partition_index, one.committed_offset, one.metadata, one.error_code) for one in topic.partitions
    ]


def only(answer: Any, version: int) -> Any:
    """The one group of an answer, in either shape."""
    return answer.groups[0] if version >= 8 else answer


@pytest.mark.parametrize("version", versions(9))
def test_what_was_committed_is_answered_in_every_version(version: int) -> None:
    _, client, topic_id = broker()
    client.send(committing(5, metadata="note"), 6)
    request = fetching(0, 1, topic=topic_id if version >= 10 else "t", version=version)
    group = only(client.send(request, version), version)
    assert group.error_code == ErrorCode.NONE
    (topic,) = group.topics
    assert (topic.topic_id == topic_id) if version >= 10 else (topic.name == "t")
    assert rows(topic) == [(0, 5, "note", 0), (1, -1, "", 0)]
    assert [one.committed_leader_epoch for one in topic.partitions] == ([4, -1] if version >= 5 else [-1, -1])


@pytest.mark.parametrize("version", [one for one in versions(9) if one >= 2])
def test_no_list_of_topics_asks_for_everything(version: int) -> None:
    _, client, topic_id = broker()
    create(client, "a", partitions=1)
    client.send(committing(5, partitions=(1, 0)), 9)
    client.send(committing(7, topic="a"), 9)
    group = only(client.send(fetching(version=version, everything=True), version), version)
    assert [rows(topic) for topic in group.topics] == [[(0, 7, "", 0)], [(0, 5, "", 0), (1, 5, "", 0)]]
    assert group.topics[1].topic_id == topic_id if version >= 10 else group.topics[1].name == "t"


@pytest.mark.parametrize("version", versions(9))
def test_a_group_nobody_knows_has_no_offsets_and_no_error(version: int) -> None:
    _, client, topic_id = broker()
    request = fetching(0, group="none", topic=topic_id if version >= 10 else "t", version=version)
    group = only(client.send(request, version), version)
    assert group.error_code == ErrorCode.NONE
    assert rows(group.topics[0]) == [(0, -1, "", 0)]
    if version >= 2:
        everything = fetching(group="none", version=version, everything=True)
        assert only(client.send(everything, version), version).topics == []


def test_an_unknown_topic_has_no_offsets_but_an_unknown_id_is_an_error() -> None:
    _, client, topic_id = broker()
    assert rows(client.send(fetching(0, 9, topic="none"), 5).topics[0]) == [(0, -1, "", 0), (9, -1, "", 0)]
    group = client.send(fetching(0, topic=b"u" * 16, version=10), 10).groups[0]
    assert (group.error_code, group.topics[0].topic_id) == (0, b"u" * 16)
    assert rows(group.topics[0]) == [(0, -1, "", ErrorCode.UNKNOWN_TOPIC_ID)]
    assert topic_id


def test_several_groups_are_asked_for_at_once_each_with_its_own_error() -> None:
    _, client, _ = broker()
    for number, group in enumerate(("a", "b"), 1):
        client.send(committing(number, group=group), 9)
    client.send(consuming("m", 0, group="c"))
    t = [OffsetFetchRequestTopics(name="t", partition_indexes=[0])]
    asked = [
        OffsetFetchRequestGroup(group_id="b", topics=t),
        OffsetFetchRequestGroup(group_id="", topics=t),
        OffsetFetchRequestGroup(group_id="c", member_id="x", member_epoch=1, topics=t),
        OffsetFetchRequestGroup(group_id="a", topics=None),
    ]
    found = client.send(OffsetFetchRequest(groups=asked), 9).groups
    assert [(one.group_id, one.error_code) for one in found] == [
        ("b", ErrorCode.NONE),
        ("", ErrorCode.INVALID_GROUP_ID),
        ("c", ErrorCode.UNKNOWN_MEMBER_ID),
        ("a", ErrorCode.NONE),
    ]
    assert rows(found[0].topics[0]) == [(0, 2, "", 0)]
    assert rows(found[3].topics[0]) == [(0, 1, "", 0)]


def test_a_member_of_a_consumer_group_asks_in_its_epoch() -> None:
    _, client, _ = broker()
    client.send(consuming("m", 0))
    for member, epoch, code in (
        ("m", 1, ErrorCode.NONE),
        ("m", 2, ErrorCode.STALE_MEMBER_EPOCH),
        ("x", 1, ErrorCode.UNKNOWN_MEMBER_ID),
        (None, -1, ErrorCode.NONE),
    ):
        request = fetching(version=9, member=member, epoch=epoch)
        assert client.send(request, 9).groups[0].error_code == code


def test_a_classic_group_does_not_ask_who_asks() -> None:
    machine, client, _ = broker()
    stable(machine, client)
    assert client.send(fetching(version=9, member="x", epoch=7), 9).groups[0].error_code == ErrorCode.NONE


@pytest.mark.parametrize("version", versions(9))
def test_a_broker_that_is_not_the_coordinator_says_so_where_the_version_can(version: int) -> None:
    machine, client, _ = broker()
    lead_offsets(machine, leader=2, epoch=1)
    group = only(client.send(fetching(version=version), version), version)
    if version >= 2:
        assert (group.error_code, group.topics) == (ErrorCode.NOT_COORDINATOR, [])
    else:
        assert rows(group.topics[0]) == [(0, -1, "", ErrorCode.NOT_COORDINATOR)]


def test_offsets_of_a_deleted_topic_are_not_among_everything() -> None:
    _, client, _ = broker()
    create(client, "gone")
    client.send(committing(5, topic="gone"), 9)
    client.send(DeleteTopicsRequest(topic_names=["gone"], timeout_ms=1000), 5)
    for version in (5, 10):
        group = only(client.send(fetching(version=version, everything=True), version), version)
        assert group.topics == []


def test_offsets_of_a_deleted_topic_are_forgotten_in_slices_and_never_those_of_the_next_of_its_name() -> None:
    """In the order of the steps: nobody is told at once, and what is committed anew stays."""
    machine, client, _ = broker()
    create(client, "t2", partitions=2)
    groups = [f"g{number}" for number in range(TICK_RECORDS + 100)]
    for group in groups:
        client.send(committing(5, group=group, topic="t2", partitions=(0, 1)), 9)
    end = machine.broker.partitions[machine.broker.coordinators.groups.partition_of("g0")].log.log_end_offset
    client.send(DeleteTopicsRequest(topic_names=["t2"], timeout_ms=1000), 5)
    assert (
        machine.broker.partitions[machine.broker.coordinators.groups.partition_of("g0")].log.log_end_offset
        == end
    )
    create(client, "t2", partitions=2)

    def committed(group: str) -> list[Row]:
        answer = client.send(fetching(0, 1, group=group, version=5, topic="t2"), 5)
        return rows(only(answer, 5).topics[0])

    nothing = [(0, -1, "", 0), (1, -1, "", 0)]
    assert all(committed(group) == nothing for group in groups)
    client.send(committing(7, group="g0", topic="t2"), 9)
    assert committed("g0") == [(0, 7, "", 0), (1, -1, "", 0)]
    for _ in range(20):
        machine.pass_time(50)
    assert committed("g0") == [(0, 7, "", 0), (1, -1, "", 0)]
    assert all(committed(group) == nothing for group in groups[1:])
    machine.restart()
    while machine.broker.coordinators.is_loading:
        machine.pass_time(50)
    client = machine.client()
    assert committed("g0") == [(0, 7, "", 0), (1, -1, "", 0)]
    assert all(committed(group) == nothing for group in groups[1:])


@pytest.mark.parametrize("version", [7, 8, 10])
def test_stable_offsets_are_those_that_are_committed_while_there_are_no_transactions(version: int) -> None:
    _, client, topic_id = broker()
    client.send(committing(5), 9)
    request = fetching(version=version, topic=topic_id if version >= 10 else "t", require_stable=True)
    assert rows(only(client.send(request, version), version).topics[0]) == [(0, 5, "", 0)]


def test_only_what_the_watermark_has_passed_is_answered_also_as_everything() -> None:
    machine, client, _ = broker()
    client.send(committing(5), 9)
    flush_every_commit(machine)
    machine.hold(SyncLog)
    other = machine.client()
    other.ask(committing(6, partitions=(0, 1)), 9)
    everything = fetching(everything=True, version=5)
    assert [rows(topic) for topic in client.send(everything, 5).topics] == [[(0, 5, "", 0)]]
    machine.release()
    assert rows(client.send(everything, 5).topics[0]) == [(0, 6, "", 0), (1, 6, "", 0)]
    assert G
