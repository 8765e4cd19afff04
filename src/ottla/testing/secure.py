"""What `Broker(secure=True)` and `Cluster(secure=True)` have: certificates, a user, and an authorizer; and
what their clients need for that.

Certificates are made once in a process, in a folder that is removed at its end. Passwords are new for every
broker.
"""

import atexit
import secrets
import shutil
import ssl
import tempfile
from functools import cache
from typing import Any

from ottla.base.addresses import Address
from ottla.shell import secure_folder
from ottla.shell.secure_folder import ADMIN, BROKER, LISTENER, MECHANISM


@cache
def certificates(host: str) -> str:
    """A folder of certificates for brokers at this host."""
    folder = tempfile.mkdtemp(prefix="ottla-certificates-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    secure_folder.certify(folder, [host])
    return folder


class Security:
    """`username` may do everything. `ca_file` is what clients trust."""

    def __init__(self, host: str) -> None:
        self._folder = certificates(host)
        self.username = ADMIN
        self.password = secrets.token_urlsafe()
        self._broker_password = secrets.token_urlsafe()

    def __repr__(self) -> str:
        return f"Security(username={self.username!r})"

    @property
    def passwords(self) -> dict[str, str]:
        return {self.username: self.password, BROKER: self._broker_password}

    @property
    def ca_file(self) -> str:
        return f"{self._folder}/ca.pem"

    @property
    def ssl_context(self) -> ssl.SSLContext:
        return ssl.create_default_context(cafile=self.ca_file)

    def broker_config(self, host: str, port: int) -> dict[str, str]:
        own = secure_folder.broker_settings(self._folder, self._broker_password)
        return {"listeners": f"{LISTENER}://{Address(host, port)}", **own}

    def client_config(self) -> dict[str, Any]:
        return {
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": MECHANISM.title,
            "sasl.username": self.username,
            "sasl.password": self.password,
            "ssl.ca.location": self.ca_file,
        }

    def client_arguments(self) -> dict[str, Any]:
        return {
            "security_protocol": "SASL_SSL",
            "sasl_mechanism": MECHANISM.title,
            "sasl_plain_username": self.username,
            "sasl_plain_password": self.password,
            "ssl_context": self.ssl_context,
        }
