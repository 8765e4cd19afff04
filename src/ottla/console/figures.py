"""Figures as people read them: 12,345 records, 3.4 MB, 2 d 4 h. All are filters of templates."""

import re
from collections.abc import Callable
from typing import Any
from urllib.parse import quote

from ottla.base.times import show_duration, show_ms

_PLAIN = re.compile("[A-Za-z0-9_-][A-Za-z0-9._-]*")
_ESCAPED = re.compile("~(2E|2F|25|7E)")
ABSENT = "–"
_BYTES = ("B", "kB", "MB", "GB", "TB", "PB")
_COUNTS = ("", "k", "M", "G", "T")


def count(number: float | None) -> str:
    """In full, with commas: 12,345."""
    return ABSENT if number is None else f"{number:,.0f}"


def short(number: float | None) -> str:
    """In at most four characters and a letter: 12.3k."""
    return ABSENT if number is None else _scaled(number, _COUNTS, "")


def size(bytes_: float | None) -> str:
    return ABSENT if bytes_ is None else _scaled(bytes_, _BYTES, " ")


def rate(number: float | None) -> str:
    return ABSENT if number is None else f"{short(number)}/s"


def size_rate(bytes_: float | None) -> str:
    return ABSENT if bytes_ is None else f"{size(bytes_)}/s"


def duration(milliseconds: float | None) -> str:
    return ABSENT if milliseconds is None else show_duration(int(milliseconds))


def time(timestamp_ms: int | None) -> str:
    """In UTC, to the second."""
    if timestamp_ms is None or timestamp_ms < 0:
        return ABSENT
    return show_ms(timestamp_ms)[:19].replace("T", " ")


def plural(number: int, name: str) -> str:
    return f"{number:,d} {name}{'' if number == 1 else 'es' if name.endswith('ch') else 's'}"


def part(text: str) -> str:
    """A part of an address; groups may have any name. Browsers and proxies decode and shorten addresses, some
    more than once, so what would make a difference to them is written in another way: ~2F is a slash."""
    if _PLAIN.fullmatch(text):
        return text
    name = "".join(f"~{ord(letter):02X}" if letter in "~%/" else letter for letter in text)
    return quote(name.replace(".", "~2E") if name in {".", ".."} else name, safe="")


def from_part(text: str) -> str:
    return _ESCAPED.sub(lambda escape: chr(int(escape[1], 16)), text)


def in_words(key: str, value: str | None) -> str:
    """What a setting in milliseconds or bytes is in units that people use; nothing if it is short enough."""
    if value is None or not value.isdecimal() or not 1000 <= int(value) < 1 << 62:
        return ""
    if key.endswith(".ms"):
        return duration(int(value))
    return size(int(value)) if key.endswith((".bytes", ".bytes.per.second")) else ""


def ids(numbers: Any) -> str:
    return ", ".join(map(str, numbers)) or ABSENT


def _scaled(number: float, units: tuple[str, ...], gap: str) -> str:
    left, at = float(number), 0
    while abs(left) >= 999.5 and at < len(units) - 1:
        left, at = left / 1000, at + 1
    digits = 0 if (at == 0 and left == int(left)) or abs(left) >= 100 else 1
    shown = f"{left:.{digits}f}".removesuffix(".0")
    return f"{shown}{gap if units[at] else ''}{units[at]}"


FILTERS: dict[str, Callable[..., str]] = {
    "count": count,
    "short": short,
    "size": size,
    "rate": rate,
    "size_rate": size_rate,
    "duration": duration,
    "time": time,
    "plural": plural,
    "part": part,
    "ids": ids,
    "in_words": in_words,
}
