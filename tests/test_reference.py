"""The derived pages of docs/ say what the code says, docs/design what tests cite; the index has them all."""

import re
from pathlib import Path

import pytest
from tests import tidy
from tools import generate_cli, generate_reference
from typer.testing import CliRunner

from ottla.cli.app import app

TREE = Path(__file__).parents[1]
DOCS = TREE / "docs"
SOURCE = TREE / "src" / "ottla"


@pytest.mark.parametrize("page", sorted(generate_reference.pages()))
def test_the_page_on_disk_is_the_one_the_code_makes(page: str) -> None:
    on_disk = (DOCS / page).read_text()
    assert on_disk == generate_reference.pages()[page], "run `make reference`"


def test_what_help_says_of_commands_without_loading_them_is_what_they_say() -> None:
    assert generate_cli.SUMMARIES.read_text() == generate_cli.summaries(), "run `make reference`"


def command_lines(path: tuple[str, ...] = ()) -> dict[str, str]:
    """The help of every command that does something, as a person sees it, by the words that are typed."""
    shown = CliRunner().invoke(app, [*path, "--help"], env={"COLUMNS": "200", "TERM": "dumb"}).output
    _, commands, table = shown.partition("\nCommands:\n")
    if not commands:
        return {" ".join(("ottla", *path)): shown}
    names = re.findall(r"^  (\S+)", table, re.MULTILINE)
    assert names
    return {line: text for name in names for line, text in command_lines((*path, name)).items()}


def test_every_command_and_option_that_help_shows_is_on_the_page_of_the_command_line() -> None:
    page = (DOCS / "cli.md").read_text()
    sections = dict(re.findall(r"^## (ottla.*?)\n(.*?)(?=^## |\Z)", page, re.MULTILINE | re.DOTALL))
    shown = command_lines()
    assert len(shown) > 25
    assert set(sections) == set(shown)
    for command, text in shown.items():
        rows = re.findall(r"^  ((?:--?\w[\w-]*[, /]*)+)", text, re.MULTILINE)
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


def test_every_page_under_docs_is_linked_from_the_index_and_every_link_leads_somewhere() -> None:
    links = set(re.findall(r"\]\(([^)#]+)\)", (DOCS / "README.md").read_text()))
    assert [link for link in sorted(links) if not (DOCS / link).is_file()] == []
    pages = {str(path.relative_to(DOCS)) for path in DOCS.rglob("*") if path.is_file()}
    pictures = {page for page in pages if page.startswith("images/")}
    assert pages - pictures - links == {"README.md"}
    shown = {link for page in DOCS.glob("*.md") for link in re.findall(r"\]\(([^)#]+)\)", page.read_text())}
    assert pictures - shown == set()


def test_every_link_to_a_page_or_a_heading_of_this_tree_leads_there() -> None:
    for page in [*TREE.glob("*.md"), *DOCS.rglob("*.md")]:
        for target, anchor in re.findall(r"\]\((?!https?:)([^)#]*)#?([^)]*)\)", page.read_text()):
            there = page.parent / target if target else page
            assert there.exists(), f"{page.name} links to {target}"
            headings = re.findall(r"^#+ (.*)$", there.read_text(), re.MULTILINE) if anchor else []
            slugs = {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}
            assert not anchor or anchor in slugs, f"{page.name} links to {target}#{anchor}"


@pytest.mark.parametrize("page", ["CONTRIBUTING.md", "docs/ARCHITECTURE.md", "docs/design/014-rooms.md"])
def test_the_layer_line_on_the_page_is_the_one_that_tidy_holds(page: str) -> None:
    line = " · ".join(layer if isinstance(layer, str) else "|".join(layer) for layer in tidy.LAYERS)
    assert f"\n{line}\n" in (TREE / page).read_text()


def test_the_tour_has_a_row_for_every_room() -> None:
    tour = (DOCS / "ARCHITECTURE.md").read_text()
    table = tour.partition("## The rooms\n")[2].partition("\n## ")[0]
    rooms = {path.parent.name for path in SOURCE.glob("*/__init__.py")}
    assert set(re.findall(r"^\| `(\w+)/` \|", table, re.MULTILINE)) == rooms


def test_no_page_names_a_file_of_the_source_that_is_not_there() -> None:
    rooms = {path.parent.name for path in SOURCE.glob("*/__init__.py")}
    named = {
        (page.name, path)
        for page in [TREE / "CONTRIBUTING.md", *DOCS.rglob("*.md")]
        for path in re.findall(r"`([a-z_]+/[a-z_/]*)`", page.read_text())
        if path.split("/")[0] in rooms
    }
    assert len(named) > 60
    assert {
        (page, path) for page, path in named if not (SOURCE / path).is_dir() and not is_module(path)
    } == set()


def test_the_walks_of_the_tour_are_counted_right() -> None:
    tour = (DOCS / "ARCHITECTURE.md").read_text()
    section = tour.partition("## Walks\n")[2].partition("\n## ")[0]
    walks = re.findall(r"^\| (\*\*.*?) \| (\d+) \| (\d+) \| (.*) \|$", section, re.MULTILINE)
    assert len(walks) == 6
    for walk, files, returns, way in walks:
        steps = way.split(" · ")
        visited = [step.removeprefix("↩ ").strip("`") for step in steps]
        assert [path for path in visited if not is_module(path)] == []
        first_visits = [path for step, path in zip(steps, visited, strict=True) if not step.startswith("↩ ")]
        assert len(first_visits) == len(set(first_visits)) == int(files), walk
        assert len(steps) - len(first_visits) == int(returns), walk
        assert set(visited) == set(first_visits), walk
    _, files, returns, _ = walks[0]
    assert "follower fetch" in walks[0][0]
    assert int(files) <= 16
    assert int(returns) <= 3


def is_module(path: str) -> bool:
    return (SOURCE / f"{path}.py").is_file()


def test_make_test_runs_every_folder_of_tests() -> None:
    makefile = (TREE / "Makefile").read_text()
    lists = dict(re.findall(r"^(\w+) := ((?:.*\\\n)*.*)$", makefile, re.MULTILINE))
    named = {f"tests/{room}" for room in f"{lists['LOWER']} {lists['UPPER']}".split()}
    named |= set(re.findall(r"tests/\w+", lists["REAL_TESTS"] + lists["LONG_TESTS"]))
    named |= set(re.findall(r"pytest .* (tests/\w+)$", makefile.partition("\ntest-pure:")[2], re.MULTILINE))
    folders = {str(path.parent.relative_to(TREE)) for path in (TREE / "tests").glob("*/test_*.py")}
    assert len(folders) > 20
    assert folders - named == set()


def test_every_workload_of_the_benchmarks_is_explained_where_their_figures_are() -> None:
    page = (DOCS / "performance.md").read_text()
    explained = set(re.findall(r"^\| (W\w+) \|", page, re.MULTILINE))
    built = set(re.findall(r'^    "(W\w+)": ', (TREE / "bench" / "__main__.py").read_text(), re.MULTILINE))
    assert len(built) == 22
    assert explained == built | {f"W{number}" for number in range(1, 13)}
    not_built = set(re.findall(r"^\| (W\w+) \|.* not built yet \|$", page, re.MULTILINE))
    assert not_built == explained - built
