"""The table of APIs, and what dispatch makes of a frame: every API, in every version."""

import struct
from typing import Any

import pytest
from tests.api.asking import batch, create
from tests.api.harness import Machine

from ottla.api.call import CloseConnection
from ottla.api.dispatch import CACHED_ANSWERS_MAX, REQUEST_BYTES_MAX
from ottla.api.table import TABLE
from ottla.base.errors import ErrorCode
from ottla.base.ids import ZERO_UUID
from ottla.wire.codec import decode, encode
from ottla.wire.header import RequestHeader, decode_response_header, encode_request_header
from ottla.wire.messages import (
    alter_configs,
    create_partitions,
    create_topics,
    delete_records,
    delete_topics,
    describe_configs,
    describe_log_dirs,
    describe_producers,
    describe_topic_partitions,
    fetch,
    incremental_alter_configs,
    list_config_resources,
    list_offsets,
    metadata,
    offset_for_leader_epoch,
    produce,
    update_features,
)
from ottla.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from ottla.wire.messages.describe_cluster import DescribeClusterRequest
from ottla.wire.messages.init_producer_id import InitProducerIdRequest
from ottla.wire.messages.metadata import MetadataRequest
from ottla.wire.primitives import ProtocolError

EVERY = [
    (key, version)
    for key, api in sorted(TABLE.items())
    for version in range(api.versions[0], api.versions[1] + 1)
]


def valid_request(key: int, version: int, topic_id: bytes) -> Any:
    """Something that a client could send for this API, in any of its versions."""
    by_id = topic_id if version >= 13 else ZERO_UUID
    match key:
        case 0:
            one = produce.PartitionProduceData(index=0, records=batch("a"))
            topic = produce.TopicProduceData(name="t", topic_id=by_id, partition_data=[one])
            return produce.ProduceRequest(acks=-1, timeout_ms=1000, topic_data=[topic])
        case 1:
            part = fetch.FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1000)
            wanted = fetch.FetchTopic(topic="t", topic_id=by_id, partitions=[part])
            return fetch.FetchRequest(max_wait_ms=0, min_bytes=1, topics=[wanted])
        case 2:
            at = list_offsets.ListOffsetsPartition(partition_index=0, timestamp=-1)
            return list_offsets.ListOffsetsRequest(
                replica_id=-1, topics=[list_offsets.ListOffsetsTopic(name="t", partitions=[at])]
            )
        case 3:
            return MetadataRequest(topics=[metadata.MetadataRequestTopic(name="t")])
        case 18:
            return ApiVersionsRequest(client_software_name="a-client", client_software_version="1.0")
        case 19:
            new = create_topics.CreatableTopic(name="new", num_partitions=1, replication_factor=1)
            return create_topics.CreateTopicsRequest(topics=[new])
        case 20:
            state = delete_topics.DeleteTopicState(name="t", topic_id=ZERO_UUID)
            return delete_topics.DeleteTopicsRequest(
                topic_names=["t"] if version < 6 else [], topics=[state] if version >= 6 else [], timeout_ms=1
            )
        case 21:
            cut = delete_records.DeleteRecordsPartition(partition_index=0, offset=0)
            return delete_records.DeleteRecordsRequest(
                topics=[delete_records.DeleteRecordsTopic(name="t", partitions=[cut])], timeout_ms=1
            )
        case 22:
            return InitProducerIdRequest(transaction_timeout_ms=1)
        case 23:
            epoch = offset_for_leader_epoch.OffsetForLeaderPartition(partition=0, leader_epoch=0)
            asked = offset_for_leader_epoch.OffsetForLeaderTopic(topic="t", partitions=[epoch])
            return offset_for_leader_epoch.OffsetForLeaderEpochRequest(topics=[asked])
        case 32:
            described = describe_configs.DescribeConfigsResource(
                resource_type=2, resource_name="t", configuration_keys=None
            )
            return describe_configs.DescribeConfigsRequest(resources=[described], include_synonyms=True)
        case _:
            return valid_admin_request(key)


