"""Moving a partition to other brokers (KIP-455).

The topic's node says all of it: `assignment` has the target replicas first and then the old ones that will
go, `adding` those that were not replicas before, `removing` those that will not be replicas after. So

    target   = assignment without removing
    original = assignment without adding

Phases, each of which any controller finds again in the nodes:

1. `begin` writes the three. The new replicas fetch, and their leader lets them into the ISR.
2. `finish`, once all of `adding` are in sync and the target's part of the ISR is large enough: one write
   makes the target the assignment, takes the others out of ISR and ELR, and elects one of the target if the
   leader is to go. The brokers that are no replicas any more delete what they have.

Another target may be given at any time: it starts from the original, and what the first one added and the
second does not want goes at once. `cancel` goes back to the original. Both are refused where only replicas
that would go at once are in sync.
"""

from collections.abc import Sequence

from ottla.base.errors import ApiError, ErrorCode
from ottla.controller.causes import Cause, Reason
from ottla.controller.draft import Draft
from ottla.controller.election import (
    Around,
    Rule,
    changed,
    elect,
    eligible,
    in_sync,
    leads_on,
    led_by,
    remembered,
)
from ottla.controller.znodes import State


def target_of(draft: Draft, partition: int) -> tuple[int, ...]:
    return _without(draft.assignment[partition], draft.removing.get(partition, ()))


def original_of(draft: Draft, partition: int) -> tuple[int, ...]:
    return _without(draft.assignment[partition], draft.adding.get(partition, ()))


def begin(draft: Draft, partition: int, target: Sequence[int], *, allows_factor_change: bool = True) -> None:
    draft.state(partition)
    original, wanted = original_of(draft, partition), tuple(target)
    _check_target(draft, original, wanted)
    if not allows_factor_change and len(wanted) != len(original):
        raise ApiError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"The partition has {len(original)} replicas, the target {len(wanted)}.",
        )
    removing = _without(original, wanted)
    _change(draft, partition, (*wanted, *removing), _without(wanted, original), removing)
    finish(draft, partition)


def cancel(draft: Draft, partition: int) -> None:
    draft.state(partition)
    if partition not in draft.adding and partition not in draft.removing:
        raise ApiError(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, "The partition is not being reassigned.")
    _change(draft, partition, original_of(draft, partition), (), ())


def finish(draft: Draft, partition: int) -> None:
    """Make the target the assignment, if it is ready."""
    adding, removing = draft.adding.get(partition, ()), draft.removing.get(partition, ())
    if not adding and not removing:
        return
    target, state = target_of(draft, partition), draft.states[partition]
    around = draft.around(partition)
    isr = [
        broker for broker, epoch in in_sync(state).items() if broker in target and around.holds(broker, epoch)
    ]
    is_enough = len(isr) >= min(draft.config.min_insync_replicas, len(target))
    stays = [broker for broker in isr if not around.there[broker].is_stopping]
    if set(adding) <= set(isr) and is_enough and (stays or not removing):
        _change(draft, partition, target, (), ())


def _change(
    draft: Draft,
    partition: int,
    assignment: tuple[int, ...],
    adding: tuple[int, ...],
    removing: tuple[int, ...],
) -> None:
    """Another assignment: whoever is not in it leaves ISR and ELR, and leads no more."""
    before = draft.assignment[partition]
    draft.assignment[partition] = assignment
    around = draft.around(partition)
    try:
        state = _confined(draft.states[partition], around)
    except ApiError:
        draft.assignment[partition] = before
        raise
    for field, value in ((draft.adding, adding), (draft.removing, removing)):
        field.pop(partition, None)
        if value:
            field[partition] = value
    draft.put(partition, state, Cause(Reason.REASSIGNED))


def _confined(state: State, around: Around) -> State:
    """The state among these replicas only. One of them must be there and hold what it held: those who go may
    be the only ones who do."""
    isr, elr = (
        {broker: epoch for broker, epoch in members.items() if broker in around.replicas}
        for members in (in_sync(state), eligible(state))
    )
    if len(isr) == len(state.isr) and len(elr) == len(state.elr):
        return state
    confined = changed(
        state,
        leader=state.leader,
        leader_epoch=state.leader_epoch,
        isr=isr,
        elr=remembered(isr, elr, around),
        last_leader=state.last_leader,
    )
    elected = elect(confined, around)
    if elected is None or (elected[1] is Rule.ALL_RESTARTED and not around.allows_unclean):
        raise ApiError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "Only replicas that would go are in sync; unclean.leader.election.enable is false.",
        )
    return confined if leads_on(confined, around) else led_by(confined, around, *elected)


def _check_target(draft: Draft, original: Sequence[int], target: Sequence[int]) -> None:
    def refuse(reason: str) -> ApiError:
        return ApiError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, reason)

    if not target:
        raise refuse("A partition needs at least one replica.")
    if len(set(target)) != len(target):
        raise refuse("The target names a broker twice.")
    for broker in target:
        if broker not in draft.image.brokers and broker not in original:
            raise refuse(f"Broker {broker} is not there.")


def _without(some: Sequence[int], others: Sequence[int]) -> tuple[int, ...]:
    return tuple(broker for broker in some if broker not in others)
