"""The table of APIs: one line per key. What is not in it is not served, and what is in it is advertised.

A row names a module: `ottla.api.<name>` has the handler of that name, `ottla.wire.messages.<name>` the
request. Both are imported when the first such request comes, so that a start pays only for what is used.
"""

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from ottla.api.needs import (
    ALTER,
    ALTER_CONFIGS,
    CLUSTER_ACTION,
    CREATE,
    DELETE,
    DESCRIBE,
    DESCRIBE_CONFIGS,
    READ,
    WRITE,
    Need,
    on_cluster,
    on_group,
    on_topic,
    on_transactional_id,
)
from ottla.wire.decoders import ITEMS_MAX
from ottla.wire.messages import VERSIONS

FEWER_ITEMS = 20_000


@dataclass(frozen=True, slots=True)
class Api:
    """`cached`: the encoded answer depends on the request and the image alone. `items_max`: of all its arrays
    together; less where a request is handled in one go. `advertised_from`: the first version that clients
    hear of, where that is not the first that is served. `needs`: what whoever asks must be allowed to do.
    `audited`: an administrative request, and where in it stands what it is about, for the audit log."""

    key: int
    name: str
    needs: tuple[Need, ...]
    cached: bool = False
    items_max: int = ITEMS_MAX
    advertised_from: int | None = None
    audited: tuple[str, ...] = ()

    @property
    def need_on_cluster(self) -> Need | None:
        """What dispatch asks for before the handler runs."""
        return next((need for need in self.needs if need.is_first), None)

    @property
    def versions(self) -> tuple[int, int]:
        return VERSIONS[self.key]

    @property
    def advertised_min(self) -> int:
        return self.versions[0] if self.advertised_from is None else self.advertised_from

    @property
    def title(self) -> str:
        """Kafka's name of the API."""
        return self.name.title().replace("_", "")

    def load(self) -> tuple[type[Any], Callable[..., Any]]:
        """The class of its requests, and its handler."""
        request = getattr(import_module(f"ottla.wire.messages.{self.name}"), f"{self.title}Request")
        return request, getattr(import_module(f"ottla.api.{self.name}"), self.name)


OPEN = ()  # to whoever reaches the listener
IN_TRANSACTION = on_transactional_id(WRITE, note="for a batch of a transaction")
AS_REPLICA = on_cluster(CLUSTER_ACTION, note="in the name of a replica")
CONFIGS_READ, CONFIGS_WRITTEN = (
    (
        on_topic(operation),
        on_group(operation, note="its configs"),
        on_cluster(operation, note="configs and loggers of brokers"),
    )
    for operation in (DESCRIBE_CONFIGS, ALTER_CONFIGS)
)

