"""Every API, with a user who may do nothing, and with one who may do exactly what its row declares.

What is expected is what Kafka answers. (CVE-2023-50976: another broker forgot the APIs of transactions.)
"""

from typing import Any

import pytest
from tests.api.harness import Machine
from tests.api.rights import REQUESTS, Guarded, error_codes

from ottla.api.needs import Need, on_cluster, on_group, on_topic, on_transactional_id
from ottla.api.table import TABLE
from ottla.base.errors import ErrorCode
from ottla.base.ids import TopicPartition
from ottla.security.resources import Operation

TOPIC, GROUP = ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.GROUP_AUTHORIZATION_FAILED
CLUSTER, TRANSACTION = (
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
)
REFUSALS = {TOPIC, GROUP, CLUSTER, TRANSACTION}
ANSWERED = {"api_versions", "describe_cluster", "list_groups", "list_transactions"}
SASL = {"sasl_handshake", "sasl_authenticate"}
REFUSED: dict[str, ErrorCode] = {
    **dict.fromkeys(
        ["produce", "fetch", "list_offsets", "metadata", "create_topics", "delete_topics", "delete_records",
         "offset_for_leader_epoch", "describe_configs", "alter_configs", "incremental_alter_configs",
         "create_partitions", "describe_producers", "describe_topic_partitions"], TOPIC),
    **dict.fromkeys(
        ["offset_commit", "offset_fetch", "find_coordinator", "join_group", "heartbeat", "leave_group",
         "sync_group", "describe_groups", "delete_groups", "offset_delete", "consumer_group_heartbeat",
         "consumer_group_describe"], GROUP),
    **dict.fromkeys(
        ["init_producer_id", "write_txn_markers", "describe_acls", "create_acls", "delete_acls",
         "alter_replica_log_dirs", "describe_log_dirs", "elect_leaders", "alter_partition_reassignments",
         "list_partition_reassignments", "describe_quorum", "alter_partition", "update_features",
         "list_config_resources", "describe_user_scram_credentials",
         "alter_user_scram_credentials", "describe_client_quotas", "alter_client_quotas"], CLUSTER),
    **dict.fromkeys(
        ["add_offsets_to_txn", "add_partitions_to_txn", "end_txn", "txn_offset_commit",
         "describe_transactions"], TRANSACTION),
}  # fmt: skip
WRITE, READ, DESCRIBE, CREATE = Operation.WRITE, Operation.READ, Operation.DESCRIBE, Operation.CREATE
CLUSTER_ACTION = Operation.CLUSTER_ACTION
# Of needs that hold under conditions, those that hold for the request of these tests.
CONDITIONAL: dict[str, tuple[Need, ...]] = {
    "create_topics": (on_topic(CREATE),),
    "init_producer_id": (on_topic(WRITE),),
    "offset_for_leader_epoch": (on_topic(DESCRIBE),),
    "alter_partition": (on_cluster(CLUSTER_ACTION),),
    "list_groups": (on_group(DESCRIBE),),
    "list_transactions": (on_transactional_id(DESCRIBE),),
    "consumer_group_heartbeat": (on_group(READ), on_topic(DESCRIBE)),
}
EVERY = [
    (api.name, version)
    for api in TABLE.values()
    for version in range(api.versions[0], api.versions[1] + 1)
    if api.name not in SASL
]
# The first and the last version of each.
ENDS = [
    (name, version)
    for name, version in EVERY
    if (name, version - 1) not in EVERY or (name, version + 1) not in EVERY
]
by_version = pytest.mark.parametrize(("name", "version"), EVERY, ids=[f"{name}-v{v}" for name, v in EVERY])
at_the_ends = pytest.mark.parametrize(("name", "version"), ENDS, ids=[f"{name}-v{v}" for name, v in ENDS])


def needs(name: str, version: int) -> tuple[Need, ...]:
    if name == "add_partitions_to_txn":
        of_clients = (on_transactional_id(WRITE), on_topic(WRITE))
        return (on_cluster(CLUSTER_ACTION),) if version >= 4 else of_clients
    (api,) = (api for api in TABLE.values() if api.name == name)
    return CONDITIONAL.get(name) or tuple(need for need in api.needs if not need.note)


def ask(guarded: Guarded, name: str, version: int) -> Any:
    guarded.live()
    client = guarded.user("alice")
    pending = client.ask(REQUESTS[name](version, guarded.topic_id), version)
    if pending.answer is None:
        guarded.machine.pass_time(60_000)
    return pending.answer


