"""Groups that change protocol while their members are live (KIP-848, group.consumer.migration.policy).

*Up*: somebody joins a classic group of consumers with the new protocol. The classic group's record is
deleted, and records of a consumer group take its place: its epoch is the generation, every member is stable
in it with what it was assigned. Whoever waits for an answer of the classic group is told to join again.

*Down*: the last member with the new protocol goes, and others with the classic one stay. The consumer group's
records are deleted, and a classic group takes its place, stable with the group epoch as its generation and
the target assignment for its own; then it rebalances. If the last one with the new protocol is static and
comes back with the classic one, it has not gone: it joins the new classic group as a static member that is
back, which takes a rebalance only if the consumer group was not stable.

Rule: going up is decided and replayed like everything of a consumer group. Going down is not replayed, as
nothing of a classic group is: the group that `downgrade` returns takes the place of the consumer group.
"""

from ottla.base.errors import ApiError, ErrorCode
from ottla.coordinator.turn import Turn
from ottla.group.classic.group import ClassicGroup
from ottla.group.classic.member import ClassicMember, protocols_of, rebalance_timeout_ms_of
from ottla.group.classic.states import GroupState
from ottla.group.consumer.member import ClassicSide, ConsumerMember
from ottla.group.consumer.records import group_records, group_tombstones
from ottla.group.consumer.state import ConsumerState
from ottla.group.partitions import NOWHERE
from ottla.group.protocol import PROTOCOL_TYPE, as_assignment, read_assignment, read_subscription
from ottla.group.records import GroupMetadata, parse, store
from ottla.wire.messages.join_group import JoinGroupRequest


def upgrade(state: ConsumerState, turn: Turn, classic: ClassicGroup) -> None:
    """Make an empty consumer group what the classic one was, and write that. GROUP_ID_NOT_FOUND if it cannot
    be. The classic group is left as it is: an error that is yet to come must not have ended it."""
    config = state.config
    has_room = len(classic.members) <= config.consumer_members_max
    if not (config.allows_upgrade and classic.protocol_type == PROTOCOL_TYPE and has_room):
        raise ApiError(ErrorCode.GROUP_ID_NOT_FOUND, f"The group {state.group_id} is not a consumer group.")
    scratch = ConsumerState(state.group_id, config, state.topics)
    scratch.epoch = scratch.target_epoch = classic.generation.number
    try:
        _move_up(scratch, classic)
    except ApiError as error:
        raise ApiError(ErrorCode.GROUP_ID_NOT_FOUND, error.message) from error
    records = list(group_records(scratch))
    turn.write(store(GroupMetadata(state.group_id, None)), *records)
    for record in records:
        if entry := parse(record):
            state.replay(entry)


def _move_up(state: ConsumerState, classic: ClassicGroup) -> None:
    protocol = classic.roster.choose_protocol()
    taken: dict[bytes, frozenset[int]] = {}
    for member in classic.members.values():
        subscription = read_subscription(member.protocols[protocol])
        assigned = {
            # Whatever the members' own assignor did: a partition has one owner here.
            topic_id: free
            for topic_id, numbers in read_assignment(member.assignment, state.topics).items()
            if (free := numbers - taken.get(topic_id, frozenset()))
        }
        for topic_id, numbers in assigned.items():
            taken[topic_id] = taken.get(topic_id, frozenset()) | numbers
        # The protocol they agreed on first: it is the one that a member's answers are made for.
        names = sorted(member.protocols, key=lambda name: name != protocol)
        state.members[member.member_id] = ConsumerMember(
            member.member_id,
            instance_id=member.instance_id,
            rack_id=subscription.rack_id,
            client_id=member.client_id,
            client_host=member.client_host,
            topic_names=frozenset(subscription.topics),
            rebalance_timeout_ms=member.rebalance_timeout_ms,
            classic=ClassicSide(
                member.session_timeout_ms, tuple((name, member.protocols[name]) for name in names)
            ),
            epoch=classic.generation.number,
            previous_epoch=classic.generation.number,
            assigned=assigned,
        )
        state.targets[member.member_id] = assigned


def is_last_of_its_kind(state: ConsumerState, leaving: ConsumerMember, is_replaced: bool = False) -> bool:
    """Whether the group has to become a classic one without this member."""
    rest = [member for member in state.members.values() if member.member_id != leaving.member_id]
    return (
        state.config.allows_downgrade
        and leaving.classic is None
        and (is_replaced or bool(rest))
        and all(member.classic is not None for member in rest)
        and len(rest) + is_replaced <= state.config.members_max
    )


def downgrade(
    state: ConsumerState,
    turn: Turn,
    leaving: ConsumerMember,
    successor: tuple[JoinGroupRequest, int] | None = None,
) -> ClassicGroup:
    """The classic group that goes on; `successor` is the JoinGroup, and its version, with which `leaving` is
    back."""
    turn.write(*group_tombstones(state))
    was_stable = all(
        member.is_reconciled_to(state.epoch)
        for member in state.members.values()
        if member.member_id != leaving.member_id
    )
    classic = ClassicGroup(state.group_id, state.config, wall_ms=turn.wall_ms)
    classic.generation.number, classic.generation.protocol_type = state.epoch, PROTOCOL_TYPE
    for member in state.members.values():
        if member.classic is not None:
            classic.roster.add(
                _moved_down(member, dict(member.classic.protocols), member.classic.session_timeout_ms)
            )
    if successor is not None:
        request, version = successor
        returning = _moved_down(leaving, protocols_of(request), request.session_timeout_ms)
        returning.rebalance_timeout_ms = rebalance_timeout_ms_of(request, version)
        classic.roster.add(returning)
    classic.rebalance.state = GroupState.STABLE
    classic.generation.choose_protocol(classic.roster)
    protocol = classic.generation.protocol_name or ""
    assignments = {}
    for moved in classic.members.values():
        target = state.targets.get(moved.member_id, NOWHERE)
        assignments[moved.member_id] = as_assignment(target, moved.protocols[protocol], state.topics)
        classic.rebalance.set_session(turn, moved)
    classic.roster.assign(assignments)
    classic.rebalance.store(turn)
    if successor is None or not was_stable:
        classic.rebalance.prepare(turn, "the last member with the consumer protocol left")
    return classic


def _moved_down(
    member: ConsumerMember, protocols: dict[str, bytes], session_timeout_ms: int
) -> ClassicMember:
    return ClassicMember(
        member_id=member.member_id,
        instance_id=member.instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        session_timeout_ms=session_timeout_ms,
        protocols=protocols,
    )
