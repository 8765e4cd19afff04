"""A broker with an authorizer, users, and what they may do; and a request of every API for them to send.

Everything is about the topic `t` (or `new`, which is not there), the group `g` and the transactional id `tx`.
"""

from collections.abc import Callable
from typing import Any

from tests.api.asking import create
from tests.api.examples import EXAMPLES
from tests.api.harness import Client, Machine

from ottla.base.ids import ZERO_UUID
from ottla.controller.acl_nodes import AclKey, StoredAcl, change
from ottla.security.acls import stored_name
from ottla.security.resources import CLUSTER_NAME, Operation, Permission, ResourceType
from ottla.wire.messages import (
    add_offsets_to_txn,
    add_partitions_to_txn,
    consumer_group_describe,
    consumer_group_heartbeat,
    create_acls,
    delete_acls,
    delete_groups,
    describe_acls,
    describe_groups,
    describe_transactions,
    elect_leaders,
    end_txn,
    find_coordinator,
    heartbeat,
    init_producer_id,
    join_group,
    leave_group,
    list_groups,
    list_transactions,
    offset_commit,
    offset_delete,
    offset_fetch,
    sasl_authenticate,
    sasl_handshake,
    sync_group,
    txn_offset_commit,
)

AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
NAMES = {
    ResourceType.TOPIC: "t",
    ResourceType.GROUP: "g",
    ResourceType.CLUSTER: CLUSTER_NAME,
    ResourceType.TRANSACTIONAL_ID: "tx",
}


class Guarded:
    """One broker with an authorizer: `admin` may do everything, everybody else what is allowed here."""

    def __init__(self, **properties: str) -> None:
        given = {key.replace("_", "."): value for key, value in properties.items()}
        self.machine = Machine({
            "authorizer.class.name": AUTHORIZER, "super.users": "User:admin",
            "offsets.topic.num.partitions": "1", "transaction.state.log.num.partitions": "1", **given,
        })  # fmt: skip
        self.admin = self.user("admin")
        self.topic_id = create(self.admin, "t")

    def user(self, name: str) -> Client:
        return self.machine.client().as_user(name)

    def allow(
        self,
        operation: Operation,
        resource_type: ResourceType,
        name: str | None = None,
        *,
        who: str = "User:alice",
        permission: Permission = Permission.ALLOW,
        is_prefix: bool = False,
        host: str = "*",
    ) -> None:
        key = AclKey(stored_name(resource_type), name or NAMES[resource_type], is_prefix)
        acl = StoredAcl(who, stored_name(permission), stored_name(operation), host)
        self.machine.write(*change(key, self.machine.broker.image.acls.get(key), [acl]))

    def live(self) -> None:
        """There is a group with an offset, and a transactional id."""
        admin = self.admin
        admin.send(REQUESTS["find_coordinator"](6, self.topic_id), 6)
        admin.send(find_coordinator.FindCoordinatorRequest(key_type=1, coordinator_keys=["tx"]), 6)
        admin.send(REQUESTS["offset_commit"](9, self.topic_id), 9)
        answer = admin.send(
            init_producer_id.InitProducerIdRequest(transactional_id="tx", transaction_timeout_ms=60_000)
        )
        assert answer.error_code == 0


def _add_partitions_to_txn(version: int, _topic_id: bytes) -> Any:
    topic = add_partitions_to_txn.AddPartitionsToTxnTopic(name="t", partitions=[0])
    transaction = add_partitions_to_txn.AddPartitionsToTxnTransaction(
        transactional_id="tx", producer_id=0, producer_epoch=0, topics=[topic]
    )
    return add_partitions_to_txn.AddPartitionsToTxnRequest(
        v3_and_below_transactional_id="tx" if version < 4 else "",
        v3_and_below_topics=[topic] if version < 4 else [],
        transactions=[transaction] if version >= 4 else [],
    )


def _consumer_group_heartbeat(_version: int, _topic_id: bytes) -> Any:
    return consumer_group_heartbeat.ConsumerGroupHeartbeatRequest(
        group_id="g", member_id="m", member_epoch=0, rebalance_timeout_ms=1_000, subscribed_topic_names=["t"]
    )


def _find_coordinator(version: int, _topic_id: bytes) -> Any:
    if version >= 4:
        return find_coordinator.FindCoordinatorRequest(coordinator_keys=["g"])
    return find_coordinator.FindCoordinatorRequest(key="g")


def _join_group(_version: int, _topic_id: bytes) -> Any:
    protocol = join_group.JoinGroupRequestProtocol(name="range", metadata=b"")
    return join_group.JoinGroupRequest(
        group_id="g", session_timeout_ms=10_000, rebalance_timeout_ms=10_000, member_id="",
        protocol_type="consumer", protocols=[protocol],
    )  # fmt: skip


def _leave_group(version: int, _topic_id: bytes) -> Any:
    members = [leave_group.MemberIdentity(member_id="m")] if version >= 3 else []
    return leave_group.LeaveGroupRequest(group_id="g", member_id="m" if version < 3 else "", members=members)


def _offset_commit(version: int, topic_id: bytes) -> Any:
    asked = offset_commit.OffsetCommitRequestPartition(partition_index=0, committed_offset=3)
    topic = offset_commit.OffsetCommitRequestTopic(
        name="t" if version < 10 else "",
        topic_id=topic_id if version >= 10 else ZERO_UUID,
        partitions=[asked],
    )
    return offset_commit.OffsetCommitRequest(group_id="g", member_id="", topics=[topic])


