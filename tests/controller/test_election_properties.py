"""The controller's rules under random trouble: brokers that die and return, cleanly or not, ISR proposals,
reassignments, directories that fail, configs that change, and a controller that looks only now and then.

The model has logs: a leader appends, followers copy its log, and what all of the ISR hold is committed, as
long as the ISR is large enough and nobody is remembered in the ELR. A crash may cut a log anywhere. Whoever
is elected from ISR or ELR must hold all that is committed.
"""

import random

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.controller.worlds import World

from ottla.base.errors import ApiError
from ottla.controller import reassignment
from ottla.controller.draft import Draft
from ottla.controller.plan import elect_preferred, elect_unclean, is_settled
from ottla.controller.znodes import NO_LEADER, State

BROKERS = 5
STEPS = 80


class Cluster(World):
    def __init__(self, seed: int) -> None:
        super().__init__(BROKERS)
        self.random = random.Random(seed)
        self.logs: dict[int, list[int]] = {one: [] for one in range(1, BROKERS + 1)}
        self.committed: list[int] = []
        self.records = 0
        self.leaders: dict[int, int] = {}
        self.may_lose = False
        replicas = tuple(self.random.sample(range(1, BROKERS + 1), self.random.choice((1, 2, 3, 3))))
        self.topic("t", {0: replicas}, min_insync_replicas=self.random.choice((1, 2, 2, 3)))
        self.last = self.state("t", 0)

    # What happens

    def step(self) -> None:
        self.random.choice(
            (self.die, self.come, self.come, self.write_records, self.write_records, self.catch_up,
             self.catch_up, self.shrink, self.stop_gently, self.reassign, self.cancel, self.prefer,
             self.lose, self.reconfigure, self.look, self.look)
        )()  # fmt: skip
        self.check()

    def die(self) -> None:
        if self.image.brokers:
            broker = self.random.choice(sorted(self.image.brokers))
            if self.random.random() < 0.5:
                self.stop(broker)
            else:
                self.crash(broker)
                self.logs[broker] = self.logs[broker][: self.random.randint(0, len(self.logs[broker]))]

    def come(self) -> None:
        gone = sorted(set(self.logs) - set(self.image.brokers))
        if gone:
            self.start(self.random.choice(gone))

    def leader(self) -> int | None:
        """Who acts as leader: there, and under the epoch that is recorded for it."""
        state = self.state("t", 0)
        known = self.image.brokers.get(state.leader)
        if known is None or dict(zip(state.isr, state.isr_epochs, strict=True))[state.leader] != known.epoch:
            return None
        return state.leader

    def write_records(self) -> None:
        leader = self.leader()
        if leader is not None:
            self.records += 1
            self.logs[leader].append(self.records)

    def catch_up(self) -> None:
        """Some replica copies the leader's log; if it is not in sync, the leader lets it in."""
        leader, state = self.leader(), self.state("t", 0)
        others = [
            one for one in self.image.topics["t"].assignment[0]
            if one != leader and one in self.image.brokers and ("t", 0) not in self.image.offline.get(one, ())
        ]  # fmt: skip
        if leader is None or not others:
            return
        follower = self.random.choice(others)
        self.logs[follower] = list(self.logs[leader])
        if follower not in state.isr:
            self.try_to(lambda: self.propose("t", 0, *state.isr, follower))
        self.commit()

    def commit(self) -> None:
        leader, state = self.leader(), self.state("t", 0)
        isr_min = min(self.config("t").min_insync_replicas, len(self.image.topics["t"].assignment[0]))
        if leader is None or state.elr or len(state.isr) < isr_min:
            return
        for end in range(len(self.logs[leader]), len(self.committed), -1):
            if all(self.logs[one][:end] == self.logs[leader][:end] for one in state.isr):
                self.committed = self.logs[leader][:end]
                return

    def shrink(self) -> None:
        leader, state = self.leader(), self.state("t", 0)
        if leader is not None and len(state.isr) > 1:
            gone = self.random.choice([one for one in state.isr if one != leader])
            self.try_to(lambda: self.propose("t", 0, *(one for one in state.isr if one != gone)))

    def stop_gently(self) -> None:
        if self.image.brokers:
            self.announce_stop(self.random.choice(sorted(self.image.brokers)))

    def reassign(self) -> None:
        count = self.random.choice((1, 2, 3))
        target = self.random.sample(range(1, BROKERS + 1), count)
        self.decide_on(lambda draft: reassignment.begin(draft, 0, target))

    def cancel(self) -> None:
        self.decide_on(lambda draft: reassignment.cancel(draft, 0))

    def prefer(self) -> None:
        self.decide_on(lambda draft: elect_preferred(draft, 0))

    def lose(self) -> None:
        if self.image.brokers:
            broker = self.random.choice(sorted(self.image.brokers))
            self.lose_directory(broker, *([("t", 0)] if self.random.random() < 0.5 else []))

    def reconfigure(self) -> None:
        self.configure("t", min_insync_replicas=self.random.choice((1, 2, 3)))

    def look(self) -> None:
        """A controller, the same or another: it has nothing but the image."""
        self.settle()

    def decide_on(self, decision: object) -> None:
        self.try_to(lambda: self.decide("t", decision))  # type: ignore[arg-type]

    def try_to(self, action: object) -> None:
        try:
            action()  # type: ignore[operator]
        except ApiError:
            self.refused = True

    def decide(self, name: str, *decisions: object) -> Draft:
        draft = super().decide(name, *decisions)  # type: ignore[arg-type]
        # Whoever lets all copies of what is committed crash has lost it, and is told.
        self.may_lose = self.may_lose or any("though all" in alarm.text for alarm in draft.alarms)
        if self.may_lose and self.state("t", 0).leader != NO_LEADER:
            held = self.logs[self.state("t", 0).leader]
            same = next(
                (at for at, (a, b) in enumerate(zip(held, self.committed, strict=False)) if a != b),
                min(len(held), len(self.committed)),
            )
            self.committed, self.may_lose = self.committed[:same], False
        self.check()
        return draft

    # What holds all the time

    def check(self) -> None:
        state, before = self.state("t", 0), self.last
        replicas = self.image.topics["t"].assignment[0]
        assert state.leader_epoch >= before.leader_epoch
        assert state.partition_epoch >= before.partition_epoch
        assert state == before or state.partition_epoch > before.partition_epoch
        assert state.leader == before.leader or state.leader_epoch > before.leader_epoch
        assert set(state.isr) <= set(replicas)
        assert set(state.elr) <= set(replicas)
        assert len(state.isr) == len(state.isr_epochs)
        assert len(state.elr) == len(state.elr_epochs)
        assert not set(state.isr) & set(state.elr)
        assert state.isr or state.elr, "somebody to wait for"
        if state.leader != NO_LEADER:
            assert state.leader in state.isr
            assert self.leaders.setdefault(state.leader_epoch, state.leader) == state.leader
            acting = self.leader()
            if acting is not None:
                assert self.logs[acting][: len(self.committed)] == self.committed, "a leader holds it all"
        self.last = state


