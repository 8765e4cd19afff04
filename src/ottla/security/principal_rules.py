"""`ssl.principal.mapping.rules`: how the name in a certificate becomes the name of a principal.

A list of `RULE:PATTERN/REPLACEMENT/[LU]` and `DEFAULT` (the name as it is); the first whose pattern matches
the whole name counts. The patterns are Java's, of which nearly all mean the same to Python.
"""

import re
from functools import lru_cache
from typing import NamedTuple

# In a pattern and a replacement, a slash is escaped with a backslash.
_PART = r"(?:\\.|[^\\/])*"
_RULE = rf"(?P<default>DEFAULT)|RULE:(?P<pattern>{_PART})/(?P<replacement>{_PART})/(?P<case>[LU]?).*?|.*?"


class NoMatchError(ValueError):
    """No rule matches the name: its owner is nobody here."""


class Rule(NamedTuple):
    """Without a pattern it is DEFAULT."""

    pattern: re.Pattern[str] | None
    replacement: str = ""
    case: str = ""

    def apply(self, name: str) -> str | None:
        if self.pattern is None:
            return name
        if self.pattern.fullmatch(name) is None:
            return None
        mapped = self.pattern.sub(self._filled, name)
        return mapped.lower() if self.case == "L" else mapped.upper() if self.case == "U" else mapped

    def _filled(self, match: re.Match[str]) -> str:
        """`$12` is group 12, or if there are fewer, group 1 and a 2; without any it stands for itself."""
        groups = match.re.groups

        def fill(part: re.Match[str]) -> str:
            if part[1] is not None:
                return part[1]
            digits, more = part[2], ""
            while len(digits) > 1 and int(digits) > groups:
                digits, more = digits[:-1], digits[-1] + more
            if int(digits) > groups:
                return part[0]
            return (match[int(digits)] or "") + more

        return re.sub(r"\\(.)|\$(\d+)", fill, self.replacement, flags=re.DOTALL)


@lru_cache(maxsize=64)
def rules_of(text: str) -> tuple[Rule, ...]:
    """ValueError: a rule is none."""
    rules = []
    for split in re.finditer(rf"\s*({_RULE})\s*(,\s*|$)", text.strip(), re.DOTALL):
        rule = re.match(_RULE, split[1], re.DOTALL)
        if rule is None or rule.end() != len(split[1]):
            raise ValueError(split[1])
        if rule["default"]:
            rules.append(Rule(None))
        elif rule["pattern"] is not None:
            try:
                pattern = re.compile(rule["pattern"])
            except re.error as error:
                raise ValueError(f"{split[1]}: {error}") from None
            rules.append(Rule(pattern, rule["replacement"], rule["case"]))
    return tuple(rules)


def check_rules(text: str) -> str | None:
    try:
        rules_of(text)
    except ValueError as error:
        return (
            f"must be RULE:PATTERN/REPLACEMENT/[LU] or DEFAULT, separated by commas, and {error} is neither"
        )
    return None


def mapped_name(rules: str, name: str) -> str:
    for rule in rules_of(rules):
        mapped = rule.apply(name)
        if mapped is not None:
            return mapped
    raise NoMatchError(f"no rule of ssl.principal.mapping.rules matches {repr(name)[1:-1]:.300}")
