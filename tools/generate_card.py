"""docs/compatibility.md, from docs/compatibility.json, where `make compat` writes what it saw."""

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tests.compat.card import FAILS, KINDS, WORKS, Card

ROOT = Path(__file__).parent.parent
PAGE, README = ROOT / "docs" / "compatibility.md", ROOT / "README.md"
_VARIANT = re.compile(r" \([^()]*\bbrokers?\b[^()]*\)$")
_FIGURES = re.compile(r"\d+ programs of \d+")
HEAD = """# What runs on Ottla

Made from `docs/compatibility.json` by `make reference`. The results in it are written by `make compat`,
which runs each of these programs, in the version that is named, against real brokers: one process, and
where the row says so three on a real ZooKeeper. Nothing of them is changed but the address they connect to.
`make compat ONLY=storm` runs some rows and leaves the others as they are.
[CONTRIBUTING.md](../CONTRIBUTING.md) says how a row is added.
"""


def page(card: Card) -> str:
    rows = sorted(card.rows.values(), key=lambda row: str(row["name"]).lower())
    lines = [HEAD, f"{figures(card)} do all that was tried.", ""]
    for kind in KINDS:
        of_kind = [row for row in rows if row["kind"] == kind]
        if not of_kind:
            continue
        lines += [f"## {kind}", ""]
        lines += ["| program | version | what was done | result | date |", "|---|---|---|---|---|"]
        lines += [_line(row) for row in of_kind]
        lines.append("")
    return "\n".join([*lines, *_unserved(rows)])


def write() -> None:
    """What the file says, into the page and into README.md."""
    card = Card.read()
    PAGE.write_text(page(card))
    README.write_text(in_readme(README.read_text(), card))


def in_readme(text: str, card: Card) -> str:
    """README.md with the figures of the card."""
    return _FIGURES.sub(figures(card), text)


def figures(card: Card) -> str:
    works = sum(is_working(row) for row in card.rows.values())
    return f"{works} programs of {len(card.rows)}"


def is_working(row: dict[str, Any]) -> bool:
    return all(step["result"] == WORKS for step in row["steps"].values())


def _line(row: dict[str, Any]) -> str:
    steps = list(row["steps"].values())
    done = "<br>".join(_folded(step["done"] for step in steps))
    dates = sorted({step["date"] for step in steps})
    name = f"**{row['name']}**<br>{row['source']}"
    return f"| {name} | {row['version']} | {done} | {_result(steps)} | {dates[0]} |"


def _folded(done: Iterable[str]) -> list[str]:
    """What was done on one broker and on three is one line, which names both."""
    variants: dict[str, list[str]] = {}
    for line in done:
        what, _, variant = line.rpartition(" (") if _VARIANT.search(line) else (line, "", "")
        variants.setdefault(what, []).append(variant.removesuffix(")").replace("-", ", "))
    return [f"{what} ({'; '.join(names)})" if any(names) else what for what, names in variants.items()]


def _result(steps: list[dict[str, str]]) -> str:
    others = [step for step in steps if step["result"] != WORKS]
    if not others:
        return WORKS
    works = f"{WORKS}, but for:<br>" if len(others) < len(steps) else ""
    return works + "<br>".join(f"*{step['done']}* {_verdict(step)}" for step in others)


def _verdict(step: dict[str, str]) -> str:
    reason = " ".join(step["reason"].replace("|", "\\|").replace("<", "&lt;").split())
    return f"{step['result']}: {reason}" if step["result"] != FAILS else f"**{FAILS}**: `{reason}`"


def _unserved(rows: list[dict[str, Any]]) -> list[str]:
    lines = [
        "## Requests that were not served",
        "",
        "What these programs asked for and did not get, from the brokers' own logs. A client that knows a",
        "newer version of ApiVersions asks in that one first, as it should (KIP-511): it is told what is",
        "served, goes on with that, and nothing is missing.",
        "",
    ]
    asking = [row for row in rows if row["unserved"]]
    if not asking:
        return [*lines, "None.", ""]
    lines += ["| program | asked for |", "|---|---|"]
    lines += [f"| {row['name']} {row['version']} | {'<br>'.join(row['unserved'])} |" for row in asking]
    return [*lines, ""]
