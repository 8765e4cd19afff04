"""Who leads a partition, who is in sync, and who may lead later: pure functions of a partition's state and of
the brokers that are there. Design note 003 has the reasons; everything that chooses a leader is in this file.

Incarnations. Every member of the ISR and the ELR is recorded with the broker epoch in which it was found to
hold all that is committed. Its broker may have another epoch now; then it has registered again since:

    the same epoch                       it holds what it held
    another, and whole since that epoch  it stopped cleanly, or never stopped: it holds what it held
    another, and not whole               its log may end earlier, or be gone: it holds nothing, until it has
                                         fetched from a leader (KIP-903)

Who may lead. Only a broker that is there: registered, and the replica's directory is not offline. In the
order of the assignment; one that is about to stop only if nobody else is left under the same rule.

    rule            who
    ISR             a member of the ISR that holds what it held
    ELR             a member of the ELR that holds what it held (KIP-966)
    ALL_RESTARTED   all of ISR and ELR are there, and none holds what it held: the last leader if it is one
                    of them, else the first. While one is missing, it may hold more than those who are there,
                    and the partition waits
    UNCLEAN         where the topic or an operator allows it: any replica, members of ISR and ELR first

What is written with a leader. The ISR keeps the members that are there and hold what they held, without those
about to stop (unless the leader itself is). The ELR takes whoever leaves an ISR that is smaller than
min(min.insync.replicas, replicas) without them, and is empty as soon as the ISR is large enough: so long as
the ISR is too small the high watermark does not move, and they hold all that is committed. An unclean leader
empties the ELR: what the others hold is no longer the partition's.

What is written without a leader. ISR and ELR stay as they were, because rule ALL_RESTARTED asks for all of
them; whoever was seen to have lost its log is marked (`LOST`), so that a clean restart later does not hide
it.

Epochs. The leader epoch grows by one when the leader changes, also to nobody, and when the leader is another
incarnation of the same broker. The partition epoch grows with every change of the state.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum

from ottla.controller.image import BrokerEndpoint
from ottla.controller.znodes import NO_LEADER, State

LOST = -1  # recorded in place of an epoch: this member is known to have lost what it held


class Rule(Enum):
    ISR = "in sync"
    ELR = "eligible"
    ALL_RESTARTED = "all replicas that held everything restarted uncleanly"
    UNCLEAN = "unclean"


@dataclass(frozen=True, slots=True)
class Around:
    """What an election looks at besides the state."""

    replicas: tuple[int, ...]
    there: Mapping[int, BrokerEndpoint]  # of the replicas, those that could serve
    isr_min: int  # min(min.insync.replicas, replicas)
    allows_unclean: bool = False

    def first(self, candidates: Iterable[int]) -> int | None:
        """The first of those who are there, by the order of the assignment; those about to stop come last."""
        wanted = set(candidates)
        order = [broker for broker in self.replicas if broker in wanted and broker in self.there]
        return min(
            order, key=lambda broker: (self.there[broker].is_stopping, order.index(broker)), default=None
        )

    def holds(self, member: int, recorded_epoch: int) -> bool:
        """Is it there, and has it kept what it held in that epoch?"""
        broker = self.there.get(member)
        if broker is None or recorded_epoch == LOST:
            return False
        return recorded_epoch == broker.epoch or broker.clean_since <= recorded_epoch < broker.epoch


def in_sync(state: State) -> dict[int, int]:
    """The ISR, each member with its recorded epoch."""
    return _recorded(state.isr, state.isr_epochs)


def eligible(state: State) -> dict[int, int]:
    """The ELR, likewise."""
    return _recorded(state.elr, state.elr_epochs)


def _recorded(members: tuple[int, ...], epochs: tuple[int, ...]) -> dict[int, int]:
    """States of a single broker's keeper need not name epochs: there they are all 0."""
    return dict(zip(members, epochs + (0,) * (len(members) - len(epochs)), strict=False))


