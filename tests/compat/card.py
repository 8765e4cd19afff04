"""The compatibility card: what was done with programs that others wrote, and what came of it.

A row of the card is a program. Its test file (or test class) in tests/compat/rows names it in `PROGRAM`,
and each test is one thing that was done with it, in the words of its docstring's first line. A test that is
expected to fail (strict xfail) says in its reason why that does not work; one that is skipped says what was
missing.

The results are in docs/compatibility.json. A run of some rows replaces these and leaves the others as they
are, and docs/compatibility.md is made from the file (`tools/generate_card.py`).
"""

import json
import re
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

FILE = Path(__file__).parents[2] / "docs" / "compatibility.json"
WORKS, FAILS, DOES_NOT, NOT_RUN = "works", "fails", "does not work", "not run"
REASON_MAX = 300  # characters of an unexpected failure that the card shows
# The line of broker/unserved_requests.py.
_UNSERVED = re.compile(r"asked for (.+? v\d+), which is not served")


@dataclass(frozen=True)
class Program:
    name: str
    version: str
    kind: str  # the section of the page: one of KINDS
    source: str  # the registry it came from, and its name there


PROCESSORS = "Stream processors"
CLIENTS = "Clients"
FRAMEWORKS = "Python frameworks"
AGENTS = "Agents for metrics and logs"
TOOLS = "Kafka's own tools, Connect and MirrorMaker"
REGISTRIES = "Schema registries"
UPGRADES = "Ottla beside an earlier Ottla"
KINDS = (PROCESSORS, CLIENTS, FRAMEWORKS, AGENTS, TOOLS, REGISTRIES, UPGRADES)


@dataclass(frozen=True)
class Step:
    """One thing that was done."""

    done: str
    result: str
    reason: str
    date: str


class Card:
    """The file, as a run of some rows changes it."""

    def __init__(self, rows: dict[str, Any] | None = None) -> None:
        self.rows = rows if rows is not None else {}

    @classmethod
    def read(cls, path: Path = FILE) -> "Card":
        return cls(json.loads(path.read_text()) if path.exists() else {})

    def write(self, path: Path = FILE) -> None:
        rows = {name: self.rows[name] for name in sorted(self.rows)}
        path.write_text(json.dumps(rows, indent=1, ensure_ascii=False) + "\n")

    def record(self, program: Program, test: str, step: Step) -> None:
        """Results of another version are forgotten: nothing is known of this one but what is done now."""
        row = self.rows.get(program.name)
        if row is None or row["version"] != program.version:
            row = self.rows[program.name] = {"steps": {}, "unserved": []}
        row |= asdict(program)
        row["steps"][test] = asdict(step)

    def keep_only(self, program: str, tests: Iterable[str]) -> None:
        """In this order, and without tests that are no longer there."""
        row = self.rows[program]
        row["steps"] = {test: row["steps"][test] for test in tests if test in row["steps"]}

    def record_unserved(self, program: str, asked: Iterable[str], *, is_all: bool = False) -> None:
        """`is_all`: every test of the program was run, so what it asked for before counts no more."""
        if program in self.rows:
            row = self.rows[program]
            row["unserved"] = sorted({*([] if is_all else row["unserved"]), *asked})


def unserved(log: str) -> set[str]:
    """What clients asked a broker for and did not get, from its log: 'Fetch v99'."""
    return set(_UNSERVED.findall(log))
