"""What every connection of one client does before its first request: TLS, then SASL.

Made once for a client: files are read once, and tokens kept until they are old.
"""

import socket
from typing import TYPE_CHECKING

from ottla.client.security.settings import NO_SECURITY, ClientSecurity

if TYPE_CHECKING:
    import ssl

    from ottla.client.security.sasl import Authentication


class Handshakes:
    def __init__(self, security: ClientSecurity = NO_SECURITY) -> None:
        self.security = security
        self.authentication = self._authentication()
        self._context: ssl.SSLContext | None = None

    def _authentication(self) -> "Authentication | None":
        if self.security.sasl is None:
            return None
        from ottla.client.security.sasl import Authentication

        return Authentication(self.security.sasl)

    def wrapped(self, plain: socket.socket, host: str) -> socket.socket:
        """With TLS on it, if there is to be any."""
        settings = self.security.tls
        if settings is None:
            return plain
        from ottla.client.security import tls

        if self._context is None:
            self._context = tls.context(settings)
        return tls.wrap(self._context, plain, host, settings)

    def is_waiting(self, error: OSError) -> bool:
        """Whether this only says that nothing is there to be read."""
        if self.security.tls is None:
            return False
        import ssl

        return isinstance(error, ssl.SSLWantReadError)

    def explained(self, error: OSError) -> OSError:
        """In words of ours, where it is of TLS: a broker may refuse a certificate after the handshake."""
        if self.security.tls is None:
            return error
        import ssl

        from ottla.client.security import tls

        return OSError(tls.explain(error)) if isinstance(error, ssl.SSLError) else error