def elect(state: State, around: Around) -> tuple[int, Rule] | None:
    """The leader the rules give, or None: the partition waits."""
    isr, elr = in_sync(state), eligible(state)
    for rule, members in ((Rule.ISR, isr), (Rule.ELR, elr)):
        leader = around.first(broker for broker, epoch in members.items() if around.holds(broker, epoch))
        if leader is not None:
            return leader, rule
    everyone = [broker for broker in around.replicas if broker in isr or broker in elr]
    if everyone and all(broker in around.there for broker in everyone):
        last = state.last_leader if state.leader == NO_LEADER else state.leader
        leader = last if last in everyone else around.first(everyone)
        return (leader, Rule.ALL_RESTARTED) if leader is not None else None
    if around.allows_unclean:
        leader = around.first(everyone)
        if leader is None:
            leader = around.first(around.replicas)
        if leader is not None:
            return leader, Rule.UNCLEAN
    return None


def repaired(state: State, around: Around) -> tuple[State, Rule | None]:
    """The state as it should be, given who is there, and the rule if somebody was elected; the same state if
    nothing is wrong with it."""
    if leads_on(state, around):
        return led_by(state, around, state.leader), None
    elected = elect(state, around)
    if elected is None:
        return leaderless(state, around), None
    leader, rule = elected
    return led_by(state, around, leader, rule), rule


def leads_on(state: State, around: Around) -> bool:
    """Is the leader there, the same incarnation, and not about to stop while another could lead?"""
    isr, leader = in_sync(state), around.there.get(state.leader)
    if leader is None or isr.get(state.leader) != leader.epoch or state.leader not in around.replicas:
        return False
    return not leader.is_stopping or successor(state, around) is None


def successor(state: State, around: Around) -> int | None:
    """Who would lead if the leader stops: an in-sync replica that stays."""
    leader = around.first(
        broker
        for broker, epoch in in_sync(state).items()
        if broker != state.leader and around.holds(broker, epoch)
    )
    return None if leader is None or around.there[leader].is_stopping else leader


def led_by(state: State, around: Around, leader: int, rule: Rule = Rule.ISR) -> State:
    """The state with this leader, who must be there."""
    isr_before, elr_before, there = in_sync(state), eligible(state), around.there
    is_new = leader != state.leader or isr_before.get(leader) != there[leader].epoch
    isr = {
        broker: there[broker].epoch
        for broker, epoch in isr_before.items()
        if broker in around.replicas
        and around.holds(broker, epoch)
        and (not there[broker].is_stopping or there[leader].is_stopping)
    }
    if leader not in isr:
        isr = {leader: there[leader].epoch, **isr}
    held = {} if rule is Rule.UNCLEAN else {**elr_before, **isr_before}
    elr = remembered(isr, held, around)
    return changed(
        state,
        leader=leader,
        leader_epoch=state.leader_epoch + is_new,
        isr=isr,
        elr=elr,
        last_leader=NO_LEADER,
    )


def remembered(isr: Mapping[int, int], held: Mapping[int, int], around: Around) -> dict[int, int]:
    """The ELR beside this ISR: of those known to have held everything, who is not in it and may hold it
    still."""
    if len(isr) >= around.isr_min:
        return {}
    elr = {}
    for broker in around.replicas:
        epoch = held.get(broker, LOST)
        if broker in isr or epoch == LOST:
            continue
        if broker not in around.there:
            elr[broker] = epoch
        elif around.holds(broker, epoch):
            elr[broker] = around.there[broker].epoch
    return elr


def leaderless(state: State, around: Around) -> State:
    def marked(members: dict[int, int]) -> dict[int, int]:
        return {
            broker: LOST if broker in around.there and not around.holds(broker, epoch) else epoch
            for broker, epoch in members.items()
        }

    had_leader = state.leader != NO_LEADER
    return changed(
        state,
        leader=NO_LEADER,
        leader_epoch=state.leader_epoch + had_leader,
        isr=marked(in_sync(state)),
        elr=marked(eligible(state)),
        last_leader=state.leader if had_leader else state.last_leader,
    )


def changed(
    state: State,
    *,
    leader: int,
    leader_epoch: int,
    isr: Mapping[int, int],
    elr: Mapping[int, int],
    last_leader: int,
) -> State:
    """The state with this, in the next partition epoch; the same state if this is what it says."""
    if (leader, leader_epoch, last_leader) == (state.leader, state.leader_epoch, state.last_leader) and (
        isr == in_sync(state) and elr == eligible(state)
    ):
        return state
    return State(
        leader, leader_epoch, tuple(isr), state.partition_epoch + 1,
        tuple(isr.values()), tuple(elr), last_leader, tuple(elr.values()),
    )  # fmt: skip
