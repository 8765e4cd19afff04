"""The table of APIs, and what dispatch makes of a frame: every API, in every version."""

import errno
import struct
from typing import Any

import pytest
from tests.api.asking import create, produce
from tests.api.examples import EXAMPLES
from tests.api.harness import Machine

from ottla.api.call import CloseConnection
from ottla.api.dispatch import REQUEST_BYTES_MAX
from ottla.api.table import TABLE
from ottla.base.errors import ErrorCode
from ottla.broker.kept_answers import KEPT_ANSWERS_MAX
from ottla.wire.codec import decode, encode
from ottla.wire.header import RequestHeader, decode_response_header, encode_request_header
from ottla.wire.messages import metadata
from ottla.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from ottla.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from ottla.wire.messages.describe_cluster import DescribeClusterRequest
from ottla.wire.messages.metadata import MetadataRequest
from ottla.wire.primitives import ProtocolError

# A group must be lived in to answer without an error, and so must a transaction: these have their dialogues
# elsewhere; so have ACLs, which need an authorizer.
# Of those of SASL (test_peer_handshake) there is none yet that a listener in plain text takes.
OTHERS = {
    "add_offsets_to_txn",
    "add_partitions_to_txn",
    "create_acls",
    "delete_acls",
    "describe_acls",
    "describe_transactions",
    "end_txn",
    "list_transactions",
    "sasl_authenticate",
    "sasl_handshake",
    "consumer_group_describe",
    "consumer_group_heartbeat",
    "delete_groups",
    "describe_groups",
    "find_coordinator",
    "heartbeat",
    "join_group",
    "leave_group",
    "list_groups",
    "offset_commit",
    "offset_delete",
    "offset_fetch",
    "sync_group",
    "txn_offset_commit",
}
EVERY = [
    (key, version)
    for key, api in sorted(TABLE.items())
    if api.name in EXAMPLES
    for version in range(api.versions[0], api.versions[1] + 1)
]


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
    client = machine.client().as_broker(1)
    answer = client.send(EXAMPLES[TABLE[key].name](version, topic_id), version)
    assert error_codes(answer) <= {ErrorCode.NONE}


def test_every_api_has_an_example() -> None:
    assert {api.name for api in TABLE.values()} - set(EXAMPLES) <= OTHERS, "see tests/api/examples.py"


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


def test_a_disk_that_fails_under_a_handler_is_a_storage_error_and_the_last_one_stops_the_broker() -> None:
    machine = Machine()
    client = machine.client()
    create(client, "t")
    produce(client, "t")
    machine.disk.fail("write_atomic", errno.EIO)
    (topic,) = client.send(delete_all_of("t")).topics
    assert topic.partitions[0].error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert "[Errno 5] Input/output error: '/data/t-0/leader-epoch-checkpoint'" in machine.halted[0]


def delete_all_of(topic: str) -> DeleteRecordsRequest:
    one = DeleteRecordsTopic(name=topic, partitions=[DeleteRecordsPartition(partition_index=0, offset=-1)])
    return DeleteRecordsRequest(topics=[one], timeout_ms=1)


def test_cached_answers_are_bounded_and_a_large_request_is_not_cached() -> None:
    machine = Machine({"auto.create.topics.enable": "false"})
    client = machine.client()

    def ask(*names: str) -> None:
        client.send(MetadataRequest(topics=[metadata.MetadataRequestTopic(name=name) for name in names]))

    for number in range(KEPT_ANSWERS_MAX):
        ask(f"t{number}")
    assert len(machine.broker.answers) == KEPT_ANSWERS_MAX
    ask("one-more")
    assert len(machine.broker.answers) == 1
    ask(*(f"a-rather-long-name-{number}" for number in range(300)))
    assert len(machine.broker.answers) == 1


def test_a_cached_answer_carries_the_correlation_id_of_its_own_request() -> None:
    machine = Machine()
    first, second = machine.client(), machine.client()
    second.sent = 41
    assert first.send(MetadataRequest(topics=None)) == second.send(MetadataRequest(topics=None))
