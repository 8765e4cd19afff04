"""Users with SCRAM credentials, as brokers know them."""

import secrets
from collections.abc import Iterable, Mapping

from ottla.base.errors import ErrorCode
from ottla.client.admin.refusals import check_answer
from ottla.client.admin.requests import Cluster
from ottla.security.credentials import ScramMechanism, salt_of, salted_password
from ottla.wire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from ottla.wire.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    UserName,
)

SALT_BYTES = 17
Users = dict[str, dict[ScramMechanism, int]]  # the iterations of each mechanism, by user


def salted_anew(mechanism: ScramMechanism, password: str, iterations: int) -> tuple[bytes, bytes]:
    """A new salt, and the password with it."""
    salt = salt_of(secrets.token_bytes(SALT_BYTES))
    return salt, salted_password(mechanism, password, salt, iterations)


class BrokerUsers:
    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def users(self, names: Iterable[str] = ()) -> Users:
        """All of them if none is named; who is not there is left out."""
        wanted = [UserName(name=name) for name in names] or None
        request = DescribeUserScramCredentialsRequest(users=wanted)
        answer = self._cluster.ask_any(request, DescribeUserScramCredentialsResponse)
        check_answer(answer.error_code, "listing users", answer.error_message)
        users: Users = {}
        for user in answer.results:
            if user.error_code == ErrorCode.RESOURCE_NOT_FOUND:
                continue
            check_answer(user.error_code, user.user, user.error_message)
            users[user.user] = {
                ScramMechanism(credential.mechanism): credential.iterations
                for credential in sorted(user.credential_infos, key=lambda credential: credential.mechanism)
            }
        return users

    def add(self, user: str, password: str, iterations: Mapping[ScramMechanism, int]) -> None:
        """The password stays here: what is sent is salted. Kafka takes one mechanism of a user at a time."""
        for mechanism, count in iterations.items():
            salt, salted = salted_anew(mechanism, password, count)
            upsertion = ScramCredentialUpsertion(
                name=user, mechanism=mechanism, iterations=count, salt=salt, salted_password=salted
            )
            self._alter(AlterUserScramCredentialsRequest(upsertions=[upsertion]))

    def remove(self, user: str, mechanisms: Iterable[ScramMechanism]) -> None:
        for mechanism in mechanisms:
            deletion = ScramCredentialDeletion(name=user, mechanism=mechanism)
            self._alter(AlterUserScramCredentialsRequest(deletions=[deletion]))

    def _alter(self, request: AlterUserScramCredentialsRequest) -> None:
        answer = self._cluster.ask_controller(request, AlterUserScramCredentialsResponse)
        for result in answer.results:
            check_answer(result.error_code, result.user, result.error_message)
