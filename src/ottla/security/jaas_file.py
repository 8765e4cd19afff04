"""Java's login configuration file, as far as ZooKeeper's clients need it: user and password of one section.

    Client {
        org.apache.zookeeper.server.auth.DigestLoginModule required username="ottla" password="...";
    };

Sections for others (KafkaServer, Server) may stand beside it, and are passed over.
"""

from collections.abc import Iterator
from typing import NamedTuple

from ottla.security.jaas import FLAGS, JaasError, options_of, tokens_of

DIGEST_MODULE = "org.apache.zookeeper.server.auth.DigestLoginModule"
CLIENT = "Client"


class UserAndPassword(NamedTuple):
    user: str
    password: str

    def __repr__(self) -> str:
        return f"UserAndPassword({self.user!r}, ...)"


def zookeeper_credentials(text: str) -> UserAndPassword:
    """JaasError: what is wrong with the file; its text has no values."""
    tokens = tokens_of(text)
    for kind, name in tokens:
        if kind != "text" or next(tokens, None) != ("mark", "{"):
            raise JaasError("a section is not NAME { ... };")
        if name == CLIENT:
            return _digest(tokens)
        _pass_over(tokens)
    raise JaasError(f"it has no section {CLIENT}; add {CLIENT} {{ {DIGEST_MODULE} required ...; }};")


def _digest(tokens: Iterator[tuple[str, str]]) -> UserAndPassword:
    module, flag = next(tokens, ("", "")), next(tokens, ("", ""))
    if module != ("text", DIGEST_MODULE):
        raise JaasError(f"its section {CLIENT} has the login module {module[1]!r:.200}, not {DIGEST_MODULE}")
    if flag[1].lower() not in FLAGS:
        raise JaasError(f"after {DIGEST_MODULE} comes 'required'")
    options = dict(options_of(tokens))
    missing = [name for name in ("username", "password") if not options.get(name)]
    if missing:
        raise JaasError(f"its section {CLIENT} has no {' and no '.join(missing)}")
    return UserAndPassword(options["username"], options["password"])


def _pass_over(tokens: Iterator[tuple[str, str]]) -> None:
    for token in tokens:
        if token == ("mark", "}"):
            if next(tokens, None) != ("mark", ";"):
                raise JaasError("after the } of a section comes a semicolon")
            return
    raise JaasError("a section does not end with };")