def valid_admin_request(key: int) -> Any:
    match key:
        case 33:
            one = alter_configs.AlterableConfig(name="retention.ms", value="1000")
            resource = alter_configs.AlterConfigsResource(resource_type=2, resource_name="t", configs=[one])
            return alter_configs.AlterConfigsRequest(resources=[resource], validate_only=False)
        case 35:
            return describe_log_dirs.DescribeLogDirsRequest(topics=None)
        case 37:
            more = create_partitions.CreatePartitionsTopic(name="t", count=2, assignments=None)
            return create_partitions.CreatePartitionsRequest(
                topics=[more], timeout_ms=1000, validate_only=False
            )
        case 44:
            change = incremental_alter_configs.AlterableConfig(
                name="retention.ms", config_operation=0, value="1000"
            )
            altered = incremental_alter_configs.AlterConfigsResource(
                resource_type=2, resource_name="t", configs=[change]
            )
            return incremental_alter_configs.IncrementalAlterConfigsRequest(
                resources=[altered], validate_only=False
            )
        case 57:
            return update_features.UpdateFeaturesRequest()
        case 60:
            return DescribeClusterRequest(include_cluster_authorized_operations=False)
        case 61:
            topic = describe_producers.TopicRequest(name="t", partition_indexes=[0])
            return describe_producers.DescribeProducersRequest(topics=[topic])
        case 74:
            return list_config_resources.ListConfigResourcesRequest()
        case 75:
            return describe_topic_partitions.DescribeTopicPartitionsRequest(
                topics=[describe_topic_partitions.TopicRequest(name="t")]
            )
    raise AssertionError(f"API {key} needs an example here")


def error_codes(message: Any) -> set[int]:
    """Every error code in an answer, however deep."""
    found = set()
    for name in getattr(message, "__slots__", ()):
        value = getattr(message, name)
        if name == "error_code":
            found.add(value)
        for item in value if isinstance(value, list) else [value]:
            found |= error_codes(item)
    return found


@pytest.mark.parametrize(("key", "version"), EVERY, ids=[f"{TABLE[k].name}-v{v}" for k, v in EVERY])
def test_a_valid_request_is_answered_in_every_version(key: int, version: int) -> None:
    machine = Machine()
    topic_id = create(machine.client(), "t")
    answer = machine.client().send(valid_request(key, version, topic_id), version)
    assert error_codes(answer) <= {ErrorCode.NONE}


@pytest.mark.parametrize("api", TABLE.values(), ids=lambda api: api.name)
def test_every_row_has_its_request_and_its_handler(api: Any) -> None:
    request, handler = api.load()
    assert request.__name__ == f"{api.title}Request"
    assert callable(handler)
    assert api.title in (handler.__doc__ or __import__(handler.__module__, fromlist=["x"]).__doc__)


@pytest.mark.parametrize("version", range(5))
def test_the_broker_advertises_exactly_the_table_and_produce_from_zero(version: int) -> None:
    request = ApiVersionsRequest(client_software_name="x", client_software_version="1")
    answer = Machine().client().send(request, version)
    listed = {one.api_key: (one.min_version, one.max_version) for one in answer.api_keys}
    assert listed.pop(0) == (0, TABLE[0].versions[1])
    assert listed == {key: api.versions for key, api in TABLE.items() if key}


@pytest.mark.parametrize(("name", "software"), [("", "1"), ("x", ""), ("a b", "1"), ("-x", "1"), ("x", "1.")])
def test_software_that_does_not_say_who_it_is_properly_is_refused(name: str, software: str) -> None:
    request = ApiVersionsRequest(client_software_name=name, client_software_version=software)
    assert Machine().client().send(request, 3).error_code == ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize("version", [5, 99, 32767, -1])
