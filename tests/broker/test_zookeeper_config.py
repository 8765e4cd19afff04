"""The keys towards ZooKeeper that must go together."""

import pytest

from ottla.base.config import ConfigError, load
from ottla.broker.config_entries import describe_broker
from ottla.broker.security import check_security
from ottla.broker.settings import Settings
from ottla.broker.zookeeper_config import JAAS_FILE, ZooKeeperConfig
from ottla.controller.image import Image

KEY = {"zookeeper.ssl.keystore.location": "/etc/ottla/zookeeper.pem"}
TLS = {"zookeeper.ssl.client.enable": "true"}


@pytest.mark.parametrize("identity", [{JAAS_FILE: "/etc/ottla/jaas"}, TLS | KEY])
def test_nodes_may_be_kept_for_a_user_that_zookeeper_knows(identity: dict[str, str]) -> None:
    check_security({"zookeeper.set.acl": "true", **identity})


@pytest.mark.parametrize("nobody", [{}, TLS, KEY])
def test_nodes_cannot_be_kept_for_nobody(nobody: dict[str, str]) -> None:
    with pytest.raises(ConfigError, match=r"^zookeeper\.set\.acl: ") as refused:
        check_security({"zookeeper.set.acl": "true", **nobody})
    assert JAAS_FILE in str(refused.value)
    assert "zookeeper.ssl.keystore.location" in str(refused.value)


def test_passwords_are_shown_neither_to_clients_nor_in_a_log() -> None:
    secrets = {f"zookeeper.ssl.{store}.password": "secret" for store in ("keystore", "truststore")}
    entries = {entry.name: entry for entry in describe_broker(Settings(secrets, Image()))}
    for name in secrets:
        assert entries[name].is_sensitive
        assert entries[name].value is None
    assert "secret" not in repr(load(ZooKeeperConfig, secrets))
