"""Is a token good? It is a JWT that one of the configured keys has signed, and that says what it must.

Rules: keys come from `Keys` and never from a token, whose `jku`, `x5u`, `jwk` and `x5c` are not looked at.
Only algorithms with a key pair are taken, each with keys of its own kind alone, so that no public key can
serve as a shared secret. As in Kafka, a token must have `exp` and `iat`, and one with an `aud` is refused
unless audiences are expected.

Loaded when a listener has OAUTHBEARER, and not before: joserfc is an extra.
"""

import json
from collections.abc import Sequence
from typing import Any, Protocol, TypeAlias

from joserfc import jws, jwt
from joserfc.errors import JoseError, UnsupportedAlgorithmError
from joserfc.jwk import ECKey, JWKRegistry, OKPKey, RSAKey

from ottla.base.config import LONG_MAX
from ottla.security.oauth_config import OAuthConfig
from ottla.security.sasl.oauthbearer import Token, TokenError

Key: TypeAlias = RSAKey | ECKey | OKPKey

ALGORITHMS = (
    "RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA", "Ed25519",
)  # fmt: skip
RSA_BITS_MIN = 2048
KEY_ID_CHARACTERS_MAX = 1_000
KEYS_MAX = 1_000
# What joserfc and the json module raise for bytes that somebody made up, other than JoseError.
_GARBAGE = (ValueError, TypeError, KeyError, AttributeError, RecursionError, OverflowError)


class _Registry(jws.JWSRegistry):
    max_header_length = 8192

    def get_alg(self, name: str) -> Any:
        """joserfc would warn of EdDSA at every token, as it has a newer name."""
        if name not in ALGORITHMS:
            raise UnsupportedAlgorithmError("its algorithm is not allowed")
        return self.algorithms[name]


_REGISTRY = _Registry(algorithms=ALGORITHMS, strict_check_header=False)


class Keys(Protocol):
    """The keys of those who sign tokens."""

    @property
    def keys(self) -> Sequence[Key]: ...

    def on_missing(self) -> None:
        """A token names a key that is not among them."""


def parsed_keys(text: str) -> tuple[Key, ...]:
    """The keys of a JWKS that can verify a signature. ValueError: there are none, or it is no JWKS."""
    try:
        entries = json.loads(text)["keys"]
        keys = [key for entry in entries[:KEYS_MAX] if (key := _usable_key(entry)) is not None]
    except _GARBAGE:
        raise ValueError("it is not a JSON Web Key Set") from None
    if not keys:
        raise ValueError("it has no key that could verify a signature")
    return tuple(keys)


def _usable_key(entry: Any) -> Key | None:
    """None: for another purpose, or of a kind that is not for us; a set may have such keys (RFC 7517, 5)."""
    try:
        if entry["kty"] == RSAKey.key_type and len(entry["n"]) * 6 < RSA_BITS_MIN:
            return None  # joserfc would take it, with a warning
        key = JWKRegistry.import_key(entry)
        key.check_use("sig")
        key.check_key_op("verify")
    except (JoseError, *_GARBAGE):
        return None
    if isinstance(key, RSAKey) and key.raw_value.key_size < RSA_BITS_MIN:
        return None
    return key if isinstance(key, RSAKey | ECKey | OKPKey) else None


class Tokens:
    """`check` is what an OAUTHBEARER exchange asks."""

    def __init__(self, config: OAuthConfig, keys: Keys) -> None:
        self._config = config
        self._keys = keys

    def check(self, text: str, wall_ms: int) -> Token:
        try:
            claims = self._verified(text)
            self._check_claims(claims, wall_ms)
            expires_ms = int(claims["exp"] * 1000)
        except JoseError as error:
            raise TokenError(f"the token is refused: {error}") from None
        except _GARBAGE:
            raise TokenError("the token is malformed") from None
        if not 0 <= expires_ms <= LONG_MAX:
            raise TokenError("the token's exp is no time")
        _check_scopes(claims.get(self._config.scope_claim))
        subject = claims.get(self._config.sub_claim)
        if not isinstance(subject, str) or not subject.strip():
            raise TokenError(f"the token's {self._config.sub_claim} names nobody")
        return Token(subject.strip(), expires_ms)

    def _verified(self, text: str) -> dict[str, Any]:
        """The claims, if a key of ours has signed them. Without a key id every key of its kind is tried."""
        value = text.encode()
        header = jws.extract_compact(value, registry=_REGISTRY).headers()
        kind = _REGISTRY.get_alg(header["alg"]).key_type
        key_id = header.get("kid")
        candidates = [
            key
            for key in self._keys.keys
            if key.key_type == kind and (key_id is None or key.get("kid") == key_id)
        ]
        if not candidates:
            if key_id is not None and len(key_id) <= KEY_ID_CHARACTERS_MAX:
                self._keys.on_missing()
            raise TokenError("no key is known for the token")
        for key in candidates:
            try:
                return jwt.decode(value, key, registry=_REGISTRY).claims
            except JoseError as error:
                refusal = error
        raise refusal

    def _check_claims(self, claims: dict[str, Any], wall_ms: int) -> None:
        config = self._config
        expected: dict[str, Any] = {"exp": {"essential": True}, "iat": {"essential": True}}
        if config.expected_audience:
            expected["aud"] = {"essential": True, "values": list(config.expected_audience)}
        elif "aud" in claims:
            raise TokenError(
                "the token is for an audience, and sasl.oauthbearer.expected.audience is not set"
            )
        if config.expected_issuer:
            expected["iss"] = {"essential": True, "value": config.expected_issuer}
        registry = jwt.JWTClaimsRegistry(now=wall_ms // 1000, leeway=config.clock_skew_s, **expected)
        registry.validate(claims)


def _check_scopes(scopes: object) -> None:
    """As Kafka does: a text, or a list of different ones."""
    listed = [scopes] if isinstance(scopes, str) else scopes if isinstance(scopes, list) else []
    texts = [scope.strip() for scope in listed if isinstance(scope, str)]
    if len(texts) != len(listed) or not all(texts) or len(set(texts)) != len(texts):
        raise TokenError("the token's scopes are not different, non-empty texts")
