"""OAUTHBEARER on the side of a broker (RFC 7628, KIP-255): the client sends a token that somebody else has
signed, and is who the token says.

    client   n,[a=AUTHZID],^A auth=Bearer TOKEN ^A [NAME=VALUE ^A]... ^A
    broker   nothing more to say, or {"status":"invalid_token"}
    client   ^A, and is refused

Extensions must be well-formed; as in Kafka's validator, nothing is done with them. Stricter than Kafka: a
name that is given twice is refused, and so is a second token after one that was not good.
"""

import re
from collections.abc import Callable
from typing import NamedTuple

from ottla.security.principals import USER, Principal
from ottla.security.sasl.exchange import AuthenticationError, MechanismExchange, Step

NAME = "OAUTHBEARER"
INVALID_TOKEN = b'{"status":"invalid_token"}'
_SEPARATOR = "\x01"
_AUTH = "auth"
_HEADER = re.compile(r"n,(?:a=(?P<authzid>(?:[^=,\x00\x80-\U0010ffff]|=2C|=3D)+))?,\x01")
_NAME = re.compile(r"[A-Za-z]+")
_VALUE = re.compile(r"[\x21-\x7e \t\r\n]+")
_BEARER = re.compile(r"[Bb][Ee][Aa][Rr][Ee][Rr] +(?P<token>[A-Za-z0-9._~+/-]+=*)")


class Token(NamedTuple):
    """What a good token says."""

    subject: str
    expires_ms: int


class TokenError(Exception):
    """A token is not good. The text is for the log, and has nothing of the token but its claims' names."""


CheckToken = Callable[[str, int], Token]  # the token, the time of day in ms; TokenError


class ClientFirst(NamedTuple):
    authzid: str
    token: str
    extensions: dict[str, str]

    @classmethod
    def parse(cls, message: bytes) -> "ClientFirst":
        """AuthenticationError: it is not what RFC 7628 says a client sends first."""
        try:
            text = message.decode("ascii")
        except UnicodeDecodeError:
            raise AuthenticationError("the first message is not ASCII") from None
        header = _HEADER.match(text)
        if header is None or not text.endswith(_SEPARATOR):
            raise AuthenticationError("the first message is not an OAUTHBEARER one")
        pairs = _pairs(text[header.end() : -1])
        bearer = _BEARER.fullmatch(pairs.pop(_AUTH, ""))
        if bearer is None:
            raise AuthenticationError("the first message has no bearer token")
        authzid = (header["authzid"] or "").replace("=2C", ",").replace("=3D", "=")
        return cls(authzid, bearer["token"], pairs)


def _pairs(text: str) -> dict[str, str]:
    """`NAME=VALUE^A`, any number of them."""
    *parts, rest = text.split(_SEPARATOR)
    pairs: dict[str, str] = {}
    for part in parts:
        name, _, value = part.partition("=")
        if not (_NAME.fullmatch(name) and _VALUE.fullmatch(value)) or name in pairs:
            raise AuthenticationError("the first message has an extension that is not NAME=VALUE")
        pairs[name] = value
    if rest:
        raise AuthenticationError("the first message does not end as it should")
    return pairs


class OAuthBearer:
    """The mechanism of one listener. `check` says whether a token is good."""

    def __init__(self, check: CheckToken) -> None:
        self._check = check

    def begin(self, nonce: bytes) -> MechanismExchange:  # noqa: ARG002 - nothing is challenged
        return OAuthBearerExchange(self._check)


class OAuthBearerExchange:
    def __init__(self, check: CheckToken) -> None:
        self._check = check
        self._refusal = ""  # why the token is not good; the client has been told that it is not

    def step(self, token: bytes, wall_ms: int) -> Step:
        if self._refusal:
            raise AuthenticationError(self._refusal)
        first = ClientFirst.parse(token)
        try:
            checked = self._check(first.token, wall_ms)
        except TokenError as error:
            self._refusal = str(error)
            return Step(INVALID_TOKEN)
        if first.authzid not in {"", checked.subject}:
            raise AuthenticationError("the authorization id is another one than the token's subject")
        return Step(b"", Principal(USER, checked.subject), max(checked.expires_ms - wall_ms, 0))
