"""Regular expressions over topic names, matched in time linear in the name (KIP-848 subscriptions).

Kafka resolves patterns with RE2, which never backtracks. Python's `re` does: one hostile pattern would hold
the broker's only thread for ever. So this is a small matcher of its own: the pattern's characters become
numbered positions, `follows` says which position may come after which (Glushkov), and a name is walked with
the set of positions it could be at; sets met before are remembered.

Linear is not yet cheap, so work has a budget. A pattern with too many ways from one position to another is
refused. Names are matched once for as long as a pattern is remembered, and no more of them at a time than the
caller's `Budget` allows: over very many names a pattern is resolved in slices, one with each heartbeat.

A pattern has to match the whole name. The syntax is RE2's, as far as topic names need it: literals, `.`,
classes with ranges, negation and `[:alpha:]` names, `\\d \\w \\s` and their opposites, groups, `|`, the
repeats `* + ? {n} {n,} {n,m}` (lazy ones match the same names), `(?i)` at the front, `^` at the beginning and
`$` at the end. As in RE2 there are no back references and no look-around.
Left out: `\\b`, `\\Q..\\E`, Unicode classes, flags in the middle, anchors in a repeat or between characters.
"""

import string
from collections.abc import Collection, Generator, Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final, NamedTuple, NoReturn, TypeAlias

from ottla.base.errors import ApiError, ErrorCode

PATTERN_LENGTH_MAX: Final = 1024
POSITIONS_MAX: Final = 1000
DEPTH_MAX: Final = 50
REPEAT_MAX: Final = 1000
STEPS_MAX: Final = 20_000
LINKS_MAX: Final = 100_000
STEPS_KEPT_MAX: Final = 2_000
SLICE_LENGTH: Final = 16
PATTERNS_MAX: Final = 64
WORK_MAX: Final = 250_000  # of one heartbeat: less than 100 ms

DIGITS: Final = frozenset(string.digits)
LOWER: Final = frozenset(string.ascii_lowercase)
UPPER: Final = frozenset(string.ascii_uppercase)
ALPHA: Final = LOWER | UPPER
# What a topic name is made of, so "any character" and "not these" are finite sets.
ANY: Final = ALPHA | DIGITS | frozenset("._-")
ESCAPES: Final = {"d": DIGITS, "w": ALPHA | DIGITS | {"_"}, "s": frozenset(" \t\n\r\f")}
NAMED: Final = {
    "alnum": ALPHA | DIGITS,
    "alpha": ALPHA,
    "digit": DIGITS,
    "lower": LOWER,
    "punct": frozenset("._-"),
    "upper": UPPER,
    "word": ALPHA | DIGITS | {"_"},
    "xdigit": DIGITS | frozenset("abcdefABCDEF"),
}


class Chars(NamedTuple):
    chars: frozenset[str]


class Anchor(NamedTuple):
    is_begin: bool


class Sequence(NamedTuple):
    items: "tuple[Node, ...]"


class Choice(NamedTuple):
    branches: "tuple[Node, ...]"


class Repeat(NamedTuple):
    item: "Node"
    least: int
    most: int | None


Node: TypeAlias = Chars | Anchor | Sequence | Choice | Repeat


def refuse(why: str) -> NoReturn:
    raise ApiError(ErrorCode.INVALID_REGULAR_EXPRESSION, f"The regular expression is refused: {why}.")


