"""The target assignment of a consumer group: what each member should end up with, and when that changes.

Rule: everything here is a function of who is in the group, what they subscribe to and the topics there are;
the same input gives the same target on every broker, whatever `PYTHONHASHSEED` is.
"""

import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping

from ottla.group.consumer.assignors import MemberSpec, assign
from ottla.group.consumer.member import ConsumerMember
from ottla.group.partitions import Partitions
from ottla.group.topics import Topics


def subscribed_topics(member: ConsumerMember, matched: Mapping[str, frozenset[str]]) -> frozenset[str]:
    """By name and by regular expression; `matched` has the topics of each expression."""
    return member.topic_names | matched.get(member.regex, frozenset()) if member.regex else member.topic_names


def all_topics(members: Iterable[ConsumerMember], matched: Mapping[str, frozenset[str]]) -> frozenset[str]:
    return frozenset().union(*(subscribed_topics(member, matched) for member in members))


def metadata_hash(names: Iterable[str], topics: Topics) -> int:
    """Changes whenever one of the topics comes, goes, is made anew, grows or moves to other racks. It is
    stored with the group epoch, so a restart does not look like a change; 0 if there is no such topic."""
    digest = hashlib.blake2b(digest_size=8)
    is_any = False
    for name in sorted(names):
        topic_id = topics.id_of(name)
        if topic_id is None:
            continue
        is_any = True
        racks = sorted((partition, sorted(racks)) for partition, racks in topics.racks(name).items())
        digest.update(topic_id)
        digest.update(f"{name}\0{topics.partition_count(name)}\0{racks}\n".encode())
    return int.from_bytes(digest.digest(), "big", signed=True) if is_any else 0


def preferred_assignor(members: Iterable[ConsumerMember], configured: tuple[str, ...]) -> str:
    """The one most members ask for; if nobody asks, or among equals, the first configured."""
    votes = Counter(member.assignor for member in members if member.assignor is not None)
    return max(configured, key=lambda name: (votes[name], -configured.index(name)))


def work_out(
    members: Mapping[str, ConsumerMember],
    matched: Mapping[str, frozenset[str]],
    targets: Mapping[str, Partitions],
    topics: Topics,
    assignors: tuple[str, ...],
) -> dict[str, Partitions]:
    """The target of every member, close to the `targets` so far."""
    ids = {
        name: topic_id
        for name in all_topics(members.values(), matched)
        if (topic_id := topics.id_of(name)) is not None
    }
    by_subscription: dict[frozenset[str], frozenset[bytes]] = {}
    specs = {}
    for member_id in sorted(members):
        member = members[member_id]
        names = subscribed_topics(member, matched)
        if names not in by_subscription:
            by_subscription[names] = frozenset(ids[name] for name in names if name in ids)
        specs[member_id] = MemberSpec(
            topics=by_subscription[names],
            rack=member.rack_id,
            instance_id=member.instance_id,
            current=targets.get(member_id, {}),
        )
    counts = {topic_id: topics.partition_count(name) for name, topic_id in sorted(ids.items())}
    assigned = assign(preferred_assignor(members.values(), assignors), specs, counts)
    return {
        member_id: {
            topic_id: frozenset(numbers)
            for topic_id, numbers in assigned.get(member_id, {}).items()
            if numbers
        }
        for member_id in specs
    }
