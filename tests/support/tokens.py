"""Tokens for OAUTHBEARER, signed with keys that are made here, and what a client sends first."""

import warnings
from functools import cache
from typing import Any

from joserfc import jwt
from joserfc.errors import SecurityWarning
from joserfc.jwk import ECKey, KeySet, OKPKey, RSAKey
from joserfc.jws import JWSRegistry

NOW_MS = 1_800_000_000_000
KEY_ID = "today"


@cache
def rsa_key(name: str = KEY_ID) -> RSAKey:
    return RSAKey.generate_key(2048, {"kid": name})


@cache
def ec_key(name: str = "curve") -> ECKey:
    return ECKey.generate_key("P-256", {"kid": name})


@cache
def ed_key(name: str = "edwards") -> OKPKey:
    return OKPKey.generate_key("Ed25519", {"kid": name})


def jwks(*keys: Any) -> dict[str, Any]:
    """The public halves, as a provider gives them."""
    return KeySet(list(keys)).as_dict(private=False)


def claims(now_ms: int = NOW_MS, **changes: Any) -> dict[str, Any]:
    """Those of a good token; None leaves a claim out."""
    now_s = now_ms // 1000
    named = {"sub": "alice", "iat": now_s - 10, "exp": now_s + 600} | changes
    return {name: value for name, value in named.items() if value is not None}


def token(
    key: Any = None, algorithm: str = "RS256", header: dict[str, Any] | None = None, **changes: Any
) -> str:
    """A signed token; `header` replaces or adds, None leaves out; `changes` are those of `claims`."""
    signer = rsa_key() if key is None else key
    named = {"alg": algorithm, "kid": signer.get("kid"), "typ": "JWT"} | (header or {})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SecurityWarning)  # of EdDSA, which has a newer name
        return jwt.encode(
            {name: value for name, value in named.items() if value is not None},
            claims(**changes),
            signer,
            registry=JWSRegistry(algorithms=[algorithm], strict_check_header=False),
        )


def client_first(text: str, authzid: str = "", **extensions: str) -> bytes:
    header = f"n,{f'a={authzid}' if authzid else ''},"
    pairs = "".join(
        f"{name}={value}\x01" for name, value in ({"auth": f"Bearer {text}"} | extensions).items()
    )
    return f"{header}\x01{pairs}\x01".encode()
