"""One valid request per API, for the smoke test of all versions: from a version and the id of topic `t`.

A topic `t` with one partition is there. A new row of the table needs a line here.
"""

from collections.abc import Callable
from typing import Any

from tests.api.asking import batch

from ottla.api.table import TABLE
from ottla.base.ids import KRAFT_TOPIC, ZERO_UUID
from ottla.wire.messages import (
    alter_configs,
    alter_partition,
    alter_partition_reassignments,
    alter_replica_log_dirs,
    alter_user_scram_credentials,
    api_versions,
    create_partitions,
    create_topics,
    delete_records,
    delete_topics,
    describe_cluster,
    describe_configs,
    describe_log_dirs,
    describe_producers,
    describe_quorum,
    describe_topic_partitions,
    describe_user_scram_credentials,
    elect_leaders,
    fetch,
    incremental_alter_configs,
    init_producer_id,
    list_config_resources,
    list_offsets,
    list_partition_reassignments,
    metadata,
    offset_for_leader_epoch,
    produce,
    update_features,
    write_txn_markers,
)
from ottla.wire.messages.alter_client_quotas import AlterClientQuotasRequest, EntityData, EntryData, OpData
from ottla.wire.messages.describe_client_quotas import ComponentData, DescribeClientQuotasRequest

TOPIC = 2
IDS_SINCE = 13  # of Produce and of Fetch


def _produce(version: int, topic_id: bytes) -> Any:
    one = produce.PartitionProduceData(index=0, records=batch("a"))
    by_id = topic_id if version >= IDS_SINCE else ZERO_UUID
    topic = produce.TopicProduceData(name="t", topic_id=by_id, partition_data=[one])
    return produce.ProduceRequest(acks=-1, timeout_ms=1000, topic_data=[topic])


def _fetch(version: int, topic_id: bytes) -> Any:
    part = fetch.FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1000)
    by_id = topic_id if version >= IDS_SINCE else ZERO_UUID
    topic = fetch.FetchTopic(topic="t", topic_id=by_id, partitions=[part])
    return fetch.FetchRequest(max_wait_ms=0, min_bytes=1, topics=[topic])


def _list_offsets(_version: int, _topic_id: bytes) -> Any:
    at = list_offsets.ListOffsetsPartition(partition_index=0, timestamp=-1)
    topic = list_offsets.ListOffsetsTopic(name="t", partitions=[at])
    return list_offsets.ListOffsetsRequest(replica_id=-1, topics=[topic])


def _metadata(_version: int, _topic_id: bytes) -> Any:
    return metadata.MetadataRequest(topics=[metadata.MetadataRequestTopic(name="t")])


def _api_versions(_version: int, _topic_id: bytes) -> Any:
    return api_versions.ApiVersionsRequest(client_software_name="me", client_software_version="1.0")


def _create_topics(_version: int, _topic_id: bytes) -> Any:
    topic = create_topics.CreatableTopic(name="new", num_partitions=1, replication_factor=1)
    return create_topics.CreateTopicsRequest(topics=[topic])


def _delete_topics(version: int, _topic_id: bytes) -> Any:
    if version < 6:
        return delete_topics.DeleteTopicsRequest(topic_names=["t"], timeout_ms=1)
    topic = delete_topics.DeleteTopicState(name="t", topic_id=ZERO_UUID)
    return delete_topics.DeleteTopicsRequest(topics=[topic], timeout_ms=1)


def _delete_records(_version: int, _topic_id: bytes) -> Any:
    cut = delete_records.DeleteRecordsPartition(partition_index=0, offset=0)
    topic = delete_records.DeleteRecordsTopic(name="t", partitions=[cut])
    return delete_records.DeleteRecordsRequest(topics=[topic], timeout_ms=1)


def _init_producer_id(_version: int, _topic_id: bytes) -> Any:
    return init_producer_id.InitProducerIdRequest(transaction_timeout_ms=1)


def _offset_for_leader_epoch(_version: int, _topic_id: bytes) -> Any:
    epoch = offset_for_leader_epoch.OffsetForLeaderPartition(partition=0, leader_epoch=0)
    topic = offset_for_leader_epoch.OffsetForLeaderTopic(topic="t", partitions=[epoch])
    return offset_for_leader_epoch.OffsetForLeaderEpochRequest(topics=[topic])


def _describe_configs(_version: int, _topic_id: bytes) -> Any:
    resource = describe_configs.DescribeConfigsResource(
        resource_type=TOPIC, resource_name="t", configuration_keys=None
    )
    return describe_configs.DescribeConfigsRequest(resources=[resource], include_synonyms=True)


def _alter_configs(_version: int, _topic_id: bytes) -> Any:
    one = alter_configs.AlterableConfig(name="retention.ms", value="1000")
    resource = alter_configs.AlterConfigsResource(resource_type=TOPIC, resource_name="t", configs=[one])
    return alter_configs.AlterConfigsRequest(resources=[resource], validate_only=False)


def _alter_replica_log_dirs(_version: int, _topic_id: bytes) -> Any:
    topic = alter_replica_log_dirs.AlterReplicaLogDirTopic(name="t", partitions=[0])
    directory = alter_replica_log_dirs.AlterReplicaLogDir(path="/data", topics=[topic])
    return alter_replica_log_dirs.AlterReplicaLogDirsRequest(dirs=[directory])


