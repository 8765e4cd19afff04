"""docs/reference says what the code says, and docs/design what tests cite."""

import re
from pathlib import Path

import pytest
from tools import generate_reference

TREE = Path(__file__).parents[1]


@pytest.mark.parametrize("page", sorted(generate_reference.pages()))
def test_the_page_on_disk_is_the_one_the_code_makes(page: str) -> None:
    on_disk = (generate_reference.TARGET / page).read_text()
    assert on_disk == generate_reference.pages()[page], "run `make reference`"


def test_the_rows_of_faults_that_tests_cite_are_in_the_design_note() -> None:
    note = (TREE / "docs/design/015-faults.md").read_text()
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
