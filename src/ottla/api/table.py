"""The table of APIs: one line per key. What is not in it is not served, and what is in it is advertised."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ottla.api.alter_configs import alter_configs
from ottla.api.api_versions import api_versions
from ottla.api.create_partitions import create_partitions
from ottla.api.create_topics import create_topics
from ottla.api.delete_records import delete_records
from ottla.api.delete_topics import delete_topics
from ottla.api.describe_cluster import describe_cluster
from ottla.api.describe_configs import describe_configs
from ottla.api.describe_log_dirs import describe_log_dirs
from ottla.api.describe_producers import describe_producers
from ottla.api.describe_topic_partitions import describe_topic_partitions
from ottla.api.fetch import fetch
from ottla.api.incremental_alter_configs import incremental_alter_configs
from ottla.api.init_producer_id import init_producer_id
from ottla.api.list_config_resources import list_config_resources
from ottla.api.list_offsets import list_offsets
from ottla.api.metadata import metadata
from ottla.api.offset_for_leader_epoch import offset_for_leader_epoch
from ottla.api.produce import produce
from ottla.api.update_features import update_features
from ottla.wire.messages.alter_configs import AlterConfigsRequest
from ottla.wire.messages.api_versions import ApiVersionsRequest
from ottla.wire.messages.create_partitions import CreatePartitionsRequest
from ottla.wire.messages.create_topics import CreateTopicsRequest
from ottla.wire.messages.delete_records import DeleteRecordsRequest
from ottla.wire.messages.delete_topics import DeleteTopicsRequest
from ottla.wire.messages.describe_cluster import DescribeClusterRequest
from ottla.wire.messages.describe_configs import DescribeConfigsRequest
from ottla.wire.messages.describe_log_dirs import DescribeLogDirsRequest
from ottla.wire.messages.describe_producers import DescribeProducersRequest
from ottla.wire.messages.describe_topic_partitions import DescribeTopicPartitionsRequest
from ottla.wire.messages.fetch import FetchRequest
from ottla.wire.messages.incremental_alter_configs import IncrementalAlterConfigsRequest
from ottla.wire.messages.init_producer_id import InitProducerIdRequest
from ottla.wire.messages.list_config_resources import ListConfigResourcesRequest
from ottla.wire.messages.list_offsets import ListOffsetsRequest
from ottla.wire.messages.metadata import MetadataRequest
from ottla.wire.messages.offset_for_leader_epoch import OffsetForLeaderEpochRequest
from ottla.wire.messages.produce import ProduceRequest
from ottla.wire.messages.update_features import UpdateFeaturesRequest


@dataclass(frozen=True, slots=True)
class Api:
    request: type
    handler: Callable[..., Any]
    key: int
    versions: tuple[int, int]
    advertised_min: int
    cached: bool

    @property
    def name(self) -> str:
        return self.request.__name__.removesuffix("Request")


def _api(
    request: Any, handler: Callable[..., Any], *, advertised_min: int | None = None, cached: bool = False
) -> Api:
    """`cached`: the encoded answer depends on the request and the image alone."""
    low = request.VERSIONS[0]
    return Api(
        request=request,
        handler=handler,
        key=request.API_KEY,
        versions=request.VERSIONS,
        advertised_min=low if advertised_min is None else advertised_min,
        cached=cached,
    )


TABLE = {
    api.key: api
    for api in (
        _api(ProduceRequest, produce, advertised_min=0),
        _api(FetchRequest, fetch),
        _api(ListOffsetsRequest, list_offsets),
        _api(MetadataRequest, metadata, cached=True),
        _api(ApiVersionsRequest, api_versions, cached=True),
        _api(CreateTopicsRequest, create_topics),
        _api(DeleteTopicsRequest, delete_topics),
        _api(DeleteRecordsRequest, delete_records),
        _api(InitProducerIdRequest, init_producer_id),
        _api(OffsetForLeaderEpochRequest, offset_for_leader_epoch),
        _api(DescribeConfigsRequest, describe_configs),
        _api(AlterConfigsRequest, alter_configs),
        _api(DescribeLogDirsRequest, describe_log_dirs),
        _api(CreatePartitionsRequest, create_partitions),
        _api(IncrementalAlterConfigsRequest, incremental_alter_configs),
        _api(UpdateFeaturesRequest, update_features),
        _api(DescribeClusterRequest, describe_cluster),
        _api(DescribeProducersRequest, describe_producers),
        _api(ListConfigResourcesRequest, list_config_resources),
        _api(DescribeTopicPartitionsRequest, describe_topic_partitions),
    )
}
