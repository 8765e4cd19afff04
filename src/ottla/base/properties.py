"""Files of properties in Java's format.

A line is `key=value`, `key: value` or `key value`; `#` and `!` begin comments; a backslash at the end goes
on in the next line; `\\t`, `\\n`, `\\u` with four digits, and `\\=` are escapes. Of two lines with one key,
the last wins.
"""

import re
from collections.abc import Iterator

from ottla.base.command_error import USAGE, CommandError

# A key ends at the first separator that no backslash stands before.
_KEY = re.compile(r"((?:\\.|[^\\=:\s])*)\s*[=:]?\s*")
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)
_NAMED = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


def parse(text: str) -> dict[str, str]:
    properties = {}
    for line in _logical_lines(text):
        key = _KEY.match(line)
        assert key is not None
        properties[_unescape(key[1])] = _unescape(line[key.end() :])
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
    def character(escape: re.Match[str]) -> str:
        code = escape[1]
        return chr(int(code[1:], 16)) if len(code) == 5 else _NAMED.get(code, code)

    return _ESCAPE.sub(character, text)


def read_file(path: str) -> dict[str, str]:
    try:
        with open(path, encoding="utf-8") as file:
            return parse(file.read())
    except OSError as error:
        raise CommandError(f"cannot read the config file {path}: {error.strerror}", USAGE) from None
    except UnicodeDecodeError:
        raise CommandError(f"the config file {path} is not UTF-8 text", USAGE) from None