def _offset_delete(_version: int, _topic_id: bytes) -> Any:
    asked = offset_delete.OffsetDeleteRequestPartition(partition_index=0)
    topic = offset_delete.OffsetDeleteRequestTopic(name="t", partitions=[asked])
    return offset_delete.OffsetDeleteRequest(group_id="g", topics=[topic])


def _offset_fetch(version: int, topic_id: bytes) -> Any:
    if version < 8:
        topic = offset_fetch.OffsetFetchRequestTopic(name="t", partition_indexes=[0])
        return offset_fetch.OffsetFetchRequest(group_id="g", topics=[topic])
    by_id = version >= 10
    asked = offset_fetch.OffsetFetchRequestTopics(
        name="" if by_id else "t", topic_id=topic_id if by_id else ZERO_UUID, partition_indexes=[0]
    )
    group = offset_fetch.OffsetFetchRequestGroup(group_id="g", topics=[asked])
    return offset_fetch.OffsetFetchRequest(groups=[group])


def _txn_offset_commit(_version: int, _topic_id: bytes) -> Any:
    asked = txn_offset_commit.TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=3)
    topic = txn_offset_commit.TxnOffsetCommitRequestTopic(name="t", partitions=[asked])
    return txn_offset_commit.TxnOffsetCommitRequest(
        transactional_id="tx", group_id="g", producer_id=0, producer_epoch=0, topics=[topic]
    )


def _create_acls(_version: int, _topic_id: bytes) -> Any:
    creation = create_acls.AclCreation(
        resource_type=2, resource_name="t", resource_pattern_type=3, principal="User:bob", host="*",
        operation=3, permission_type=3,
    )  # fmt: skip
    return create_acls.CreateAclsRequest(creations=[creation])


def _delete_acls(_version: int, _topic_id: bytes) -> Any:
    selection = delete_acls.DeleteAclsFilter(
        resource_type_filter=2,
        resource_name_filter="u",
        pattern_type_filter=3,
        operation=1,
        permission_type=1,
    )
    return delete_acls.DeleteAclsRequest(filters=[selection])


def _elect_leaders(_version: int, _topic_id: bytes) -> Any:
    topic = elect_leaders.TopicPartitions(topic="t", partitions=[0])
    return elect_leaders.ElectLeadersRequest(topic_partitions=[topic])


MORE: dict[str, Callable[[int, bytes], Any]] = {
    "add_offsets_to_txn": lambda _version, _topic_id: add_offsets_to_txn.AddOffsetsToTxnRequest(
        transactional_id="tx", producer_id=0, producer_epoch=0, group_id="g"
    ),
    "add_partitions_to_txn": _add_partitions_to_txn,
    "consumer_group_describe": lambda _version, _topic_id: (
        consumer_group_describe.ConsumerGroupDescribeRequest(
            group_ids=["g"], include_authorized_operations=True
        )
    ),
    "consumer_group_heartbeat": _consumer_group_heartbeat,
    "create_acls": _create_acls,
    "delete_acls": _delete_acls,
    "delete_groups": lambda _version, _topic_id: delete_groups.DeleteGroupsRequest(groups_names=["g"]),
    "describe_acls": lambda _version, _topic_id: describe_acls.DescribeAclsRequest(
        resource_type_filter=1, pattern_type_filter=1, operation=1, permission_type=1
    ),
    "describe_groups": lambda _version, _topic_id: describe_groups.DescribeGroupsRequest(groups=["g"]),
    "describe_transactions": lambda _version, _topic_id: describe_transactions.DescribeTransactionsRequest(
        transactional_ids=["tx"]
    ),
    "elect_leaders": _elect_leaders,
    "end_txn": lambda _version, _topic_id: end_txn.EndTxnRequest(
        transactional_id="tx", producer_id=0, producer_epoch=0, committed=False
    ),
    "find_coordinator": _find_coordinator,
    "heartbeat": lambda _version, _topic_id: heartbeat.HeartbeatRequest(
        group_id="g", generation_id=1, member_id="m"
    ),
    "join_group": _join_group,
    "leave_group": _leave_group,
    "list_groups": lambda _version, _topic_id: list_groups.ListGroupsRequest(),
    "list_transactions": lambda _version, _topic_id: list_transactions.ListTransactionsRequest(),
    "offset_commit": _offset_commit,
    "offset_delete": _offset_delete,
    "offset_fetch": _offset_fetch,
    "sasl_authenticate": lambda _version, _topic_id: sasl_authenticate.SaslAuthenticateRequest(
        auth_bytes=b""
    ),
    "sasl_handshake": lambda _version, _topic_id: sasl_handshake.SaslHandshakeRequest(mechanism="NONE"),
    "sync_group": lambda version, _topic_id: sync_group.SyncGroupRequest(
        group_id="g",
        generation_id=1,
        member_id="m",
        protocol_type="consumer" if version >= 5 else None,
        protocol_name="range" if version >= 5 else None,
    ),
    "txn_offset_commit": _txn_offset_commit,
}
REQUESTS = {**EXAMPLES, **MORE}


def error_codes(message: Any) -> set[int]:
    """Every error code in an answer, however deep, without 0."""
    codes = set()
    for name in getattr(message, "__slots__", ()):
        value = getattr(message, name)
        if name.endswith("error_code"):
            codes.add(value)
        for item in value if isinstance(value, list) else [value]:
            codes |= error_codes(item)
    return codes - {0}