@settings(max_examples=200)
@given(st.integers(0, 1 << 32))
def test_no_election_outside_the_rules_and_no_committed_record_lost(seed: int) -> None:
    cluster = Cluster(seed)
    for _ in range(STEPS):
        cluster.step()


@settings(max_examples=60)
@given(st.integers(0, 1 << 32))
def test_everything_settles_once_all_brokers_are_back(seed: int) -> None:
    cluster = Cluster(seed)
    for _ in range(STEPS):
        cluster.step()
    cluster.stop(*sorted(cluster.image.brokers))
    for broker in range(1, BROKERS + 1):
        cluster.start(broker)
        cluster.lose_directory(broker)
    for _ in range(3 * BROKERS):
        cluster.settle()
        cluster.check()
        leader, state = cluster.leader(), cluster.state("t", 0)
        assert leader is not None, "everybody is there: somebody leads"
        for one in cluster.image.topics["t"].assignment[0]:
            cluster.logs[one] = list(cluster.logs[leader])
        cluster.propose("t", 0, *cluster.image.topics["t"].assignment[0])
    topic = cluster.image.topics["t"]
    assert not topic.adding
    assert not topic.removing
    assert is_settled(cluster.image, topic)
    assert set(state.isr) == set(topic.assignment[0])
    assert cluster.settle() == []


def test_an_operator_may_give_up_what_missing_replicas_hold() -> None:
    world = World(3)
    world.topic("t", {0: (1, 2, 3)}, min_insync_replicas=2)
    world.stop(1, 2, 3)
    world.settle()
    world.unclean.add(3)
    world.start(3)
    world.settle()
    assert world.state("t", 0).leader == NO_LEADER
    draft = world.decide("t", lambda draft: elect_unclean(draft, 0))
    assert [*map(str, draft.alarms)] == ["t-0: unclean election of broker 3: what only 1, 2, 3 held is lost"]
    assert world.state("t", 0)[:3] == State(3, 2, (3,))[:3]
