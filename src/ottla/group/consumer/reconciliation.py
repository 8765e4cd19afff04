"""One member's way from the partitions it has to those it should have (KIP-848).

A member owns what is `assigned` to it and what it has still to give up (`pending`). It is told only what is
assigned; a partition it was told to give up is free when a heartbeat of its own lists what it owns without
it, and not a moment earlier. So no partition ever has two owners.

    state                  what it waits for                       on a heartbeat
    STABLE                 a new target assignment                 a newer target: next()
    UNREVOKED_PARTITIONS   the member to give up `pending`         the member owns none of `pending`: next()
    UNRELEASED_PARTITIONS  another member to give up a partition   next()
    UNKNOWN                (written by a later version)            it owns nothing: next(), else fenced

next(), where kept = assigned and in the target, dropped = assigned and not in the target, wanted = in the
target and not assigned:

    the member still owns something dropped  -> UNREVOKED_PARTITIONS, in its epoch, with kept
    every wanted partition is free           -> STABLE, in the target's epoch, with kept and wanted
    some wanted partition has an owner       -> UNRELEASED_PARTITIONS, in the target's epoch, with kept and
                                                the free part of wanted
"""

from collections.abc import Callable
from dataclasses import replace

from ottla.base.errors import ApiError, ErrorCode
from ottla.group.consumer.member import ConsumerMember, MemberState
from ottla.group.partitions import Partitions


def reconcile(
    member: ConsumerMember,
    target_epoch: int,
    target: Partitions,
    is_free: Callable[[bytes, int], bool],
    owned: Partitions | None,
) -> ConsumerMember:
    """The member after a heartbeat. `owned` is what it said it owns; None: the same as before, so it has not
    given up anything. `is_free` is asked about wanted partitions: no other member owns it."""
    match member.state:
        case MemberState.STABLE if member.epoch == target_epoch:
            return member
        case MemberState.UNREVOKED_PARTITIONS if overlaps(owned, member.pending):
            return member
    none = frozenset[int]()
    assigned: dict[bytes, frozenset[int]] = {}
    dropped: dict[bytes, frozenset[int]] = {}
    granted: dict[bytes, frozenset[int]] = {}
    is_waiting = False
    for topic in sorted(member.assigned.keys() | target.keys()):
        had, wanted = member.assigned.get(topic, none), target.get(topic, none)
        if kept := had & wanted:
            assigned[topic] = kept
        if had - wanted:
            dropped[topic] = had - wanted
        missing = wanted - had
        free = frozenset(partition for partition in missing if is_free(topic, partition))
        is_waiting = is_waiting or free != missing
        if free:
            granted[topic] = free
    if dropped and overlaps(owned, dropped):
        return replace(member, state=MemberState.UNREVOKED_PARTITIONS, assigned=assigned, pending=dropped)
    for topic, partitions in granted.items():
        assigned[topic] = assigned.get(topic, none) | partitions
    return replace(
        member,
        state=MemberState.UNRELEASED_PARTITIONS if is_waiting else MemberState.STABLE,
        epoch=target_epoch,
        # A reply may be lost more than once, so the epoch before is forgotten only for another one.
        previous_epoch=member.previous_epoch if member.epoch == target_epoch else member.epoch,
        assigned=assigned,
        pending={},
    )


def check_state(member: ConsumerMember, owned: Partitions | None) -> None:
    """What a member in a state that we do not know owns can only be known if it says that it is nothing."""
    if member.state is MemberState.UNKNOWN and (owned is None or owned):
        raise ApiError(ErrorCode.FENCED_MEMBER_EPOCH, "The member's state is unknown: it has to rejoin.")


def overlaps(owned: Partitions | None, revoked: Partitions) -> bool:
    """Whether the member still owns something of `revoked`; it does until it says otherwise."""
    if owned is None:
        return True
    return any(
        topic in revoked and not partitions.isdisjoint(revoked[topic]) for topic, partitions in owned.items()
    )
