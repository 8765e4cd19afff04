"""Calls to an object that do not keep it: what is dropped is gone at once, rather than with the next garbage
collection, of which thousands of such objects would make a long one.
"""

from collections.abc import Callable
from typing import Any, Concatenate, ParamSpec, TypeVar
from weakref import ref

T = TypeVar("T")
P = ParamSpec("P")


def weakly(owner: T, call: Callable[Concatenate[T, P], Any]) -> Callable[P, None]:
    """`call` with the owner, as long as that is there."""
    there = ref(owner)

    def called(*arguments: P.args, **named: P.kwargs) -> None:
        still = there()
        if still is not None:
            call(still, *arguments, **named)

    return called
