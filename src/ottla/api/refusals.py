"""The answer to a request that needs something on the cluster which its principal may not do: in each API's
own form, as Kafka answers.

Most answers have an error of the whole. The others have one for each thing that the request names.
"""

from collections.abc import Callable
from importlib import import_module
from typing import Any

from ottla.api.call import REFUSALS, Call
from ottla.api.table import Api
from ottla.base.errors import ErrorCode
from ottla.security.resources import ResourceType


def refusal(call: Call, api: Api, request: Any) -> Any | None:
    """None: whoever asks may ask this."""
    need = api.need_on_cluster
    if need is None:
        return None
    *others, last = need.operations
    if any(call.allows(operation, need.resource_type, is_asked=False) for operation in others):
        return None
    if call.allows(last, need.resource_type):
        return None
    return refused(api, request, REFUSALS[ResourceType.CLUSTER])


def refused(api: Api, request: Any, code: ErrorCode) -> Any:
    messages = import_module(f"ottla.wire.messages.{api.name}")
    in_parts = _IN_PARTS.get(api.name)
    if in_parts is not None:
        return in_parts(messages, request, code)
    return getattr(messages, f"{api.title}Response")(error_code=code)


def _create_acls(messages: Any, request: Any, code: ErrorCode) -> Any:
    return messages.CreateAclsResponse(
        results=[messages.AclCreationResult(error_code=code) for _ in request.creations]
    )


def _delete_acls(messages: Any, request: Any, code: ErrorCode) -> Any:
    return messages.DeleteAclsResponse(
        filter_results=[messages.DeleteAclsFilterResult(error_code=code) for _ in request.filters]
    )


def _describe_client_quotas(messages: Any, _request: Any, code: ErrorCode) -> Any:
    return messages.DescribeClientQuotasResponse(error_code=code, entries=None)


def _alter_client_quotas(messages: Any, request: Any, code: ErrorCode) -> Any:
    return messages.AlterClientQuotasResponse(
        entries=[
            messages.EntryDataResponse(
                error_code=code,
                entity=[
                    messages.EntityDataResponse(entity_type=part.entity_type, entity_name=part.entity_name)
                    for part in entry.entity
                ],
            )
            for entry in request.entries
        ]
    )


def _alter_replica_log_dirs(messages: Any, request: Any, code: ErrorCode) -> Any:
    return messages.AlterReplicaLogDirsResponse(
        results=[
            messages.AlterReplicaLogDirTopicResult(
                topic_name=topic.name,
                partitions=[
                    messages.AlterReplicaLogDirPartitionResult(partition_index=index, error_code=code)
                    for index in topic.partitions
                ],
            )
            for directory in request.dirs
            for topic in directory.topics
        ]
    )


def _alter_user_scram_credentials(messages: Any, request: Any, code: ErrorCode) -> Any:
    users = dict.fromkeys(change.name for change in (*request.deletions, *request.upsertions))
    return messages.AlterUserScramCredentialsResponse(
        results=[messages.AlterUserScramCredentialsResult(user=user, error_code=code) for user in users]
    )


def _elect_leaders(messages: Any, request: Any, code: ErrorCode) -> Any:
    return messages.ElectLeadersResponse(
        error_code=code,
        replica_election_results=[
            messages.ReplicaElectionResult(
                topic=topic.topic,
                partition_result=[
                    messages.PartitionResult(partition_id=index, error_code=code)
                    for index in topic.partitions
                ],
            )
            for topic in request.topic_partitions or ()
        ],
    )


def _update_features(messages: Any, request: Any, code: ErrorCode) -> Any:
    return messages.UpdateFeaturesResponse(
        error_code=code,
        results=[
            messages.UpdatableFeatureResult(feature=update.feature, error_code=code)
            for update in request.feature_updates
        ],
    )


def _write_txn_markers(messages: Any, request: Any, code: ErrorCode) -> Any:
    return messages.WriteTxnMarkersResponse(
        markers=[
            messages.WritableTxnMarkerResult(
                producer_id=marker.producer_id,
                topics=[
                    messages.WritableTxnMarkerTopicResult(
                        name=topic.name,
                        partitions=[
                            messages.WritableTxnMarkerPartitionResult(partition_index=index, error_code=code)
                            for index in topic.partition_indexes
                        ],
                    )
                    for topic in marker.topics
                ],
            )
            for marker in request.markers
        ]
    )


_IN_PARTS: dict[str, Callable[[Any, Any, ErrorCode], Any]] = {
    "describe_client_quotas": _describe_client_quotas,
    "alter_client_quotas": _alter_client_quotas,
    "alter_replica_log_dirs": _alter_replica_log_dirs,
    "alter_user_scram_credentials": _alter_user_scram_credentials,
    "create_acls": _create_acls,
    "delete_acls": _delete_acls,
    "elect_leaders": _elect_leaders,
    "update_features": _update_features,
    "write_txn_markers": _write_txn_markers,
}
