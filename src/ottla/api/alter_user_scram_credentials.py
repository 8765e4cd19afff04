"""AlterUserScramCredentials (key 51): set and remove SCRAM credentials of users. The client sends passwords
that it has salted; what is stored of them is less.

All that concerns one user is one write to the keeper, and is refused as a whole. What else the user's node
holds (quotas) stays. A user may be altered in several mechanisms at once, as in Kafka with ZooKeeper.

UNACCEPTABLE_CREDENTIAL for an empty name or a number of iterations out of bounds, UNSUPPORTED_SASL_MECHANISM,
DUPLICATE_RESOURCE for a credential that is altered twice, RESOURCE_NOT_FOUND for one that is removed and not
there.
"""

from collections.abc import Sequence
from functools import partial

from ottla.api.call import Call
from ottla.api.writes import Item, Writes
from ottla.base.errors import ApiError, ErrorCode
from ottla.broker.long_work import Steps
from ottla.controller import user_nodes
from ottla.controller.image import Configs
from ottla.controller.keeper import Operation as Write
from ottla.controller.user_nodes import Entity
from ottla.security.credentials import ITERATIONS_MAX, ITERATIONS_MIN, ScramMechanism, credential_of
from ottla.wire.lazy import lazily
from ottla.wire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)

WAIT_MS = 30_000

Alteration = ScramCredentialDeletion | ScramCredentialUpsertion


def alter_user_scram_credentials(call: Call, request: AlterUserScramCredentialsRequest) -> Steps:
    by_user: dict[str, list[Alteration]] = {}
    alterations: list[Alteration] = [*request.deletions, *request.upsertions]
    for alteration in alterations:
        by_user.setdefault(alteration.name, []).append(alteration)
    items: dict[str, Item] = {}
    writes = Writes(
        call.broker,
        lambda: AlterUserScramCredentialsResponse(results=lazily(lambda user: _result(user, items), items)),
    )

    def plan(user: str) -> Sequence[Write]:
        return _plan(call, user, by_user[user], is_doubtful=items[user].is_doubtful)

    for user in by_user:
        items[user] = writes.add(partial(plan, user))
        yield
    return (yield from writes.answer(call, WAIT_MS))


def _result(user: str, items: dict[str, Item]) -> AlterUserScramCredentialsResult:
    item = items[user]
    return AlterUserScramCredentialsResult(
        user=user, error_code=item.error_code, error_message=item.error_message
    )


def _plan(call: Call, user: str, alterations: list[Alteration], *, is_doubtful: bool) -> Sequence[Write]:
    """`is_doubtful`: what is gone may have been removed by this very request."""
    for alteration in alterations:
        _check(alteration)
    if len({alteration.mechanism for alteration in alterations}) < len(alterations):
        raise ApiError(
            ErrorCode.DUPLICATE_RESOURCE, "A user credential cannot be altered twice in the same request"
        )
    configs = call.broker.image.entity_configs.get(Entity(user), Configs({}, -1))
    values = dict(configs.values)
    for alteration in alterations:
        mechanism = ScramMechanism(alteration.mechanism)
        if isinstance(alteration, ScramCredentialDeletion):
            if values.pop(mechanism.title, None) is None and not is_doubtful:
                raise ApiError(
                    ErrorCode.RESOURCE_NOT_FOUND, "Attempt to delete a user credential that does not exist"
                )
        else:
            credential = credential_of(
                mechanism,
                bytes(alteration.salt),
                bytes(alteration.salted_password),
                alteration.iterations,
            )
            values[mechanism.title] = credential.text()
    return user_nodes.write(Entity(user), values, configs.version)


def _check(alteration: Alteration) -> None:
    if not alteration.name:
        raise ApiError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Username must not be empty")
    if alteration.mechanism not in set(ScramMechanism):
        raise ApiError(ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism")
    if isinstance(alteration, ScramCredentialUpsertion):
        if alteration.iterations < ITERATIONS_MIN:
            raise ApiError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too few iterations")
        if alteration.iterations > ITERATIONS_MAX:
            raise ApiError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too many iterations")
        if not alteration.salted_password:
            raise ApiError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "The salted password must not be empty")
