"""Lists of a message whose items are made when they are encoded, one by one, and then forgotten.

An answer may be many times as large as objects than as bytes: so a long one is never there as a whole. What
an item says is what holds when its turn comes. How many there are is fixed from the beginning.
"""

from collections.abc import Callable, Collection, Iterator
from typing import Generic, TypeVar, cast

A = TypeVar("A")
M = TypeVar("M")


class LazyList(Generic[A, M]):
    __slots__ = ("_asked", "_make")

    def __init__(self, make: Callable[[A], M], asked: Collection[A]) -> None:
        self._make = make
        self._asked = asked

    def __len__(self) -> int:
        return len(self._asked)

    def __iter__(self) -> Iterator[M]:
        return map(self._make, self._asked)


def lazily(make: Callable[[A], M], asked: Collection[A]) -> list[M]:
    """What `make` makes of each item asked for. It stands where a message has a list, and is only encoded."""
    return cast("list[M]", LazyList(make, asked))
