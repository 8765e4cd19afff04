"""DescribeUserScramCredentials (key 50): which users have which SCRAM credentials, of all users if none is
named. What is stored of a password is told to nobody.

RESOURCE_NOT_FOUND for a user without credentials, DUPLICATE_RESOURCE for one that is named twice.
"""

from collections import Counter

from ottla.api.call import Call
from ottla.base.errors import ErrorCode
from ottla.controller.user_nodes import DEFAULT, Entity
from ottla.security.credentials import MECHANISMS, CredentialError, ScramCredential
from ottla.wire.lazy import lazily
from ottla.wire.messages.describe_user_scram_credentials import (
    CredentialInfo,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)


def describe_user_scram_credentials(
    call: Call, request: DescribeUserScramCredentialsRequest
) -> DescribeUserScramCredentialsResponse:
    times = Counter(user.name for user in request.users or ())
    users = times or Counter(_users(call))
    return DescribeUserScramCredentialsResponse(
        results=lazily(lambda user: _result(call, user, is_twice=users[user] > 1), users.keys())
    )


def _users(call: Call) -> list[str]:
    """Those that have any."""
    return sorted(
        entity.user
        for entity, configs in call.broker.image.entity_configs.items()
        if entity.user and entity.client_id is None and not MECHANISMS.keys().isdisjoint(configs.values)
    )


def _result(call: Call, user: str, *, is_twice: bool) -> DescribeUserScramCredentialsResult:
    if is_twice:
        message = f"Cannot describe SCRAM credentials for the same user twice in a single request: {user}"
        return _error(user, ErrorCode.DUPLICATE_RESOURCE, message)
    configs = call.broker.image.entity_configs.get(Entity(user)) if user != DEFAULT else None
    credentials = []
    for name, mechanism in MECHANISMS.items():
        text = configs.values.get(name) if configs else None
        if text is None:
            continue
        try:
            iterations = ScramCredential.parse(text, mechanism).iterations
        except CredentialError as error:
            return _error(user, ErrorCode.UNKNOWN_SERVER_ERROR, f"The {name} credential is damaged: {error}.")
        credentials.append(CredentialInfo(mechanism=mechanism, iterations=iterations))
    if not credentials:
        message = f"Attempt to describe a user credential that does not exist: {user}"
        return _error(user, ErrorCode.RESOURCE_NOT_FOUND, message)
    return DescribeUserScramCredentialsResult(user=user, credential_infos=credentials)


def _error(user: str, code: ErrorCode, message: str) -> DescribeUserScramCredentialsResult:
    return DescribeUserScramCredentialsResult(user=user, error_code=code, error_message=message)
