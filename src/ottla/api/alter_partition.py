"""AlterPartition (key 56): leaders propose another ISR to the controller. Between brokers only: whoever did
not prove to be the broker it speaks for is told CLUSTER_AUTHORIZATION_FAILED, and nothing of broker epochs.

The answer waits until the ISR is written, and says what was written. The errors of a partition are in
`controller/isr`. If the proposal ends a reassignment and the leader has to go with it, it is taken and the
answer is NEW_LEADER_ELECTED.

v2 topic ids · v3 the broker epoch of every member (KIP-903)
"""

from functools import partial

from ottla.api.call import Call
from ottla.base.errors import ApiError, ErrorCode
from ottla.broker.controller_writes import Asks, Item
from ottla.broker.parked import Parked
from ottla.controller.isr import NO_BROKER_EPOCH, Proposal, propose
from ottla.wire.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionResponse,
    PartitionData,
    PartitionDataResponse,
    TopicDataResponse,
)

EPOCHS_SINCE = 3
RECOVERED = 0
WAIT_MS = 30_000


def alter_partition(call: Call, request: AlterPartitionRequest) -> AlterPartitionResponse | Parked:
    broker, image = call.broker, call.broker.image
    if not call.may_act_as(request.broker_id, "AlterPartition"):
        return AlterPartitionResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    if not broker.seat.is_active:
        return AlterPartitionResponse(error_code=ErrorCode.NOT_CONTROLLER)
    leader = image.brokers.get(request.broker_id)
    if leader is None or leader.epoch != request.broker_epoch:
        return AlterPartitionResponse(error_code=ErrorCode.STALE_BROKER_EPOCH)
    topics = [TopicDataResponse(topic_id=topic.topic_id) for topic in request.topics]
    asks: Asks[PartitionDataResponse] = Asks(
        broker.controller_writes, broker.waiting, lambda items: _respond(request.broker_id, topics, items)
    )
    for topic, answer in zip(request.topics, topics, strict=True):
        name = image.topic_names.get(topic.topic_id)
        for asked in topic.partitions:
            result = PartitionDataResponse(
                partition_index=asked.partition_index, leader_id=0, leader_epoch=0, partition_epoch=0
            )
            answer.partitions.append(result)
            if name is None:
                asks.refuse(result, ApiError(ErrorCode.UNKNOWN_TOPIC_ID))
            elif asked.leader_recovery_state != RECOVERED:
                asks.refuse(result, ApiError(ErrorCode.INVALID_REQUEST))
            else:
                proposal = _proposal(call.version, request.broker_id, asked)
                asks.add(result, name, partial(propose, proposal=proposal, topic_id=topic.topic_id))
    return asks.answer(WAIT_MS, call.now_ms)  # type: ignore[no-any-return]


def _proposal(version: int, broker_id: int, asked: PartitionData) -> Proposal:
    if version >= EPOCHS_SINCE:
        isr = tuple((member.broker_id, member.broker_epoch) for member in asked.new_isr_with_epochs)
    else:
        isr = tuple((member, NO_BROKER_EPOCH) for member in asked.new_isr)
    return Proposal(broker_id, asked.partition_index, asked.leader_epoch, asked.partition_epoch, isr)


def _respond(
    broker_id: int, topics: list[TopicDataResponse], items: list[Item[PartitionDataResponse]]
) -> AlterPartitionResponse:
    for item in items:
        result = item.result
        if item.error is not None or item.draft is None:
            result.error_code = item.error.code if item.error else ErrorCode.UNKNOWN_SERVER_ERROR
            continue
        state = item.draft.states[result.partition_index]
        if state.leader != broker_id:
            result.error_code = ErrorCode.NEW_LEADER_ELECTED
            continue
        result.leader_id, result.leader_epoch = state.leader, state.leader_epoch
        result.isr, result.partition_epoch = list(state.isr), state.partition_epoch
    return AlterPartitionResponse(topics=topics)
