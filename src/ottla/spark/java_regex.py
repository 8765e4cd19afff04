"""`subscribePattern` is a Java regular expression; this makes a Python one of it, or says what it cannot.

Topic names are ASCII letters, digits, dot, underscore and hyphen, which makes most of Java's Unicode
classes small. What has no equal in Python is refused by name: a pattern that matches something else would
read the wrong topics in silence.
"""

import re
from collections.abc import Iterator
from functools import lru_cache

from ottla.spark.errors import OptionError

# Inside a character class; outside one they stand in brackets.
_CLASSES = {
    "Lower": "a-z",
    "Upper": "A-Z",
    "ASCII": r"\x00-\x7f",
    "Alpha": "a-zA-Z",
    "Digit": "0-9",
    "Alnum": "a-zA-Z0-9",
    "Punct": r"!-/:-@\[-`{-~",
    "Graph": "!-~",
    "Print": " -~",
    "Blank": r" \t",
    "Cntrl": r"\x00-\x1f\x7f",
    "XDigit": "0-9a-fA-F",
    "Space": r" \t\n\x0b\f\r",
    "L": "a-zA-Z",
    "Lu": "A-Z",
    "Ll": "a-z",
    "N": "0-9",
    "Nd": "0-9",
    "IsAlphabetic": "a-zA-Z",
    "IsDigit": "0-9",
    "IsLetter": "a-zA-Z",
    "IsLowercase": "a-z",
    "IsUppercase": "A-Z",
    "javaLowerCase": "a-z",
    "javaUpperCase": "A-Z",
}
_ESCAPES = {"e": r"\x1b", "h": r"[ \t]", "H": r"[^ \t]", "z": r"\Z", "V": r"[^\n\x0b\f\r]"}
_SAME = set("tnfrasdDSwWbBAv") | set("123456789")
_FLAGS = re.compile(r"\(\?([a-zA-Z]*)(-[a-zA-Z]+)?([:)])")
_FLAGS_SAME = set("imsx")


@lru_cache(64)
def translate(pattern: str) -> re.Pattern[str]:
    """A pattern whose `fullmatch` says what Java's `matches` does."""
    try:
        return re.compile("".join(_Translation(pattern).parts()), re.ASCII)
    except re.error as error:
        raise OptionError(
            f"option subscribePattern: {pattern!r} is not a regular expression: {error}"
        ) from None


class _Translation:
    """One walk over the pattern; `at` is what comes next."""

    def __init__(self, pattern: str) -> None:
        self.pattern = pattern
        self.at = 0

    def parts(self) -> Iterator[str]:
        while self.at < len(self.pattern):
            char = self.pattern[self.at]
            if char == "\\":
                yield self._escape(in_class=False)
            elif char == "[":
                yield self._class()
            elif self.pattern.startswith("(?", self.at):
                yield self._group()
            else:
                yield r"\Z" if char == "$" else char
                self.at += 1

    def _refuse(self, what: str) -> OptionError:
        return OptionError(
            f"option subscribePattern: {self.pattern!r} uses {what}, which Java has and this source cannot "
            f"follow; write "
            "it with plain classes, alternatives and repeats, or list the topics in `subscribe`"
        )

    def _group(self) -> str:
        rest = self.pattern[self.at :]
        named = re.match(r"\(\?<([a-zA-Z][a-zA-Z0-9]*)>", rest)
        if named:
            self.at += named.end()
            return f"(?P<{named[1]}>"
        flags = _FLAGS.match(rest)
        if flags is None:  # (?: (?= (?! (?<= (?<! (?> are the same
            self.at += 2
            return "(?"
        given = set(flags[1]) | set((flags[2] or "")[1:])
        if given - _FLAGS_SAME:
            raise self._refuse(f"the flag {flags[0]!r}")
        if flags[3] == ")" and self.at and given:
            raise self._refuse(f"the flag {flags[0]!r} after the beginning")
        if flags[3] == ")" and flags[2]:
            raise self._refuse(f"the flag {flags[0]!r}")
        self.at += flags.end()
        return flags[0]

    def _escape(self, *, in_class: bool) -> str:
        self.at += 1
        if self.at >= len(self.pattern):
            raise OptionError(
                f"option subscribePattern: {self.pattern!r} ends with a backslash that stands before nothing"
            )
        char = self.pattern[self.at]
        self.at += 1
        if char == "Q":
            end = self.pattern.find(r"\E", self.at)
            quoted = self.pattern[self.at :] if end < 0 else self.pattern[self.at : end]
            self.at = len(self.pattern) if end < 0 else end + 2
            return re.escape(quoted)
        if char in "pP":
            return self._property(negated=char == "P", in_class=in_class)
        if char in "xu":
            return self._code(char)
        if char in _ESCAPES and not in_class:
            return _ESCAPES[char]
        if char == "k":
            name = re.compile(r"<([a-zA-Z][a-zA-Z0-9]*)>").match(self.pattern, self.at)
            if name:
                self.at = name.end()
                return f"(?P={name[1]})"
        if char in _SAME or not char.isalnum():
            return "\\" + char
        raise self._refuse(f"\\{char}")

    def _code(self, char: str) -> str:
        digits = re.compile("[0-9a-fA-F]" * (2 if char == "x" else 4)).match(self.pattern, self.at)
        if digits is None:
            raise self._refuse(f"\\{char}{self.pattern[self.at : self.at + 1]}")
        self.at = digits.end()
        return f"\\{char}{digits[0]}"

    def _property(self, *, negated: bool, in_class: bool) -> str:
        match = re.compile(r"\{\^?([A-Za-z_=]+)\}|([A-Z])").match(self.pattern, self.at)
        name = (match[1] or match[2]) if match else ""
        if match is None or name not in _CLASSES or "^" in match[0]:
            raise self._refuse(f"\\{'P' if negated else 'p'}{match[0] if match else ''}")
        self.at = match.end()
        if not in_class:
            return f"[{'^' if negated else ''}{_CLASSES[name]}]"
        if negated:
            raise self._refuse(f"\\P{{{name}}} inside a class")
        return _CLASSES[name]

    def _class(self) -> str:
        parts = ["["]
        self.at += 1
        if self.pattern.startswith("^", self.at):
            parts.append("^")
            self.at += 1
        is_first = True
        while self.at < len(self.pattern):
            char = self.pattern[self.at]
            if char == "]" and not is_first:
                self.at += 1
                return "".join([*parts, "]"])
            if char == "[":
                raise self._refuse("a class inside a class")
            if self.pattern.startswith("&&", self.at):
                raise self._refuse("&& (an intersection of classes)")
            if char == "\\":
                parts.append(self._escape(in_class=True))
            else:
                parts.append("\\" + char if char in "&~|]" else char)
                self.at += 1
            is_first = False
        raise OptionError(f"option subscribePattern: {self.pattern!r} has a class that does not end")
