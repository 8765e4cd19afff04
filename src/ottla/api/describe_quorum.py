"""DescribeQuorum (key 55): who holds the cluster's metadata, for tools that ask (KIP-836, KIP-853).

Here a keeper does, and there is no metadata log. The answer has the shape of a KRaft quorum of one: the
broker with the controller's seat is the leader and only voter, the epoch is the controller's, and the other
brokers observe. Offsets are 0, since there is nothing to count. Any broker answers, not only the controller.
While there is none, it is LEADER_NOT_AVAILABLE, which clients try again.

v1 timestamps · v2 error messages, where the voter listens
"""

from functools import partial

from ottla.api.call import Call
from ottla.base.errors import ApiError, ErrorCode
from ottla.base.ids import KRAFT_TOPIC
from ottla.wire.lazy import lazily
from ottla.wire.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    Listener,
    Node,
    PartitionDataResponse,
    ReplicaState,
    TopicData,
    TopicDataResponse,
)


def describe_quorum(call: Call, request: DescribeQuorumRequest) -> DescribeQuorumResponse:
    def answer(topic: TopicData) -> TopicDataResponse:
        indexes = dict.fromkeys(asked.partition_index for asked in topic.partitions)
        describe = partial(_describe, call, topic.topic_name)
        return TopicDataResponse(topic_name=topic.topic_name, partitions=lazily(describe, indexes))

    response = DescribeQuorumResponse(topics=lazily(answer, request.topics))
    controller = call.broker.image.brokers.get(call.broker.image.controller_id)
    if controller is not None:
        address = controller.endpoints.get(call.listener)
        if address is not None:
            listener = Listener(name=call.listener, host=address.host, port=address.port)
            response.nodes = [Node(node_id=controller.id, listeners=[listener])]
    return response


def _describe(call: Call, topic: str, index: int) -> PartitionDataResponse:
    image = call.broker.image
    answer = PartitionDataResponse(partition_index=index, leader_id=-1, leader_epoch=-1, high_watermark=-1)
    try:
        if (topic, index) != (KRAFT_TOPIC, 0):
            raise ApiError(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"Only partition 0 of {KRAFT_TOPIC} has a quorum."
            )
        if image.controller_id not in image.brokers:
            raise ApiError(ErrorCode.LEADER_NOT_AVAILABLE, "No broker is the controller at the moment.")
    except ApiError as error:
        answer.error_code, answer.error_message = error.code, error.message
        return answer
    wall_ms = call.broker.storage.wall_ms(call.now_ms)
    answer.leader_id, answer.leader_epoch = image.controller_id, image.controller_epoch
    answer.high_watermark = 0
    replicas = [
        ReplicaState(
            replica_id=broker,
            log_end_offset=0,
            last_fetch_timestamp=wall_ms,
            last_caught_up_timestamp=wall_ms,
        )
        for broker in sorted(image.brokers)
    ]
    answer.current_voters = [replica for replica in replicas if replica.replica_id == image.controller_id]
    answer.observers = [replica for replica in replicas if replica.replica_id != image.controller_id]
    return answer
