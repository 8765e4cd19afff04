"""PLAIN on a broker (RFC 4616): a name and a password, both of which the broker knows.

Users are those of the JAAS line: `user_NAME="password"`. The time that an attempt takes says nothing of
whether there is such a user, nor of how long or how alike the password is.
"""

import hmac
from collections.abc import Mapping

from ottla.security.principals import USER, Principal
from ottla.security.sasl.exchange import AuthenticationError, Step

NAME = "PLAIN"
_USER_OPTION = "user_"
_PARTS = 3


def users_of(options: Mapping[str, str]) -> dict[str, str]:
    """The passwords by user, from the options of a JAAS line."""
    return {
        key.removeprefix(_USER_OPTION): value
        for key, value in options.items()
        if key.startswith(_USER_OPTION) and key != _USER_OPTION
    }


class Plain:
    def __init__(self, users: Mapping[str, str]) -> None:
        self._passwords = {user: password.encode() for user, password in users.items()}

    def begin(self, nonce: bytes) -> "PlainExchange":
        return PlainExchange(self._passwords, nonce)


class PlainExchange:
    def __init__(self, passwords: Mapping[str, bytes], nonce: bytes) -> None:
        self._passwords = passwords
        self._nonce = nonce

    def step(self, token: bytes, wall_ms: int) -> Step:  # noqa: ARG002 - passwords have no end
        parts = token.split(b"\0", _PARTS)
        if len(parts) != _PARTS:
            raise AuthenticationError("its message is not a name and a password")
        authzid, name, password = parts
        try:
            user = name.decode()
        except UnicodeDecodeError:
            raise AuthenticationError("its name is not in UTF-8") from None
        if not user or not password:
            raise AuthenticationError("it gives no name, or no password")
        stored = self._passwords.get(user)
        # Codes of one length, under a key of this attempt.
        codes = [hmac.digest(self._nonce, text, "sha256") for text in (password, stored or self._nonce)]
        is_right = hmac.compare_digest(*codes)
        if stored is None or not is_right:
            raise AuthenticationError(f"there is no user {user!r:.100} with that password")
        if authzid and authzid != name:  # CVE-2017-12610
            raise AuthenticationError(f"{user!r:.100} asks to be somebody else")
        return Step(principal=Principal(USER, user))
