"""DeleteRecords (key 21): everything before an offset goes; -1 means up to the high watermark.

v2 flexible
"""

from ottla.api.call import Call
from ottla.base.errors import ApiError, ErrorCode
from ottla.base.ids import INTERNAL_TOPICS
from ottla.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)


def delete_records(call: Call, request: DeleteRecordsRequest) -> DeleteRecordsResponse:
    response = DeleteRecordsResponse()
    for topic in request.topics:
        results = [_delete(call, topic.name, one) for one in topic.partitions]
        response.topics.append(DeleteRecordsTopicResult(name=topic.name, partitions=results))
    return response


def _delete(call: Call, topic: str, asked: DeleteRecordsPartition) -> DeleteRecordsPartitionResult:
    result = DeleteRecordsPartitionResult(partition_index=asked.partition_index, low_watermark=-1)
    try:
        if topic in INTERNAL_TOPICS:
            raise ApiError(ErrorCode.INVALID_TOPIC_EXCEPTION)
        partition = call.broker.partition(topic, asked.partition_index)
        partition.check_leader()
        if "delete" not in partition.log.config.cleanup_policy:
            raise ApiError(ErrorCode.POLICY_VIOLATION, "Records of a compacted topic cannot be deleted.")
        result.low_watermark = partition.delete_records(asked.offset)
    except ApiError as error:
        result.error_code = error.code
    except OSError as error:
        result.error_code = call.broker.storage_error(error)
    return result