def test_an_unknown_version_of_api_versions_is_answered_in_version_zero_with_the_list(version: int) -> None:
    header = encode_request_header(RequestHeader(18, version, 77, "from the future"))
    answer = Machine().client().raw(header + b"\x02?")
    assert isinstance(answer, list)
    view = memoryview(b"".join(answer))[4:]
    correlation_id, at = decode_response_header(view, flexible=False)
    decoded = decode(ApiVersionsResponse, 0, view, at)
    assert (correlation_id, decoded.error_code) == (77, ErrorCode.UNSUPPORTED_VERSION)
    assert [one.api_key for one in decoded.api_keys] == sorted(TABLE)


@pytest.mark.parametrize("key", [-1, 4, 999])
def test_an_unknown_key_closes_the_connection(key: int) -> None:
    with pytest.raises(ProtocolError, match=f"{key}"):
        Machine().client().raw(struct.pack(">hhih", key, 0, 1, -1))


def test_a_key_that_is_known_and_not_served_closes_the_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(TABLE, 60)
    with pytest.raises(ProtocolError, match="60 is not served"):
        Machine().client().raw(encode_request_header(RequestHeader(60, 0, 1, None)))


@pytest.mark.parametrize(("key", "version"), [(0, 0), (0, 2), (0, 14), (1, 3), (3, 14), (19, -1)])
def test_an_unknown_version_closes_the_connection(key: int, version: int) -> None:
    with pytest.raises(ProtocolError, match=f"has no version {version}"):
        Machine().client().raw(struct.pack(">hhihb", key, version, 1, -1, 0))


def test_only_a_produce_may_be_very_large() -> None:
    client = Machine().client()
    with pytest.raises(ProtocolError, match="Metadata with"):
        client.raw(encode_request_header(RequestHeader(3, 1, 1, None)) + bytes(REQUEST_BYTES_MAX))
    with pytest.raises(ProtocolError, match=r"^(?!.*more than)"):
        client.raw(encode_request_header(RequestHeader(0, 3, 1, None)) + b"\xff" * REQUEST_BYTES_MAX)


def test_a_truncated_request_closes_the_connection() -> None:
    whole = encode_request_header(RequestHeader(3, 12, 1, "c")) + encode(MetadataRequest(topics=None), 12)
    client = Machine().client()
    assert isinstance(client.raw(whole), list)
    for size in range(len(whole)):
        with pytest.raises(ProtocolError):
            client.raw(whole[:size])


def test_a_handler_that_fails_costs_its_connection_and_is_logged(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    machine = Machine()
    client = machine.client()
    request = DescribeClusterRequest(include_cluster_authorized_operations=False)
    client.send(request)
    monkeypatch.setattr(machine.broker, "image", None)
    with pytest.raises(CloseConnection, match="DescribeCluster failed"):
        client.ask(request)
    assert "bug: DescribeCluster v2 from client 'a client' failed" in caplog.text


def test_cached_answers_are_bounded_and_a_large_request_is_not_cached() -> None:
    machine = Machine({"auto.create.topics.enable": "false"})
    client = machine.client()

    def ask(*names: str) -> None:
        client.send(MetadataRequest(topics=[metadata.MetadataRequestTopic(name=name) for name in names]))

    for number in range(CACHED_ANSWERS_MAX):
        ask(f"t{number}")
    assert len(machine.broker.answers) == CACHED_ANSWERS_MAX
    ask("one-more")
    assert len(machine.broker.answers) == 1
    ask(*(f"a-rather-long-name-{number}" for number in range(300)))
    assert len(machine.broker.answers) == 1


def test_a_cached_answer_carries_the_correlation_id_of_its_own_request() -> None:
    machine = Machine()
    first, second = machine.client(), machine.client()
    second.sent = 41
    assert first.send(MetadataRequest(topics=None)) == second.send(MetadataRequest(topics=None))
