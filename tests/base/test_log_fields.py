"""Fields of log lines: declared once, used under their declared names."""

import ast
from collections.abc import Iterator
from pathlib import Path

import ottla
from ottla.base.log_fields import FIELDS, fields

SOURCE = Path(ottla.__file__).parent
LEVELS = {"debug", "info", "warning", "error", "exception", "critical", "log"}


def _calls() -> Iterator[tuple[Path, ast.Call]]:
    for path in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call):
                yield path.relative_to(SOURCE), node


def test_every_field_of_a_log_line_is_declared() -> None:
    undeclared = [
        f"{path}:{call.lineno}: {keyword.arg}"
        for path, call in _calls()
        if isinstance(call.func, ast.Name) and call.func.id == "fields"
        for keyword in call.keywords
        if keyword.arg is not None and keyword.arg not in FIELDS
    ]
    assert not undeclared


def test_the_sentence_of_a_log_line_is_a_template_with_arguments() -> None:
    """The limit of what repeats counts by the template: an f-string would be another one each time."""
    built = [
        f"{path}:{call.lineno}"
        for path, call in _calls()
        if isinstance(call.func, ast.Attribute) and call.func.attr in LEVELS
        if isinstance(call.func.value, ast.Name) and call.func.value.id in {"log", "logger"}
        if isinstance(call.args[1 if call.func.attr == "log" else 0], ast.JoinedStr | ast.BinOp)
    ]
    assert not built


def test_fields_become_one_attribute_of_the_record() -> None:
    assert fields(topic="orders", partition=3) == {"fields": {"topic": "orders", "partition": 3}}
