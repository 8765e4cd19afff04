"""Random lives of a consumer group: joins, leaves, lapses, lost answers, retries, restarts, both protocols.

What has to hold, whatever happens:

- no partition ever has two owners, where a client owns what it was told and has not yet said it gave up,
  until it leaves or its session ends;
- the group epoch, and every member's, only grows;
- a group made by replaying the journal is the live group (the driver looks after every operation);
- once the noise stops, every group becomes stable with every partition of its topics assigned.

Clients keep to the protocol: after a lost answer they say everything again, and one that is fenced stops
reading before it joins again.
"""

import re

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.group.consumer.cluster import Cluster
from tests.support.groups import assigned, subscription

from ottla.base.errors import ApiError, ErrorCode
from ottla.group.config import GroupConfig

TOPICS = ("t", "u", "tu")
SUBSCRIPTIONS = (["t"], ["u"], ["t", "u"], ["tu"], [])
PATTERNS = ("", "t.*", ".*u")


class Client:
    """`holds` is what it reads, `told` what it is to read: it may be slow to give up the difference."""

    def __init__(self, world, number):
        self.world, self.number = world, number
        self.lives = 0
        self.is_in = False
        self.topics, self.regex = ["t"], ""
        self.reset()

    def reset(self):
        self.epoch, self.holds, self.told, self.is_unsure = 0, set(), set(), False

    @property
    def cluster(self):
        return self.world.cluster

    @property
    def member_id(self):
        return f"m{self.number}-{self.lives}"

    def wants(self, names):
        return {name for name in names if name in self.topics or re.fullmatch(self.regex, name)}

    @property
    def extra(self):
        return {"instance_id": f"i{self.number}"} if self.number == 0 else {}

    def join(self):
        if not self.is_in:
            self.lives += 1
            self.reset()
            self.is_in = self.is_unsure = True
        self.beat()

    def listed(self):
        by_name = {}
        for topic, partition in self.holds & self.told:
            by_name.setdefault(topic, []).append(partition)
        return by_name

    def beat(self, is_lost=False):
        """Give up what is not ours any more, say so, and take what we are told."""
        if not self.is_in:
            return
        self.holds &= self.told
        fields = dict(self.extra)
        if self.is_unsure or self.epoch == 0:
            fields |= {"topics": self.topics, "regex": self.regex, "rebalance_timeout_ms": 50_000}
        self.send(self.listed(), fields, is_lost)

    def ping(self):
        """A heartbeat that says nothing, while it is slow to give up partitions."""
        if self.is_in and self.epoch > 0 and not self.is_unsure:
            self.send(None, dict(self.extra), False)

    def send(self, owned, fields, is_lost):
        try:
            reply = self.cluster.beat(self.member_id, self.epoch, owned=owned, **fields)
        except ApiError as error:
            self.refused(error.code)
            return
        if is_lost:
            self.is_unsure = True
            return
        if self.epoch:
            assert reply.member_epoch >= self.epoch
        self.epoch, self.is_unsure = reply.member_epoch, False
        if reply.assignment is not None:
            found = self.cluster.assigned(reply)
            self.told = {(topic, number) for topic, numbers in found.items() for number in numbers if topic}
            self.holds |= self.told

    def refused(self, code):
        """It stops reading. Fenced, it joins again; else it comes back as somebody new."""
        expected = (
            ErrorCode.UNKNOWN_MEMBER_ID,
            ErrorCode.FENCED_MEMBER_EPOCH,
            ErrorCode.FENCED_INSTANCE_ID,
            ErrorCode.UNRELEASED_INSTANCE_ID,
            ErrorCode.GROUP_ID_NOT_FOUND,
        )
        assert code in expected
        self.reset()
        self.is_in = code is ErrorCode.FENCED_MEMBER_EPOCH

    def leave(self, is_for_a_while):
        if not self.is_in or self.epoch == 0:
            return
        epoch = -2 if is_for_a_while and self.extra else -1
        self.holds = set()
        try:
            self.cluster.beat(self.member_id, epoch, owned=None, **self.extra)
        except ApiError as error:
            self.refused(error.code)
        self.reset()
        self.is_in = False

    def subscribe(self, topics, regex):
        if (topics, regex) != (self.topics, self.regex):
            self.topics, self.regex, self.is_unsure = topics, regex, True

    def lapse(self):
        """It is gone without a word; its session ends before anybody else reads what it read."""
        self.is_in = False


