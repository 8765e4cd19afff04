"""Configs with where each value comes from, and what the broker says about the key."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from ottla.base.command_error import CommandError
from ottla.client.admin.configs import SOURCES
from ottla.client.admin.refusals import check_answer
from ottla.client.admin.requests import Cluster
from ottla.wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
    DescribeConfigsResult,
)

TOPIC, BROKER = 2, 4
KINDS = {TOPIC: "topic", BROKER: "broker"}
OWN = {TOPIC: {1}, BROKER: {2}}  # sources of what was set for this very resource
DEFAULT = 5
TOPICS_AT_ONCE = 200
TYPES = {
    1: "boolean",
    2: "text",
    3: "int",
    4: "short",
    5: "long",
    6: "double",
    7: "list",
    8: "class",
    9: "password",
}


class Setting(NamedTuple):
    name: str
    value: str | None
    source: str
    is_own: bool
    is_default: bool
    is_read_only: bool
    is_sensitive: bool
    type: str
    documentation: str
    inherited: str | None  # what it would be, were it not set here


def described(cluster: Cluster, kind: int, name: str) -> list[Setting]:
    """Everything that one topic or broker is set to, by name."""
    request = DescribeConfigsRequest(
        resources=[DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=None)],
        include_synonyms=True,
        include_documentation=True,
    )
    if kind == BROKER:
        answer = cluster.ask_broker(int(name), request, DescribeConfigsResponse)
    else:
        answer = cluster.ask_any(request, DescribeConfigsResponse)
    if not answer.results:
        raise CommandError(f"the configs of {KINDS[kind]} {name} are not known")
    result = answer.results[0]
    check_answer(result.error_code, f"{KINDS[kind]} {name}", result.error_message)
    return sorted(_settings(result, kind))


def _settings(result: DescribeConfigsResult, kind: int) -> Iterable[Setting]:
    for entry in result.configs:
        inherited = [synonym.value for synonym in entry.synonyms if synonym.source not in OWN[kind]]
        yield Setting(
            entry.name,
            entry.value,
            SOURCES.get(entry.config_source, "unknown"),
            entry.config_source in OWN[kind],
            entry.config_source == DEFAULT,
            entry.read_only,
            entry.is_sensitive,
            TYPES.get(entry.config_type, ""),
            " ".join((entry.documentation or "").split()),
            inherited[0] if inherited else None,
        )


def of_topics(cluster: Cluster, names: Sequence[str], keys: Sequence[str]) -> dict[str, dict[str, str]]:
    """A few configs of many topics; those that may not be described are left out."""
    values: dict[str, dict[str, str]] = {}
    for first in range(0, len(names), TOPICS_AT_ONCE):
        request = DescribeConfigsRequest(
            resources=[
                DescribeConfigsResource(
                    resource_type=TOPIC, resource_name=name, configuration_keys=list(keys)
                )
                for name in names[first : first + TOPICS_AT_ONCE]
            ]
        )
        for result in cluster.ask_any(request, DescribeConfigsResponse).results:
            if not result.error_code:
                values[result.resource_name] = {entry.name: entry.value or "" for entry in result.configs}
    return values
