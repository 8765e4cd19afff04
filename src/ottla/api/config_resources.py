"""What DescribeConfigs and the two ways to alter configs share: resources, and how a change is planned."""

import logging
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple, Protocol, TypeVar

from ottla.api.call import Call
from ottla.api.needs import ALTER_CONFIGS, CLUSTER, GROUP, TOPIC
from ottla.api.writes import Writes
from ottla.base.config import ConfigResourceType
from ottla.base.errors import ApiError, ErrorCode
from ottla.base.log_fields import fields
from ottla.broker.config_entries import check_broker_configs, check_group_configs
from ottla.broker.long_work import Steps
from ottla.controller import znodes
from ottla.controller.image import Configs
from ottla.controller.keeper import Operation
from ottla.controller.topics import check_configs, plan_configs
from ottla.security.resources import Operation as Right
from ottla.wire.lazy import lazily

log = logging.getLogger(__name__)

WAIT_MS = 30_000
RESOURCES_SAID = 10  # lines for one request
NAMES_SAID = 300  # characters in a line

Change = Callable[[dict[str, str]], dict[str, str]]


class Resource(Protocol):
    """What a request names, in either way to alter configs."""

    resource_type: int
    resource_name: str


R = TypeVar("R", bound=Resource)


class Planned(NamedTuple):
    """What is to be written, and which settings that changes."""

    operations: Sequence[Operation] = ()
    names: frozenset[str] = frozenset()


def alter(
    call: Call,
    resources: Sequence[R],
    plan: Callable[[R], Planned],
    *,
    result: Callable[..., Any],
    respond: Callable[..., Any],
) -> Steps:
    """One write for each resource, which `plan` works out; `result` and `respond` are the classes of the
    answer."""
    client = call.client_id
    times: Counter[tuple[int, str]] = Counter()
    changed: dict[int, frozenset[str]] = {}  # names of settings, by the resource's place in the request

    def answer() -> Any:
        written = {at: names for at, names in changed.items() if writes.items[at].error is None}
        for at in list(written)[:RESOURCES_SAID]:
            _say_changed(client, resources[at], written[at])
        if len(written) > RESOURCES_SAID:
            more = len(written) - RESOURCES_SAID
            log.info(
                "settings of %d more are changed by client %r", more, client, extra=fields(client=client)
            )
        return respond(
            responses=lazily(
                lambda at: result(
                    error_code=writes.items[at].error_code,
                    error_message=writes.items[at].error_message,
                    resource_type=resources[at].resource_type,
                    resource_name=resources[at].resource_name,
                ),
                range(len(resources)),
            )
        )

    writes = Writes(call.broker, answer)

    def plan_once(at: int, resource: R) -> Sequence[Operation]:
        if times[resource.resource_type, resource.resource_name] > 1:
            raise ApiError(ErrorCode.INVALID_REQUEST, "Each resource must appear at most once.")
        check_allowed(call, ALTER_CONFIGS, resource.resource_type, resource.resource_name)
        planned = plan(resource)
        if planned.names:  # none in a second try: the first one was written, and its answer lost
            changed[at] = planned.names
        return planned.operations

    for at, resource in enumerate(resources):
        times[resource.resource_type, resource.resource_name] += 1
        writes.add(partial(plan_once, at, resource))
        yield
    return (yield from writes.answer(call, WAIT_MS))


def _say_changed(client: str, resource: Resource, names: frozenset[str]) -> None:
    """Names only: a value may be a secret."""
    kind, name = ConfigResourceType(resource.resource_type), resource.resource_name
    whose = f"{kind.name.lower()} {name}" if name else "all brokers"
    settings = ", ".join(sorted(names))[:NAMES_SAID]
    log.info(
        "settings of %s are changed by client %r: %s", whose, client, settings,
        extra=fields(
            settings=settings, client=client,
            topic=name if kind is ConfigResourceType.TOPIC else None,
            group=name if kind is ConfigResourceType.GROUP else None,
        ),
    )  # fmt: skip


def plan_change(call: Call, resource: Resource, change: Change, *, validate_only: bool) -> Planned:
    """Operations that change a resource's dynamic config from what it is now."""
    name, broker = resource.resource_name, call.broker
    if resource.resource_type == ConfigResourceType.TOPIC:
        configs = _topic_configs(call, name)
        values = check_configs(name, change(dict(configs.values)), broker.settings.log_config)
        path = znodes.topic_config_path(name)
    elif resource.resource_type == ConfigResourceType.BROKER:
        check_broker_name(call, name)
        configs = broker.image.broker_configs.get(name) or Configs({}, -1)
        values = change(dict(configs.values))
        check_broker_configs(broker.settings, name, values)
        path = znodes.broker_config_path(name)
    elif resource.resource_type == ConfigResourceType.GROUP:
        configs = broker.image.group_configs.get(name) or Configs({}, -1)
        values = change(dict(configs.values))
        check_group_configs(broker.coordinators.groups.config, name, values)
        path = znodes.group_config_path(name)
    else:
        raise unsupported(resource.resource_type)
    if validate_only or values == configs.values:
        return Planned()
    names = frozenset(name for name, _ in values.items() ^ configs.values.items())
    return Planned(plan_configs(path, values, configs.version if configs.version >= 0 else None), names)


def check_allowed(call: Call, operation: Right, resource_type: int, name: str) -> None:
    """ApiError: whoever asks may not read, or change, the configs of this. Those of brokers and their loggers
    are the cluster's."""
    if resource_type == ConfigResourceType.TOPIC:
        call.require(operation, TOPIC, name)
    elif resource_type == ConfigResourceType.GROUP:
        call.require(operation, GROUP, name)
    else:
        call.require(operation, CLUSTER)


def check_broker_name(call: Call, name: str) -> None:
    if name not in {"", str(call.broker.id)}:
        raise ApiError(
            ErrorCode.INVALID_REQUEST, f"This is broker {call.broker.id}; the request is for broker '{name}'."
        )


def check_topic(call: Call, name: str) -> None:
    if name not in call.broker.image.topics:
        raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"There is no topic '{name}'.")


def unsupported(resource_type: int) -> ApiError:
    return ApiError(
        ErrorCode.INVALID_REQUEST, f"Configs of resource type {resource_type} are not served here."
    )


def _topic_configs(call: Call, name: str) -> Configs:
    check_topic(call, name)
    return call.broker.image.topic_configs.get(name) or Configs({}, -1)
