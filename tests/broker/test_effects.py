"""An effect that is added is carried out: by the interpreter of the tests, and by the shell."""

from typing import get_args
from unittest.mock import MagicMock

import pytest
from tests.support.interpreter import Interpreter

from ottla.broker.effects import Effect, Halt, TakeOffline
from ottla.shell.core import Core

EFFECTS = get_args(Effect)


def interpreter() -> MagicMock:
    mock = MagicMock(spec=Interpreter, broker=MagicMock(**{"allowance.unsent_bytes": 0}))
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


@pytest.mark.parametrize(
    "forgotten", sorted(set(EFFECTS) - {TakeOffline, Halt}, key=lambda kind: kind.__name__)
)
def test_the_shell_does_not_begin_unless_somebody_carries_out_every_effect(forgotten: type) -> None:
    """So that no start of a broker, in any test, passes with one that is forgotten."""
    others = {kind: MagicMock() for kind in EFFECTS if kind is not forgotten}
    with pytest.raises(AssertionError, match=forgotten.__name__):
        Core(MagicMock(), print).begin(MagicMock(carriers=lambda: others))
    Core(MagicMock(), print).begin(
        MagicMock(), MagicMock(carriers=lambda: {**others, forgotten: MagicMock()})
    )
