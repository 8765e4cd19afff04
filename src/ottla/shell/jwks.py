"""Reads a JSON Web Key Set from the one address that a broker's configuration names. Blocks: for a worker.

Nothing leads anywhere else: redirects are not followed, proxies of the environment are not used, and file:
and http: were refused where they are not wanted when the configuration was read (`security/oauth_config`).
What comes back has a limit, and so has the time that it takes, however slowly it comes.
"""

import contextlib
import http.client
import os
import socket
import ssl
import threading
import time
from urllib.parse import unquote

from ottla.base.files import kind_of
from ottla.security.oauth_config import checked_address

BYTES_MAX = 1 << 20
TIMEOUT_S = 10.0


class JwksError(Exception):
    """Why there are no keys, in words for the operator."""


def read(url: str, trust_file: str = "", timeout_s: float = TIMEOUT_S) -> str:
    """The text at that address. JwksError: it cannot be read."""
    address = checked_address(url)
    try:
        if address.scheme == "file":
            content = _read_file(unquote(address.path))
        else:
            content = _read_http(url, trust_file, timeout_s)
        return content.decode()
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise JwksError(f"cannot read {url}: {error or type(error).__name__}") from None


def _read_file(path: str) -> bytes:
    kind = kind_of(os.stat(path))
    if kind is not None:
        raise OSError(f"it is {kind}, not a plain file")
    with open(path, "rb") as file:
        return _limited(file.read(BYTES_MAX + 1))


def _read_http(url: str, trust_file: str, timeout_s: float) -> bytes:
    address, deadline_s = checked_address(url), time.monotonic() + timeout_s
    host, port = address.hostname or "", address.port
    connection: http.client.HTTPConnection
    if address.scheme == "https":
        context = ssl.create_default_context(cafile=trust_file or None)
        connection = http.client.HTTPSConnection(host, port, timeout=timeout_s, context=context)
    else:
        connection = http.client.HTTPConnection(host, port, timeout=timeout_s)
    connection.connect()
    # The timeout of a socket starts again with every byte.
    late = threading.Event()
    watchdog = threading.Timer(deadline_s - time.monotonic(), _cut, [connection.sock, late])
    watchdog.start()
    try:
        path = address.path or "/"
        headers = {"Accept": "application/json", "Connection": "close"}
        connection.request("GET", f"{path}?{address.query}" if address.query else path, headers=headers)
        response = connection.getresponse()
        if response.status != http.client.OK:
            hint = "; redirects are not followed, name where it leads" if response.status < 400 else ""
            raise OSError(f"it answers {response.status} {response.reason:.100}{hint}")
        content = _limited(response.read(BYTES_MAX + 1))
        if late.is_set():  # what was cut off looks complete
            raise TimeoutError
    except (OSError, http.client.HTTPException):
        if late.is_set():
            raise TimeoutError(f"it takes longer than {timeout_s:g} s") from None
        raise
    finally:
        watchdog.cancel()
        connection.close()
    return content


def _cut(connection: socket.socket, late: threading.Event) -> None:
    late.set()
    with contextlib.suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)


def _limited(content: bytes) -> bytes:
    if len(content) > BYTES_MAX:
        raise OSError(f"it has more than {BYTES_MAX} bytes")
    return content
