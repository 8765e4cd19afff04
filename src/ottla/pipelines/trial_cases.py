"""Cases of `ottla pipeline test`: what goes in, and what is to come out, as files of JSON Lines.

    tests/CASE/input/TOPIC.jsonl             records; a line is a value, or an object with key, value,
                                             headers, timestamp, partition
    tests/CASE/expected/tables/TABLE.jsonl   rows, in any order, with the columns that matter
    tests/CASE/expected/topics/TOPIC.jsonl   values that the pipeline writes, in any order

Only columns that an expected row names are compared: what differs from run to run is left out of the file.
"""

import json
import os
from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

from ottla.base.command_error import CommandError
from ottla.pipelines.trial import Outcome, in_order

TESTS, INPUT, EXPECTED, ENDING = "tests", "input", "expected", ".jsonl"
TABLES, TOPICS = "tables", "topics"


class Case(NamedTuple):
    name: str
    path: str

    def records(self) -> dict[str, list[Any]]:
        return _files(os.path.join(self.path, INPUT))

    def expected(self, kind: str) -> dict[str, list[Any]]:
        return _files(os.path.join(self.path, EXPECTED, kind))

    def write(self, outcome: Outcome) -> list[str]:
        """What came becomes what is expected; of a file that is there, only the columns that it has."""
        written = []
        for kind, made in ((TABLES, outcome.tables), (TOPICS, outcome.topics)):
            folder = os.path.join(self.path, EXPECTED, kind)
            before = self.expected(kind)
            os.makedirs(folder, exist_ok=True)
            for name, values in made.items():
                path = os.path.join(folder, f"{name}{ENDING}")
                kept = [_columns(value, before.get(name, [])) for value in values]
                with open(path, "w", encoding="utf-8") as file:
                    file.writelines(f"{json.dumps(value, ensure_ascii=False)}\n" for value in in_order(kept))
                written.append(path)
        return written


class Difference(NamedTuple):
    """Of a table or a topic: what is missing, and what nobody expected."""

    kind: str
    name: str
    missing: list[str]
    unexpected: list[str]


def cases(folder: str, names: Sequence[str]) -> list[Case]:
    """Those in the folder of a pipeline; all of them, or those that are named."""
    root = os.path.join(folder, TESTS)
    there = sorted(entry.name for entry in os.scandir(root) if entry.is_dir()) if os.path.isdir(root) else []
    of_input = [name for name in there if os.path.isdir(os.path.join(root, name, INPUT))]
    if not of_input:
        raise CommandError(
            f"there are no tests in {root}: make {TESTS}/NAME/{INPUT}/TOPIC{ENDING} with a record a line, "
            "and let `ottla pipeline test --update` write what comes of them"
        )
    for name in names:
        if name not in of_input:
            raise CommandError(f"there is no test {name} in {root}; there is {', '.join(of_input)}")
    return [Case(name, os.path.join(root, name)) for name in (names or of_input)]


def differences(case: Case, outcome: Outcome) -> list[Difference]:
    """Between what is expected and what came. A case that expects nothing says nothing, and is an error."""
    tables, topics = case.expected(TABLES), case.expected(TOPICS)
    if not tables and not topics:
        raise CommandError(
            f"test {case.name} expects nothing; `ottla pipeline test --update` writes what comes"
        )
    seen = []
    for kind, expected, made in (("table", tables, outcome.tables), ("topic", topics, outcome.topics)):
        for name, values in expected.items():
            came = made.get(name, [])
            missing, unexpected = _compared(values, came)
            if name not in made and values:
                seen.append(Difference(kind, name, missing, []))
            elif missing or unexpected:
                seen.append(Difference(kind, name, missing, unexpected))
    return seen


def _compared(expected: list[Any], came: list[Any]) -> tuple[list[str], list[str]]:
    wanted = Counter(json.dumps(value, sort_keys=True) for value in expected)
    there = Counter(json.dumps(_columns(value, expected), sort_keys=True) for value in came)
    return sorted((wanted - there).elements()), sorted((there - wanted).elements())


def _columns(value: Any, expected: list[Any]) -> Any:
    """Only what the expected rows name, if there are any."""
    if not expected or not isinstance(value, dict) or not all(isinstance(row, dict) for row in expected):
        return value
    named = {name for row in expected for name in row}
    return {name: part for name, part in value.items() if name in named}


def _files(folder: str) -> dict[str, list[Any]]:
    if not os.path.isdir(folder):
        return {}
    names = sorted(name for name in os.listdir(folder) if name.endswith(ENDING))
    return {name.removesuffix(ENDING): _lines(os.path.join(folder, name)) for name in names}


def _lines(path: str) -> list[Any]:
    values = []
    with open(path, encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            if line.strip():
                try:
                    values.append(json.loads(line))
                except ValueError as error:
                    raise CommandError(f"{path}, line {number}, is not JSON: {error}") from None
    return values
