"""What follows from a change of one member: a new group epoch, a new target, the member's next step.

`settle` is one turn of the wheel, for a heartbeat (KIP-848) as for a JoinGroup:

1. store the member if it is new or says something new about itself;
2. raise the group epoch if that, or the topics, changed what anybody should get;
3. work out a target if the group epoch is ahead of the target's;
4. take the member one step towards its target.

`fence` is the other way to raise the group epoch: members go. The next heartbeat of those who stay works out
the target. A heartbeat that changes nothing does only the last step, which costs nothing then either.

Sessions. A member that no coordinator has heard of for its session timeout is removed. Heartbeats are not
stored, so a new coordinator does not know when the last one came; if it began a new session for everybody, a
member that died would live on, and keep its partitions, for as long as failovers come before a session ends.
So silence is stored: each time a member has been silent for a step, a quarter of its session and at least two
heartbeat intervals, its record says for how long (`silent_ms`), and the next coordinator goes on from there.
Whoever is heard of again is stored without. A live member, whose heartbeats come more often, costs no
record; and time in which there was no coordinator to be heard by does not count, so nobody is removed because
a failover took long. Members that speak the classic protocol have full sessions, as in Kafka.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Final

from ottla.base.errors import ApiError
from ottla.coordinator.turn import Turn
from ottla.group.consumer_member import Member, MemberState, Partitions
from ottla.group.consumer_records import (
    epoch_record,
    member_tombstones,
    pattern_record,
    pattern_tombstone,
    position_record,
    subscription_record,
    target_epoch_record,
    target_record,
)
from ottla.group.consumer_state import NOWHERE, ConsumerState, Resolved
from ottla.group.reconcile import check_state, reconcile
from ottla.group.regex import Budget, resolve
from ottla.group.target import all_topics, metadata_hash, work_out

SESSION_STEPS: Final = 4


def settle(
    group: ConsumerState,
    turn: Turn,
    before: Member,
    after: Member,
    owned: Partitions | None,
    replaced: Member | None = None,
) -> Member:
    """`before` is the member as known (as it begins, if it is new) and `after` as it now describes itself;
    `replaced` is who went by its instance id until now, and whose partitions it takes over. An ApiError is
    raised before anything is written."""
    check_state(before, owned)
    if replaced is not None:
        turn.write(*member_tombstones(group.group_id, replaced.member_id))
        cancel_timers(group, turn, replaced.member_id)
    if after.member_id not in group.members or after.subscription != before.subscription:
        turn.write(subscription_record(group.group_id, after))
    target_epoch, target = _aim(group, turn, before, after, replaced)
    selves = (None, after.member_id, replaced.member_id if replaced is not None else None)
    moved = reconcile(
        after,
        target_epoch,
        target,
        lambda topic_id, partition: group.owner(topic_id, partition) in selves,
        owned,
    )
    if after.member_id not in group.members or moved.position != group.members[after.member_id].position:
        turn.write(position_record(group.group_id, moved))
        _time_revocation(group, turn, moved)
    elif group.members[after.member_id].silent_ms:
        turn.write(position_record(group.group_id, moved))
    return moved


def fence(group: ConsumerState, turn: Turn, leaving: Iterable[Member]) -> None:
    """Remove members; what they owned is free at once."""
    rest = dict(group.members)
    for member in leaving:
        del rest[member.member_id]
        turn.write(*member_tombstones(group.group_id, member.member_id))
        cancel_timers(group, turn, member.member_id)
    matched, _, _ = _match(group, turn, rest)
    hashed = metadata_hash(all_topics(rest.values(), matched), group.topics)
    turn.write(epoch_record(group.group_id, group.epoch + 1, hashed))


def cancel_timers(group: ConsumerState, turn: Turn, member_id: str) -> None:
    group.joins_due.pop(member_id, None)
    for kind in ("session", "rebalance", "join", "sync"):
        turn.cancel_timer(group.timer(kind, member_id))


def set_session(group: ConsumerState, turn: Turn, member: Member) -> None:
    """From now on."""
    turn.set_timer(group.timer("session", member.member_id), turn.now_ms + _step_ms(group, member))


def is_session_over(group: ConsumerState, turn: Turn, member: Member) -> bool:
    """A member was silent for another step. If its session goes on, that is stored."""
    silent_ms = member.silent_ms + _step_ms(group, member)
    if member.classic is not None or silent_ms >= group.config.consumer_session_timeout_ms:
        return True
    silent = replace(member, silent_ms=silent_ms)
    turn.write(position_record(group.group_id, silent))
    set_session(group, turn, silent)
    return False


def _step_ms(group: ConsumerState, member: Member) -> int:
    """When to look again whether it was heard of. A classic member has said how long its session is."""
    if member.classic is not None:
        return member.classic.session_timeout_ms
    timeout_ms = group.config.consumer_session_timeout_ms
    step_ms = max(timeout_ms // SESSION_STEPS, 2 * group.config.consumer_heartbeat_interval_ms)
    return min(step_ms, max(timeout_ms - member.silent_ms, 0))


def _time_revocation(group: ConsumerState, turn: Turn, member: Member) -> None:
    """A member has its rebalance timeout to give up partitions. Classic ones are timed by joins and syncs."""
    if member.state is MemberState.UNREVOKED_PARTITIONS and member.classic is None:
        due_ms = turn.now_ms + member.rebalance_timeout_ms
        turn.set_timer(group.timer("rebalance", member.member_id), due_ms)
    else:
        turn.cancel_timer(group.timer("rebalance", member.member_id))


def _aim(
    group: ConsumerState, turn: Turn, before: Member, after: Member, replaced: Member | None
) -> tuple[int, Partitions]:
    """The target's epoch and the member's target, worked out anew if need be."""
    is_changed = (after.topic_names, after.regex) != (before.topic_names, before.regex)
    is_current = group.epoch == group.target_epoch > 0 and group.seen_revision == group.topics.revision
    epoch = group.epoch
    targets = group.targets
    if replaced is not None:
        targets = {**targets, after.member_id: targets.get(replaced.member_id, NOWHERE)}
    if is_changed or not is_current:
        members = {**group.members, after.member_id: after}
        if replaced is not None:
            del members[replaced.member_id]
        matched, is_moved, is_complete = _match(group, turn, members)
        epoch = _raise_epoch(group, turn, members.values(), matched, is_changed or is_moved, is_complete)
        if epoch > group.target_epoch:
            targets = work_out(members, matched, targets, group.topics, group.config.consumer_assignors)
            for member_id, partitions in targets.items():
                if group.targets.get(member_id) != partitions:
                    turn.write(target_record(group.group_id, member_id, partitions))
            turn.write(target_epoch_record(group.group_id, epoch))
            return epoch, targets[after.member_id]
    if replaced is not None:
        turn.write(target_record(group.group_id, after.member_id, targets[after.member_id]))
    return epoch, targets.get(after.member_id, NOWHERE)


def _raise_epoch(
    group: ConsumerState,
    turn: Turn,
    members: Iterable[Member],
    matched: Mapping[str, frozenset[str]],
    is_changed: bool,
    is_complete: bool,
) -> int:
    """The group epoch, one higher if subscriptions or topics are not what they were."""
    hashed = metadata_hash(all_topics(members, matched), group.topics)
    if is_changed or group.epoch == 0 or hashed != group.metadata_hash:
        turn.write(epoch_record(group.group_id, group.epoch + 1, hashed))
        return group.epoch + 1
    # Nothing was decided, so this may be remembered without being stored.
    if is_complete:
        group.seen_revision = group.topics.revision
    return group.epoch


def _match(
    group: ConsumerState, turn: Turn, members: Mapping[str, Member]
) -> tuple[dict[str, frozenset[str]], bool, bool]:
    """The topics of every regular expression that somebody has; whether any has others than before; and
    whether all were looked at. What takes too long stays as it was until another heartbeat goes on."""
    matched: dict[str, frozenset[str]] = {}
    is_moved, is_complete, budget = False, True, Budget()
    is_stale = group.seen_revision != group.topics.revision
    for pattern in sorted({member.regex for member in members.values() if member.regex}):
        known = group.resolved.get(pattern)
        matched[pattern] = known.topics if known is not None else frozenset()
        if known is None or is_stale:
            resolved = _resolve(pattern, group, matched[pattern], budget)
            is_complete &= resolved is not None
            matched[pattern] = matched[pattern] if resolved is None else resolved
        if known is None or known.topics != matched[pattern]:
            is_moved = True
            found = Resolved(matched[pattern], group.topics.revision, turn.wall_ms)
            turn.write(pattern_record(group.group_id, pattern, found))
    for pattern in sorted(group.resolved.keys() - matched.keys()):
        turn.write(pattern_tombstone(group.group_id, pattern))
    if not is_complete:
        group.seen_revision = -1
    return matched, is_moved, is_complete


def _resolve(
    pattern: str, group: ConsumerState, known: frozenset[str], budget: Budget
) -> frozenset[str] | None:
    try:
        return resolve(pattern, group.topics.names(), budget)
    except ApiError:
        # Stored by a broker that could read it. Whoever brings a new one was refused before this.
        return known