TABLE = {
    api.key: api
    for api in (
        Api(0, "produce", (on_topic(WRITE), IN_TRANSACTION), advertised_from=0, items_max=FEWER_ITEMS),
        Api(1, "fetch", (on_topic(READ), AS_REPLICA)),
        Api(2, "list_offsets", (on_topic(DESCRIBE), AS_REPLICA)),
        Api(
            3,
            "metadata",
            (on_topic(DESCRIBE), on_topic(CREATE, note="or on Cluster, where a topic would be created")),
            cached=True,
        ),
        Api(8, "offset_commit", (on_group(READ), on_topic(READ))),
        Api(9, "offset_fetch", (on_group(DESCRIBE), on_topic(DESCRIBE))),
        Api(
            10,
            "find_coordinator",
            (on_group(DESCRIBE), on_transactional_id(DESCRIBE, note="for its coordinator")),
        ),
        Api(11, "join_group", (on_group(READ),), items_max=FEWER_ITEMS),
        Api(12, "heartbeat", (on_group(READ),)),
        Api(13, "leave_group", (on_group(READ),), items_max=FEWER_ITEMS),
        Api(14, "sync_group", (on_group(READ),), items_max=FEWER_ITEMS),
        Api(15, "describe_groups", (on_group(DESCRIBE),)),
        Api(16, "list_groups", (on_group(DESCRIBE, note="or on Cluster; other groups are not listed"),)),
        Api(17, "sasl_handshake", OPEN),
        Api(18, "api_versions", OPEN, cached=True),
        Api(
            19,
            "create_topics",
            (
                on_topic(CREATE, note="or on Cluster"),
                on_topic(DESCRIBE_CONFIGS, note="to be told its configs"),
            ),
            audited=("topics.name",),
        ),
        Api(20, "delete_topics", (on_topic(DELETE),), audited=("topics.name", "topic_names")),
        Api(21, "delete_records", (on_topic(DELETE),), audited=("topics.name",)),
        Api(
            22,
            "init_producer_id",
            (
                on_topic(WRITE, note="any one, or IdempotentWrite on Cluster"),
                on_transactional_id(WRITE, note="if there is one, and nothing else then"),
            ),
        ),
        Api(
            23,
            "offset_for_leader_epoch",
            (on_topic(DESCRIBE, note="or ClusterAction on Cluster"), AS_REPLICA),
        ),
        Api(
            24,
            "add_partitions_to_txn",
            (
                on_transactional_id(WRITE, note="up to v3"),
                on_topic(WRITE, note="up to v3"),
                on_cluster(CLUSTER_ACTION, note="since v4"),
            ),
            items_max=FEWER_ITEMS,
        ),
        Api(25, "add_offsets_to_txn", (on_transactional_id(WRITE), on_group(READ))),
        Api(26, "end_txn", (on_transactional_id(WRITE),)),
        Api(
            27,
            "write_txn_markers",
            (on_cluster(ALTER, CLUSTER_ACTION),),
            items_max=FEWER_ITEMS,
            audited=("markers.topics.name",),
        ),
        Api(28, "txn_offset_commit", (on_transactional_id(WRITE), on_group(READ), on_topic(READ))),
        Api(29, "describe_acls", (on_cluster(DESCRIBE),)),
        Api(
            30,
            "create_acls",
            (on_cluster(ALTER),),
            items_max=FEWER_ITEMS,
            audited=("creations.resource_name", "creations.principal"),
        ),
        Api(
            31,
            "delete_acls",
            (on_cluster(ALTER),),
            items_max=FEWER_ITEMS,
            audited=("filters.resource_name_filter", "filters.principal_filter"),
        ),
        Api(32, "describe_configs", CONFIGS_READ),
        Api(
            33,
            "alter_configs",
            CONFIGS_WRITTEN,
            audited=("resources.resource_name", "resources.configs.name"),
        ),
        Api(34, "alter_replica_log_dirs", (on_cluster(ALTER),), audited=("dirs.path", "dirs.topics.name")),
        Api(35, "describe_log_dirs", (on_cluster(DESCRIBE),)),
        Api(36, "sasl_authenticate", OPEN),
        Api(37, "create_partitions", (on_topic(ALTER),), audited=("topics.name",)),
        Api(42, "delete_groups", (on_group(DELETE),), audited=("groups_names",)),
        Api(43, "elect_leaders", (on_cluster(ALTER),), audited=("topic_partitions.topic",)),
        Api(
            44,
            "incremental_alter_configs",
            CONFIGS_WRITTEN,
            audited=("resources.resource_name", "resources.configs.name"),
        ),
        Api(45, "alter_partition_reassignments", (on_cluster(ALTER),), audited=("topics.name",)),
        Api(46, "list_partition_reassignments", (on_cluster(DESCRIBE),)),
        Api(
            47,
            "offset_delete",
            (on_group(DELETE), on_topic(READ)),
            items_max=FEWER_ITEMS,
            audited=("group_id", "topics.name"),
        ),
        Api(48, "describe_client_quotas", (on_cluster(DESCRIBE_CONFIGS),)),
        Api(
            49,
            "alter_client_quotas",
            (on_cluster(ALTER_CONFIGS),),
            items_max=FEWER_ITEMS,
            audited=("entries.entity.entity_name", "entries.ops.key"),
        ),
        Api(50, "describe_user_scram_credentials", (on_cluster(DESCRIBE),), items_max=FEWER_ITEMS),
        Api(
            51,
            "alter_user_scram_credentials",
            (on_cluster(ALTER),),
            items_max=FEWER_ITEMS,
            audited=("upsertions.name", "deletions.name"),
        ),
        Api(55, "describe_quorum", (on_cluster(DESCRIBE),)),
        Api(56, "alter_partition", (AS_REPLICA,)),
        Api(57, "update_features", (on_cluster(ALTER),), audited=("feature_updates.feature",)),
        Api(60, "describe_cluster", (on_cluster(DESCRIBE, note="to be told what one may do with it"),)),
        Api(61, "describe_producers", (on_topic(READ),)),
        Api(
            65,
            "describe_transactions",
            (on_transactional_id(DESCRIBE), on_topic(DESCRIBE, note="other topics are not listed")),
        ),
        Api(66, "list_transactions", (on_transactional_id(DESCRIBE, note="others are not listed"),)),
        Api(
            68,
            "consumer_group_heartbeat",
            (on_group(READ), on_topic(DESCRIBE, note="those it subscribes to")),
        ),
        Api(
            69,
            "consumer_group_describe",
            (on_group(DESCRIBE), on_topic(DESCRIBE, note="all that are assigned")),
        ),
        Api(74, "list_config_resources", (on_cluster(DESCRIBE_CONFIGS),)),
        Api(75, "describe_topic_partitions", (on_topic(DESCRIBE),)),
    )
}
