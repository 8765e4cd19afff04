"""DescribeClientQuotas (key 48): the quotas that are set, of those whom a filter names (KIP-546).

A component of the filter is for one type of entity: one with a name, the default, or all that name the type.
With `strict` an entity names nothing else.

v1 flexible
"""

from collections.abc import Sequence

from ottla.api.call import Call
from ottla.base.errors import ApiError, ErrorCode
from ottla.broker.long_work import Steps
from ottla.security.quotas import DEFAULT as DEFAULT_NAME
from ottla.security.quotas import quotas_in
from ottla.wire.messages.describe_client_quotas import (
    ComponentData,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
    EntityData,
    EntryData,
    ValueData,
)

USER, CLIENT_ID, IP = "user", "client-id", "ip"
TYPES = (USER, CLIENT_ID, IP)  # in the order of an Entity's parts
EXACT, DEFAULT, SPECIFIED = range(3)


def describe_client_quotas(call: Call, request: DescribeClientQuotasRequest) -> Steps:
    try:
        for at, component in enumerate(request.components):
            _check(component, request.components[:at])
        types = {component.entity_type for component in request.components}
        if IP in types and len(types) > 1:
            raise ApiError(
                ErrorCode.INVALID_REQUEST, "A filter for addresses cannot also be for users or client ids."
            )
    except ApiError as error:
        return DescribeClientQuotasResponse(
            error_code=error.code, error_message=error.message or None, entries=None
        )
    entries = []
    for entity, configs in list(call.broker.image.entity_configs.items()):
        yield
        quotas = quotas_in(entity, configs.values)
        named = {kind: name for kind, name in zip(TYPES, entity, strict=True) if name is not None}
        if not quotas or (request.strict and named.keys() != types):
            continue
        if all(_matches(component, named) for component in request.components):
            entries.append(
                EntryData(
                    entity=[
                        EntityData(entity_type=kind, entity_name=name or None) for kind, name in named.items()
                    ],
                    values=[ValueData(key=name, value=value) for name, value in quotas.items()],
                )
            )
    return DescribeClientQuotasResponse(entries=entries)


def _check(component: ComponentData, before: Sequence[ComponentData]) -> None:
    kind = component.entity_type
    if not kind:
        raise ApiError(ErrorCode.INVALID_REQUEST, "Invalid empty entity type.")
    if any(other.entity_type == kind for other in before):
        raise ApiError(
            ErrorCode.INVALID_REQUEST, f"Entity type {kind} cannot appear more than once in the filter."
        )
    if kind not in TYPES:
        raise ApiError(ErrorCode.UNSUPPORTED_VERSION, f"Unsupported entity type {kind}")
    if component.match_type not in {EXACT, DEFAULT, SPECIFIED}:
        raise ApiError(ErrorCode.INVALID_REQUEST, f"Unknown match type {component.match_type}")
    if (component.match_type == EXACT) == (component.match is None):
        needs = "needs" if component.match_type == EXACT else "cannot have"
        raise ApiError(
            ErrorCode.INVALID_REQUEST, f"A filter with match type {component.match_type} {needs} a name."
        )


def _matches(component: ComponentData, named: dict[str, str]) -> bool:
    kind = component.entity_type
    if kind not in named:
        return False
    return component.match_type == SPECIFIED or named[kind] == (component.match or DEFAULT_NAME)
