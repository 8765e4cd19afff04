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

FEW = 20_000


@dataclass(frozen=True, slots=True)
class Api:
    """`cached`: the encoded answer depends on the request and the image alone. `items_max`: of all its arrays
    together; less where a request is handled in one go."""

    key: int
    name: str
    advertised_min: int
    cached: bool
    items_max: int

    @property
    def versions(self) -> tuple[int, int]:
        return VERSIONS[self.key]

    @property
    def title(self) -> str:
        """Kafka's name of the API."""
        return self.name.title().replace("_", "")

    def load(self) -> tuple[type[Any], Callable[..., Any]]:
        """The class of its requests, and its handler."""
        request = getattr(import_module(f"ottla.wire.messages.{self.name}"), f"{self.title}Request")
        return request, getattr(import_module(f"ottla.api.{self.name}"), self.name)


def _api(
    key: int,
    name: str,
    *,
    advertised_min: int | None = None,
    cached: bool = False,
    items_max: int = ITEMS_MAX,
) -> Api:
    return Api(key, name, VERSIONS[key][0] if advertised_min is None else advertised_min, cached, items_max)


TABLE = {
    api.key: api
    for api in (
        _api(0, "produce", advertised_min=0, items_max=FEW),
        _api(1, "fetch"),
        _api(2, "list_offsets"),
        _api(3, "metadata", cached=True),
        _api(8, "offset_commit"),
        _api(9, "offset_fetch"),
        _api(10, "find_coordinator"),
        _api(11, "join_group", items_max=FEW),
        _api(12, "heartbeat"),
        _api(13, "leave_group", items_max=FEW),
        _api(14, "sync_group", items_max=FEW),
        _api(15, "describe_groups"),
        _api(16, "list_groups"),
        _api(17, "sasl_handshake"),
        _api(18, "api_versions", cached=True),
        _api(19, "create_topics"),
        _api(20, "delete_topics"),
        _api(21, "delete_records"),
        _api(22, "init_producer_id"),
        _api(23, "offset_for_leader_epoch"),
        _api(32, "describe_configs"),
        _api(33, "alter_configs"),
        _api(34, "alter_replica_log_dirs"),
        _api(35, "describe_log_dirs"),
        _api(36, "sasl_authenticate"),
        _api(37, "create_partitions"),
        _api(42, "delete_groups"),
        _api(43, "elect_leaders"),
        _api(44, "incremental_alter_configs"),
        _api(45, "alter_partition_reassignments"),
        _api(46, "list_partition_reassignments"),
        _api(47, "offset_delete", items_max=FEW),
        _api(55, "describe_quorum"),
        _api(56, "alter_partition"),
        _api(57, "update_features"),
        _api(60, "describe_cluster"),
        _api(61, "describe_producers"),
        _api(68, "consumer_group_heartbeat"),
        _api(69, "consumer_group_describe"),
        _api(74, "list_config_resources"),
        _api(75, "describe_topic_partitions"),
    )
}
