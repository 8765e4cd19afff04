"""What follows when a member of a consumer group changes: a new group epoch, a new target, its next step.

`settle` is what a heartbeat (KIP-848) and a JoinGroup have in common:

1. store the member if it is new or says something new about itself;
2. raise the group epoch if that, or the topics, changed what anybody should get;
3. work out a target if the group epoch is ahead of the target's;
4. take the member one step towards its target.

`fence` is the other way to raise the group epoch: members go. The next heartbeat of those who stay works out
the target. A heartbeat that changes nothing does only the last step, which costs nothing then either.
"""

from collections.abc import Iterable, Mapping

from ottla.base.errors import ApiError
from ottla.coordinator.turn import Turn
from ottla.group.consumer.member import ConsumerMember
from ottla.group.consumer.reconciliation import check_state, reconcile
from ottla.group.consumer.records import (
    epoch_record,
    member_tombstones,
    pattern_record,
    pattern_tombstone,
    position_record,
    subscription_record,
    target_epoch_record,
    target_record,
)
from ottla.group.consumer.regex import Budget, resolve
from ottla.group.consumer.sessions import Sessions
from ottla.group.consumer.state import ConsumerState, Resolved
from ottla.group.consumer.target import all_topics, metadata_hash, work_out
from ottla.group.events import LastMemberGone, MemberReconciled, RebalanceBegun
from ottla.group.partitions import NOWHERE, Partitions


