"""The rules of tests/tidy.py hold for the source, and each of them can fail."""

import importlib.util
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
spec = importlib.util.spec_from_file_location("tidy", TESTS / "tidy.py")
assert spec
assert spec.loader
tidy = importlib.util.module_from_spec(spec)
spec.loader.exec_module(tidy)


SOURCE = TESTS.parent / "src" / "ottla"


def test_the_source_is_tidy() -> None:
    assert list(tidy.problems(SOURCE)) == []


def test_no_modules_of_the_source_import_each_other() -> None:
    assert list(tidy.hidden_cycles(SOURCE)) == []


def test_things_in_the_source_have_names() -> None:
    assert list(tidy.weak_names(SOURCE)) == []


def test_modules_of_the_source_are_nouns() -> None:
    assert list(tidy.verb_modules(SOURCE)) == []


@pytest.mark.parametrize(
    ("room", "source", "complaint"),
    [
        ("log", "import time", "log is pure and may not import time"),
        ("wire", "from ottla.log import log", "wire may not import log"),
        (
            "controller",
            "from ottla.replication.partition import Partition",
            "controller may not import replication",
        ),
        ("api", "async def f(): ...", "async def outside"),
        ("broker", "def f() -> None:\n    print('hello')", "print outside cli"),
        ("broker", "class TopicManager: ...", "says nothing"),
        ("log", "def f() -> None:\n" + "    x = 1\n" * 61, "more than 60 code lines"),
        ("log", "x = 1\n" * 501, "longer than 500 lines"),
        ("log", "x = '" + "y" * 120 + "'", "wider than 110 columns"),
        ("warehouse", "x = 1", "the room warehouse has no place in the layers"),
        ("arrow", "from ottla.client import Client", "arrow may not import client"),
        ("ship", "from ottla.cli import output", "ship may not import cli"),
    ],
)
def test_each_rule_can_fail(tmp_path: Path, room: str, source: str, complaint: str) -> None:
    folder = tmp_path / room
    folder.mkdir()
    (folder / "example.py").write_text('"""An example."""\n' + source + "\n")
    assert any(complaint in problem for problem in tidy.problems(tmp_path))


def test_a_module_without_an_opening_is_found(tmp_path: Path) -> None:
    (tmp_path / "x.py").write_text("x = 1\n")
    assert list(tidy.problems(tmp_path)) == ["x.py: does not open with what it is"]


def tree(root: Path, **sources: str) -> Path:
    """A made-up package: `log_index` is the file log/index.py."""
    for name, source in sources.items():
        path = root / (name.replace("_", "/", 1) + ".py")
        path.parent.mkdir(exist_ok=True)
        path.write_text(source + "\n")
    return root


@pytest.mark.parametrize(
    "back",
    [
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from ottla.log.store import Store",
        "def open_all():\n    from ottla.log import store\n    return store",
        "class Log:\n    def store(self):\n        import ottla.log.store\n        return ottla.log.store",
    ],
    ids=["for type checkers", "late", "late, by its whole name"],
)
def test_a_cycle_is_found_however_it_hides(tmp_path: Path, back: str) -> None:
    root = tree(
        tmp_path,
        log_store="from ottla.log.index import Index",
        log_index="from ottla.log import log",
        log_log=back,
        log_config="from ottla.log.store import Store",
    )
    assert list(tidy.hidden_cycles(root)) == [
        "3 modules import each other: ottla.log.index, ottla.log.log, ottla.log.store"
    ]


def test_cycles_apart_from_each_other_are_told_apart(tmp_path: Path) -> None:
    root = tree(
        tmp_path,
        log_a="from ottla.log.b import B",
        log_b="def f():\n    from ottla.log.a import A",
        shell_c="from ottla.log.a import A\nfrom ottla.shell.d import D",
        shell_d="from ottla.shell.c import C",
    )
    assert sorted(tidy.hidden_cycles(root)) == [
        "2 modules import each other: ottla.log.a, ottla.log.b",
        "2 modules import each other: ottla.shell.c, ottla.shell.d",
    ]


def test_a_room_that_is_imported_by_its_own_modules_is_a_cycle_only_if_it_imports_them(
    tmp_path: Path,
) -> None:
    root = tree(tmp_path, log___init__="", log_a="import ottla.log", log_b="from ottla.log import a")
    assert list(tidy.hidden_cycles(root)) == []
    tree(tmp_path, log___init__="from ottla.log.a import A")
    assert list(tidy.hidden_cycles(root)) == ["2 modules import each other: ottla.log, ottla.log.a"]


@pytest.mark.parametrize(
    "source",
    [
        "def f(one): ...",
        "def f(*, id=0): ...",
        "def f(*one): ...",
        "def f(place): ...",
        "def f():\n    found = 1",
        "def f():\n    known += 1",
        "def f():\n    for each in (): ...",
        "f = lambda one: 0",
        "def f():\n    one = 1",
        "def f():\n    one: int = 1",
        "def f():\n    for id in (): ...",
        "def f():\n    with open('x') as one: ...",
        "def f():\n    return (id := 1)",
        "f = [0 for one in ()]",
        "f = {0: 0 for name, id in ()}",
        "def f(x):\n    match x:\n        case [one]: ...",
        "def f():\n    try: ...\n    except OSError as one: ...",
    ],
)
def test_a_weak_name_is_found_wherever_it_is_bound(tmp_path: Path, source: str) -> None:
    assert len(list(tidy.weak_names(tree(tmp_path, log_log=source)))) == 1


def test_weak_names_are_those_of_functions_alone(tmp_path: Path) -> None:
    fields = "class Listed:\n    id: str\n    one = 1"
    uses = "def f(group, partition):\n    return group.id, id(partition), dict(one=partition)"
    generated = tmp_path / "wire" / "messages"
    generated.mkdir(parents=True)
    (generated / "fetch.py").write_text("def f(id): ...\n")
    assert list(tidy.weak_names(tree(tmp_path, log_log=f"{fields}\n{uses}"))) == []


def test_a_module_that_is_a_verb_is_found(tmp_path: Path) -> None:
    root = tree(tmp_path, log_cleaning="", log_cleaner="", client_fetching_together="", testing_plugin="")
    assert list(tidy.verb_modules(root)) == [
        "client/fetching_together.py: a module is a noun; name what it holds",
        "log/cleaning.py: a module is a noun; name what it holds",
    ]


def test_a_folder_that_is_a_verb_is_found_once(tmp_path: Path) -> None:
    root = tree(tmp_path, shipping_files="", shipping_state="")
    assert list(tidy.verb_modules(root)) == ["shipping: a module is a noun; name what it holds"]
