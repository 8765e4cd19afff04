"""What somebody may not do, they do not learn of either; and who acts as a broker must be one."""

import json
import logging
from typing import Any

import pytest
from tests.api.asking import batch, create, idempotent, new_topic, to
from tests.api.harness import Client, Machine
from tests.api.rights import REQUESTS, Guarded, error_codes

from ottla.api.authorized_operations import bits
from ottla.api.call import CloseConnection
from ottla.base.errors import ErrorCode
from ottla.base.ids import ZERO_UUID
from ottla.broker.audit import REFUSALS_PER_SECOND
from ottla.security.resources import Operation, Permission, ResourceType
from ottla.wire.messages import delete_topics, fetch, metadata
from ottla.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from ottla.wire.messages.create_topics import CreateTopicsRequest
from ottla.wire.messages.describe_cluster import DescribeClusterRequest
from ottla.wire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from ottla.wire.messages.describe_topic_partitions import DescribeTopicPartitionsRequest
from ottla.wire.messages.find_coordinator import FindCoordinatorRequest
from ottla.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup

TOPIC, GROUP, CLUSTER = ResourceType.TOPIC, ResourceType.GROUP, ResourceType.CLUSTER
TRANSACTIONAL_ID = ResourceType.TRANSACTIONAL_ID
READ, WRITE, DESCRIBE, CREATE = Operation.READ, Operation.WRITE, Operation.DESCRIBE, Operation.CREATE
DELETE, CLUSTER_ACTION = Operation.DELETE, Operation.CLUSTER_ACTION
REFUSED = ErrorCode.TOPIC_AUTHORIZATION_FAILED
NAMING_A_TOPIC = [
    ("list_offsets", 8), ("delete_records", 2), ("create_partitions", 3), ("fetch", 12), ("produce", 12),
    ("delete_topics", 5), ("describe_configs", 4), ("offset_for_leader_epoch", 4),
    ("describe_topic_partitions", 0),
]  # fmt: skip


@pytest.fixture
def guarded() -> Guarded:
    return Guarded()


def of_topics(client: Client, *names: str, create: bool = False) -> dict[str | None, int]:
    asked = [metadata.MetadataRequestTopic(name=name) for name in names]
    answer = client.send(metadata.MetadataRequest(topics=asked, allow_auto_topic_creation=create), 12)
    return {topic.name: topic.error_code for topic in answer.topics}


def all_topics(client: Client) -> list[str]:
    return sorted(topic.name for topic in client.send(metadata.MetadataRequest(topics=None)).topics)


# -- topics that nobody may know of -----------------------------------------------------------------


def test_whether_a_topic_is_there_cannot_be_learned_by_who_may_not_describe_it(guarded: Guarded) -> None:
    alice = guarded.user("alice")
    assert of_topics(alice, "t", "not-there", "_ bad") == dict.fromkeys(["t", "not-there", "_ bad"], REFUSED)
    for stage in ("it is there", "it is gone"):
        for name, version in NAMING_A_TOPIC:
            answer = alice.send(REQUESTS[name](version, ZERO_UUID), version)
            assert error_codes(answer) == {REFUSED}, (name, stage)
        if stage == "it is there":
            guarded.admin.send(delete_topics.DeleteTopicsRequest(topic_names=["t"], timeout_ms=1000), 5)
    assert "t" not in guarded.machine.broker.image.topics


def test_of_all_topics_those_are_listed_that_may_be_described(guarded: Guarded) -> None:
    create(guarded.admin, "seen-1")
    create(guarded.admin, "seen-2")
    guarded.allow(READ, TOPIC, "seen", is_prefix=True)
    guarded.allow(DESCRIBE, TOPIC, "seen-2", permission=Permission.DENY)
    alice = guarded.user("alice")
    assert all_topics(alice) == ["seen-1"]
    listed = alice.send(DescribeTopicPartitionsRequest()).topics
    assert [topic.name for topic in listed] == ["seen-1"]
    assert all_topics(guarded.admin) == ["seen-1", "seen-2", "t"]


