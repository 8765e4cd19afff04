"""The assignors of the coordinator."""

from collections import Counter
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.group.consumer.assignors import ASSIGNORS, MemberSpec, assign

examples = settings(max_examples=150)


def topic_id(name):
    return name.encode().ljust(16, b".")


A, B, C = map(topic_id, "abc")


def member(*topics, instance=None, **current):
    return MemberSpec(
        frozenset(topics),
        instance_id=instance,
        current={topic_id(name): has for name, has in current.items()},
    )


def loads(assignment):
    return {member: sum(map(len, topics.values())) for member, topics in assignment.items()}


def slots(assignment):
    return [
        (topic, each) for topics in assignment.values() for topic, mine in topics.items() for each in mine
    ]


def kept(members, assignment):
    return sum(
        len(set(mine) & set(members[name].current.get(topic, ())))
        for name, topics in assignment.items()
        for topic, mine in topics.items()
    )


def again(members, assignment):
    return {
        name: MemberSpec(spec.topics, spec.rack, spec.instance_id, assignment[name])
        for name, spec in members.items()
    }


topics = st.sampled_from([A, B, C])
counts = st.dictionaries(topics, st.integers(0, 6), min_size=1)
member_ids = st.text("mnop", min_size=1, max_size=3)


@st.composite
def groups(draw, same_topics=False, size_max=5):
    """A group whose members have anything at all as their current assignment."""
    partitions = draw(counts)
    common = draw(st.frozensets(topics))
    owners = {}
    for slot in ((topic, each) for topic, count in partitions.items() for each in range(count + 1)):
        owners[slot] = draw(st.integers(0, size_max))
    members = {}
    for index, name in enumerate(draw(st.lists(member_ids, max_size=size_max, unique=True))):
        current = {}
        for (topic, each), owner in owners.items():
            if owner == index:
                current.setdefault(topic, set()).add(each)
        subscribed = common if same_topics else draw(st.frozensets(topics))
        members[name] = MemberSpec(subscribed, None, draw(st.none() | member_ids), current)
    return members, partitions


@pytest.mark.parametrize("name", ASSIGNORS)
@settings(max_examples=200)
@given(group=groups())
def test_every_partition_that_somebody_wants_has_one_owner_who_wants_it(name, group):
    members, partitions = group
    found = assign(name, members, partitions)
    assert set(found) == set(members)
    wanted = {topic for spec in members.values() for topic in spec.topics}
    assert Counter(slots(found)) == Counter(
        (topic, each) for topic, count in partitions.items() if topic in wanted for each in range(count)
    )
    for each, mine in found.items():
        assert set(mine) <= members[each].topics
        assert all(partitions and list(partitions) == sorted(partitions) for partitions in mine.values())


@pytest.mark.parametrize("name", ASSIGNORS)
@examples
@given(group=groups())
def test_the_same_group_gets_the_same_assignment_and_keeps_it(name, group):
    members, partitions = group
    found = assign(name, members, partitions)
    reordered = dict(sorted(members.items(), reverse=True))
    assert assign(name, reordered, dict(sorted(partitions.items(), reverse=True))) == found
    assert assign(name, again(members, found), partitions) == found


def valid_now(members, partitions):
    """For every member, how many of its current partitions exist and are subscribed."""
    return {
        name: sum(
            sum(each < partitions.get(topic, 0) for each in has)
            for topic, has in spec.current.items()
            if topic in spec.topics
        )
        for name, spec in members.items()
    }


@settings(max_examples=300)
@given(groups(same_topics=True))
def test_members_with_the_same_topics_differ_by_one_at_most_and_keep_all_they_can(group):
    members, partitions = group
    found = assign("uniform", members, partitions)
    sizes = loads(found).values()
    assert max(sizes, default=0) - min(sizes, default=0) <= 1
    if members:
        share, extra = divmod(sum(sizes), len(members))
        have = sorted(valid_now(members, partitions).values(), reverse=True)
        best = sum(min(has, share + (index < extra)) for index, has in enumerate(have))
        assert kept(members, found) == best


