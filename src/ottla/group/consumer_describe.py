"""A consumer group as ConsumerGroupDescribe (key 69) shows it. Topics that are no more are left out."""

from ottla.group.consumer_member import Member, Partitions
from ottla.group.consumer_state import NOWHERE, ConsumerState
from ottla.group.target import preferred_assignor
from ottla.group.topics import Topics
from ottla.wire.messages import consumer_group_describe as wire

CLASSIC_MEMBER = 0
CONSUMER_MEMBER = 1


def describe(group: ConsumerState) -> wire.DescribedGroup:
    return wire.DescribedGroup(
        group_id=group.group_id,
        group_state=group.state_name,
        group_epoch=group.epoch,
        assignment_epoch=group.target_epoch,
        assignor_name=preferred_assignor(group.members.values(), group.config.consumer_assignors),
        members=[_member(group, member) for member in group.members.values()],
    )


def _member(group: ConsumerState, member: Member) -> wire.Member:
    return wire.Member(
        member_id=member.member_id,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        member_epoch=member.epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=sorted(member.topic_names),
        subscribed_topic_regex=member.regex or None,
        assignment=_assignment(member.assigned, group.topics),
        target_assignment=_assignment(group.targets.get(member.member_id, NOWHERE), group.topics),
        member_type=CONSUMER_MEMBER if member.classic is None else CLASSIC_MEMBER,
    )


def _assignment(partitions: Partitions, topics: Topics) -> wire.Assignment:
    return wire.Assignment(
        topic_partitions=[
            wire.TopicPartitions(topic_id=topic_id, topic_name=name, partitions=sorted(numbers))
            for topic_id, numbers in sorted(partitions.items())
            if (name := topics.name_of(topic_id)) is not None
        ]
    )
