"""`ottla cluster secure-zookeeper`: ACLs for nodes that brokers made before `zookeeper.set.acl` was set."""

from typing import Annotated

import typer

from ottla.base.command_error import USAGE, CommandError
from ottla.base.config import load
from ottla.broker.zookeeper_config import JAAS_FILE, ZooKeeperConfig
from ottla.cli import output
from ottla.cli.keeper_options import Config, ZooKeeper, keeper_properties, start_errors_explained


def secure_zookeeper(
    config: Config = None,
    zookeeper: ZooKeeper = None,
    is_open: Annotated[
        bool, typer.Option("--open", help="The other way: open all nodes to everybody.")
    ] = False,
) -> None:
    """Keep a cluster's nodes in ZooKeeper for the brokers' user alone.

    With `zookeeper.set.acl` brokers do that for the nodes they make; this does it for those that are there.
    First let all brokers authenticate, then set `zookeeper.set.acl` for all, then run this once,
    as the brokers' user: with the properties of one of them. Brokers may run meanwhile.

    \b
    Examples:
      ottla cluster secure-zookeeper --config /etc/ottla/server.properties
      ottla cluster secure-zookeeper --config /etc/ottla/server.properties --open
    """
    with start_errors_explained():
        properties = keeper_properties(zookeeper, None, config) or {}
        if not properties.get("zookeeper.connect"):
            raise CommandError(
                "name the ZooKeeper: --config FILE with zookeeper.connect, or --zookeeper", USAGE
            )
        if not is_open and not load(ZooKeeperConfig, properties).has_identity:
            raise CommandError(
                "nodes cannot be kept for nobody: the broker's properties (--config) have neither a user "
                f"({JAAS_FILE}) nor a certificate (zookeeper.ssl.keystore.location)",
                USAGE,
            )
        from ottla.shell.keeper_visit import set_zookeeper_acls

        count = set_zookeeper_acls(properties, is_open=is_open)
    whom = "everybody" if is_open else "the brokers' user"
    output.say(f"{output.plural(count, 'node')} of {properties['zookeeper.connect']}: now for {whom}")