def log_ends(machine: Machine) -> dict[TopicPartition, int]:
    return {topic_partition: log.log_end_offset for topic_partition, log in machine.broker.store.logs.items()}


def grant(guarded: Guarded, *wanted: Need) -> None:
    for need in wanted:
        names = {"t", "new"} if need.resource_type.name == "TOPIC" else {None}
        for topic in names:
            guarded.allow(need.operations[0], need.resource_type, topic)


def test_every_api_says_what_it_needs_and_is_walked_here() -> None:
    assert {api.name for api in TABLE.values()} == set(REFUSED) | ANSWERED | SASL
    for api in TABLE.values():
        has_none = api.name in {*SASL, "api_versions"}
        assert isinstance(api.needs, tuple), api.name
        assert bool(api.needs) != has_none, f"{api.name} declares what it needs"


@by_version
def test_who_may_do_nothing_is_refused_and_changes_nothing_cve_2023_50976(name: str, version: int) -> None:
    guarded = Guarded()
    guarded.live()
    machine = guarded.machine
    before, ends = dict(machine.keeper.nodes), log_ends(machine)
    client = guarded.user("mallory")
    answer = client.send(REQUESTS[name](version, guarded.topic_id), version)
    assert machine.keeper.nodes == before
    assert log_ends(machine) == ends
    expected = {REFUSED[name]} if name in REFUSED else set()
    if name == "add_partitions_to_txn" and version >= 4:
        expected = {CLUSTER}
    if name == "describe_log_dirs" and version < 3:
        assert answer.results == []
        expected = set()  # there is no place for an error
    assert error_codes(answer) == expected
    if name == "list_groups":
        assert answer.groups == []
    if name == "list_transactions":
        assert answer.transaction_states == []


@at_the_ends
def test_who_may_do_exactly_what_is_declared_is_not_refused(name: str, version: int) -> None:
    guarded = Guarded()
    grant(guarded, *needs(name, version))
    answer = ask(guarded, name, version)
    if name == "create_topics":
        assert not answer.topics[0].error_code, "its configs are another matter"
        return
    assert not error_codes(answer) & REFUSALS
    if name == "list_groups":
        assert [group.group_id for group in answer.groups] == ["g"]
    if name == "list_transactions":
        assert [state.transactional_id for state in answer.transaction_states] == ["tx"]


@at_the_ends
def test_nothing_that_is_declared_can_be_left_out(name: str, version: int) -> None:
    wanted = needs(name, version)
    for missing in wanted if name in REFUSED else ():
        guarded = Guarded()
        grant(guarded, *(need for need in wanted if need is not missing))
        answer = ask(guarded, name, version)
        if name != "describe_log_dirs" or version >= 3:
            assert error_codes(answer) & REFUSALS, missing


def test_what_may_be_allowed_in_either_of_two_ways_is_allowed_in_both() -> None:
    for name, ways in {
        "write_txn_markers": [on_cluster(Operation.ALTER), on_cluster(CLUSTER_ACTION)],
        "create_topics": [on_topic(CREATE), on_cluster(CREATE)],
        "list_groups": [on_group(DESCRIBE), on_cluster(DESCRIBE)],
        "init_producer_id": [on_topic(WRITE), on_cluster(Operation.IDEMPOTENT_WRITE)],
        "offset_for_leader_epoch": [on_topic(DESCRIBE), on_cluster(CLUSTER_ACTION)],
    }.items():
        (api,) = (api for api in TABLE.values() if api.name == name)
        for way in ways:
            guarded = Guarded()
            grant(guarded, way)
            answer = ask(guarded, name, api.versions[1])
            if name == "create_topics":
                answer = answer.topics[0].error_code
            assert not error_codes(answer) & REFUSALS, way
            assert name != "list_groups" or answer.groups


def test_super_users_and_brokers_may_do_everything() -> None:
    for name, version in ENDS:
        if name in {"delete_topics", "delete_groups"} or (name, version + 1) in EVERY:
            continue
        guarded = Guarded()
        guarded.live()
        brokers = guarded.machine.client().as_broker(1)
        for client in (guarded.admin, brokers):
            pending = client.ask(REQUESTS[name](version, guarded.topic_id), version)
            if pending.answer is None:
                guarded.machine.pass_time(60_000)
            assert not error_codes(pending.answer) & REFUSALS, name
