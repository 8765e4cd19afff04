"""One thing that scripts can ask for, declared once: the route and the document are made from it."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from ottla.base.command_error import USAGE, CommandError
from ottla.console.api.shapes import Rule, ShapeError
from ottla.console.visit import Visit

PREFIX = "/api/v1"
OK, CREATED, NO_CONTENT = 200, 201, 204
NAME_MAX = 249  # of a topic


@dataclass(frozen=True)
class Nothing:
    """Takes no parameters."""


@dataclass(frozen=True)
class Asked:
    """A request that fits its declaration: `query` and `body` are instances of what is declared."""

    visit: Visit
    query: Any
    body: Any


@dataclass(frozen=True)
class Endpoint:
    """`answer` returns an instance of `gives`, or nothing if that is None. What is not a GET is a change, and
    is refused by a read-only console."""

    method: str
    path: str
    says: str
    answer: Callable[[Asked], Any]
    gives: Any = None
    query: Any = Nothing
    body: Any = None
    status: int = OK

    @property
    def is_change(self) -> bool:
        return self.method != "GET"

    @property
    def name(self) -> str:
        """Unique, for those who make clients out of the document."""
        module = self.answer.__module__.rpartition(".")[2]
        return f"{module}_{self.answer.__name__}"


# What stands in braces in a path.
PATH_PARTS = {
    "topic": (str, Rule("The name of a topic.", least=1, most=NAME_MAX)),
    "group": (
        str,
        Rule("The name of a group, with `~2F` for a slash, `~25` for a percent sign, `~7E` for a tilde.", 1),
    ),
    "broker": (int, Rule("The id of a broker.", 0, (1 << 31) - 1)),
    "partition": (int, Rule("The number of a partition.", 0, (1 << 31) - 1)),
    "offset": (int, Rule("An offset.", 0, (1 << 63) - 1)),
}  # fmt: skip


@contextmanager
def naming(field: str) -> Iterator[None]:
    """What is refused in here is about this field."""
    try:
        yield
    except CommandError as error:
        if error.code != USAGE:
            raise
        raise ShapeError(field, str(error)) from None
