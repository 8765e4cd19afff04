"""Reading and changing the configs of topics and brokers."""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from ottla.client.librdkafka.errors import REQUEST_S, errors_explained

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient

# Where a value comes from, by the number in DescribeConfigs.
SOURCES = {
    1: "topic",
    2: "broker, dynamic",
    3: "cluster, dynamic",
    4: "broker, static",
    5: "default",
    6: "logger",
    8: "group",
}
DEFAULT = "default"


class Resource(NamedTuple):
    kind: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind} {self.name}"


class Setting(NamedTuple):
    name: str
    value: str | None
    source: str
    is_read_only: bool


def describe(client: "AdminClient", resource: Resource, *, defaults: bool = True) -> list[Setting]:
    from confluent_kafka.admin import ConfigResource  # type: ignore[attr-defined]

    wanted = ConfigResource(resource.kind, resource.name)
    with errors_explained(str(resource)):
        entries = client.describe_configs([wanted], request_timeout=REQUEST_S)[wanted].result(REQUEST_S)
    settings = [
        Setting(entry.name, entry.value, SOURCES.get(int(entry.source), "unknown"), entry.is_read_only)
        for _, entry in sorted(entries.items())
    ]
    if defaults:
        return settings
    # A topic's view repeats what its broker sets; that is not the topic's own.
    return [setting for setting in settings if setting.source not in _not_own(resource)]


def _not_own(resource: Resource) -> set[str]:
    return {DEFAULT} if resource.kind == "broker" else set(SOURCES.values()) - {"topic"}


def change(
    client: "AdminClient", resource: Resource, new: Mapping[str, str], dropped: Iterable[str] = ()
) -> None:
    """Set some keys and give others back their default, in one request."""
    from confluent_kafka.admin import (  # type: ignore[attr-defined]
        AlterConfigOpType,
        ConfigEntry,
        ConfigResource,
    )

    entries = [
        ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET) for name, value in new.items()
    ] + [ConfigEntry(name, None, incremental_operation=AlterConfigOpType.DELETE) for name in dropped]
    wanted = ConfigResource(resource.kind, resource.name, incremental_configs=entries)
    with errors_explained(str(resource)):
        client.incremental_alter_configs([wanted], request_timeout=REQUEST_S)[wanted].result(REQUEST_S)
