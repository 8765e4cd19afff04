"""The messages of SCRAM (RFC 5802), as Kafka speaks it: no channel binding (`n`), extensions are read over.

    client first   n,[a=authzid],n=user,r=nonce[,extensions]
    server first   r=nonce of both,s=salt,i=iterations
    client final   c=channel binding,r=nonce of both[,extensions],p=proof
    server final   v=signature, or e=error

What both sides sign are the messages as they were on the wire. The expressions take time in proportion to the
message, whatever it is.
"""

import hashlib
import hmac
import re
from base64 import b64decode, b64encode
from collections.abc import Mapping
from typing import NamedTuple

from ottla.security.credentials import ScramMechanism

_NAME = r"(?:[^\x00=,]|=2C|=3D)+"
_BASE64 = r"(?:[A-Za-z0-9/+]{4})*(?:[A-Za-z0-9/+]{3}=|[A-Za-z0-9/+]{2}==)?"
_NONCE = r"[\x21-\x2b\x2d-\x7e]+"
_EXTENSIONS = r"(?:,[A-Za-z]+=[^\x00,]+)*"
_CLIENT_FIRST = re.compile(
    rf"(?P<header>n,(?:a=(?P<authzid>{_NAME}))?,)"
    rf"(?P<bare>n=(?P<user>{_NAME}),r=(?P<nonce>{_NONCE})(?P<extensions>{_EXTENSIONS}))"
)
_SERVER_FIRST = re.compile(
    rf"r=(?P<nonce>{_NONCE}),s=(?P<salt>{_BASE64}),i=(?P<count>[0-9]{{1,9}}){_EXTENSIONS}"
)
_CLIENT_FINAL = re.compile(
    rf"(?P<signed>c=(?P<binding>{_BASE64}),r=(?P<nonce>{_NONCE}){_EXTENSIONS}),p=(?P<proof>{_BASE64})"
)
_SERVER_FINAL = re.compile(rf"v=(?P<signature>{_BASE64}){_EXTENSIONS}")


class MessageError(ValueError):
    """It is no such message. The text has nothing of it."""


class ClientFirst(NamedTuple):
    header: str
    authzid: str
    user: str
    nonce: str
    extensions: Mapping[str, str]
    bare: str


class ServerFirst(NamedTuple):
    nonce: str
    salt: bytes
    iterations: int
    text: str


class ClientFinal(NamedTuple):
    header: bytes
    nonce: str
    proof: bytes
    signed: str


def client_first(message: bytes) -> ClientFirst:
    parts = _matched(_CLIENT_FIRST, message, "client's first message")
    extensions = dict(pair.split("=", 1) for pair in parts["extensions"].split(",")[1:])
    authzid = _unescaped(parts["authzid"] or "")
    return ClientFirst(
        parts["header"], authzid, _unescaped(parts["user"]), parts["nonce"], extensions, parts["bare"]
    )


def server_first(message: bytes) -> ServerFirst:
    parts = _matched(_SERVER_FIRST, message, "server's first message")
    return ServerFirst(parts["nonce"], b64decode(parts["salt"]), int(parts["count"]), parts[0])


def client_final(message: bytes) -> ClientFinal:
    parts = _matched(_CLIENT_FINAL, message, "client's final message")
    return ClientFinal(
        b64decode(parts["binding"]), parts["nonce"], b64decode(parts["proof"]), parts["signed"]
    )


def server_signature(message: bytes) -> bytes:
    return b64decode(_matched(_SERVER_FINAL, message, "server's final message")["signature"])


def escaped(user: str) -> str:
    return user.replace("=", "=3D").replace(",", "=2C")


def base64(part: bytes) -> str:
    return b64encode(part).decode()


def nonce_of(randomness: bytes) -> str:
    return b64encode(randomness).decode().rstrip("=").replace("/", "-").replace("+", "_")


def signature(mechanism: ScramMechanism, key: bytes, signed: str) -> bytes:
    return hmac.digest(key, signed.encode(), mechanism.digest)


def digest(mechanism: ScramMechanism, key: bytes) -> bytes:
    return hashlib.new(mechanism.digest, key).digest()


def xor(left: bytes, right: bytes) -> bytes:
    """Both must have one length."""
    return bytes(a ^ b for a, b in zip(left, right, strict=True))


def _unescaped(name: str) -> str:
    return name.replace("=2C", ",").replace("=3D", "=")


def _matched(expression: re.Pattern[str], message: bytes, what: str) -> re.Match[str]:
    try:
        text = message.decode()
    except UnicodeDecodeError:
        raise MessageError(f"the {what} is not in UTF-8") from None
    match = expression.fullmatch(text)
    if match is None:
        raise MessageError(f"the {what} cannot be read")
    return match
