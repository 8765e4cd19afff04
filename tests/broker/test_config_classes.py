"""The list of config classes is whole: what goes over it, goes over every key that exists."""

import ast
from pathlib import Path

from tools import generate_reference

import ottla
from ottla.base.config import rows
from ottla.broker.config_classes import CONFIG_CLASSES, broker_names, broker_rows
from ottla.broker.kafka_keys import WITHOUT_EFFECT

SOURCE = Path(ottla.__file__).parent


def declared() -> set[str]:
    """Every class in the source that has a field `name: type = key(...)`, as module.class."""
    return {
        f"{'.'.join(('ottla', *path.relative_to(SOURCE).with_suffix('').parts))}.{node.name}"
        for path in SOURCE.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ClassDef) and any(map(_is_row, node.body))
    }


def _is_row(statement: ast.stmt) -> bool:
    return (
        isinstance(statement, ast.AnnAssign)
        and isinstance(statement.value, ast.Call)
        and getattr(statement.value.func, "id", None) == "key"
    )


def test_every_class_that_declares_keys_is_in_the_list() -> None:
    assert {f"{listed.__module__}.{listed.__qualname__}" for listed in CONFIG_CLASSES} == declared()


def test_a_key_is_declared_once_and_is_not_among_those_without_effect() -> None:
    names = [row.name for row in broker_rows()]
    assert len(names) == len(set(names)) == sum(len(rows(listed)) for listed in CONFIG_CLASSES)
    assert broker_names().isdisjoint(WITHOUT_EFFECT)


def test_every_key_and_every_class_is_in_the_reference() -> None:
    page = generate_reference.configs()
    assert [name for name in broker_names() if f"`{name}`" not in page] == []
    assert page.count("\n## ") == len(CONFIG_CLASSES)
