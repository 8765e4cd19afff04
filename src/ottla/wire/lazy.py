"""Lists of a message whose items are made when they are encoded, one by one, and then forgotten.

An answer may be many times as large as objects than as bytes: so a long one is never there as a whole. What
an item says is what holds when its turn comes. How many there are is fixed from the beginning.

An item may be there as bytes already (`Encoded`), from an answer before. None among the items is a pause.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import partial
from itertools import chain
from typing import Generic, NamedTuple, TypeVar, cast

A = TypeVar("A")
M = TypeVar("M")


class Encoded(NamedTuple):
    """An item, or a whole message, as bytes of the version at hand. `errors`: how often each error code is in
    it, without NONE, as it counts each time that it is sent."""

    body: bytes
    errors: Mapping[int, int]


class LazyList(Generic[M]):
    __slots__ = ("_count", "_items")

    def __init__(self, count: int, items: Callable[[], Iterator[M]]) -> None:
        self._count = count
        self._items = items

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[M]:
        return self._items()


def lazily(make: Callable[[A], M], asked: Collection[A]) -> list[M]:
    """What `make` makes of each item asked for. It stands where a message has a list, and is only encoded."""
    return cast("list[M]", LazyList(len(asked), partial(map, make, asked)))


def lazily_in_steps(make: Callable[[A], Iterable[M | Encoded | None]], asked: Collection[A]) -> list[M]:
    """The same where `make` may take long, or have the bytes: the last that it gives of each item asked for
    is the item, and what comes before are pauses. It is only encoded in slices."""
    return cast("list[M]", LazyList(len(asked), lambda: chain.from_iterable(map(make, asked))))