def test_a_topic_is_created_for_who_may_create_it_by_asking(guarded: Guarded) -> None:
    guarded.allow(DESCRIBE, TOPIC, "*")
    alice = guarded.user("alice")
    assert of_topics(alice, "mine", create=True) == {"mine": REFUSED}
    assert of_topics(alice, "mine") == {"mine": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
    guarded.allow(CREATE, TOPIC, "mi", is_prefix=True)
    assert of_topics(alice, "mine", create=True) == {"mine": ErrorCode.NONE}
    assert of_topics(alice, "other", create=True) == {"other": REFUSED}
    guarded.allow(CREATE, CLUSTER)
    assert of_topics(alice, "other", create=True) == {"other": ErrorCode.NONE}


def test_by_its_id_a_topic_is_refused_without_its_name(guarded: Guarded) -> None:
    alice = guarded.user("alice")
    asked = [
        metadata.MetadataRequestTopic(name=None, topic_id=topic_id)
        for topic_id in (guarded.topic_id, b"x" * 16)
    ]
    hidden, unknown = alice.send(metadata.MetadataRequest(topics=asked), 12).topics
    assert (hidden.name, hidden.error_code) == (None, REFUSED)
    assert (unknown.name, unknown.error_code) == (None, ErrorCode.UNKNOWN_TOPIC_ID)
    state = delete_topics.DeleteTopicState(name=None, topic_id=guarded.topic_id)
    (result,) = alice.send(delete_topics.DeleteTopicsRequest(topics=[state], timeout_ms=1)).responses
    assert (result.name, result.error_code) == (None, REFUSED)
    guarded.allow(DESCRIBE, TOPIC)
    (result,) = alice.send(delete_topics.DeleteTopicsRequest(topics=[state], timeout_ms=1)).responses
    assert (result.name, result.error_code) == ("t", REFUSED)
    guarded.allow(DELETE, TOPIC)
    (result,) = alice.send(delete_topics.DeleteTopicsRequest(topics=[state], timeout_ms=1000)).responses
    assert result.error_code == ErrorCode.NONE


def test_offsets_of_all_topics_are_those_of_topics_that_may_be_described(guarded: Guarded) -> None:
    guarded.live()
    guarded.allow(DESCRIBE, GROUP)
    alice = guarded.user("alice")
    request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id="g", topics=None)])
    assert alice.send(request, 9).groups[0].topics == []
    guarded.allow(DESCRIBE, TOPIC)
    assert [topic.name for topic in alice.send(request, 9).groups[0].topics] == ["t"]


def test_a_regular_expression_tells_a_member_of_no_topic_that_it_may_not_describe(guarded: Guarded) -> None:
    guarded.live()
    seen = create(guarded.admin, "seen")
    guarded.allow(READ, GROUP, "h")
    guarded.allow(READ, TOPIC, "seen")
    request = ConsumerGroupHeartbeatRequest(
        group_id="h",
        member_id="m",
        member_epoch=0,
        rebalance_timeout_ms=1_000,
        subscribed_topic_regex="t|seen",
    )
    assignment = guarded.user("alice").send(request).assignment
    assert [assigned.topic_id for assigned in assignment.topic_partitions] == [seen]
    request.group_id = "i"
    assert len(guarded.admin.send(request).assignment.topic_partitions) == 2


def test_a_new_topic_is_described_to_who_may_describe_its_configs(guarded: Guarded) -> None:
    guarded.allow(CREATE, CLUSTER)
    alice = guarded.user("alice")
    (result,) = alice.send(CreateTopicsRequest(topics=[new_topic("a", 3)])).topics
    assert (result.error_code, result.topic_config_error_code) == (ErrorCode.NONE, REFUSED)
    assert (result.num_partitions, result.replication_factor, result.configs) == (-1, -1, [])
    guarded.allow(Operation.ALTER_CONFIGS, TOPIC, "b")
    (result,) = alice.send(CreateTopicsRequest(topics=[new_topic("b", 3)])).topics
    assert (result.topic_config_error_code, result.num_partitions) == (ErrorCode.NONE, 3)


def test_the_coordinators_topic_is_not_made_for_who_may_not_ask_for_it(guarded: Guarded) -> None:
    alice = guarded.user("alice")
    answer = alice.send(FindCoordinatorRequest(key_type=1, coordinator_keys=["tx"]), 6)
    assert answer.coordinators[0].error_code == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    assert "__transaction_state" not in guarded.machine.broker.image.topics
    guarded.allow(WRITE, TRANSACTIONAL_ID)
    answer = alice.send(FindCoordinatorRequest(key_type=1, coordinator_keys=["tx", "other"]), 6)
    assert [found.error_code for found in answer.coordinators] == [
        ErrorCode.NONE,
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    ]


