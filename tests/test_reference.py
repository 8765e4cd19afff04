"""The derived pages of docs/ say what the code says, docs/design what tests cite; the index has them all."""

import re
from pathlib import Path

import pytest
from tools import generate_reference
from typer.testing import CliRunner

from ottla.cli.app import app

TREE = Path(__file__).parents[1]
DOCS = TREE / "docs"


@pytest.mark.parametrize("page", sorted(generate_reference.pages()))
def test_the_page_on_disk_is_the_one_the_code_makes(page: str) -> None:
    on_disk = (DOCS / page).read_text()
    assert on_disk == generate_reference.pages()[page], "run `make reference`"


def command_lines(path: tuple[str, ...] = ()) -> dict[str, str]:
    """The help of every command that does something, as a person sees it, by the words that are typed."""
    shown = CliRunner().invoke(app, [*path, "--help"], env={"COLUMNS": "200", "TERM": "dumb"}).output
    _, commands, table = shown.partition("─ Commands ")
    if not commands:
        return {" ".join(("ottla", *path)): shown}
    names = re.findall(r"^│ (\S+)", table, re.MULTILINE)
    assert names
    return {line: text for name in names for line, text in command_lines((*path, name)).items()}


def test_every_command_and_option_that_help_shows_is_on_the_page_of_the_command_line() -> None:
    page = (DOCS / "cli.md").read_text()
    sections = dict(re.findall(r"^## (ottla.*?)\n(.*?)(?=^## |\Z)", page, re.MULTILINE | re.DOTALL))
    shown = command_lines()
    assert len(shown) > 25
    assert set(sections) == set(shown)
    for command, text in shown.items():
        rows = re.findall(r"^│ [* ]*((?:--?\w[\w-]*[, ]+)+)", text, re.MULTILINE)
        options = {name for row in rows for name in re.findall(r"--?[\w-]+", row)}
        assert {"--help", "-h"} <= options
        explained = re.findall(r"^\| (`-.*?) \|", sections[command], re.MULTILINE)
        assert options - {"--help", "-h"} == set(re.findall(r"`(--?[\w-]+)`", " ".join(explained))), command


def test_the_rows_of_faults_that_tests_cite_are_in_the_design_note() -> None:
    note = (DOCS / "design/015-faults.md").read_text()
    parts = dict(re.findall(r"^## (\d)\.(.*?)(?=^## |\Z)", note, re.MULTILINE | re.DOTALL))
    rows = {part: set(re.findall(r"^\| ([\w ]+) \|", text, re.MULTILINE)) for part, text in parts.items()}
    cited = {
        (part, row.replace("_", " "))
        for module in (TREE / "tests").rglob("*.py")
        for name in re.findall(r"def (test_\w*_faults_\w+)\(", module.read_text())
        for part, row in re.findall(r"(?:faults|and)_(\d)_(rule_\d+|maximal_isr|\d+)", name)
    }
    assert len(cited) > 15
    assert {(part, row) for part, row in cited if row.replace("isr", "ISR") not in rows[part]} == set()
