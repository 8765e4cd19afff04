"""`ottla consume --filter`: which records are shown, by key, by a header, by the value or a field of it.

    key=order-7   key!=x   key~^order-   header.source=shop   value~timeout   value.customer.city=Prag

= and != compare text, ~ searches for a regular expression. A field is one of a JSON object, or of what a
schema makes of the value; numbers and true, false and null are written as JSON has them. What is not there is
not equal to anything, and nothing is found in it.
"""

import json
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from ottla.base.command_error import USAGE, CommandError
from ottla.client.formats import Decoders, Message
from ottla.client.formats.codecs import PLAIN

Test = Callable[[Message], bool]
_EXPRESSION = re.compile(r"(key|value|header\.[^=!~]+?|value\.[^=!~]+?)(!=|=|~)(.*)", re.DOTALL)
_MISSING = object()


class Filter:
    """Whether all tests hold, and of how many records they did: a name with a typo fits none."""

    def __init__(self, tests: Sequence[Test]) -> None:
        self._tests = tests
        self.seen = self.taken = 0

    def __call__(self, message: Message) -> bool:
        self.seen += 1
        is_taken = all(holds(message) for holds in self._tests)
        self.taken += is_taken
        return is_taken

    @property
    def left_out_all(self) -> bool:
        return self.seen > 0 and not self.taken


def filter_of(expressions: Iterable[str], decoders: Decoders | None) -> Filter | None:
    """All of them hold; None if there are none."""
    tests = [_parse(expression, decoders or PLAIN) for expression in expressions]
    return Filter(tests) if tests else None


def _parse(expression: str, decoders: Decoders) -> Test:
    match = _EXPRESSION.fullmatch(expression)
    if match is None:
        raise CommandError(
            f"--filter takes key=X, header.NAME=X, value.FIELD=X, or != or ~REGEX instead of =, not "
            f"{expression!r}",
            USAGE,
        )
    what, operator, wanted = match.groups()
    texts = _texts(what, decoders)
    if operator == "~":
        try:
            search = re.compile(wanted).search
        except re.error as error:
            raise CommandError(f"--filter {expression}: {error}", USAGE) from None
        return lambda message: any(search(text) for text in texts(message))
    if operator == "=":
        return lambda message: wanted in texts(message)
    return lambda message: wanted not in texts(message)


def _texts(what: str, decoders: Decoders) -> Callable[[Message], list[str]]:
    """What there is of it in a record: one text, none, or of a header several."""
    kind, _, name = what.partition(".")
    if kind == "key":
        return lambda message: _text(decoders.key.json(message.topic, message.key, message.headers)[0])
    if kind == "header":
        return lambda message: [
            (value or b"").decode(errors="replace") for given, value in message.headers if given == name
        ]
    if not name:
        return lambda message: _text(decoders.value.json(message.topic, message.value, message.headers)[0])
    path = name.split(".")

    def field(message: Message) -> list[str]:
        content, _ = decoders.value.json(message.topic, message.value, message.headers)
        if isinstance(content, str):
            try:
                content = json.loads(content)
            except (ValueError, RecursionError):
                return []
        return _text(_field(content, path))

    return field


def _field(content: Any, path: list[str]) -> Any:
    for step in path:
        if isinstance(content, dict) and step in content:
            content = content[step]
        elif isinstance(content, list) and step.isdecimal() and int(step) < len(content):
            content = content[int(step)]
        else:
            return _MISSING
    return content


def _text(content: Any) -> list[str]:
    if content is _MISSING:
        return []
    return [content if isinstance(content, str) else json.dumps(content, ensure_ascii=False)]