@pytest.mark.parametrize(
    ("resource_type", "name", "wanted", "code"),
    [
        (2, "t", (TOPIC, "t"), ErrorCode.TOPIC_AUTHORIZATION_FAILED),
        (4, "1", (CLUSTER, "kafka-cluster"), ErrorCode.CLUSTER_AUTHORIZATION_FAILED),
        (8, "1", (CLUSTER, "kafka-cluster"), ErrorCode.CLUSTER_AUTHORIZATION_FAILED),
        (32, "g", (GROUP, "g"), ErrorCode.GROUP_AUTHORIZATION_FAILED),
    ],
)
def test_configs_belong_to_their_resource_and_those_of_brokers_to_the_cluster(
    guarded: Guarded, resource_type: int, name: str, wanted: tuple[ResourceType, str], code: ErrorCode
) -> None:
    resource = DescribeConfigsResource(
        resource_type=resource_type, resource_name=name, configuration_keys=None
    )
    request = DescribeConfigsRequest(resources=[resource])
    alice = guarded.user("alice")
    assert alice.send(request).results[0].error_code == code
    guarded.allow(Operation.DESCRIBE_CONFIGS, *wanted)
    assert alice.send(request).results[0].error_code == ErrorCode.NONE


# -- records ------------------------------------------------------------------------------------------


def test_a_topic_that_may_not_be_read_leaves_the_others_of_a_fetch_alone(guarded: Guarded) -> None:
    create(guarded.admin, "open")
    guarded.admin.send(to("open", batch("a")), 12)
    guarded.allow(READ, TOPIC, "open")
    parts = [fetch.FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1000)]
    topics = [fetch.FetchTopic(topic=name, partitions=parts) for name in ("open", "t")]
    request = fetch.FetchRequest(max_wait_ms=0, min_bytes=1, topics=topics, session_epoch=0)
    alice = guarded.user("alice")
    answer = alice.send(request, 12)
    codes = {topic.topic: topic.partitions[0].error_code for topic in answer.responses}
    assert codes == {"open": ErrorCode.NONE, "t": REFUSED}
    again = fetch.FetchRequest(
        max_wait_ms=0, min_bytes=1, session_id=answer.session_id, session_epoch=1, topics=[]
    )
    guarded.allow(READ, TOPIC, "open", permission=Permission.DENY)
    later = alice.send(again, 12)
    codes = {topic.topic: topic.partitions[0].error_code for topic in later.responses}
    assert codes == {"open": REFUSED, "t": REFUSED}, "a session remembers partitions, not permissions"


def test_who_fetches_as_a_replica_needs_cluster_action_cve_2018_1288(guarded: Guarded) -> None:
    guarded.allow(READ, TOPIC)
    request = REQUESTS["fetch"](12, guarded.topic_id)
    request.replica_id = 1
    alice = guarded.user("alice")
    assert error_codes(alice.send(request, 12)) == {REFUSED}
    guarded.allow(CLUSTER_ACTION, CLUSTER)
    assert REFUSED not in error_codes(alice.send(request, 12))


def test_who_did_not_say_who_they_are_are_no_replica_even_where_everybody_may_do_everything() -> None:
    guarded = Guarded(allow_everyone_if_no_acl_found="true")
    request = REQUESTS["fetch"](12, guarded.topic_id)
    request.replica_id = 1
    anonymous = guarded.machine.client()
    assert error_codes(anonymous.send(request, 12)) == {REFUSED}


def test_a_transactional_batch_needs_its_transactional_id_whatever_the_request_says_cve_2018_17196(
    guarded: Guarded,
) -> None:
    guarded.allow(WRITE, TOPIC)
    alice, code = guarded.user("alice"), ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    transactional = idempotent(0, "a", transactional=True)

    def produced(records: bytes, transactional_id: str | None) -> int:
        request = to("t", records)
        request.transactional_id = transactional_id
        (topic,) = alice.send(request, 9).responses
        result: int = topic.partition_responses[0].error_code
        return result

    assert produced(transactional, None) == code
    assert produced(transactional, "tx") == code
    assert produced(batch("plain"), "tx") == ErrorCode.NONE, "there is no transaction in it"
    guarded.allow(WRITE, TRANSACTIONAL_ID)
    assert produced(transactional, "tx") != code


def test_an_idempotent_producer_needs_no_more_than_its_topic_kip_679(guarded: Guarded) -> None:
    guarded.allow(WRITE, TOPIC)
    alice = guarded.user("alice")
    (topic,) = alice.send(to("t", idempotent(0, "a")), 12).responses
    assert topic.partition_responses[0].error_code == ErrorCode.NONE


def test_a_produce_without_acks_that_is_refused_closes_the_connection(guarded: Guarded) -> None:
    with pytest.raises(CloseConnection):
        guarded.user("alice").ask(to("t", batch("a"), acks=0), 9)


# -- what one may do, and answers that are kept ----------------------------------------------------------


