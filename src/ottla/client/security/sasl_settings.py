"""What the `sasl.*` properties of a client say, JAAS lines included: a mechanism, and a user or a token."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from ottla.client.errors import ClientError
from ottla.client.security.tls_settings import NO_STORE, Store, boolean, only
from ottla.security.jaas import MODULES, JaasError, parse

OAUTHBEARER = "OAUTHBEARER"
_ENDPOINT = "sasl.oauthbearer.token.endpoint.url"
_CLASSES = "org.apache.kafka.common.security.oauthbearer."
# What Kafka has people name for tokens of client credentials or of a file, which is what is done here anyway.
_USUAL_CLASSES = {
    "sasl.login.callback.handler.class": {
        f"{_CLASSES}OAuthBearerLoginCallbackHandler",
        f"{_CLASSES}secured.OAuthBearerLoginCallbackHandler",
    },
    "sasl.oauthbearer.jwt.retriever.class": {
        f"{_CLASSES}{name}JwtRetriever" for name in ("Default", "ClientCredentials", "File")
    },
}
_USUAL_WORDS = {
    "sasl.oauthbearer.method": {"default", "oidc"},
    "sasl.oauthbearer.grant.type": {"client_credentials"},
}

# Gives a token for OAUTHBEARER whenever one is needed.
Provider: TypeAlias = Callable[[], str]


@dataclass(frozen=True, slots=True)
class TokenSettings:
    """A token as it is, or where to have one from: a function, a file, or the address of a server."""

    token: str = field(default="", repr=False)
    provider: Provider | None = None
    endpoint: str = ""  # http(s):// or file://
    client_id: str = ""
    client_secret: str = field(default="", repr=False)
    scope: str = ""
    is_url_encoded: bool = False
    trusted: Store = NO_STORE
    extensions: tuple[tuple[str, str], ...] = field(default=(), repr=False)


@dataclass(frozen=True, slots=True)
class SaslSettings:
    mechanism: str
    username: str = ""
    password: str = field(default="", repr=False)
    tokens: TokenSettings | None = None


def sasl_settings(given: Mapping[str, str], provider: Provider | None) -> SaslSettings:
    mechanism = _mechanism(given)
    options = _jaas_options(given, mechanism)
    if mechanism == OAUTHBEARER:
        if name := only(given, "sasl.username", "sasl.password"):
            raise ClientError(f"{name} is not for sasl.mechanism=OAUTHBEARER, which takes a token")
        return SaslSettings(mechanism, tokens=_tokens(given, options, provider))
    for name in given:
        if name.startswith(("sasl.oauthbearer.", "https.")) or name == "sasl.login.callback.handler.class":
            raise ClientError(f"{name} is for sasl.mechanism=OAUTHBEARER, and it is {mechanism}")
    return _user(given, options, mechanism)


def _mechanism(given: Mapping[str, str]) -> str:
    name = only(given, "sasl.mechanism", "sasl.mechanisms")
    mechanism = given[name].strip().upper() if name else ""
    names = ", ".join(MODULES)
    if not mechanism:
        raise ClientError(
            f"sasl.mechanism is not given: it is one of {names} (Kafka would take GSSAPI, which is not "
            "supported)"
        )
    if mechanism not in MODULES:
        raise ClientError(f"{name}={mechanism} is not supported: it is one of {names}")
    return mechanism


def _jaas_options(given: Mapping[str, str], mechanism: str) -> Mapping[str, str]:
    text = given.get("sasl.jaas.config", "").strip()
    if not text:
        return {}
    try:
        line = parse(text)
    except JaasError as error:
        raise ClientError(f"sasl.jaas.config: {error}") from None
    if line.module is not MODULES[mechanism]:
        raise ClientError(
            f"sasl.jaas.config names {line.module.value.rpartition('.')[2]}, and sasl.mechanism={mechanism} "
            f"takes {MODULES[mechanism].value}"
        )
    return line.options


def _user(given: Mapping[str, str], options: Mapping[str, str], mechanism: str) -> SaslSettings:
    if options and (name := only(given, "sasl.username") or only(given, "sasl.password")):
        raise ClientError(f"sasl.jaas.config and {name} both say who connects: give one of them")
    if options.get("tokenauth", "false").lower() == "true":
        raise ClientError("sasl.jaas.config: tokenauth is not supported, there are no delegation tokens")
    for name in options:
        if name not in {"username", "password", "tokenauth"}:
            raise ClientError(f"sasl.jaas.config: the option {name} is not known to {mechanism}")
    username = options.get("username", "") or given.get("sasl.username", "")
    password = options.get("password", "") or given.get("sasl.password", "")
    if not username or not password:
        missing = "user" if not username else "password"
        raise ClientError(
            f"sasl.mechanism={mechanism} without a {missing}: give sasl.jaas.config, as in "
            f'{MODULES[mechanism].value} required username="..." password="..."; '
            "or sasl.username and sasl.password"
        )
    return SaslSettings(mechanism, username, password)


def _tokens(given: Mapping[str, str], options: Mapping[str, str], provider: Provider | None) -> TokenSettings:
    _check_words(given)
    extensions = dict(_pairs(given.get("sasl.oauthbearer.extensions", "")))
    own = {}
    for name, value in options.items():
        if name.startswith("extension_"):
            extensions[name.removeprefix("extension_")] = value
        elif name in {"clientId", "clientSecret", "scope"}:
            own[name] = value
        else:
            raise ClientError(
                f"sasl.jaas.config: the option {name} is not supported for OAUTHBEARER: clientId, "
                "clientSecret, scope and extension_NAME are"
            )
    settings = TokenSettings(
        token=given.get("sasl.oauthbearer.token", "").strip(),
        provider=provider,
        endpoint=given.get(_ENDPOINT, "").strip(),
        client_id=_one_value(given, own, "clientId", "client.id"),
        client_secret=_one_value(given, own, "clientSecret", "client.secret"),
        scope=_one_value(given, own, "scope", "scope"),
        is_url_encoded=boolean(given, "sasl.oauthbearer.header.urlencode", False),
        trusted=_https(given),
        extensions=tuple(sorted(extensions.items())),
    )
    _check_source(settings)
    return settings


def _check_words(given: Mapping[str, str]) -> None:
    for name, usual in (_USUAL_CLASSES | _USUAL_WORDS).items():
        value = given.get(name, "").strip()
        if value and value not in usual:
            raise ClientError(
                f"{name}={value:.100} is not supported; tokens come from {_ENDPOINT} (https:// or file://) "
                "or sasl.oauthbearer.token"
            )


def _one_value(given: Mapping[str, str], options: Mapping[str, str], option: str, name: str) -> str:
    names = [f"sasl.oauthbearer.{name}", f"sasl.oauthbearer.client.credentials.{name}"]
    chosen = only(given, *names)
    if chosen and option in options:
        raise ClientError(f"sasl.jaas.config ({option}) and {chosen} say the same thing twice")
    return given[chosen].strip() if chosen else options.get(option, "")


def _https(given: Mapping[str, str]) -> Store:
    match only(given, "https.ca.location", "https.ca.pem"):
        case "":
            return NO_STORE
        case "https.ca.location" as name:
            return Store(location=given[name], type="PEM", name=name)
        case name:
            return Store(pem=given[name], type="PEM", name=name)


def _check_source(settings: TokenSettings) -> None:
    sources = [settings.provider is not None, bool(settings.token), bool(settings.endpoint)]
    if sum(sources) != 1:
        raise ClientError(
            f"sasl.mechanism=OAUTHBEARER takes {'one' if sum(sources) else 'a'} source of tokens: "
            f"{_ENDPOINT} (with a client's id and secret, or file://...), or "
            "sasl.oauthbearer.token, or a function"
        )
    scheme = settings.endpoint.partition("://")[0].lower()
    if settings.endpoint and scheme not in {"https", "http", "file"}:
        raise ClientError(f"{_ENDPOINT} begins with https://, http:// or file://")
    if scheme in {"https", "http"} and not (settings.client_id and settings.client_secret):
        raise ClientError(
            f"{_ENDPOINT} without a client's id and secret: give clientId and clientSecret in "
            "sasl.jaas.config, or sasl.oauthbearer.client.id and sasl.oauthbearer.client.secret"
        )


def _pairs(text: str) -> list[tuple[str, str]]:
    """librdkafka's list of extensions: name=value, with commas between."""
    pairs = []
    for part in filter(None, (part.strip() for part in text.split(","))):
        name, equals, value = part.partition("=")
        if not equals:
            raise ClientError("sasl.oauthbearer.extensions takes NAME=VALUE, several with commas between")
        pairs.append((name, value))
    return pairs
