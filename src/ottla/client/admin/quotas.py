"""Quotas, as brokers know them (KIP-546)."""

from collections.abc import Mapping
from typing import NamedTuple

from ottla.client.admin.refusals import check_answer
from ottla.client.admin.requests import Cluster
from ottla.wire.messages import alter_client_quotas as altering
from ottla.wire.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    OpData,
)
from ottla.wire.messages.describe_client_quotas import (
    ComponentData,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
)

EXACT, DEFAULT = 0, 1
KINDS = ("user", "client-id", "ip")
Entity = tuple[
    tuple[str, str | None], ...
]  # kinds with their names; None: all that have no quota of their own


class Quota(NamedTuple):
    entity: Entity
    values: dict[str, float]


def listed(cluster: Cluster, entity: Entity, *, exactly: bool = False) -> list[Quota]:
    """All that are about these, whatever else they are about; or `exactly` about these."""
    components = [
        ComponentData(entity_type=kind, match_type=DEFAULT if name is None else EXACT, match=name)
        for kind, name in entity
    ]
    request = DescribeClientQuotasRequest(components=components, strict=exactly)
    answer = cluster.ask_any(request, DescribeClientQuotasResponse)
    check_answer(answer.error_code, "listing quotas", answer.error_message)
    quotas = [
        Quota(
            tuple(sorted(((part.entity_type, part.entity_name) for part in entry.entity), key=_order)),
            {value.key: value.value for value in sorted(entry.values, key=lambda value: value.key)},
        )
        for entry in answer.entries or ()
    ]
    return sorted(quotas, key=lambda quota: [_order(part) for part in quota.entity])


def change(cluster: Cluster, entity: Entity, values: Mapping[str, float | None]) -> None:
    """Set these, and take away those that are None."""
    entry = altering.EntryData(
        entity=[altering.EntityData(entity_type=kind, entity_name=name) for kind, name in entity],
        ops=[OpData(key=key, value=value or 0.0, remove=value is None) for key, value in values.items()],
    )
    request = AlterClientQuotasRequest(entries=[entry], validate_only=False)
    answer = cluster.ask_controller(request, AlterClientQuotasResponse)
    for result in answer.entries:
        check_answer(result.error_code, title(entity), result.error_message)


def title(entity: Entity) -> str:
    return ", ".join(f"{kind} {'(default)' if name is None else name}" for kind, name in entity)


def _order(part: tuple[str, str | None]) -> tuple[int, str, bool, str]:
    kind, name = part
    return KINDS.index(kind) if kind in KINDS else len(KINDS), kind, name is not None, name or ""