def _describe_log_dirs(_version: int, _topic_id: bytes) -> Any:
    return describe_log_dirs.DescribeLogDirsRequest(topics=None)


def _create_partitions(_version: int, _topic_id: bytes) -> Any:
    topic = create_partitions.CreatePartitionsTopic(name="t", count=2, assignments=None)
    return create_partitions.CreatePartitionsRequest(topics=[topic], timeout_ms=1000, validate_only=False)


def _incremental_alter_configs(_version: int, _topic_id: bytes) -> Any:
    one = incremental_alter_configs.AlterableConfig(name="retention.ms", config_operation=0, value="1000")
    resource = incremental_alter_configs.AlterConfigsResource(
        resource_type=TOPIC, resource_name="t", configs=[one]
    )
    return incremental_alter_configs.IncrementalAlterConfigsRequest(resources=[resource], validate_only=False)


def _write_txn_markers(_version: int, _topic_id: bytes) -> Any:
    topic = write_txn_markers.WritableTxnMarkerTopic(name="t", partition_indexes=[0])
    marker = write_txn_markers.WritableTxnMarker(
        producer_id=7, producer_epoch=0, transaction_result=False, topics=[topic], coordinator_epoch=0
    )
    return write_txn_markers.WriteTxnMarkersRequest(markers=[marker])


def _update_features(_version: int, _topic_id: bytes) -> Any:
    return update_features.UpdateFeaturesRequest()


def _describe_quorum(_version: int, _topic_id: bytes) -> Any:
    topic = describe_quorum.TopicData(
        topic_name=KRAFT_TOPIC, partitions=[describe_quorum.PartitionData(partition_index=0)]
    )
    return describe_quorum.DescribeQuorumRequest(topics=[topic])


def _describe_cluster(_version: int, _topic_id: bytes) -> Any:
    return describe_cluster.DescribeClusterRequest(include_cluster_authorized_operations=False)


def _describe_producers(_version: int, _topic_id: bytes) -> Any:
    topic = describe_producers.TopicRequest(name="t", partition_indexes=[0])
    return describe_producers.DescribeProducersRequest(topics=[topic])


def _list_config_resources(_version: int, _topic_id: bytes) -> Any:
    return list_config_resources.ListConfigResourcesRequest()


def _describe_topic_partitions(_version: int, _topic_id: bytes) -> Any:
    topic = describe_topic_partitions.TopicRequest(name="t")
    return describe_topic_partitions.DescribeTopicPartitionsRequest(topics=[topic])


def _elect_leaders(_version: int, _topic_id: bytes) -> Any:
    return elect_leaders.ElectLeadersRequest(topic_partitions=None)


def _alter_partition(_version: int, topic_id: bytes) -> Any:
    me = alter_partition.BrokerState(broker_id=1, broker_epoch=0)
    one = alter_partition.PartitionData(
        partition_index=0, leader_epoch=0, new_isr=[1], new_isr_with_epochs=[me], partition_epoch=0
    )
    topic = alter_partition.TopicData(topic_id=topic_id, partitions=[one])
    return alter_partition.AlterPartitionRequest(broker_id=1, broker_epoch=0, topics=[topic])


def _alter_partition_reassignments(_version: int, _topic_id: bytes) -> Any:
    one = alter_partition_reassignments.ReassignablePartition(partition_index=0, replicas=[1])
    topic = alter_partition_reassignments.ReassignableTopic(name="t", partitions=[one])
    return alter_partition_reassignments.AlterPartitionReassignmentsRequest(topics=[topic])


def _list_partition_reassignments(_version: int, _topic_id: bytes) -> Any:
    return list_partition_reassignments.ListPartitionReassignmentsRequest(topics=None)


def _describe_client_quotas(version: int, topic_id: bytes) -> Any:
    return DescribeClientQuotasRequest(
        components=[ComponentData(entity_type="user", match_type=0, match="a")], strict=True
    )


def _alter_client_quotas(version: int, topic_id: bytes) -> Any:
    entry = EntryData(
        entity=[EntityData(entity_type="user", entity_name="a")],
        ops=[OpData(key="producer_byte_rate", value=1_024.0, remove=False)],
    )
    return AlterClientQuotasRequest(entries=[entry], validate_only=False)


def _describe_user_scram_credentials(_version: int, _topic_id: bytes) -> Any:
    return describe_user_scram_credentials.DescribeUserScramCredentialsRequest(users=None)


def _alter_user_scram_credentials(_version: int, _topic_id: bytes) -> Any:
    alice = alter_user_scram_credentials.ScramCredentialUpsertion(
        name="alice", mechanism=1, iterations=4096, salt=b"salt", salted_password=bytes(32)
    )
    return alter_user_scram_credentials.AlterUserScramCredentialsRequest(upsertions=[alice])


EXAMPLES: dict[str, Callable[[int, bytes], Any]] = {
    api.name: make for api in TABLE.values() if (make := globals().get(f"_{api.name}")) is not None
}
