"""JAAS lines, as in Kafka's sasl.jaas.config: `module.Class required key="value" ... ;`.

A line is read, never acted upon: nothing is imported, looked up or evaluated, and of login modules there are
the three that name a SASL mechanism. Any other is refused by its name (CVE-2023-25194: there, a module that
fetches from an address of the client's choosing ran its code).

Read as Java reads it (StreamTokenizer): values in double or single quotes with C's escapes, or bare words;
`//`, `/* */` and a lone `/` begin comments. Stricter than Java in two things: a quote that is not closed and
a key that is given twice are refused.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum

FLAGS = frozenset({"required", "requisite", "sufficient", "optional"})
_PACKAGE = "org.apache.kafka.common.security"
_ESCAPES = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_ESCAPE = re.compile(r"\\([0-3][0-7]{0,2}|[4-7][0-7]?|.)", re.DOTALL)
_TOKEN = re.compile(
    r"""(?P<space>[\x00-\x20]+|//[^\r\n]*|/\*.*?\*/|/(?!\*)[^\r\n]*)
    |(?P<quoted>"(?:[^"\\\r\n]|\\.)*"|'(?:[^'\\\r\n]|\\.)*')
    |(?P<word>[A-Za-z_$\u00a0-\U0010ffff][A-Za-z0-9_$.\-\u00a0-\U0010ffff]*)
    |(?P<mark>[=;{}])""",
    re.DOTALL | re.VERBOSE,
)


class JaasError(ValueError):
    """What is wrong with a line. The text has no values of options: there are passwords among them."""


class LoginModule(Enum):
    PLAIN = f"{_PACKAGE}.plain.PlainLoginModule"
    SCRAM = f"{_PACKAGE}.scram.ScramLoginModule"
    OAUTHBEARER = f"{_PACKAGE}.oauthbearer.OAuthBearerLoginModule"


# By the SASL mechanism for which each is.
MODULES = {
    "PLAIN": LoginModule.PLAIN,
    "SCRAM-SHA-256": LoginModule.SCRAM,
    "SCRAM-SHA-512": LoginModule.SCRAM,
    "OAUTHBEARER": LoginModule.OAUTHBEARER,
}


@dataclass(frozen=True, slots=True)
class JaasLine:
    module: LoginModule
    options: Mapping[str, str] = field(repr=False)


def parse(text: str) -> JaasLine:
    """One login module with its options. JaasError: it is none, or none that is allowed."""
    tokens = tokens_of(text)
    kind, name = next(tokens, ("", ""))
    if kind != "text":
        raise JaasError(f"it names no login module; begin with {LoginModule.PLAIN.value} or another")
    module = _module(name)
    kind, flag = next(tokens, ("", ""))
    if kind != "text" or flag.lower() not in FLAGS:
        raise JaasError(f"after {name} comes 'required'")
    options = dict(options_of(tokens))
    if next(tokens, None) is not None:
        raise JaasError("there is something after the semicolon; one login module is allowed")
    return JaasLine(module, options)


def _module(name: str) -> LoginModule:
    try:
        return LoginModule(name)
    except ValueError:
        allowed = ", ".join(module.value for module in LoginModule)
        raise JaasError(f"the login module {name!r:.200} is not allowed; there are {allowed}") from None


def options_of(tokens: Iterator[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    seen: set[str] = set()
    for kind, key in tokens:
        if (kind, key) == ("mark", ";"):
            return
        if kind != "text" or next(tokens, None) != ("mark", "="):
            raise JaasError('an option is not key="value"')
        kind, value = next(tokens, ("", ""))
        if kind != "text":
            raise JaasError(f'the option {key} has no value; write {key}="..."')
        if key in seen:
            raise JaasError(f"the option {key} is there twice")
        seen.add(key)
        yield key, value
    raise JaasError("it does not end with a semicolon")


def tokens_of(text: str) -> Iterator[tuple[str, str]]:
    at = 0
    while at < len(text):
        token = _TOKEN.match(text, at)
        if token is None:
            raise JaasError(
                f"what begins at character {at + 1} cannot be read; put values in quotes, and close them"
            )
        at = token.end()
        if token["quoted"] is not None:
            yield "text", _ESCAPE.sub(_unescaped, token["quoted"][1:-1])
        elif token["word"] is not None:
            yield "text", token["word"]
        elif token["mark"] is not None:
            yield "mark", token["mark"]


def _unescaped(escape: re.Match[str]) -> str:
    text = escape[1]
    return chr(int(text, 8)) if text[0] in "01234567" else _ESCAPES.get(text, text)
