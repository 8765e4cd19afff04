"""The table of APIs: one line per key. What is not in it is not served, and what is in it is advertised.

A row names a module: `ottla.api.<name>` has the handler of that name, `ottla.wire.messages.<name>` the
request. Both are imported when the first such request comes, so that a start pays only for what is used.
"""

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from ottla.wire.decoders import ITEMS_MAX
from ottla.wire.messages import VERSIONS

FEWER_ITEMS = 20_000


@dataclass(frozen=True, slots=True)
class Api:
    """`cached`: the encoded answer depends on the request and the image alone. `items_max`: of all its arrays
    together; less where a request is handled in one go. `advertised_from`: the first version that clients
    hear of, where that is not the first that is served."""

    key: int
    name: str
    cached: bool = False
    items_max: int = ITEMS_MAX
    advertised_from: int | None = None

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


TABLE = {
    api.key: api
    for api in (
        Api(0, "produce", advertised_from=0, items_max=FEWER_ITEMS),
        Api(1, "fetch"),
        Api(2, "list_offsets"),
        Api(3, "metadata", cached=True),
        Api(8, "offset_commit"),
        Api(9, "offset_fetch"),
        Api(10, "find_coordinator"),
        Api(11, "join_group", items_max=FEWER_ITEMS),
        Api(12, "heartbeat"),
        Api(13, "leave_group", items_max=FEWER_ITEMS),
        Api(14, "sync_group", items_max=FEWER_ITEMS),
        Api(15, "describe_groups"),
        Api(16, "list_groups"),
        Api(17, "sasl_handshake"),
        Api(18, "api_versions", cached=True),
        Api(19, "create_topics"),
        Api(20, "delete_topics"),
        Api(21, "delete_records"),
        Api(22, "init_producer_id"),
        Api(23, "offset_for_leader_epoch"),
        Api(24, "add_partitions_to_txn", items_max=FEWER_ITEMS),
        Api(25, "add_offsets_to_txn"),
        Api(26, "end_txn"),
        Api(27, "write_txn_markers", items_max=FEWER_ITEMS),
        Api(28, "txn_offset_commit"),
        Api(32, "describe_configs"),
        Api(33, "alter_configs"),
        Api(34, "alter_replica_log_dirs"),
        Api(35, "describe_log_dirs"),
        Api(36, "sasl_authenticate"),
        Api(37, "create_partitions"),
        Api(42, "delete_groups"),
        Api(43, "elect_leaders"),
        Api(44, "incremental_alter_configs"),
        Api(45, "alter_partition_reassignments"),
        Api(46, "list_partition_reassignments"),
        Api(47, "offset_delete", items_max=FEWER_ITEMS),
        Api(48, "describe_client_quotas"),
        Api(49, "alter_client_quotas", items_max=FEWER_ITEMS),
        Api(50, "describe_user_scram_credentials", items_max=FEWER_ITEMS),
        Api(51, "alter_user_scram_credentials", items_max=FEWER_ITEMS),
        Api(55, "describe_quorum"),
        Api(56, "alter_partition"),
        Api(57, "update_features"),
        Api(60, "describe_cluster"),
        Api(61, "describe_producers"),
        Api(65, "describe_transactions"),
        Api(66, "list_transactions"),
        Api(68, "consumer_group_heartbeat"),
        Api(69, "consumer_group_describe"),
        Api(74, "list_config_resources"),
        Api(75, "describe_topic_partitions"),
    )
}
