"""The keys of OAUTHBEARER: where the keys that sign tokens are, and what a token must say (KIP-768).

They come from the broker's own file and from nowhere else (CVE-2025-27817): none can be changed while a
broker runs, and nothing in a token names an address that is asked.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ottla.base.config import ConfigError, at_least, key, load, overlaid

if TYPE_CHECKING:
    from urllib.parse import SplitResult

PREFIX = "oauthbearer."  # of one listener's settings for this mechanism
URL_KEY = "sasl.oauthbearer.jwks.endpoint.url"
LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})


@dataclass(frozen=True, slots=True, kw_only=True)
class OAuthConfig:
    url: str = key(
        URL_KEY, "",
        "Where the keys are that verify tokens (JWKS): an https: or file: address, or http: on this host. "
        "Read at the start, which fails if it cannot be, and again from time to time.",
    )  # fmt: skip
    refresh_ms: int = key(
        "sasl.oauthbearer.jwks.endpoint.refresh.ms", 3_600_000,
        "Read the keys again after this long. A token with an unknown key id has them read sooner.",
        check=at_least(1),
    )  # fmt: skip
    retry_backoff_ms: int = key(
        "sasl.oauthbearer.jwks.endpoint.retry.backoff.ms", 100,
        "Wait this long after keys could not be read, twice as long after every failure that follows.",
        check=at_least(1),
    )  # fmt: skip
    retry_backoff_max_ms: int = key(
        "sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms", 10_000, "But never longer than this.",
        check=at_least(1),
    )  # fmt: skip
    expected_audience: tuple[str, ...] = key(
        "sasl.oauthbearer.expected.audience", (),
        "A token must be for one of these (`aud`). Without it, a token that is for somebody is refused.",
    )  # fmt: skip
    expected_issuer: str = key(
        "sasl.oauthbearer.expected.issuer", "", "A token must be from this issuer (`iss`)."
    )
    clock_skew_s: int = key(
        "sasl.oauthbearer.clock.skew.seconds", 30,
        "How far the issuer's clock may be from this broker's.",
        check=at_least(0),
    )  # fmt: skip
    scope_claim: str = key(
        "sasl.oauthbearer.scope.claim.name", "scope",
        "The claim of a token that has its scopes. It must be well-formed; nothing depends on it.",
    )  # fmt: skip
    sub_claim: str = key(
        "sasl.oauthbearer.sub.claim.name", "sub", "The claim of a token that says who somebody is."
    )

    @classmethod
    def of_listener(cls, settings: Mapping[str, str]) -> "OAuthConfig":
        """From the properties as they hold for one listener. ConfigError: they cannot check any token."""
        config = load(cls, overlaid(settings, PREFIX))
        if not config.url.strip():
            raise ConfigError(
                f"{URL_KEY}: OAUTHBEARER needs the keys that verify tokens, and tokens that nobody signed "
                "are not taken; give it an https: or file: address"
            )
        checked_address(config.url)
        if not (config.scope_claim.strip() and config.sub_claim.strip()):
            raise ConfigError("sasl.oauthbearer.sub.claim.name: must not be empty, nor scope.claim.name")
        return config


def checked_address(url: str) -> "SplitResult":
    """ConfigError: not an address that keys are read from. Kafka takes http: to any host as well, and
    whoever stands between could be anybody then."""
    from urllib.parse import urlsplit  # the keys are read at every start, few listeners have tokens

    try:
        address = urlsplit(url.strip())
        is_local = address.hostname in LOOPBACK and address.port != 0
    except ValueError:
        raise ConfigError(f"{URL_KEY}: not a valid address") from None
    if address.scheme == "file" and address.hostname in {None, "localhost"} and address.path:
        return address
    if address.username is not None or (not address.hostname and address.scheme in {"http", "https"}):
        raise ConfigError(f"{URL_KEY}: must have a host, and neither user nor password")
    if address.scheme == "https" or (address.scheme == "http" and is_local):
        return address
    raise ConfigError(
        f"{URL_KEY}: must begin with https:// or file:/, or with http:// for this host, "
        f"got {address.scheme or 'no scheme'!r}"
    )