@dataclass(slots=True)
class Parser:
    """Recursive descent: choice, sequence, repeat, atom."""

    text: str
    any: frozenset[str] = ANY
    at: int = 0
    ignores_case: bool = False

    def parse(self) -> Node:
        if self.text.startswith("(?i)"):
            self.at, self.ignores_case = 4, True
        node = self._choice(0)
        if self.at < len(self.text):
            refuse("a ) closes nothing")
        return node

    def _peek(self) -> str:
        return self.text[self.at : self.at + 1]

    def _take(self) -> str:
        if self.at >= len(self.text):
            refuse("it ends too early")
        self.at += 1
        return self.text[self.at - 1]

    def _choice(self, depth: int) -> Node:
        if depth > DEPTH_MAX:
            refuse("it is nested too deeply")
        branches = [self._sequence(depth)]
        while self._peek() == "|":
            self.at += 1
            branches.append(self._sequence(depth))
        return branches[0] if len(branches) == 1 else Choice(tuple(branches))

    def _sequence(self, depth: int) -> Node:
        items: list[Node] = []
        while self._peek() not in ("", "|", ")"):
            items.append(self._repeats(self._atom(depth)))
        return Sequence(tuple(items))

    def _repeats(self, item: Node) -> Node:
        bounds = self._bounds()
        if bounds is None:
            return item
        if self._peek() == "?":
            self.at += 1
        if self._bounds() is not None:
            refuse("a repeat repeats nothing")
        return Repeat(item, *bounds)

    def _bounds(self) -> tuple[int, int | None] | None:
        simple = {"*": (0, None), "+": (1, None), "?": (0, 1)}.get(self._peek())
        if simple is not None:
            self.at += 1
            return simple
        if self._peek() != "{":
            return None
        end = self.text.find("}", self.at)
        least, comma, most = self.text[self.at + 1 : max(end, self.at)].partition(",")
        if not (
            least.isdecimal() and least.isascii() and (not most or (most.isdecimal() and most.isascii()))
        ):
            refuse("a { begins no repeat")
        self.at = end + 1
        low = int(least[:5])
        high = low if not comma else int(most[:5]) if most else None
        if max(low, high or 0) > REPEAT_MAX or (high is not None and high < low):
            refuse("the bounds of a repeat are wrong")
        return low, high

    def _atom(self, depth: int) -> Node:
        char = self._take()
        if char == "(":
            return self._group(depth)
        if char == "[":
            return self._chars(self._class())
        if char == ".":
            return Chars(self.any)
        if char in "^$":
            return Anchor(char == "^")
        if char in "*+?{":
            refuse("a repeat repeats nothing")
        if char == "\\":
            if self._peek() in ("A", "z"):
                return Anchor(self._take() == "A")
            return self._chars(self._escape())
        return self._chars(frozenset(char))

    def _chars(self, chars: frozenset[str]) -> Chars:
        if self.ignores_case:
            chars = frozenset(case for char in chars for case in (char.lower(), char.upper()))
        return Chars(chars)

    def _group(self, depth: int) -> Node:
        if self._peek() == "?":
            rest = self.text[self.at :]
            if rest.startswith("?:"):
                self.at += 2
            elif rest.startswith(("?P<", "?<")) and rest[2:3] not in ("=", "!") and ">" in rest:
                self.at += rest.index(">") + 1
            else:
                refuse("(? begins something that is not supported")
        node = self._choice(depth + 1)
        if self._peek() != ")":
            refuse("a ( is not closed")
        self.at += 1
        return node

    def _escape(self) -> frozenset[str]:
        char = self._take()
        if char.lower() in ESCAPES:
            chars = ESCAPES[char.lower()]
            return chars if char.islower() else self.any - chars
        if char.isalnum():
            refuse(f"\\{char} is not supported")
        return frozenset(char)

    def _class(self) -> frozenset[str]:
        is_negated = self._peek() == "^"
        self.at += is_negated
        chars: set[str] = set()
        is_first = True
        while is_first or self._peek() != "]":
            is_first = False
            chars |= self._class_item()
        self.at += 1
        if self.ignores_case:
            chars |= {char.swapcase() for char in chars}
        return self.any - chars if is_negated else frozenset(chars)

    def _class_item(self) -> frozenset[str]:
        low = self._take()
        if low == "[" and self._peek() == ":":
            end = self.text.find(":]", self.at)
            named = NAMED.get(self.text[self.at + 1 : max(end, self.at)])
            if named is None:
                refuse("a [: names no class")
            self.at = end + 2
            return named
        chars = self._escape() if low == "\\" else frozenset(low)
        if self._peek() != "-" or self.text[self.at + 1 : self.at + 2] in ("]", ""):
            return chars
        self.at += 1
        high = self._take()
        upper = self._escape() if high == "\\" else frozenset(high)
        if len(chars) != 1 or len(upper) != 1 or min(upper) < min(chars):
            refuse("a range is wrong")
        return frozenset(char for char in self.any if min(chars) <= char <= min(upper))


class Part(NamedTuple):
    """What a piece of the pattern can begin and end with, as sets of positions, and whether it can match
    nothing. A set of positions is an int with their bits."""

    is_empty_ok: bool
    firsts: int = 0
    lasts: int = 0


@dataclass(slots=True)
class Builder:
    """Numbers the characters of a pattern, and notes which may follow which."""

    chars: list[frozenset[str]] = field(default_factory=list)
    follows: list[int] = field(default_factory=list)
    steps: int = 0
    links: int = 0

    def build(self, node: Node, at_begin: bool, at_end: bool) -> Part:
        """`at_begin`: nothing but the beginning of the name stands before this; `at_end`: likewise after."""
        self.steps += 1
        if len(self.chars) >= POSITIONS_MAX or self.steps > STEPS_MAX:
            refuse("it is too large")
        match node:
            case Chars(chars):
                here = 1 << len(self.chars)
                self.chars.append(chars)
                self.follows.append(0)
                return Part(False, here, here)
            case Anchor(is_begin):
                if not (at_begin if is_begin else at_end):
                    refuse("an anchor stands where it can match nothing")
                return Part(True)
            case Choice(branches):
                done = Part(False)
                for branch in branches:
                    part = self.build(branch, at_begin, at_end)
                    is_empty_ok = done.is_empty_ok or part.is_empty_ok
                    done = Part(is_empty_ok, done.firsts | part.firsts, done.lasts | part.lasts)
                return done
            case Sequence(items):
                return self._sequence(items, at_begin, at_end)
            case Repeat(item, least, most):
                return self._repeat(item, least, most)

    def _sequence(self, items: tuple[Node, ...], at_begin: bool, at_end: bool) -> Part:
        done = Part(True)
        for index, item in enumerate(items):
            first = at_begin and all(isinstance(before, Anchor) for before in items[:index])
            last = at_end and all(isinstance(after, Anchor) for after in items[index + 1 :])
            done = self._join(done, self.build(item, first, last))
        return done

    def _repeat(self, item: Node, least: int, most: int | None) -> Part:
        done = Part(True)
        for _ in range(least):
            done = self._join(done, self.build(item, False, False))
        if most is None:
            part = self.build(item, False, False)
            self._link(part.lasts, part.firsts)
            return self._join(done, part._replace(is_empty_ok=True))
        tail = Part(True)
        for _ in range(most - least):
            tail = self._join(self.build(item, False, False), tail)._replace(is_empty_ok=True)
        return self._join(done, tail)

    def _join(self, left: Part, right: Part) -> Part:
        self._link(left.lasts, right.firsts)
        return Part(
            left.is_empty_ok and right.is_empty_ok,
            left.firsts | right.firsts if left.is_empty_ok else left.firsts,
            left.lasts | right.lasts if right.is_empty_ok else right.lasts,
        )

    def _link(self, lasts: int, firsts: int) -> None:
        self.links += lasts.bit_count()
        if self.links > LINKS_MAX:
            refuse("too many of its parts can follow one another, as in (.?){999}")
        for last in positions(lasts):
            self.follows[last] |= firsts