def test_what_one_may_do_is_told_to_who_asks_kip_430(guarded: Guarded) -> None:
    guarded.live()
    guarded.allow(READ, TOPIC)
    guarded.allow(DELETE, GROUP)
    alice = guarded.user("alice")
    asked = metadata.MetadataRequest(
        topics=[metadata.MetadataRequestTopic(name=name) for name in ("t", "hidden")],
        include_topic_authorized_operations=True, include_cluster_authorized_operations=True,
    )  # fmt: skip
    answer = alice.send(asked, 9)
    by_name = {topic.name: topic.topic_authorized_operations for topic in answer.topics}
    assert by_name == {"t": bits([READ, DESCRIBE]), "hidden": -(2**31)}
    assert answer.cluster_authorized_operations == 0
    described = alice.send(DescribeTopicPartitionsRequest()).topics
    assert [topic.topic_authorized_operations for topic in described] == [bits([READ, DESCRIBE])]
    request = REQUESTS["describe_groups"](5, ZERO_UUID)
    request.include_authorized_operations = True
    (group,) = alice.send(request, 5).groups
    assert group.authorized_operations == bits([DELETE, DESCRIBE])
    cluster = DescribeClusterRequest(include_cluster_authorized_operations=True)
    assert alice.send(cluster).cluster_authorized_operations == 0
    guarded.allow(Operation.ALTER, CLUSTER)
    assert alice.send(cluster).cluster_authorized_operations == bits([Operation.ALTER, DESCRIBE])


def test_a_kept_answer_is_for_the_same_principal_and_host_until_acls_change(guarded: Guarded) -> None:
    alice, again, mallory = guarded.user("alice"), guarded.user("alice"), guarded.user("mallory")
    guarded.allow(DESCRIBE, TOPIC, host="10.0.0.1")
    alice.host = again.host = mallory.host = "/10.0.0.1"
    assert all_topics(alice) == all_topics(again) == ["t"]
    assert all_topics(mallory) == []
    again.host = "/10.0.0.2"
    assert all_topics(again) == []
    assert all_topics(guarded.machine.client().as_broker(1)) == ["t"]
    assert all_topics(guarded.machine.client()) == [], "whoever did not say who they are"
    guarded.allow(DESCRIBE, TOPIC, permission=Permission.DENY)
    assert all_topics(alice) == []


# -- the audit log -----------------------------------------------------------------------------------------


def audited(caplog: pytest.LogCaptureFixture) -> list[dict[str, Any]]:
    records = [record for record in caplog.records if record.name == "ottla.audit"]
    assert all("\n" not in record.getMessage() for record in records)
    return [json.loads(record.getMessage()) for record in records]


def test_every_administrative_request_leaves_a_line_whether_it_is_allowed_or_not(
    guarded: Guarded, caplog: pytest.LogCaptureFixture
) -> None:
    alice = guarded.user("alice")
    alice.host = "/10.0.0.1"
    with caplog.at_level(logging.INFO, "ottla.audit"):
        alice.send(CreateTopicsRequest(topics=[new_topic('a\n{"allowed": true}', retention_ms="hush")]))
        guarded.admin.send(CreateTopicsRequest(topics=[new_topic("made", 1)]))
    denied, allowed = audited(caplog)
    assert denied == {
        "at": "access", "principal": "User:alice", "host": "10.0.0.1", "listener": "PLAINTEXT",
        "client": "a client", "api": "CreateTopics", "on": {"topics.name": ['a\n{"allowed": true}']},
        "allowed": False, "checks": [["CREATE", "TOPIC", 'a\n{"allowed": true}', False]],
    }  # fmt: skip
    assert (allowed["principal"], allowed["allowed"]) == ("User:admin", True)
    assert allowed["on"] == {"topics.name": ["made"]}
    assert "hush" not in caplog.text


def test_without_an_authorizer_administrative_requests_are_audited_all_the_same(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.INFO, "ottla.audit"):
        create(Machine().client(), "t")
    (line,) = audited(caplog)
    assert (line["principal"], line["api"], line["allowed"]) == ("User:ANONYMOUS", "CreateTopics", True)


def test_refusals_of_ordinary_requests_are_audited_but_so_many_in_a_second(
    guarded: Guarded, caplog: pytest.LogCaptureFixture
) -> None:
    alice = guarded.user("alice")
    with caplog.at_level(logging.INFO, "ottla.audit"):
        for _ in range(100):
            alice.send(REQUESTS["fetch"](12, guarded.topic_id), 12)
        assert len(audited(caplog)) == REFUSALS_PER_SECOND
        guarded.machine.pass_time(2_000)
        alice.send(REQUESTS["fetch"](12, guarded.topic_id), 12)
        all_topics(alice)  # who asks for all there are was refused nothing
    first, *_, last = audited(caplog)
    assert first["api"] == "Fetch"
    assert first["checks"] == [["READ", "TOPIC", "t", False]]
    assert last["left_out"] == 100 - REFUSALS_PER_SECOND
