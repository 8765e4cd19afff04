"""What a leader proposes with AlterPartition (key 56): another ISR.

A proposal names the leader epoch and the partition epoch it was based on, and for every member the broker
epoch in which it was found in sync (KIP-903). It is taken only if all of this is still so:

    the proposer knows more than we do       NOT_CONTROLLER: we may not be the controller any more
    it leads in an older epoch               FENCED_LEADER_EPOCH
    it does not lead                         INVALID_REQUEST
    the state has changed since              INVALID_UPDATE_VERSION: look at it, and propose again
    members twice, or without the leader     INVALID_REQUEST
    a member is no replica (any more), is not
    registered, is another incarnation, has
    lost its directory, or is about to stop
    and not yet a member                     INELIGIBLE_REPLICA (KIP-841, KIP-903)

Not obvious: a member that is about to stop may stay. Otherwise a leader that is the last in its ISR and about
to stop could not let another in, to whom it would hand over.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from ottla.base.errors import ApiError, ErrorCode
from ottla.controller.causes import Cause, Reason
from ottla.controller.draft import Draft
from ottla.controller.election import Around, changed, eligible, in_sync, remembered
from ottla.controller.znodes import State

NO_BROKER_EPOCH = -1  # before v3 a proposal did not say
# A leader that is told one of these takes its proposal for never written.
NEVER_WRITTEN = {ErrorCode.INELIGIBLE_REPLICA, ErrorCode.OPERATION_NOT_ATTEMPTED}


@dataclass(frozen=True, slots=True)
class Proposal:
    broker: int
    partition: int
    leader_epoch: int
    partition_epoch: int
    isr: tuple[tuple[int, int], ...]  # with the broker epoch of each


def propose(draft: Draft, proposal: Proposal, topic_id: bytes) -> None:
    if draft.topic.id != topic_id:
        raise ApiError(ErrorCode.UNKNOWN_TOPIC_ID)  # it was deleted and made again while this waited
    state, around = draft.state(proposal.partition), draft.around(proposal.partition)
    _check(state, around, proposal, draft.topic.states[proposal.partition].partition_epoch)
    isr = {broker: around.there[broker].epoch for broker, _ in proposal.isr}
    draft.put(proposal.partition, with_isr(state, around, isr), Cause(Reason.LATE, proposal.broker))


def with_isr(state: State, around: Around, isr: Mapping[int, int]) -> State:
    """The state with another ISR, and the ELR that belongs to it."""
    elr = remembered(isr, {**eligible(state), **in_sync(state)}, around)
    return changed(
        state,
        leader=state.leader,
        leader_epoch=state.leader_epoch,
        isr=isr,
        elr=elr,
        last_leader=state.last_leader,
    )


def _check(state: State, around: Around, proposal: Proposal, partition_epoch: int) -> None:
    if proposal.leader_epoch > state.leader_epoch or proposal.partition_epoch > partition_epoch:
        raise ApiError(ErrorCode.NOT_CONTROLLER)
    if proposal.leader_epoch < state.leader_epoch:
        raise ApiError(ErrorCode.FENCED_LEADER_EPOCH)
    if proposal.broker != state.leader:
        raise ApiError(ErrorCode.INVALID_REQUEST, f"Broker {state.leader} leads.")
    if proposal.partition_epoch < state.partition_epoch:
        raise ApiError(ErrorCode.INVALID_UPDATE_VERSION)
    members = [broker for broker, _ in proposal.isr]
    if len(set(members)) != len(members) or state.leader not in members:
        raise ApiError(ErrorCode.INVALID_REQUEST, f"{members} cannot be an ISR of {around.replicas}.")
    before = in_sync(state)
    for broker, epoch in proposal.isr:
        there = around.there.get(broker)
        if (
            there is None
            or epoch not in {NO_BROKER_EPOCH, there.epoch}
            or (there.is_stopping and broker not in before)
        ):
            raise ApiError(ErrorCode.INELIGIBLE_REPLICA, f"Broker {broker} cannot be in sync now.")
