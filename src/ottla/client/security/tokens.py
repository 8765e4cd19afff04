"""Tokens for OAUTHBEARER: given as they are, by a function, by a file, or by a server for a client's id and
secret (the grant of client credentials, RFC 6749).

A token is kept until most of its life is over. Whoever gives it says how long that is; otherwise it is read
in the token, without checking it: that is what brokers do.
"""

import base64
import binascii
import json
import time
from typing import Any, NamedTuple
from urllib.parse import quote_plus, unquote, urlencode, urlsplit

from ottla.client.errors import ClientError
from ottla.client.security import stores
from ottla.client.security.sasl_settings import TokenSettings

KEPT = 0.8  # of its life, as in Java
ANSWER_S = 10.0
ANSWER_BYTES_MAX = 1 << 20


class Token(NamedTuple):
    text: str
    expires_s: float  # since 1970; 0: it does not say
    subject: str = ""

    def __repr__(self) -> str:
        return f"Token(expires_s={self.expires_s})"


class Tokens:
    """Of one client."""

    def __init__(self, settings: TokenSettings) -> None:
        self.settings = settings
        self._token: Token | None = None
        self._good_until_s = 0.0

    def token(self) -> Token:
        now_s = time.time()
        if self._token is None or now_s >= self._good_until_s:
            self._token = self._fresh(now_s)
            self._good_until_s = now_s + KEPT * (self._token.expires_s - now_s)
        return self._token

    def _fresh(self, now_s: float) -> Token:
        settings = self.settings
        if settings.provider is not None:
            return parsed(settings.provider())
        if settings.token:
            return parsed(settings.token)
        if settings.endpoint.lower().startswith("file:"):
            return _in_file(unquote(urlsplit(settings.endpoint).path))
        return _granted(settings, now_s)


def parsed(text: str) -> Token:
    """With what the token says of itself, if it is one that says something (JWT)."""
    claims: Any = None
    parts = text.strip().split(".")
    if len(parts) == 3:
        try:
            claims = json.loads(base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)))
        except (ValueError, binascii.Error):
            claims = None
    if not isinstance(claims, dict):
        return Token(text.strip(), 0)
    expires = claims.get("exp")
    return Token(
        text.strip(),
        float(expires) if isinstance(expires, int | float) else 0,
        str(claims.get("sub") or ""),
    )


def _in_file(path: str) -> Token:
    try:
        with open(path, encoding="utf-8") as file:
            return parsed(file.read())
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not text"
        raise ClientError(f"cannot read the token in {path}: {reason}") from None


def _granted(settings: TokenSettings, now_s: float) -> Token:
    where = _shown(settings.endpoint)
    status, content = _asked(settings, where)
    try:
        answer = json.loads(content)
    except ValueError:
        answer = None
    if status != 200:
        said = answer.get("error_description") or answer.get("error") if isinstance(answer, dict) else ""
        raise ClientError(
            f"{where} gives no token: HTTP {status}{f' ({said:.200})' if said else ''}; "
            "check the client's id, secret and scope"
        )
    text = answer.get("access_token") if isinstance(answer, dict) else None
    if not isinstance(text, str) or not text:
        raise ClientError(f"{where} answers without an access_token; is it the address of a token endpoint?")
    token = parsed(text)
    lasts_s = answer.get("expires_in")
    if not token.expires_s and isinstance(lasts_s, int | float):
        token = token._replace(expires_s=now_s + lasts_s)
    return token


def _asked(settings: TokenSettings, where: str) -> tuple[int, bytes]:
    """Without following anybody elsewhere: the secret is for this address."""
    import http.client
    import ssl

    parts = urlsplit(settings.endpoint)
    if not parts.hostname:
        raise ClientError(f"sasl.oauthbearer.token.endpoint.url {where!r} names no host")
    body = {"grant_type": "client_credentials", **({"scope": settings.scope} if settings.scope else {})}
    names = (settings.client_id, settings.client_secret)
    pair = ":".join(map(quote_plus, names) if settings.is_url_encoded else names)
    headers = {
        "Authorization": f"Basic {base64.b64encode(pair.encode()).decode()}",
        "Content-Type": "application/x-www-form-urlencoded",
        "Accept": "application/json",
    }
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    connection: http.client.HTTPConnection
    if parts.scheme.lower() == "https":
        trusted = stores.trusted_of(settings.trusted) if settings.trusted else ""
        context = ssl.create_default_context(cadata=trusted or None)
        context.verify_flags &= ~ssl.VERIFY_X509_STRICT
        connection = http.client.HTTPSConnection(
            parts.hostname, parts.port, timeout=ANSWER_S, context=context
        )
    else:
        connection = http.client.HTTPConnection(parts.hostname, parts.port, timeout=ANSWER_S)
    try:
        connection.request("POST", path, urlencode(body), headers)
        answer = connection.getresponse()
        return answer.status, answer.read(ANSWER_BYTES_MAX)
    except (OSError, http.client.HTTPException) as error:
        hint = "; see https.ca.location" if isinstance(error, ssl.SSLCertVerificationError) else ""
        raise OSError(
            f"asking {where} for a token: {getattr(error, 'strerror', None) or error or type(error).__name__}"
            f"{hint}"
        ) from None
    finally:
        connection.close()


def _shown(endpoint: str) -> str:
    """Without what may be secret in it."""
    parts = urlsplit(endpoint)
    port = f":{parts.port}" if parts.port else ""
    return f"{parts.scheme}://{parts.hostname or ''}{port}{parts.path}"
