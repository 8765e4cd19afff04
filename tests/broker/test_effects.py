"""An effect that is added is carried out: by the interpreter of the tests, and by the shell."""

import ast
from pathlib import Path
from typing import get_args
from unittest.mock import MagicMock

import pytest
from tests.support.interpreter import Interpreter

import ottla.shell
from ottla.broker.effects import Effect

EFFECTS = get_args(Effect)
SHELL = Path(ottla.shell.__file__).parent


def interpreter() -> MagicMock:
    mock = MagicMock(spec=Interpreter, broker=MagicMock(unsent_bytes=0))
    mock._give_to_worker = lambda effect: Interpreter._give_to_worker(mock, effect)
    return mock


@pytest.mark.parametrize("kind", EFFECTS)
def test_the_interpreter_has_a_method_for_every_effect(kind: type) -> None:
    mock = interpreter()
    Interpreter.carry_out_effect(mock, kind(**dict.fromkeys(kind.__dataclass_fields__, 0)))
    assert len(mock.method_calls) == 1


def test_an_effect_that_it_does_not_know_is_an_error() -> None:
    with pytest.raises(AssertionError):
        Interpreter.carry_out_effect(interpreter(), object())  # type: ignore[arg-type]


def test_the_shell_has_a_case_for_every_effect() -> None:
    cases = {
        ast.unparse(pattern.cls).rpartition(".")[2]
        for module in SHELL.glob("*.py")
        for pattern in ast.walk(ast.parse(module.read_text()))
        if isinstance(pattern, ast.MatchClass)
    }
    assert {kind.__name__ for kind in EFFECTS} <= cases
