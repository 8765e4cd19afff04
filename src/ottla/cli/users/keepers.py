"""Users with SCRAM credentials, in a keeper: ZooKeeper, or the folder of a broker that does not run."""

from collections.abc import Iterable, Mapping

from ottla.base.command_error import CommandError
from ottla.cli.keeper_options import start_errors_explained
from ottla.client.admin.users import Users, salted_anew
from ottla.controller import user_nodes
from ottla.security.credentials import (
    MECHANISMS,
    CredentialError,
    ScramCredential,
    ScramMechanism,
    credential_of,
)


class KeeperUsers:
    """`properties` are those of a broker that uses the keeper."""

    def __init__(self, properties: Mapping[str, str]) -> None:
        self._properties = properties

    def users(self, names: Iterable[str] = ()) -> Users:
        from ottla.shell.keeper_visit import write_without_broker

        with start_errors_explained():
            nodes = write_without_broker(self._properties, lambda _nodes: [])
        wanted = set(names)
        users: Users = {}
        for path, node in sorted(nodes.items()):
            entity = user_nodes.entity_of(path) if path.startswith(user_nodes.USERS) else None
            if entity is None or entity.user is None or entity.client_id is not None:
                continue
            iterations = _iterations(entity.user, user_nodes.config_of(node.data or b""))
            if iterations and (not wanted or entity.user in wanted):
                users[entity.user] = iterations
        return users

    def add(self, user: str, password: str, iterations: Mapping[ScramMechanism, int]) -> None:
        credentials: dict[ScramMechanism, ScramCredential | None] = {}
        for mechanism, count in iterations.items():
            salt, salted = salted_anew(mechanism, password, count)
            credentials[mechanism] = credential_of(mechanism, salt, salted, count)
        self._write(user, credentials)

    def remove(self, user: str, mechanisms: Iterable[ScramMechanism]) -> None:
        self._write(user, dict.fromkeys(mechanisms))

    def _write(self, user: str, credentials: Mapping[ScramMechanism, ScramCredential | None]) -> None:
        from ottla.shell.keeper_visit import write_scram_user

        with start_errors_explained():
            write_scram_user(self._properties, user, credentials)


def _iterations(user: str, config: Mapping[str, str]) -> dict[ScramMechanism, int]:
    try:
        return {
            mechanism: ScramCredential.parse(config[name], mechanism).iterations
            for name, mechanism in MECHANISMS.items()
            if name in config
        }
    except CredentialError as error:
        raise CommandError(f"the credential of {user} cannot be read: {error}") from None
