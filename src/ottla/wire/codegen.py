"""A source file under construction: lines, indentation, fresh names, and the values its code refers to.

Both compilers write through it. Only names that we declared reach the source text: no byte from the network
does.
"""

import struct
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

PACE = 32  # items between two pauses of sliced code


class Source:
    def __init__(self, **names: Any) -> None:
        self.names: dict[str, Any] = names
        self._lines: list[str] = []
        self._depth = 0
        self._fresh = 0

    def line(self, text: str) -> None:
        self._lines.append("    " * self._depth + text)

    @contextmanager
    def block(self, opening: str) -> Iterator[None]:
        self.line(opening)
        self._depth += 1
        yield
        self._depth -= 1

    def fresh(self, prefix: str) -> str:
        self._fresh += 1
        return f"{prefix}{self._fresh}"

    def bind(self, value: Any, prefix: str) -> str:
        """A name by which the code can refer to `value`."""
        name = self.fresh(prefix)
        self.names[name] = value
        return name

    def packing(self, codes: str, method: str) -> str:
        """The `pack` or `unpack_from` of a big-endian struct, one name per set of codes."""
        name = f"{method}_{codes.replace('?', 'z')}"
        if name not in self.names:
            self.names[name] = getattr(struct.Struct(">" + codes), method)
        return name

    def function(self, name: str) -> Any:
        """Run the source and return the function it defines."""
        exec("\n".join(self._lines), self.names)  # noqa: S102  (as dataclasses and namedtuple do)
        return self.names[name]


def pause(source: Source) -> None:
    """In a loop of sliced code: let others in between, every so many items."""
    source.line("done += 1")
    with source.block(f"if not done % {PACE}:"):
        source.line("yield")