@settings(max_examples=300)
@given(groups(size_max=3).filter(lambda group: sum(group[1].values()) <= 7))
def test_members_with_different_topics_are_balanced_as_well_as_any_assignment_could(group):
    """Against all assignments there are."""
    members, partitions = group
    found = assign("uniform", members, partitions)
    choices = [
        [name for name, spec in members.items() if topic in spec.topics]
        for topic, count in partitions.items()
        for _ in range(count)
    ]
    best = min(
        sum(size * size for size in Counter(owners).values())
        for owners in product(*(choice for choice in choices if choice))
    )
    assert sum(size * size for size in loads(found).values()) == best


def test_a_new_member_gets_its_share_and_nothing_else_moves():
    old = {"m1": member(A, a=[0, 1, 2]), "m2": member(A, a=[3, 4, 5])}
    found = assign("uniform", old | {"m3": member(A)}, {A: 6})
    assert found == {"m1": {A: (0, 1)}, "m2": {A: (3, 4)}, "m3": {A: (2, 5)}}


def test_what_a_member_leaves_behind_is_shared_and_nothing_else_moves():
    left = {"m1": member(A, a=[0, 1]), "m3": member(A, a=[4, 5])}
    assert assign("uniform", left, {A: 6}) == {"m1": {A: (0, 1, 2)}, "m3": {A: (3, 4, 5)}}


def test_the_one_more_that_is_left_over_stays_with_who_has_it():
    members = {"m1": member(A, a=[0]), "m2": member(A, a=[1, 2])}
    assert assign("uniform", members, {A: 3}) == {"m1": {A: (0,)}, "m2": {A: (1, 2)}}


def test_every_topic_is_spread_over_the_members():
    members = {name: member(A, B) for name in ("m1", "m2")}
    assert assign("uniform", members, {A: 2, B: 2}) == {"m1": {A: (0,), B: (0,)}, "m2": {A: (1,), B: (1,)}}


def test_a_partition_that_two_members_have_goes_to_one():
    members = {"m1": member(A, a=[0, 1]), "m2": member(A, a=[0, 1])}
    assert assign("uniform", members, {A: 2}) == {"m1": {A: (0,)}, "m2": {A: (1,)}}


def test_partitions_are_handed_on_along_a_chain_of_members():
    """m1 reads only a and m3 only b: m1's load reaches m3 by way of m2."""
    members = {"m1": member(A, a=[0, 1, 2]), "m2": member(A, B, a=[3], b=[0]), "m3": member(B, b=[1])}
    found = assign("uniform", members, {A: 4, B: 2})
    assert loads(found) == {"m1": 2, "m2": 2, "m3": 2}
    assert kept(members, found) == 4


def test_a_member_that_reads_more_topics_leaves_them_to_those_who_have_no_choice():
    members = {"m1": member(A), "m2": member(A, B)}
    assert loads(assign("uniform", members, {A: 3, B: 3})) == {"m1": 3, "m2": 3}


def test_an_empty_group_gets_nothing():
    for name in ASSIGNORS:
        assert assign(name, {}, {A: 3}) == {}


def test_range_lines_topics_up_and_gives_the_first_members_one_more():
    members = {"m1": member(A, B), "m2": member(A, B), "m3": member(C)}
    assert assign("range", members, {A: 3, B: 3, C: 2}) == {
        "m1": {A: (0, 1), B: (0, 1)},
        "m2": {A: (2,), B: (2,)},
        "m3": {C: (0, 1)},
    }


def test_range_puts_static_members_first_so_that_a_restart_moves_nothing():
    before = {"m1": member(A, instance="i2"), "m2": member(A, instance="i1"), "m0": member(A)}
    assert assign("range", before, {A: 3}) == {"m2": {A: (0,)}, "m1": {A: (1,)}, "m0": {A: (2,)}}
    after = {"m9": member(A, instance="i1"), "m1": member(A, instance="i2"), "m0": member(A)}
    assert assign("range", after, {A: 3}) == {"m9": {A: (0,)}, "m1": {A: (1,)}, "m0": {A: (2,)}}


@examples
@given(groups(same_topics=True))
def test_range_gives_each_topic_in_neighbouring_shares_that_differ_by_one_at_most(group):
    members, partitions = group
    found = assign("range", members, partitions)
    for topic in partitions:
        shares = [mine.get(topic, ()) for mine in found.values()]
        assert max(map(len, shares), default=0) - min(map(len, shares), default=0) <= 1
        assert all(share == tuple(range(share[0], share[-1] + 1)) for share in shares if share)
