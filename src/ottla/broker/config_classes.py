"""All classes of configuration keys of a broker, in one list, for all that is done with every key.

That is reading and checking properties, DescribeConfigs and AlterConfigs, what is taken over from another
broker's settings, and docs/reference/configs.md, where the titles come from.
"""

from collections.abc import Iterator

from ottla.base.config import Row, names_of, rows
from ottla.broker.config import BrokerConfig
from ottla.broker.metrics_config import MetricsConfig
from ottla.broker.zookeeper_config import ZooKeeperConfig
from ottla.group.config import GroupConfig
from ottla.log.config import LogConfig, StoreConfig
from ottla.security.authorizer_config import AuthorizerConfig
from ottla.security.oauth_config import OAuthConfig
from ottla.security.sasl_config import SaslConfig
from ottla.security.tls_config import TlsConfig
from ottla.txn.config import TransactionConfig

TITLES: dict[type, str] = {
    BrokerConfig: "Broker",
    ZooKeeperConfig: "Towards ZooKeeper",
    LogConfig: "Logs and topics",
    StoreConfig: "Log store",
    GroupConfig: "Groups",
    TransactionConfig: "Transactions",
    SaslConfig: "SASL",
    OAuthConfig: "SASL: OAUTHBEARER",
    TlsConfig: "TLS",
    AuthorizerConfig: "Access control",
    MetricsConfig: "Metrics and health",
}
CONFIG_CLASSES = tuple(TITLES)


def broker_rows() -> Iterator[Row]:
    """Every key that broker properties can have."""
    for config_class in CONFIG_CLASSES:
        yield from rows(config_class)


def broker_names() -> set[str]:
    """The names of all these keys, and the other names that some of them have."""
    return {name for row in broker_rows() for name in names_of(row)}
