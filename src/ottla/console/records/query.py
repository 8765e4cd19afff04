"""What somebody looks for in records: bytes that must be in a batch, and then what a record must be.

    anywhere   the text in the key, the value, or a header
    key        the key is this, byte for byte
    value      the text in the value
    header     NAME: there is such a header; NAME=TEXT: the text is in its value
    field      of JSON (and what a schema makes JSON of): user.id = 7, items[0].name ~ ann, total >= 100

Rules: pure. `needles` are bytes of which all are in the body of every batch that has a match, so a batch
without them is passed over unread; they are a promise, and `matches` is the truth. They promise nothing of
records that a schema explains (an enum's name is not in its bytes). Without case they are in lower case, as
the body must be then, which is right for ASCII alone: other letters are left to `matches`.
"""

import json
import operator
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from ottla.base.command_error import USAGE, CommandError
from ottla.client.formats import Decoders, FormatError, Message
from ottla.client.formats.content import parse_json

ANYWHERE, KEY, VALUE, HEADER, FIELD = "anywhere", "key", "value", "header", "field"
PLACES = (ANYWHERE, KEY, VALUE, HEADER, FIELD)

_OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<=": operator.le,
    ">=": operator.ge,
    "<": operator.lt,
    ">": operator.gt,
}
# Each part ends where the next one can begin, and no earlier: there is one way to read a text.
_CONDITION = re.compile(r"(?P<path>[^=!<>~]+)(?:(?P<sign>!=|<=|>=|==|=|<|>|~)(?P<value>.*))?", re.DOTALL)
TEXT_MAX = 2000
_STEP = re.compile(r"\.?([^.\[\]]+)|\[(\d+)\]")
# What every encoder of JSON writes as it is: none escapes these.
_NEVER_ESCAPED = re.compile(r"[A-Za-z0-9 _.:,;@#%()*-]+")
_ASCII = re.compile(r"[\x20-\x7e]+")
_MISSING: Any = object()


@dataclass(frozen=True)
class Query:
    """`key` are the bytes of the key that is looked for. Times are in ms, and both are included."""

    where: str = ANYWHERE
    text: str = ""
    key: bytes | None = None
    is_case_sensitive: bool = False
    since_ms: int | None = None
    until_ms: int | None = None
    condition: "Condition | None" = field(default=None)

    @cached_property
    def needles(self) -> tuple[bytes, ...]:
        if self.where == KEY:
            return (self.key,) if self.key else ()
        if self.where == FIELD:
            assert self.condition is not None, "`query` made one"
            return self.condition.needles
        if self.where == HEADER:
            name, _, text = self.text.partition("=")
            return tuple(filter(None, (self._needle(name), self._needle(text))))
        return tuple(filter(None, (self._needle(self.text),)))

    @property
    def shown(self) -> str:
        """What is worth seeing of a match in its value; nothing if that is somewhere else."""
        if self.condition is not None:
            return (
                str(self.condition.value)
                if self.condition.value is not None
                else str(self.condition.path[-1])
            )
        return self.text if self.where in (ANYWHERE, VALUE) else ""

    @property
    def is_folded(self) -> bool:
        """Whether the needles are in lower case."""
        return not self.is_case_sensitive and self.where not in (KEY, FIELD)

    def _needle(self, text: str) -> bytes:
        if not self.is_folded:
            return text.encode()
        return max(_ASCII.findall(text), key=len, default="").lower().encode()

    def may_match(self, key: bytes | None, value: bytes | None) -> bool:
        """A quick look at a record that no schema explains. True says nothing."""
        if self.where == KEY:
            return key == self.key
        if self.where == FIELD:
            return value is not None and all(needle in value for needle in self.needles)
        return True

    def matches(self, message: Message, decoders: Decoders) -> bool:
        if self.since_ms is not None and message.timestamp_ms < self.since_ms:
            return False
        if self.until_ms is not None and message.timestamp_ms > self.until_ms:
            return False
        if self.where == KEY:
            return message.key == self.key
        if self.where == FIELD:
            assert self.condition is not None, "`query` made one"
            return self.condition.holds(_json_of(message, decoders))
        if self.where == HEADER:
            return self._has_header(message)
        if self._holds(message.value, decoders.value, message):
            return True
        if self.where == VALUE:
            return False
        return self._holds(message.key, decoders.key, message) or any(
            self._in(self.text, name.encode("utf-8", "surrogateescape")) or self._in(self.text, value)
            for name, value in message.headers
        )

    def _holds(self, content: bytes | None, decoder: Any, message: Message) -> bool:
        """In the bytes, or in what a schema makes of them."""
        if self._in(self.text, content):
            return True
        if decoder.registry is None or content is None:
            return False
        return self._in(self.text, decoder(message.topic, content, message.headers).text.encode())

    def _has_header(self, message: Message) -> bool:
        name, equals, text = self.text.partition("=")
        folded = name.casefold()
        return any(
            (have == name if self.is_case_sensitive else have.casefold() == folded)
            and (not equals or self._in(text, value))
            for have, value in message.headers
        )

    def _in(self, text: str, content: bytes | None) -> bool:
        if content is None:
            return False
        if self.is_case_sensitive:
            return text.encode() in content
        if text.isascii():
            return text.lower().encode() in content.lower()
        return text.casefold() in content.decode("utf-8", "replace").casefold()


