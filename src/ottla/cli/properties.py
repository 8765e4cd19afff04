"""Broker properties as operators write them: Java's format, and what goes over what.

A line is `key=value`, `key: value` or `key value`; `#` and `!` begin comments; a backslash at the end goes
on in the next line; `\\t`, `\\n`, `\\u` with four digits, and `\\=` are escapes. Of two lines with one key,
the last wins.
"""

import re
from collections.abc import Iterable, Iterator, Mapping

from ottla.base.config import names_of
from ottla.broker.config_classes import broker_names, broker_rows
from ottla.broker.kafka_keys import remarks
from ottla.cli.errors import USAGE, CommandError

# A key ends at the first separator that no backslash stands before.
_KEY = re.compile(r"((?:\\.|[^\\=:\s])*)\s*[=:]?\s*")
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)
_NAMED = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


def parse(text: str) -> dict[str, str]:
    properties = {}
    for line in _logical_lines(text):
        found = _KEY.match(line)
        assert found is not None
        properties[_unescape(found[1])] = _unescape(line[found.end() :])
    return properties


def _logical_lines(text: str) -> Iterator[str]:
    held = ""
    for line in text.splitlines():
        stripped = line.lstrip()
        if not held and (not stripped or stripped[0] in "#!"):
            continue
        held += stripped
        if (len(held) - len(held.rstrip("\\"))) % 2:
            held = held[:-1]
            continue
        yield held
        held = ""
    if held:
        yield held


def _unescape(text: str) -> str:
    def one(found: re.Match[str]) -> str:
        what = found[1]
        return chr(int(what[1:], 16)) if len(what) == 5 else _NAMED.get(what, what)

    return _ESCAPE.sub(one, text)


def read_file(path: str) -> dict[str, str]:
    try:
        with open(path, encoding="utf-8") as file:
            return parse(file.read())
    except OSError as error:
        raise CommandError(f"cannot read the config file {path}: {error.strerror}", USAGE) from None
    except UnicodeDecodeError:
        raise CommandError(f"the config file {path} is not UTF-8 text", USAGE) from None


def parse_settings(settings: Iterable[str], option: str) -> dict[str, str]:
    """KEY=VALUE arguments as a dict."""
    properties = {}
    for setting in settings:
        name, equals, value = setting.partition("=")
        if not equals or not name.strip():
            raise CommandError(f"{option} takes KEY=VALUE, not {setting!r}", USAGE)
        properties[name.strip()] = value
    return properties


def lay_over(lower: Mapping[str, str], upper: Mapping[str, str]) -> dict[str, str]:
    """Both, with `upper` winning, also where the two write one setting under different names or units."""
    hidden = {other for name in upper for other in _same_setting().get(name, ())}
    return {name: value for name, value in lower.items() if name not in hidden} | dict(upper)


def _same_setting() -> dict[str, set[str]]:
    return {name: set(names_of(row)) for row in broker_rows() if row.synonyms for name in names_of(row)}


def without_effect(properties: Mapping[str, str]) -> Iterator[str]:
    """A sentence for keys that mean nothing here."""
    return remarks(properties, broker_names())
