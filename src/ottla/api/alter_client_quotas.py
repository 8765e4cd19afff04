"""AlterClientQuotas (key 49): sets and removes quotas of users, client ids and addresses (KIP-546).

Each entity is a write of its own. A user's node may have more than quotas: the rest of it stays as it is.

v1 flexible
"""

from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from functools import partial

from ottla.api.call import Call
from ottla.api.config_resources import WAIT_MS
from ottla.api.describe_client_quotas import CLIENT_ID, IP, TYPES, USER
from ottla.api.writes import Writes
from ottla.base.errors import ApiError, ErrorCode
from ottla.broker.long_work import Steps
from ottla.controller.image import Configs
from ottla.controller.keeper import Delete, Operation
from ottla.controller.user_nodes import DEFAULT, Entity, write
from ottla.security.quotas import CLIENT_QUOTAS, IP_QUOTAS, address_text, check_quota, quota_text
from ottla.wire.lazy import lazily
from ottla.wire.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    EntityDataResponse,
    EntryData,
    EntryDataResponse,
)


def alter_client_quotas(call: Call, request: AlterClientQuotasRequest) -> Steps:
    times: Counter[Entity] = Counter()
    writes = Writes(call.broker, lambda: respond())

    def plan(entry: EntryData) -> Sequence[Operation]:
        entity = _entity(entry)
        if times[entity] > 1:
            raise ApiError(ErrorCode.INVALID_REQUEST, "The entity is in the request more than once.")
        configs = call.broker.image.entity_configs.get(entity) or Configs({}, -1)
        values = _changed(entity, entry, configs.values)
        if request.validate_only or values == configs.values:
            return []
        is_leaf = entity.user is None or entity.client_id is not None
        if is_leaf and not values:
            return [Delete(entity.path, configs.version)]
        return write(entity, values, configs.version)

    def respond() -> AlterClientQuotasResponse:
        return AlterClientQuotasResponse(entries=lazily(answered, range(len(request.entries))))

    def answered(at: int) -> EntryDataResponse:
        return EntryDataResponse(
            error_code=writes.items[at].error_code,
            error_message=writes.items[at].error_message,
            entity=[
                EntityDataResponse(entity_type=part.entity_type, entity_name=part.entity_name)
                for part in request.entries[at].entity
            ],
        )

    for entry in request.entries:
        with suppress(ApiError):  # which is said when it is planned
            times[_entity(entry)] += 1
        writes.add(partial(plan, entry))
        yield
    return (yield from writes.answer(call, WAIT_MS))


def _entity(entry: EntryData) -> Entity:
    """Whom an entry is about, if it can be about them."""
    named: dict[str, str] = {}
    for part in entry.entity:
        if part.entity_type in named:
            raise _invalid(f"Invalid client quota entity, duplicate entity entry {part.entity_type}")
        if part.entity_type not in TYPES:
            raise _invalid(f"Unhandled client quota entity type: {part.entity_type}")
        if part.entity_name == "":
            raise _invalid(f"Empty {part.entity_type} not supported")
        named[part.entity_type] = part.entity_name or DEFAULT
    if not named:
        raise _invalid("Invalid empty client quota entity")
    if IP in named and len(named) > 1:
        raise _invalid("Invalid quota entity combination, an address has no user or client id.")
    ip = named.get(IP)
    if ip and address_text(ip) is None:
        raise _invalid(f"{ip} is not a valid IP address; name the address, not the host.")
    return Entity(named.get(USER), named.get(CLIENT_ID), ip)


def _changed(entity: Entity, entry: EntryData, values: dict[str, str]) -> dict[str, str]:
    names = [change.key for change in entry.ops]
    if len(set(names)) != len(names):
        raise _invalid("A quota is in an entry more than once.")
    changed = dict(values)
    for change in entry.ops:
        if not change.remove:
            check_quota(entity, change.key, change.value)
            changed[change.key] = quota_text(change.key, change.value)
        elif change.key in {*CLIENT_QUOTAS, *IP_QUOTAS}:
            changed.pop(change.key, None)
    return changed


def _invalid(message: str) -> ApiError:
    return ApiError(ErrorCode.INVALID_REQUEST, message)
