"""The states of a classic group. Everything that depends on a group's state is in the table below.

**Empty**: nobody is in it. It may still have committed offsets, and is forgotten when it has none. It is
also the state of a group that only ever commits offsets (a "simple" group: no protocol type). The first to
join starts the initial rebalance, which waits a while for others.

**PreparingRebalance**: the members of the old generation are to join again. Who joins waits until all have,
or until the time to rebalance is up; then those who have not are removed (a static one is not, it may be
restarting), and a new generation begins. Members may still commit what they read in the old generation.

**CompletingRebalance**: the generation has begun, and its leader, who got everybody's metadata in the
answer to its join, works out the assignment. Members who ask for theirs (SyncGroup) wait until the leader
has given it. A commit is refused: its owner is no longer known. Who joins again as it was has missed an
answer, and gets it again; anything else starts over.

**Stable**: the assignment is stored, and everybody may have theirs. A leader who joins again wants a new
assignment, so this is a rebalance even if nothing about it has changed; a follower's is one only if its
metadata has. A static member that comes back under a new member id takes the old one's place without a
rebalance (KIP-345), unless that would change the protocol the members have agreed on.

**Dead**: deleted, or in other hands. No way leads out; whoever still asks is to look for the coordinator
again.

A request is checked first, in this order: is the group dead, is the member the one it says it is, is its
generation the group's. Only then is a cell of the table consulted.
"""

from enum import Enum
from typing import Final, NamedTuple

from ottla.base.errors import ErrorCode


class GroupState(Enum):
    """Named as DescribeGroups and ListGroups show it."""

    EMPTY = "Empty"
    PREPARING = "PreparingRebalance"
    COMPLETING = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


class Act(Enum):
    """What a request gets, if not an error."""

    ANSWER = "an answer at once, from what the current generation is"
    WAIT = "an answer when the state it is in is over"
    REBALANCE = "a rebalance, and then an answer when the next generation begins"


Cell = Act | ErrorCode


class Rules(NamedTuple):
    goes_to: frozenset[GroupState]
    joins: Cell  # somebody who was not a member
    rejoins: Cell  # a follower whose metadata are what they were
    leader_rejoins: Cell  # the leader, likewise
    changes: Cell  # a member joins again with other metadata
    returns: Cell  # a static member joins again under a new member id
    is_gone: Cell  # a member has left, or its session has lapsed
    syncs: Cell
    heartbeats: Cell
    commits: Cell


def _to(*states: GroupState) -> frozenset[GroupState]:
    return frozenset((*states, GroupState.DEAD))


_UNKNOWN: Final = ErrorCode.UNKNOWN_MEMBER_ID
_AGAIN: Final = ErrorCode.REBALANCE_IN_PROGRESS
_GONE: Final = ErrorCode.COORDINATOR_NOT_AVAILABLE

STATES: Final[dict[GroupState, Rules]] = {
    GroupState.EMPTY: Rules(
        goes_to=_to(GroupState.PREPARING),
        joins=Act.REBALANCE,
        rejoins=_UNKNOWN,
        leader_rejoins=_UNKNOWN,
        changes=_UNKNOWN,
        returns=_UNKNOWN,
        is_gone=_UNKNOWN,
        syncs=_UNKNOWN,
        heartbeats=_UNKNOWN,
        commits=_UNKNOWN,
    ),
    GroupState.PREPARING: Rules(
        goes_to=_to(GroupState.COMPLETING, GroupState.EMPTY),
        joins=Act.WAIT,
        rejoins=Act.WAIT,
        leader_rejoins=Act.WAIT,
        changes=Act.WAIT,
        returns=Act.WAIT,
        is_gone=Act.WAIT,
        syncs=_AGAIN,
        heartbeats=_AGAIN,
        commits=Act.ANSWER,
    ),
    GroupState.COMPLETING: Rules(
        goes_to=_to(GroupState.PREPARING, GroupState.STABLE),
        joins=Act.REBALANCE,
        rejoins=Act.ANSWER,
        leader_rejoins=Act.ANSWER,
        changes=Act.REBALANCE,
        returns=Act.REBALANCE,
        is_gone=Act.REBALANCE,
        syncs=Act.WAIT,
        heartbeats=Act.ANSWER,
        commits=_AGAIN,
    ),
    GroupState.STABLE: Rules(
        goes_to=_to(GroupState.PREPARING),
        joins=Act.REBALANCE,
        rejoins=Act.ANSWER,
        leader_rejoins=Act.REBALANCE,
        changes=Act.REBALANCE,
        returns=Act.ANSWER,
        is_gone=Act.REBALANCE,
        syncs=Act.ANSWER,
        heartbeats=Act.ANSWER,
        commits=Act.ANSWER,
    ),
    GroupState.DEAD: Rules(_to(), _GONE, _GONE, _GONE, _GONE, _GONE, _GONE, _GONE, _GONE, _GONE),
}


def check_step(now: GroupState, to: GroupState) -> None:
    """A step that the table does not have is a bug of ours, never an answer."""
    assert to in STATES[now].goes_to, f"a group does not go from {now.value} to {to.value}"