@dataclass(frozen=True)
class Condition:
    """What a field of JSON must be; without a sign it must be there."""

    path: tuple[str | int, ...]
    sign: str | None
    value: Any

    @property
    def needles(self) -> tuple[bytes, ...]:
        name = next((step for step in reversed(self.path) if isinstance(step, str)), "")
        wanted = [_written(self.value)] if self.sign == "=" else []
        plain = (max(_NEVER_ESCAPED.findall(text), key=len, default="") for text in (name, *wanted))
        return tuple(text.encode() for text in plain if text)

    def holds(self, data: Any) -> bool:
        have = _at(data, self.path)
        if have is _MISSING:
            return False
        if self.sign is None:
            return True
        if self.sign == "~":
            return (
                str(self.value).casefold() in (have if isinstance(have, str) else json.dumps(have)).casefold()
            )
        try:
            if isinstance(have, str) and not isinstance(self.value, str):
                have = parse_json(have)  # "7" is 7 to somebody who types 7
            return bool(_OPERATORS[self.sign](have, self.value))
        except (TypeError, ValueError):
            return self.sign == "!="


def condition_of(text: str) -> Condition:
    """CommandError: it is none."""
    matched = _CONDITION.fullmatch(text)
    path = matched["path"].strip().removeprefix("$") if matched else ""
    steps = tuple(int(index) if index else name for name, index in _STEP.findall(path))
    if matched is None or not steps or "".join(step.group() for step in _STEP.finditer(path)) != path:
        raise CommandError(f"{text!r:.80} is no condition: write user.id = 7 or items[0].name ~ ann", USAGE)
    sign, value = matched["sign"], matched["value"]
    if sign is None:
        return Condition(steps, None, None)
    value = value.strip()
    return Condition(steps, "=" if sign == "==" else sign, value if sign == "~" else _literal(value))


def query(
    where: str,
    text: str,
    *,
    key: bytes | None = None,
    is_case_sensitive: bool = False,
    since_ms: int | None = None,
    until_ms: int | None = None,
) -> Query:
    """CommandError: there is nothing to look for, or it is not understood."""
    if where not in PLACES:
        raise CommandError(f"{where!r} is no place to look in; there are {', '.join(PLACES)}", USAGE)
    if not text and where != KEY:
        raise CommandError("there is nothing to look for", USAGE)
    if len(text) > TEXT_MAX:
        raise CommandError(f"what to look for has at most {TEXT_MAX} characters", USAGE)
    condition = condition_of(text) if where == FIELD else None
    return Query(where, text, key, is_case_sensitive, since_ms, until_ms, condition)


def _literal(text: str) -> Any:
    """A number, true, false, null or "text" as JSON has it; anything else is text."""
    try:
        return parse_json(text)
    except FormatError:
        return text


def _written(value: Any) -> str:
    """What of a value is in JSON, whoever wrote it. Of 12300000 that is 23: Java may write 1.23E7."""
    if isinstance(value, str):
        return value
    if isinstance(value, int) and not isinstance(value, bool):
        digits = str(abs(value))
        return digits if len(digits) < 8 else digits.rstrip("0")[1:]
    return ""


def _at(data: Any, path: tuple[str | int, ...]) -> Any:
    for step in path:
        if isinstance(step, int):
            if not isinstance(data, list) or step >= len(data):
                return _MISSING
            data = data[step]
        else:
            if not isinstance(data, dict) or step not in data:
                return _MISSING
            data = data[step]
    return data


def _json_of(message: Message, decoders: Decoders) -> Any:
    content = message.value
    if content is None:
        return None
    if decoders.value.registry is not None and content[:1] == b"\x00":
        return decoders.value(message.topic, content, message.headers).data
    try:
        return parse_json(content.decode())
    except (ValueError, UnicodeDecodeError):
        return None