class Epochs:
    """`_seen_revision`, which is not stored, is the revision of the topics the group epoch is good for."""

    __slots__ = ("_seen_revision", "_sessions", "_state")

    def __init__(self, state: ConsumerState, sessions: Sessions) -> None:
        self._state = state
        self._sessions = sessions
        self._seen_revision = -1

    def settle(
        self,
        turn: Turn,
        before: ConsumerMember,
        after: ConsumerMember,
        owned: Partitions | None,
        replaced: ConsumerMember | None = None,
    ) -> ConsumerMember:
        """The member as it goes on. `before` is how it was (how it begins, if it is new), `after` how it now
        describes itself; `replaced` is who went by its instance id until now, and whose partitions it takes
        over. An ApiError is raised before anything is written."""
        state = self._state
        check_state(before, owned)
        if replaced is not None:
            turn.write(*member_tombstones(state.group_id, replaced.member_id))
            self._sessions.end(turn, replaced.member_id)
        if after.member_id not in state.members or after.subscription != before.subscription:
            turn.write(subscription_record(state.group_id, after))
        target_epoch, target = self._aim(turn, before, after, replaced)
        selves = (None, after.member_id, replaced.member_id if replaced is not None else None)
        moved = reconcile(
            after,
            target_epoch,
            target,
            lambda topic_id, partition: state.owner(topic_id, partition) in selves,
            owned,
        )
        if after.member_id not in state.members or moved.position != state.members[after.member_id].position:
            turn.write(position_record(state.group_id, moved))
            self._sessions.time_revocation(turn, moved)
            if moved.is_reconciled_to(target_epoch):
                turn.tell(MemberReconciled(state.group_id))
        elif state.members[after.member_id].silent_ms:
            turn.write(position_record(state.group_id, moved))
        return moved

    def fence(self, turn: Turn, leaving: Iterable[ConsumerMember], reason: str) -> None:
        """Remove members; what they owned is free at once."""
        state = self._state
        rest = dict(state.members)
        for member in leaving:
            del rest[member.member_id]
            turn.write(*member_tombstones(state.group_id, member.member_id))
            self._sessions.end(turn, member.member_id)
        matched, _, _ = self._match(turn, rest)
        hashed = metadata_hash(all_topics(rest.values(), matched), state.topics)
        turn.write(epoch_record(state.group_id, state.epoch + 1, hashed))
        turn.tell(RebalanceBegun(state.group_id, reason, state.epoch))
        if not rest:
            turn.tell(LastMemberGone(state.group_id))

    def _aim(
        self, turn: Turn, before: ConsumerMember, after: ConsumerMember, replaced: ConsumerMember | None
    ) -> tuple[int, Partitions]:
        """The target's epoch and the member's target, worked out anew if need be."""
        state = self._state
        is_changed = (after.topic_names, after.regex) != (before.topic_names, before.regex)
        is_current = state.epoch == state.target_epoch > 0 and self._seen_revision == state.topics.revision
        epoch = state.epoch
        targets = state.targets
        if replaced is not None:
            targets = {**targets, after.member_id: targets.get(replaced.member_id, NOWHERE)}
        if is_changed or not is_current:
            members = {**state.members, after.member_id: after}
            if replaced is not None:
                del members[replaced.member_id]
            matched, is_moved, is_complete = self._match(turn, members)
            epoch = self._raise_epoch(turn, members.values(), matched, is_changed or is_moved, is_complete)
            if epoch > state.epoch:
                reason = self._reason(after, is_changed=is_changed)
                turn.tell(RebalanceBegun(state.group_id, reason, state.epoch, is_counted=True))
            if epoch > state.target_epoch:
                targets = work_out(members, matched, targets, state.topics, state.config.consumer_assignors)
                for member_id, partitions in targets.items():
                    if state.targets.get(member_id) != partitions:
                        turn.write(target_record(state.group_id, member_id, partitions))
                turn.write(target_epoch_record(state.group_id, epoch))
                return epoch, targets[after.member_id]
        if replaced is not None:
            turn.write(target_record(state.group_id, after.member_id, targets[after.member_id]))
        return epoch, targets.get(after.member_id, NOWHERE)

    def _reason(self, member: ConsumerMember, *, is_changed: bool) -> str:
        """Why the group epoch is raised, for people."""
        if member.member_id not in self._state.members:
            return f"member {member.member_id!r:.200} joined"
        if is_changed:
            return f"member {member.member_id!r:.200} changed its subscription"
        return "the topics that it reads changed"

    def _raise_epoch(
        self,
        turn: Turn,
        members: Iterable[ConsumerMember],
        matched: Mapping[str, frozenset[str]],
        is_changed: bool,
        is_complete: bool,
    ) -> int:
        """The group epoch, one higher if subscriptions or topics are not what they were."""
        state = self._state
        hashed = metadata_hash(all_topics(members, matched), state.topics)
        if is_changed or state.epoch == 0 or hashed != state.metadata_hash:
            turn.write(epoch_record(state.group_id, state.epoch + 1, hashed))
            return state.epoch + 1
        # Nothing was decided, so this may be remembered without being stored.
        if is_complete:
            self._seen_revision = state.topics.revision
        return state.epoch

    def _match(
        self, turn: Turn, members: Mapping[str, ConsumerMember]
    ) -> tuple[dict[str, frozenset[str]], bool, bool]:
        """The topics of every regular expression that somebody has; whether any has others than before; and
        whether all were looked at. What takes too long stays as it was until another heartbeat goes on."""
        state = self._state
        matched: dict[str, frozenset[str]] = {}
        is_moved, is_complete, budget = False, True, Budget()
        is_stale = self._seen_revision != state.topics.revision
        for pattern in sorted({member.regex for member in members.values() if member.regex}):
            before = state.resolved.get(pattern)
            matched[pattern] = before.topics if before is not None else frozenset()
            if before is None or is_stale:
                resolved = self._resolve(pattern, matched[pattern], budget)
                is_complete &= resolved is not None
                matched[pattern] = matched[pattern] if resolved is None else resolved
            if before is None or before.topics != matched[pattern]:
                is_moved = True
                newly = Resolved(matched[pattern], state.topics.revision, turn.wall_ms)
                turn.write(pattern_record(state.group_id, pattern, newly))
        for pattern in sorted(state.resolved.keys() - matched.keys()):
            turn.write(pattern_tombstone(state.group_id, pattern))
        if not is_complete:
            self._seen_revision = -1
        return matched, is_moved, is_complete

    def _resolve(self, pattern: str, before: frozenset[str], budget: Budget) -> frozenset[str] | None:
        try:
            return resolve(pattern, self._state.topics.names(), budget)
        except ApiError:
            # Stored by a broker that could read it. Whoever brings a new one was refused before this.
            return before
