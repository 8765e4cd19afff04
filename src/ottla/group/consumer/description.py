"""A consumer group as ConsumerGroupDescribe (key 69) shows it. Topics that are no more are left out."""

from ottla.group.consumer.member import ConsumerMember
from ottla.group.consumer.state import ConsumerState
from ottla.group.consumer.target import preferred_assignor
from ottla.group.partitions import NOWHERE, Partitions, in_order
from ottla.group.topics import Topics
from ottla.wire.messages import consumer_group_describe as wire

CLASSIC_MEMBER = 0
CONSUMER_MEMBER = 1


def describe(state: ConsumerState) -> wire.DescribedGroup:
    return wire.DescribedGroup(
        group_id=state.group_id,
        group_state=state.state_name,
        group_epoch=state.epoch,
        assignment_epoch=state.target_epoch,
        assignor_name=preferred_assignor(state.members.values(), state.config.consumer_assignors),
        members=[_member(state, member) for member in state.members.values()],
    )


def _member(state: ConsumerState, member: ConsumerMember) -> wire.Member:
    return wire.Member(
        member_id=member.member_id,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        member_epoch=member.epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=sorted(member.topic_names),
        subscribed_topic_regex=member.regex or None,
        assignment=_assignment(member.assigned, state.topics),
        target_assignment=_assignment(state.targets.get(member.member_id, NOWHERE), state.topics),
        member_type=CONSUMER_MEMBER if member.classic is None else CLASSIC_MEMBER,
    )


def _assignment(partitions: Partitions, topics: Topics) -> wire.Assignment:
    return wire.Assignment(
        topic_partitions=[
            wire.TopicPartitions(topic_id=topic_id, topic_name=name, partitions=numbers)
            for topic_id, numbers in in_order(partitions)
            if (name := topics.name_of(topic_id)) is not None
        ]
    )
