"""What a console is started with."""

from dataclasses import dataclass, field

from ottla.client.properties import ClientProperties
from ottla.console.pipelines import Pipelines

DEFAULT_HOST, DEFAULT_PORT = "127.0.0.1", 8080


@dataclass(frozen=True, slots=True)
class ConsoleSettings:
    """where      the cluster, and how to get in; with SASL, users log in as themselves
    token      who knows it gets in, where the cluster has no SASL
    origin     what people type into their browser, if a proxy stands before the console: https://...
    registry   the URL of a schema registry
    pipelines  reads those that it shows
    """

    where: ClientProperties
    host: str = DEFAULT_HOST
    port: int = DEFAULT_PORT
    is_read_only: bool = False
    token: str = field(default="", repr=False)
    origin: str = ""
    registry: str = ""
    pipelines: Pipelines | None = field(default=None, repr=False)

    @property
    def has_users(self) -> bool:
        """Whether people log in as users of the cluster."""
        return self.where.security.sasl is not None

    @property
    def cookie(self) -> str:
        """A browser gives a cookie to every port of a host: two consoles must not share a name."""
        return f"ottla_console_{self.port}"