def positions(bits: int) -> Iterator[int]:
    while bits:
        lowest = bits & -bits
        yield lowest.bit_length() - 1
        bits ^= lowest


@dataclass(slots=True)
class Budget:
    """How much work is left: about a step of a name each."""

    left: int = WORK_MAX


@dataclass(slots=True)
class Pattern:
    """A compiled pattern. `accepts` has, for every character, the positions that it can stand at; whatever
    comes after one of `ends`, as in `.*`, the name matches. `seen` are names that were matched before, and
    `matching` those of them that do. `steps` remembers where a character leads."""

    whole: Part
    follows: list[int]
    accepts: dict[str, int]
    ends: int
    steps: dict[tuple[int, str], int] = field(default_factory=dict)
    seen: set[str] = field(default_factory=set)
    matching: set[str] = field(default_factory=set)
    work: int = 0

    def resolve(self, names: Collection[str], budget: Budget) -> frozenset[str] | None:
        """The names that match; None if the budget is spent before all are known: go on with another."""
        budget.left -= 1 + len(names) // 10
        if len(self.seen) > 2 * len(names) + 1:
            self.seen.intersection_update(names)
            self.matching.intersection_update(names)
        for name in names:
            if name not in self.seen:
                if budget.left <= 0:
                    return None
                self.work = 0
                if self.matches(name):
                    self.matching.add(name)
                self.seen.add(name)
                budget.left -= self.work
        return frozenset(self.matching.intersection(names))

    def matches(self, name: str) -> bool:
        if not name:
            return self.whole.is_empty_ok
        here, ends = self.whole.firsts & self.accepts.get(name[0], 0), self.ends
        for at, char in enumerate(name[1:], 1):
            if not here or here & ends:
                self.work += at
                return here != 0
            here = self._step(here, char)
        self.work += len(name)
        return here & self.whole.lasts != 0

    def matches_in_slices(self, name: str) -> Generator[None, None, bool]:
        """For names that may be long: a step may take a fifth of a millisecond."""
        if len(name) <= SLICE_LENGTH:
            return self.matches(name)
        here = self.whole.firsts & self.accepts.get(name[0], 0)
        for at, char in enumerate(name[1:], 1):
            if not here or here & self.ends:
                return here != 0
            here = self._step(here, char)
            if not at % SLICE_LENGTH:
                yield
        return here & self.whole.lasts != 0

    def _step(self, here: int, char: str) -> int:
        there = self.steps.get((here, char))
        if there is None:
            there = 0
            self.work += 4 + here.bit_count()
            for position in positions(here):
                there |= self.follows[position]
            there &= self.accepts.get(char, 0)
            if len(self.steps) >= STEPS_KEPT_MAX:
                self.steps.clear()
            self.steps[here, char] = there
        return there


@lru_cache(maxsize=PATTERNS_MAX)
def compile_pattern(text: str, any: frozenset[str] = ANY) -> Pattern:  # noqa: A002
    """INVALID_REGULAR_EXPRESSION if it is not one we can match; `any`: what names are made of."""
    if len(text) > PATTERN_LENGTH_MAX:
        refuse(f"it is longer than {PATTERN_LENGTH_MAX} characters")
    builder = Builder()
    whole = builder.build(Parser(text, any).parse(), True, True)
    accepts: dict[str, int] = {}
    for position, chars in enumerate(builder.chars):
        for char in chars:
            accepts[char] = accepts.get(char, 0) | 1 << position
    ends = 0
    for position in positions(whole.lasts):
        here = 1 << position
        if builder.follows[position] & here and builder.chars[position] >= any:
            ends |= here
    return Pattern(whole, builder.follows, accepts, ends)


def resolve(text: str, names: Collection[str], budget: Budget) -> frozenset[str] | None:
    """The names that a pattern matches; None if they are not all known yet."""
    return compile_pattern(text).resolve(names, budget)
