"""The broker that `from ottla import Broker` gives: an embedded one, with what a test wants close at hand."""

import logging
import os
import tempfile
import warnings
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

from ottla.broker.config_classes import broker_names
from ottla.broker.kafka_keys import remarks
from ottla.shell.embedded import EmbeddedBroker

if TYPE_CHECKING:
    from ssl import SSLContext

    from ottla.shell.console_process import OpenConsole
    from ottla.testing.secure import Security

REQUEST_S = 30.0
Setting: TypeAlias = str | bool | int | float

_quiet = logging.getLogger("ottla.librdkafka")
_quiet.addHandler(logging.NullHandler())
_quiet.propagate = False


class Broker(EmbeddedBroker):
    """`with Broker() as broker:` serves real clients at `broker.bootstrap_servers` until the block ends.

    config  broker properties, under Kafka's names; numbers and booleans may be Python's own
    data    a folder that keeps the records over restarts; without it they go to a temporary one
    port    0 takes a free one
    secure  with TLS, SASL and an authorizer; the user of `client_config` may do everything
    """

    def __init__(
        self,
        config: Mapping[str, Setting] | None = None,
        data: str | os.PathLike[str] | None = None,
        port: int = 0,
        host: str = "127.0.0.1",
        secure: bool = False,
    ) -> None:
        self._security = new_security(host) if secure else None
        own = self._security.broker_config(host, port) if self._security else {}
        super().__init__(own | texts(config), data, port, host)
        warn_of_unknown(self.config)

    @property
    def client_config(self) -> dict[str, Any]:
        """What a client of confluent-kafka needs to connect."""
        return librdkafka_settings(self.bootstrap_servers, self._security)

    @property
    def client_arguments(self) -> dict[str, Any]:
        """What a client of aiokafka or kafka-python needs to connect, as keyword arguments."""
        return python_settings(self.bootstrap_servers, self._security)

    @property
    def ssl_context(self) -> "SSLContext":
        """Trusts the certificate of a secure broker."""
        if self._security is None:
            raise RuntimeError("this broker has no TLS: make it with secure=True")
        return self._security.ssl_context

    def _prepare(self, data: str) -> None:
        if self._security is not None:
            from ottla.shell.secure_folder import add_users

            add_users(data, self._security.passwords)

    def create_topic(
        self, name: str, partitions: int = 1, config: Mapping[str, Setting] | None = None
    ) -> str:
        """Create a topic and wait until it can be used."""
        return create_topic(self.client_config, name, partitions, 1, config)

    def delete_topic(self, name: str) -> None:
        delete_topic(self.client_config, name)

    def console(self, port: int = 0, read_only: bool = False) -> "OpenConsole":
        """A console for the browser, in a process of its own: at `.url`, until `.stop()`, the end of a `with`
        block or of this program. In a notebook it shows itself as a link."""
        return open_console(self.client_config, port, read_only)


def new_security(host: str) -> "Security":
    try:
        from ottla.testing.secure import Security

        return Security(host)
    except ImportError:
        raise ImportError("secure=True needs cryptography: pip install 'ottla[tls]'") from None


def librdkafka_settings(servers: str, security: "Security | None") -> dict[str, Any]:
    return {"bootstrap.servers": servers, **(security.client_config() if security else {})}


def python_settings(servers: str, security: "Security | None") -> dict[str, Any]:
    return {"bootstrap_servers": servers, **(security.client_arguments() if security else {})}


def create_topic(
    client_config: dict[str, Any],
    name: str,
    partitions: int,
    replicas: int,
    config: Mapping[str, Setting] | None,
) -> str:
    from confluent_kafka.admin import NewTopic  # type: ignore[attr-defined]

    topic = NewTopic(name, num_partitions=partitions, replication_factor=replicas, config=texts(config))
    client = _admin(client_config)
    client.create_topics([topic], operation_timeout=REQUEST_S)[name].result(REQUEST_S)
    return name


def delete_topic(client_config: dict[str, Any], name: str) -> None:
    client = _admin(client_config)
    client.delete_topics([name], operation_timeout=REQUEST_S)[name].result(REQUEST_S)


def _admin(client_config: dict[str, Any]) -> Any:
    from confluent_kafka.admin import AdminClient

    return AdminClient(client_config, logger=_quiet)


def open_console(client_config: dict[str, Any], port: int, read_only: bool) -> "OpenConsole":
    from ottla.shell.console_process import CLIENT_CONFIG, OpenConsole

    properties = {
        name: value
        for name, value in client_config.items()
        if name not in {"bootstrap.servers", "sasl.username", "sasl.password"}
    }
    text = "".join(f"{name}={value}\n" for name, value in properties.items())
    others = ["--profile", "", *(["--read-only"] if read_only else [])]
    with tempfile.NamedTemporaryFile(
        "w", prefix="ottla-client-", encoding="utf-8"
    ) as file:  # of this user alone
        file.write(text)
        file.flush()
        return OpenConsole(client_config["bootstrap.servers"], port, others, {CLIENT_CONFIG: file.name})


def warn_of_unknown(config: Mapping[str, str]) -> None:
    """A key that nobody knows is most often a slip."""
    for sentence in remarks(config, broker_names()):
        warnings.warn(sentence, stacklevel=3)


def texts(config: Mapping[str, Setting] | None) -> dict[str, str]:
    """Values as Kafka writes them."""
    return {name: _text(name, value) for name, value in (config or {}).items()}


def _text(name: str, value: Setting) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    if isinstance(value, str | int | float):
        return str(value)
    raise TypeError(f"the config key {name!r} takes text, a number or a boolean, not {value!r}")
