"""AlterReplicaLogDirs (key 34): move partitions between the log directories of this broker (KIP-113).

The answer says that the move has begun; DescribeLogDirs shows how far it is, as a future log. A partition
that this broker does not hold yet is refused, and will be made in that directory if it comes.

v2 flexible
Left out: a limit on the rate of copying.
"""

from ottla.api.call import Call
from ottla.api.named_partitions import by_topic
from ottla.base.errors import ApiError, ErrorCode
from ottla.base.ids import TopicPartition
from ottla.broker.long_work import TO_BE_FINISHED, Steps
from ottla.wire.messages.alter_replica_log_dirs import (
    AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopicResult,
)


def alter_replica_log_dirs(call: Call, request: AlterReplicaLogDirsRequest) -> Steps:
    wanted = yield from by_topic(
        (topic.name, index, directory.path)
        for directory in request.dirs
        for topic in directory.topics
        for index in topic.partitions
    )
    yield TO_BE_FINISHED
    response = AlterReplicaLogDirsResponse()
    for topic, paths in wanted.items():
        result = AlterReplicaLogDirTopicResult(topic_name=topic)
        response.results.append(result)
        for index, path in paths.items():
            moved = AlterReplicaLogDirPartitionResult(partition_index=index)
            moved.error_code = _move(call, TopicPartition(topic, index), path)
            result.partitions.append(moved)
            yield
    return response


def _move(call: Call, topic_partition: TopicPartition, directory: str) -> ErrorCode:
    try:
        call.broker.moves.ask(topic_partition, directory)
    except ApiError as error:
        return error.code
    except OSError as error:
        return call.broker.storage.failed(error)
    return ErrorCode.NONE
