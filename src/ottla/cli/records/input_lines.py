"""The input of `ottla produce`: a file or stdin, and its lines in portions.

A portion is what is there: up to `PORTION_BYTES` of a file, and of a pipe or a terminal what comes within
`LINGER_S` of its first byte. So a line that somebody types is sent at once, and a million in few requests.
"""

import contextlib
import io
import os
import select
import stat
import sys
import time
from collections.abc import Callable, Iterator
from typing import IO

from ottla.base.command_error import USAGE, CommandError

PORTION_BYTES = 1 << 20
LINGER_S = 0.005
NEWLINE = b"\n"

Read = Callable[[], bytes]
Portion = tuple[int, list[bytes]]  # the number of the first line, and the lines


@contextlib.contextmanager
def opened(path: str | None) -> Iterator[tuple[IO[bytes], int]]:
    """The input and its size, 0 if nobody knows."""
    if path is None or path == "-":
        yield sys.stdin.buffer, 0
        return
    try:
        file = open(path, "rb")  # noqa: SIM115  # closed below; only the opening may fail with this message
    except OSError as error:
        raise CommandError(f"cannot read {path}: {error.strerror}", USAGE) from None
    with file:
        yield file, os.fstat(file.fileno()).st_size


def reader(source: IO[bytes]) -> Read:
    """What gives the next bytes of an input, and none at its end."""
    try:
        descriptor = source.fileno()
    except (io.UnsupportedOperation, OSError):
        return lambda: source.read(PORTION_BYTES)
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        return lambda: source.read(PORTION_BYTES)
    return _Live(source, descriptor)


class _Live:
    """A pipe, a socket or a terminal. Its end comes once: a terminal would go on after it."""

    def __init__(self, source: IO[bytes], descriptor: int) -> None:
        self._source = source
        self._descriptor = descriptor
        self._is_over = False

    def __call__(self) -> bytes:
        if self._is_over:
            return b""
        parts = [self._some(PORTION_BYTES)]
        size, deadline = len(parts[0]), time.monotonic() + LINGER_S
        while not self._is_over and size < PORTION_BYTES and self._is_more(deadline):
            parts.append(self._some(PORTION_BYTES - size))
            size += len(parts[-1])
        return b"".join(parts)

    def _some(self, size: int) -> bytes:
        some = self._source.read1(size)  # type: ignore[attr-defined]
        self._is_over = not some
        return bytes(some)

    def _is_more(self, deadline: float) -> bool:
        left_s = max(0.0, deadline - time.monotonic())
        return bool(select.select([self._descriptor], [], [], left_s)[0])


def portions(read: Read, delimiter: bytes = NEWLINE) -> Iterator[Portion]:
    """The lines without their ends; a carriage return before a newline belongs to its end."""
    number = 1
    rest: list[bytes] = []
    while chunk := read():
        if len(delimiter) > 1:  # it may be cut in two
            chunk, rest = b"".join([*rest, chunk]), []
        whole, is_cut, after = chunk.rpartition(delimiter)
        if not is_cut:
            rest.append(chunk)
            continue
        lines = _lines(b"".join([*rest, whole]), delimiter)
        rest = [after] if after else []
        yield number, lines
        number += len(lines)
    if rest:
        yield number, _lines(b"".join(rest), delimiter)


def _lines(text: bytes, delimiter: bytes) -> list[bytes]:
    lines = text.split(delimiter)
    if delimiter != NEWLINE or b"\r" not in text:
        return lines
    return [line.removesuffix(b"\r") for line in lines]


@contextlib.contextmanager
def unseen(source: IO[bytes]) -> Iterator[Read]:
    yield reader(source)


@contextlib.contextmanager
def shown(source: IO[bytes], size: int) -> Iterator[Read]:
    """While a bar on stderr shows how much was read."""
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TimeRemainingColumn, TransferSpeedColumn

    read = reader(source)
    columns = (BarColumn(), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=size or None)

        def read_and_show() -> bytes:
            some = read()
            bar.advance(task, len(some))
            return some

        yield read_and_show
