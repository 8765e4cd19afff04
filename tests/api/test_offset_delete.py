"""OffsetDelete: not of what a member reads."""

from tests.api.groups import broker, committed, stable
from tests.support.groups import committing, consuming, deleting_offsets, joining

from ottla.base.errors import ErrorCode
from ottla.wire.messages.offset_delete import OffsetDeleteRequestPartition, OffsetDeleteRequestTopic


def test_offsets_go_for_the_partitions_that_are_named() -> None:
    _, client, _ = broker()
    client.send(committing(5, partitions=(0, 1)), 9)
    request = deleting_offsets("t", 1, 9)
    request.topics.append(
        OffsetDeleteRequestTopic(name="none", partitions=[OffsetDeleteRequestPartition(partition_index=0)])
    )
    answer = client.send(request)
    assert answer.error_code == ErrorCode.NONE
    assert [(one.name, [p.partition_index for p in one.partitions]) for one in answer.topics] == [
        ("t", [1, 9]),
        ("none", [0]),
    ]
    assert (committed(client), committed(client, partition=1)) == (5, -1)


def test_offsets_of_a_topic_that_a_member_reads_stay() -> None:
    machine, client, _ = broker()
    member = stable(machine, client)
    client.send(committing(5, member=member, epoch=1), 9)
    client.send(consuming("m", 0, group="consumer"))
    client.send(committing(6, member="m", epoch=1, group="consumer"), 9)
    for group, offset in (("readers", 5), ("consumer", 6)):
        answer = client.send(deleting_offsets("t", 0, group=group))
        assert answer.error_code == ErrorCode.NONE
        assert answer.topics[0].partitions[0].error_code == ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
        assert committed(client, group) == offset


def test_a_live_group_of_something_else_is_not_empty() -> None:
    machine, client, _ = broker()
    pending = client.ask(joining(protocol_type="connect"), 3)
    machine.pass_time(3_000)
    assert pending.answer.error_code == ErrorCode.NONE
    assert client.send(deleting_offsets("t", 0)).error_code == ErrorCode.NON_EMPTY_GROUP