class ClassicClient:
    """A client of the old protocol, cooperative or eager, in the same group."""

    def __init__(self, world, is_eager):
        self.world, self.is_eager = world, is_eager
        self.topics = ["t"]
        self.is_in = False
        self.reset()

    def reset(self):
        self.member_id, self.generation, self.has_joined = "", -1, False
        self.holds, self.told = set(), set()

    @property
    def cluster(self):
        return self.world.cluster

    def wants(self, names):
        return set(self.topics) & set(names)

    def join(self):
        """Only into a group that others keep being a consumer group."""
        if not self.is_in and any(member.classic is None for member in self.world.members()):
            self.reset()
            self.is_in = True
        self.beat()

    def beat(self, is_lost=False):
        if not self.is_in or self.cluster.group is None:
            return
        if self.has_joined:
            code = self.cluster.classic_beat(self.member_id, self.generation)
            if code == 0:
                return
            if code != ErrorCode.REBALANCE_IN_PROGRESS:
                self.reset()
                return
        elif not self.world.members():
            self.is_in = False  # a group that is empty would become a classic one
            return
        self.holds = set() if self.is_eager else self.holds & self.told
        owned = {}
        for topic, number in sorted(self.holds):
            owned.setdefault(topic, []).append(number)
        metadata = subscription(*self.topics, owned=owned, version=0 if self.is_eager else 3)
        reply = self.cluster.join(self.member_id, metadata=metadata)
        if reply.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id = reply.member_id
            reply = self.cluster.join(self.member_id, metadata=metadata)
        assert reply.error_code == 0
        self.member_id, self.generation, self.has_joined = reply.member_id, reply.generation_id, True
        if not is_lost:
            self.sync()

    def sync(self):
        reply = self.cluster.sync(self.member_id, self.generation)
        assert reply.error_code in (0, ErrorCode.REBALANCE_IN_PROGRESS)
        if reply.error_code == 0:
            shares = assigned(reply.assignment)
            self.told = {(topic, number) for topic, numbers in shares.items() for number in numbers}
            self.holds |= self.told

    def ping(self):
        if self.has_joined:
            self.beat()

    def leave(self, is_for_a_while):
        if self.is_in and self.has_joined and self.cluster.group is not None:
            self.holds = set()
            self.cluster.leave(self.member_id)
        self.reset()
        self.is_in = False

    def subscribe(self, topics, regex):
        self.topics = topics

    def lapse(self):
        self.is_in = False


class World:
    def __init__(self, kinds):
        # Groups stay consumer groups here: the way down is for dialogues.
        self.cluster = Cluster(GroupConfig(consumer_migration_policy="upgrade"), t=5, u=3)
        self.clients = [Client(self, 0), Client(self, 1)]
        for kind in kinds:
            number = len(self.clients)
            self.clients.append(
                Client(self, number) if kind == "new" else ClassicClient(self, is_eager=kind == "eager")
            )
        self.epoch = 0

    def members(self):
        return [] if self.cluster.group is None else list(self.cluster.group.members.values())

    def forget_the_dead(self):
        """Whose session has ended does not read any more: its client knows the time too."""
        alive = {member.member_id for member in self.members()}
        for client in self.clients:
            if client.member_id not in alive:
                client.holds = set()

    def check(self):
        self.forget_the_dead()
        owners = {}
        for client in self.clients:
            for partition in client.holds:
                assert partition not in owners, f"{partition} has two owners"
                owners[partition] = client
        if self.cluster.group is not None:
            assert self.cluster.group.state.epoch >= self.epoch
            self.epoch = self.cluster.group.state.epoch

    def act(self, what, who, *args):
        if what == "pass":
            self.cluster.advance(args[0])
        elif what == "restart":
            self.cluster.restart()
        elif what == "grow":
            self.cluster.topics.set(args[0], self.cluster.topics.counts.get(args[0], 0) + 1)
        else:
            getattr(self.clients[who], what)(*args)
        self.check()

    def come_to_rest(self):
        for client in self.clients:
            if not client.is_in:
                client.lapse()
        for _ in range(40):
            for client in self.clients:
                client.beat()
                self.check()
            self.cluster.advance(5_000)
            self.check()
        group = self.cluster.group
        if group is None or not any(client.is_in for client in self.clients):
            return
        assert group.state_name == "Stable"
        counts = self.cluster.topics.counts
        wanted = set().union(*(client.wants(counts) for client in self.clients if client.is_in))
        held = set().union(*(client.holds for client in self.clients))
        assert held == {(name, number) for name in wanted for number in range(counts[name])}


anybody = st.integers(0, 3)
actions = st.one_of(
    st.tuples(st.just("join"), anybody),
    st.tuples(st.just("join"), anybody),
    st.tuples(st.just("beat"), anybody, st.booleans()),
    st.tuples(st.just("beat"), anybody),
    st.tuples(st.just("ping"), anybody),
    st.tuples(st.just("ping"), anybody),
    st.tuples(st.just("ping"), anybody),
    st.tuples(st.just("leave"), anybody, st.booleans()),
    st.tuples(st.just("lapse"), anybody),
    st.tuples(st.just("subscribe"), anybody, st.sampled_from(SUBSCRIPTIONS), st.sampled_from(PATTERNS)),
    st.tuples(st.just("pass"), anybody, st.sampled_from([1_000, 6_000, 30_000])),
    st.tuples(st.just("grow"), anybody, st.sampled_from(TOPICS)),
    st.tuples(st.just("restart"), anybody),
)


@settings(max_examples=150)
@given(
    st.lists(st.sampled_from(["new", "eager", "cooperative"]), min_size=2, max_size=2),
    st.permutations(range(4)),
    st.integers(0, 3),
    st.lists(actions, min_size=10, max_size=40),
)
def test_no_partition_has_two_owners_and_every_group_comes_to_rest(kinds, order, rounds, script):
    world = World(kinds)
    for who in order:
        world.act("join", who)
        for _ in range(rounds):
            for other in order:
                world.act("beat", other)
    for action in script:
        world.act(*action)
    world.come_to_rest()


def test_a_group_of_50_over_1000_partitions_takes_one_more_at_once():
    """The time is measured in `bench/`; here only that it is not a matter of seconds."""
    cluster = Cluster(checks=False, t=1000)
    for number in range(50):
        cluster.beat(f"m{number}", 0, topics=["t"])
    start = cluster.journal.end_offset
    reply = cluster.beat("one-more", 0, topics=["t"])
    assert reply.member_epoch == 51
    assert cluster.journal.end_offset - start < 60
